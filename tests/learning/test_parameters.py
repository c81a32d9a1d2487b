"""Gradients of leave-one-out and likelihood against differences, and what is learned by them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import markets
from mercer import KernelRidge
from mercer.kernels import Exponential, Gaussian, Laplacian
from mercer.learning import LeaveOneOut, MarginalLikelihood
from mercer.learning.criteria import leave_one_out, negative_log_likelihood, slopes, value
from mercer.learning.fits import Sample

CRITERIA = [leave_one_out, negative_log_likelihood]
PLACES = {-3: -1 / 60, -2: 9 / 60, -1: -45 / 60, 1: 45 / 60, 2: -9 / 60, 3: 1 / 60}


def sample_of(kernel, width, weights=None, outputs=2):
    X = abs(markets.normal(25, width)) / 3
    return Sample.of(kernel.points(X), markets.normal(25, outputs, 5), weights)


def differences(function, entries):
    """Differences of sixth order in each entry: right to 1e-10 of the largest value."""
    slopes = []
    for i, entry in enumerate(entries):
        step = 1e-2 * (abs(entry) or 1.0)
        moved = [[*entries[:i], entry + k * step, *entries[i + 1 :]] for k in PLACES]
        slopes.append(np.dot(list(PLACES.values()), [function(m) for m in moved]) / step)
    return np.array(slopes)


def parameters(kernel):
    """Those with a derivative; asked of the reference, which compiles nothing while we collect."""
    gram = kernel.gram(np.ones((1, 2)), precision="reference")
    return gram.parameter_gradient(np.ones((1, 1)))


WITH_PARAMETERS = {
    name: kernel for name, kernel in markets.ALL_EXPRESSIONS.items() if parameters(kernel)
}


@pytest.mark.parametrize(
    ("name", "criterion"),
    [(name, leave_one_out) for name in WITH_PARAMETERS]
    + [(name, negative_log_likelihood) for name in ("gaussian", "composite", "per-column")],
)
def test_gradients_are_differences(name, criterion):
    kernel, ridge = WITH_PARAMETERS[name], 0.3
    sample = sample_of(kernel, 2)
    found, values = slopes(criterion, kernel, sample, ridge), kernel.get_params(deep=True)
    noise = 1e-9 * abs(found.value)

    def at(parameter, entries):
        single = np.ndim(values[parameter]) == 0
        changed = kernel.with_(**{parameter: entries[0] if single else tuple(entries)})
        return value(criterion, changed, sample, ridge)

    for parameter, slope in found.parameters.items():
        entries = np.ravel(np.asarray(values[parameter], float)).tolist()
        try:
            expected = differences(lambda e, p=parameter: at(p, e), entries)
        except ValueError:
            continue  # at the edge of what the kernel admits
        np.testing.assert_allclose(np.ravel(slope), expected, rtol=1e-6, atol=noise)
    expected = differences(lambda e: value(criterion, kernel, sample, e[0]), [ridge])
    np.testing.assert_allclose(found.ridge, expected[0], rtol=1e-6, atol=noise)


@pytest.mark.parametrize("criterion", CRITERIA, ids=["leave-one-out", "likelihood"])
def test_gradients_with_weights(criterion):
    kernel, weights = Laplacian([0.7, 1.3]), np.random.default_rng(0).uniform(0.5, 2.0, 25)
    sample = sample_of(kernel, 2, weights)
    found = slopes(criterion, kernel, sample, 0.3)
    expected = differences(lambda e: value(criterion, Laplacian(tuple(e)), sample, 0.3), [0.7, 1.3])
    np.testing.assert_allclose(found.parameters["lengthscale"], expected, rtol=1e-6)


def test_leave_one_out_is_by_refitting():
    kernel = Gaussian(0.5)
    sample = sample_of(kernel, 2, outputs=1)
    X, y = sample.points.data, sample.targets[:, 0]
    missed = []
    for i in range(25):
        others = np.arange(25) != i
        model = KernelRidge(0.2, kernel=kernel).fit(X[others], y[others])
        missed.append(y[i] - model.predict(X[i : i + 1])[0])
    found = value(leave_one_out, kernel, sample, 0.2)
    np.testing.assert_allclose(found, np.mean(np.square(missed)), rtol=1e-8)


def test_likelihood_is_that_of_a_gaussian_process():
    X = np.random.default_rng(0).uniform(size=(80, 2))
    y = np.sin(5 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(80)
    y = (y - y.mean()) / y.std()
    start = RBF([1.0, 1.0]) + WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(start).fit(X, y)
    ours = MarginalLikelihood().learn(Gaussian([1.0, 1.0]), X, y)
    np.testing.assert_allclose(-ours.value, theirs.log_marginal_likelihood_value_, rtol=1e-5)
    np.testing.assert_allclose(ours.alpha, theirs.kernel_.k2.noise_level, rtol=1e-2)
    assert ours.history[-1] == ours.value


@pytest.mark.parametrize("by", [LeaveOneOut(iterations=30), MarginalLikelihood(iterations=30)])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), 1.0 * Exponential()])
def test_learns_which_columns_matter(by, kernel):
    X = np.random.default_rng(0).standard_normal((150, 3)) * [1.0, 50.0, 1.0]
    y = np.sin(2 * X[:, 0]) + 0.05 * np.random.default_rng(1).standard_normal(150)
    before, learned = kernel, kernel.learn(X, y, by)
    scales = {n: v for n, v in learned.get_params().items() if n.endswith("lengthscale")}
    assert type(learned) is type(before)
    nearest = min(scales.values(), key=lambda scale: scale[0])
    assert nearest[1] / 50.0 > 3 * nearest[0]
    assert nearest[2] > 3 * nearest[0]


def test_summands_get_weights():
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(60)
    kernel = Gaussian(0.7).on(0) + Gaussian(0.7).on(1)
    learned = MarginalLikelihood().learn(kernel, X, y).kernel
    assert learned.left.scale > 100 * learned.right.scale
    assert learned.left.kernel.kernel.lengthscale != 0.7
    plain = MarginalLikelihood(weights=False, iterations=2).learn(kernel, X, y).kernel
    assert type(plain.left) is type(kernel.left)


def test_limits_and_callback():
    X = np.random.default_rng(0).standard_normal((60, 2))
    seen = []

    def stop(iteration, value):
        seen.append(value)
        return iteration == 2

    learned = LeaveOneOut(callback=stop).learn(Gaussian(), X, X[:, 0] ** 2)
    assert len(seen) == len(learned.history) == 2
    assert "stopped" in learned.message
    limited = LeaveOneOut(time_limit=1e-9).learn(Gaussian(), X, X[:, 0] ** 2)
    assert limited.history == []
    few = LeaveOneOut(rows=30).learn(Gaussian(), X, X[:, 0] ** 2)
    assert few.kernel == LeaveOneOut(rows=30).learn(Gaussian(), X, X[:, 0] ** 2).kernel
    with pytest.raises(ValueError, match="ridge > 0"):
        LeaveOneOut(ridge=-1.0)
    with pytest.raises(ValueError, match="two rows"):
        LeaveOneOut().learn(Gaussian(), X[:1], X[:1, 0])
