"""A Python function of two points is called n(n + 1)/2 times by a fit, and a few to try it."""

from __future__ import annotations

import io
import itertools

import joblib
import numpy as np
import pytest

from mercer import (
    SVC,
    SVR,
    KernelClassifier,
    KernelKMeans,
    KernelPCA,
    KernelQuantileRegressor,
    KernelRidge,
    KernelRidgeCV,
    NuSVC,
    NuSVR,
    OneClassSVM,
    SpectralClustering,
)
from mercer.kernels import Gaussian, Linear, PairKernel

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = X[:, 0] + 0.1 * RNG.standard_normal(60)
THREE = np.digitize(Y, [-0.5, 0.5])
TRIED = 40  # calls that find out what the function takes


def gaussian(a, b):
    gaussian.calls += 1
    return float(np.exp(-0.5 * ((a - b) ** 2).sum()))


gaussian.calls = 0
MODELS = [
    (KernelRidge(alpha=0.1), Y),
    (KernelClassifier("log_loss"), THREE),
    (KernelClassifier("hinge", multi_class="ovo"), THREE),
    (KernelQuantileRegressor([0.2, 0.7]), Y),
    (SVC(), THREE),
    (SVR(), Y),
    (NuSVC(nu=0.3), THREE),
    (NuSVR(), Y),
    (OneClassSVM(), Y),
    (KernelRidgeCV(lengthscales=None), Y),
]


@pytest.mark.parametrize(("model", "y"), MODELS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("kernel", [gaussian, PairKernel(gaussian, positive_definite=True)])
def test_each_pair_is_computed_once(model, y, kernel):
    gaussian.calls = 0
    model.set_params(kernel=kernel).fit(X, y)
    assert 60 * 61 / 2 <= gaussian.calls <= 60 * 61 / 2 + TRIED
    found, known = (model.set_params(kernel=k).fit(X, y).predict(X) for k in (kernel, Gaussian()))
    assert np.allclose(found, known, atol=1e-4)


@pytest.mark.parametrize("model", [KernelPCA(2), SpectralClustering(2, random_state=0)])
def test_each_pair_is_computed_once_without_targets(model):
    for k in (PairKernel(gaussian, positive_definite=True), 2.0 * PairKernel(gaussian) + 1.0):
        gaussian.calls = 0
        model.set_params(kernel=k).fit(X)
        assert gaussian.calls == 60 * 61 / 2


def test_clusters_take_the_stored_values():
    gaussian.calls = 0
    found = KernelKMeans(2, kernel=PairKernel(gaussian), random_state=0).fit(X)
    assert gaussian.calls == 60 * 61 / 2
    known = KernelKMeans(2, kernel=Gaussian(), random_state=0).fit(X)
    assert (found.labels_ == known.labels_).all()


@pytest.mark.parametrize("model", [KernelRidge(0.1), KernelRidgeCV(lengthscales=None)])
def test_composites_and_their_deviations(model):
    """The posterior asked the stored matrix for rows of new points."""
    kernel = 2.0 * PairKernel(gaussian, positive_definite=True) + Linear()
    gaussian.calls = 0
    model.set_params(kernel=kernel).fit(X, Y)
    assert gaussian.calls == 60 * 61 / 2
    found = model.predict(X[:3] + 0.1, return_std=True)
    model.set_params(kernel=2.0 * Gaussian() + Linear()).fit(X, Y)
    known = model.predict(X[:3] + 0.1, return_std=True)
    np.testing.assert_allclose(found, known, rtol=1e-6)


def test_a_slow_function_shows_how_far_it_is(monkeypatch):
    """On a terminal, after two seconds; the clock is turned here."""
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr", out)
    clock = itertools.count(0.0, 0.1)
    monkeypatch.setattr("mercer.runtime.progress.time.monotonic", lambda: next(clock))
    SVC(kernel=PairKernel(gaussian, positive_definite=True)).fit(X, THREE)
    lines = out.getvalue().split("\r")
    assert "kernel values of pairs of points" in lines[1]
    assert "of 1,830, about" in lines[1]
    assert 2 < len(lines) < 20
    monkeypatch.setattr(out, "isatty", lambda: False, raising=False)
    before = out.getvalue()
    KernelRidge(kernel=PairKernel(gaussian, positive_definite=True)).fit(X, Y)
    assert out.getvalue() == before


def doubled(a, b):
    return 2.0 * float(a @ b)


def test_several_jobs_compute_the_same_matrix():
    points = PairKernel(doubled).points(X)
    with joblib.parallel_config("threading"):  # processes take seconds to start
        one, two = (PairKernel(doubled, n_jobs=jobs).own_block(points) for jobs in (None, 2))
    assert np.array_equal(one, two)
    assert np.allclose(one, 2.0 * X @ X.T)
