"""Gradients of leave-one-out and likelihood against differences, and what is learned by them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import markets
from mercer import KernelRidge
from mercer.kernels import (
    Exponential,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    PeriodicBernoulli,
    Polynomial,
)
from mercer.learning import LeaveOneOut, MarginalLikelihood
from mercer.learning.fits import Sample
from mercer.learning.parameters import leave_one_out, negative_log_likelihood, slopes

CRITERIA = [leave_one_out, negative_log_likelihood]
CENTRAL = {-3: -1 / 60, -2: 9 / 60, -1: -45 / 60, 1: 45 / 60, 2: -9 / 60, 3: 1 / 60}
FORWARD = {0: -137 / 60, 1: 5.0, 2: -5.0, 3: 10 / 3, 4: -5 / 4, 5: 1 / 5}


def sample_of(kernel, width, weights=None, outputs=2, X=None):
    X = abs(markets.normal(25, width)) / 3 if X is None else X
    return Sample.of(kernel.points(X), markets.normal(len(X), outputs, 5), weights)


def value(criterion, kernel, sample, ridge):
    return slopes(criterion, kernel, sample, ridge, names=()).value


def differences(function, entries, step=5e-3):
    """Differences of sixth order in each entry, of fifth at the edge of what a kernel admits."""
    entries = np.asarray(entries, float)
    slopes = np.empty(entries.shape)
    for place in np.ndindex(entries.shape):

        def at(shift, place=place):
            moved = entries.copy()
            moved[place] += shift
            return function(moved)

        size = abs(entries[place]) or 1.0
        for places, width in ((CENTRAL, step * size), (FORWARD, 2e-6 * size), (FORWARD, -2e-6)):
            try:
                slopes[place] = sum(weight * at(k * width) for k, weight in places.items()) / width
                break
            except ValueError:
                continue
    return slopes


def parameter(entries):
    """What a kernel takes: a number, a tuple or a matrix."""
    return entries if entries.ndim == 2 else tuple(entries) if entries.ndim else float(entries)


@pytest.mark.parametrize("criterion", CRITERIA, ids=["leave-one-out", "likelihood"])
@pytest.mark.parametrize("name", markets.KERNELS)
def test_gradients_are_differences(name, criterion):
    """In every real parameter of every kernel."""
    (kernel, X), ridge = markets.KERNELS[name], 0.3
    sample = sample_of(kernel, 2, X=X)
    found = slopes(criterion, kernel, sample, ridge)
    noise = 1e-9 * abs(found.value)
    assert set(found.parameters) == {
        parameter
        for parameter, value in kernel.get_params(deep=True).items()
        if parameter.rpartition("__")[2] in REAL and value is not MATRIX and not callable(value)
    }
    for parameter_name, slope in found.parameters.items():

        def at(entries, changed=parameter_name):
            changes = {changed: parameter(entries)}
            return value(criterion, kernel.with_(**changes), sample, ridge)

        expected = differences(at, kernel.get_params(deep=True)[parameter_name])
        np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=noise, err_msg=parameter_name)
    expected = differences(lambda e: value(criterion, kernel, sample, float(e)), ridge)
    np.testing.assert_allclose(found.ridge, expected, rtol=1e-6, atol=noise)


REAL = {  # names of real parameters; all others are whole numbers, functions, data or columns
    "alpha", "bias", "coefficients", "exponent", "gamma", "lengthscale", "limit", "matrix",
    "mixture", "period", "scale", "skewedness", "smoothness", "value", "weight", "weights",
}  # fmt: skip
MATRIX = markets.MATRIX  # the data of `Precomputed`


@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * Matern(1.5, lengthscale=[0.5, 2.0, 1.0]).after(markets.SHEAR) + Linear(1.0),
        Laplacian(0.7).after(markets.SHEAR),
        Gaussian().on([2, 0]).after(markets.SHEAR),
        Polynomial(2).after(markets.SHEAR),
        Gaussian().after(np.eye(3)).after(markets.SHEAR),  # by differences
        PeriodicBernoulli(2, period=3.0).after(markets.SHEAR),
    ],
)
@pytest.mark.parametrize("criterion", CRITERIA, ids=["leave-one-out", "likelihood"])
def test_gradients_of_linear_maps(kernel, criterion):
    sample = sample_of(kernel, 2)
    found = slopes(criterion, kernel, sample, 0.3).parameters
    name = next(name for name in found if name.endswith("matrix"))
    expected = differences(
        lambda e: value(criterion, kernel.with_(**{name: e}), sample, 0.3),
        kernel.get_params(deep=True)[name],
        step=1e-5,  # so that no pair of points passes a kink
    )
    size = np.abs(expected).max()
    np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-7 * size)


def test_only_parameters_that_are_named():
    kernel, P = 2.0 * Matern(1.5), np.ones((3, 3))
    gram = kernel.gram(np.arange(3.0)[:, None])
    assert set(gram.parameter_gradient(P, names=["kernel__smoothness"])) == {"kernel__smoothness"}
    with pytest.raises(ValueError, match=r"no derivative in 'degree'.*GridSearchCV"):
        Polynomial(2).gram(np.ones((3, 1))).parameter_gradient(P, names=["degree"])


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


@pytest.mark.parametrize("by", [LeaveOneOut, MarginalLikelihood])
@pytest.mark.parametrize("kernel", [Gaussian(), 1.0 * Laplacian()])
def test_learns_a_direction(by, kernel):
    X = np.random.default_rng(0).standard_normal((150, 4)) * [1.0, 50.0, 1.0, 1.0]
    units = X / [1.0, 50.0, 1.0, 1.0]
    y = np.sin(2 * (units[:, 0] + units[:, 1])) + 0.05 * np.random.default_rng(1).normal(size=150)
    learned = by(form="full", iterations=40).learn(kernel, X, y).kernel
    root = learned.matrix * [1.0, 50.0, 1.0, 1.0]
    metric, direction = root.T @ root, np.array([1.0, 1.0, 0.0, 0.0]) / np.sqrt(2)
    assert direction @ metric @ direction > 0.95 * np.trace(metric)
    blocks = by(form=[[0, 2]], iterations=3).learn(kernel, X, y).kernel.matrix
    assert np.array_equal(blocks != 0, np.eye(4) + np.eye(4)[[2, 1, 0, 3]] > 0)


def test_learns_a_smoothness_that_is_named():
    X = np.linspace(0.0, 1.0, 60)[:, None]
    covariance = Matern(0.6, lengthscale=0.3)(X, X)
    y = np.linalg.cholesky(covariance) @ np.random.default_rng(2).standard_normal(60)
    start = Matern(1.5, lengthscale=0.3)
    kept = MarginalLikelihood(form=None, iterations=15).learn(start, X, y)
    assert kept.kernel.smoothness == 1.5
    names = ["smoothness", "lengthscale"]
    by = MarginalLikelihood(form=None, iterations=15, parameters=names)
    found = by.learn(start, X, y)
    assert found.kernel.smoothness < 1.0
    assert found.value < kept.value
    with pytest.raises(ValueError, match=r"'degree'.*cannot be learned by gradients.*'bias'"):
        MarginalLikelihood(parameters=["degree"]).learn(Polynomial(2), X, y)


def test_summands_get_weights():
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(60)
    kernel = Gaussian(0.7).on(0) + Gaussian(0.7).on(1)
    learned = MarginalLikelihood().learn(kernel, X, y).kernel
    assert learned.left.scale > 100 * learned.right.scale
    assert learned.left.kernel.kernel.lengthscale != 0.7
    plain = MarginalLikelihood(weights=False, iterations=2).learn(kernel, X, y).kernel
    assert type(plain.left) is type(kernel.left)


def test_leave_one_out_goes_on_where_errors_are_small():
    """Ends are relative to the error: absolute ones, as of L-BFGS, left 1e-5 of the variance."""
    X = np.random.default_rng(0).standard_normal((100, 2))
    learned = LeaveOneOut().learn(Gaussian().on(0) + Gaussian().on(1), X, np.sin(X[:, 0]) + X[:, 1])
    assert learned.value < 1e-8


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
