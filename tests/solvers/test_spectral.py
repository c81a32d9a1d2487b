"""One eigendecomposition against refits: leave-one-out, degrees of freedom, smoother weights."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import Gaussian, Linear, Matern, Precomputed
from mercer.losses import Squared
from mercer.solvers import (
    CutOff,
    Direct,
    IteratedTikhonov,
    Landweber,
    NuMethod,
    Problem,
    SpectralPath,
    Tikhonov,
)

N = 40
EPS = np.finfo(np.float64).eps
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.3 * RNG.standard_normal((N, 2)) + 1.0
TARGETS = {"one": Y[:, 0], "two": Y}
WEIGHTS = {
    "none": None,
    "at-most-one": RNG.uniform(0.1, 1.0, N),
    "some-zero": RNG.integers(0, 2, N) * RNG.uniform(0.1, 1.0, N),
    "integer": RNG.integers(1, 4, N).astype(float),
    "integer-some-zero": RNG.integers(0, 4, N).astype(float),
}
KERNEL = Gaussian(0.8)
LAMBDAS = [1e-4, 1e-2, 1.0]

weighted = pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
with_intercept = pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
with_targets = pytest.mark.parametrize("targets", TARGETS.values(), ids=TARGETS.keys())
with_lambdas = pytest.mark.parametrize("regularization", LAMBDAS)


def path_of(targets=Y[:, 0], weights=None, intercept=False, kernel=KERNEL):
    return SpectralPath.of(kernel.gram(X), targets, weights, fit_intercept=intercept)


def gaussian(x, y):
    """The values of KERNEL, by differences."""
    return np.exp(-((x[:, None] - y[None]) ** 2).sum(axis=-1) / (2 * 0.8**2))


def refit(rows, targets, weights, ridge, intercept, new):
    """Predict at `new` by the ridge fit on the given rows, by NumPy's solve of the whole system."""
    kept = np.flatnonzero(weights)
    system = gaussian(rows[kept], rows[kept]) + np.diag(ridge / weights[kept])
    sides = targets[kept].reshape(len(kept), -1)
    if intercept:
        ones = np.ones((len(kept), 1))
        system = np.block([[system, ones], [ones.T, np.zeros((1, 1))]])
        sides = np.concatenate([sides, np.zeros((1, sides.shape[1]))])
    solved = np.linalg.solve(system, sides)
    predictions = gaussian(new, rows[kept]) @ solved[: len(kept)]
    if intercept:
        predictions = predictions + solved[-1]
    return predictions.reshape(len(new), *targets.shape[1:])


def tolerance(weights, regularization):
    """ε times the condition of SKS + ρI, and of the system of `refit`."""
    w = np.ones(N) if weights is None else weights
    positive = w[w > 0]
    return 100 * EPS * (N + positive.max() / positive.min()) / min(regularization, 1.0)


# ---- fits ----------------------------------------------------------------------------------------


@with_lambdas
@weighted
@with_intercept
@with_targets
def test_coefficients_are_those_of_the_direct_solver(targets, intercept, weights, regularization):
    alpha, b = path_of(targets, weights, intercept).coefficients(regularization)
    given = Problem(KERNEL.gram(X), targets, Squared(), regularization, weights, intercept)
    solution = Direct(mixed=False, primal=False).solve(given)
    close = tolerance(weights, regularization)
    scale = np.abs(solution.coefficients).max()
    assert np.allclose(alpha, solution.coefficients, rtol=0, atol=close * scale)
    assert np.allclose(b, solution.intercept, rtol=0, atol=close)
    assert np.shape(b) == targets.shape[1:]


@weighted
@with_intercept
def test_fitted_values_are_predictions_at_the_points(intercept, weights):
    path = path_of(Y, weights, intercept)
    w = np.ones(N) if weights is None else weights
    truth = refit(X, Y, w, 0.01 * w.sum(), intercept, X)
    assert np.allclose(path.fitted(0.01), truth, atol=tolerance(weights, 0.01))


@weighted
@with_intercept
@pytest.mark.parametrize("kernel", [Linear(), Matern(0.5, 0.3)], ids=["rank-2", "full"])
def test_no_regularisation_is_the_least_norm(kernel, intercept, weights):
    """λ = 0: the fit of the direct solver, the limit of small λ, and a trace that is the rank."""
    path = path_of(Y, weights, intercept, kernel)
    alpha, b = path.coefficients(0.0)
    given = Problem(kernel.gram(X), Y, Squared(), 0.0, weights, intercept)
    least = Direct().solve(given)
    assert np.allclose(path.gram @ alpha + b, path.gram @ least.coefficients + least.intercept)
    f, g = kernel.function(X, alpha), kernel.function(X, least.coefficients)
    assert np.isclose(f.norm(), g.norm(), rtol=1e-6)
    near = path.coefficients(1e-9)
    assert np.allclose(path.fitted(0.0), path.gram @ near[0] + near[1], atol=1e-4)
    w = np.ones(N) if weights is None else weights
    rank = np.linalg.matrix_rank(np.sqrt(w)[:, None] * kernel.gram(X).dense() * np.sqrt(w))
    constant = intercept and isinstance(kernel, Linear)  # else the constants are interpolated too
    assert np.isclose(path.degrees_of_freedom(0.0), rank + constant)
    solution = path.solution(0.0)
    assert solution.status.converged
    assert solution.gap < 1e-9
    smoothed = path.smoother_weights(X[:3], 0.0) @ Y
    assert np.allclose(smoothed, path.fitted(0.0)[:3], atol=1e-8)


def test_leave_one_out_needs_a_regularisation():
    with pytest.raises(ValueError, match=r"leave-one-out needs a regularization > 0; got 0\.0"):
        path_of().leave_one_out(0.0)


def test_one_decomposition_serves_every_regularisation(monkeypatch):
    path = path_of()
    monkeypatch.setattr(np.linalg, "eigh", None)
    monkeypatch.setattr(np.linalg, "solve", None)
    before = path.gram.evaluations
    for regularization in np.geomspace(1e-6, 1.0, 30):
        path.leave_one_out(regularization)
        path.coefficients(regularization)
        path.degrees_of_freedom(regularization)
    assert path.gram.evaluations == before  # no kernel value is computed again either


# ---- leave-one-out -------------------------------------------------------------------------------


def left_out(targets, weights, ridge, intercept):
    """Refit without each point; of a weight above 1 only one unit is taken away."""
    w = np.ones(N) if weights is None else weights
    rows = []
    for i in range(N):
        rest = w.copy()
        rest[i] = max(rest[i] - 1.0, 0.0)
        rows.append(refit(X, targets, rest, ridge, intercept, X[i : i + 1])[0])
    return np.array(rows)


@with_lambdas
@weighted
@with_intercept
@with_targets
def test_leave_one_out_equals_refits(targets, intercept, weights, regularization):
    path = path_of(targets, weights, intercept)
    truth = left_out(targets, weights, regularization * path.total_weight, intercept)
    predictions = path.leave_one_out(regularization)
    assert predictions.shape == targets.shape
    assert np.allclose(predictions, truth, rtol=0, atol=tolerance(weights, regularization))
    assert np.abs(predictions - path.fitted(regularization)).max() > 1e-3  # it is not the fit


@with_intercept
def test_a_unit_of_a_weight_is_a_repetition(intercept):
    """Leave-one-out on repeated rows, spelled out, gives each copy the same prediction."""
    counts = WEIGHTS["integer-some-zero"].astype(int)
    rows, targets = np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0)
    ridge = 0.01 * counts.sum()
    path = path_of(Y, WEIGHTS["integer-some-zero"], intercept)
    owners = np.repeat(np.arange(N), counts)
    predictions = path.leave_one_out(0.01)
    for copy, owner in enumerate(owners):
        others = np.ones(len(rows))
        others[copy] = 0.0
        truth = refit(rows, targets, others, ridge, intercept, rows[copy : copy + 1])[0]
        assert np.allclose(predictions[owner], truth, rtol=0, atol=1e-9)
    spelled_out = SpectralPath.of(KERNEL.gram(rows), targets, fit_intercept=intercept)
    assert np.allclose(spelled_out.leave_one_out(0.01), predictions[owners], rtol=0, atol=1e-9)
    assert np.allclose(
        spelled_out.leave_one_out_errors([0.01]), path.leave_one_out_errors([0.01]), rtol=1e-9
    )


def test_leave_one_out_keeps_its_digits_where_the_ridge_is_small():
    far = 30 * X
    K = Gaussian().gram(far).dense()
    assert np.linalg.cond(K) < 10
    inverse = np.linalg.inv(K + 1e-12 * np.eye(N))
    truth = Y[:, 0] - (inverse @ Y[:, 0]) / np.diag(inverse)
    path = SpectralPath.of(Gaussian().gram(far), Y[:, 0])
    assert np.allclose(path.leave_one_out(1e-12 / N), truth, rtol=0, atol=1e-12)


@weighted
@with_intercept
def test_errors_are_weighted_means_of_squares(intercept, weights):
    path = path_of(Y, weights, intercept)
    errors = path.leave_one_out_errors(LAMBDAS)
    assert errors.shape == (3, 2)
    w = np.ones(N) if weights is None else weights
    for row, regularization in zip(errors, LAMBDAS, strict=True):
        truth = left_out(Y, weights, regularization * w.sum(), intercept)
        assert np.allclose(row, w @ (truth - Y) ** 2 / w.sum(), rtol=1e-8)


# ---- degrees of freedom, smoother weights --------------------------------------------------------

FILTERS = {
    "number": 0.01,
    "tikhonov": Tikhonov(1.0),
    "iterated": IteratedTikhonov(0.1, 3),
    "landweber": Landweber(20, 1.0),
    "nu": NuMethod(10),
    "cut-off": CutOff(0.01),
}


def hat_matrix(weights, intercept, filter_):
    """The smoother column by column: the fits to all unit vectors, and one of them alone."""
    columns = path_of(np.eye(N), weights, intercept).fitted(filter_)
    alone = path_of(np.eye(N)[7], weights, intercept).fitted(filter_)
    assert np.allclose(columns[:, 7], alone)
    return columns


@pytest.mark.parametrize("filter_", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize("weights", [None, WEIGHTS["some-zero"]], ids=["", "weights"])
@with_intercept
def test_degrees_of_freedom_are_the_trace_of_the_smoother(intercept, weights, filter_):
    H = hat_matrix(weights, intercept, filter_)
    df = path_of(weights=weights, intercept=intercept).degrees_of_freedom(filter_)
    assert np.isclose(df, np.trace(H), rtol=1e-8)
    assert 0.5 < df < N


def test_degrees_of_freedom_go_from_all_to_the_intercept():
    for intercept, least in ((False, 0.0), (True, 1.0)):
        path = path_of(intercept=intercept, kernel=Matern(0.5))
        many = [path.degrees_of_freedom(r) for r in (1e-12, 1e-4, 1e-2, 1.0, 1e10)]
        assert np.isclose(many[0], N, atol=1e-3)
        assert np.isclose(many[-1], least, atol=1e-6)
        assert (np.diff(many) < 0).all()


@pytest.mark.parametrize("filter_", FILTERS.values(), ids=FILTERS.keys())
@weighted
@with_intercept
def test_smoother_weights_add_up_to_predictions(intercept, weights, filter_):
    new = RNG.standard_normal((6, 2))
    for targets in TARGETS.values():
        path = path_of(targets, weights, intercept)
        alpha, b = path.coefficients(filter_)
        truth = KERNEL.gram(new, X).dense() @ alpha + b
        W = path.smoother_weights(new, filter_)
        assert W.shape == (6, N)
        scale = np.abs(KERNEL.gram(new, X).dense() @ np.abs(alpha)).max()
        assert np.allclose(W @ targets, truth, rtol=0, atol=1e-10 * max(scale, 1.0))
        if intercept:
            assert np.allclose(W.sum(axis=1), 1.0)  # constants are fitted exactly
        if weights is not None:
            assert (W[:, weights == 0] == 0).all()


# ---- generalised cross-validation ----------------------------------------------------------------


@pytest.mark.parametrize("filter_", FILTERS.values(), ids=FILTERS.keys())
@with_intercept
@with_targets
def test_generalised_cross_validation_is_its_formula(targets, intercept, filter_):
    H = hat_matrix(None, intercept, filter_)
    squares = ((H @ targets - targets) ** 2).sum()
    truth = squares / N / (1 - np.trace(H) / N) ** 2
    assert np.isclose(
        path_of(targets, None, intercept).generalised_cross_validation(filter_), truth
    )


def test_where_leverages_are_equal_it_is_leave_one_out():
    """On a circle every point has the same leverage."""
    angles = 2 * np.pi * np.arange(12) / 12
    gram = Gaussian().gram(np.column_stack([np.cos(angles), np.sin(angles)]))
    path = SpectralPath.of(gram, np.cos(3 * angles) + angles)
    gcv = path.generalised_cross_validation(0.01)
    assert np.isclose(gcv, path.leave_one_out_errors([0.01])[0, 0])


@with_intercept
def test_generalised_cross_validation_of_weights_is_that_of_repetitions(intercept):
    counts = WEIGHTS["integer-some-zero"].astype(int)
    rows, targets = np.repeat(X, counts, axis=0), np.repeat(Y[:, 0], counts)
    spelled_out = SpectralPath.of(KERNEL.gram(rows), targets, fit_intercept=intercept)
    path = path_of(Y[:, 0], WEIGHTS["integer-some-zero"], intercept)
    assert np.isclose(path.degrees_of_freedom(0.01), spelled_out.degrees_of_freedom(0.01))
    truth = spelled_out.generalised_cross_validation(0.01)
    assert np.isclose(path.generalised_cross_validation(0.01), truth)


# ---- what comes in -------------------------------------------------------------------------------


def test_float32_points_give_float32_digits():
    gram = KERNEL.gram(X.astype(np.float32))
    path = SpectralPath.of(gram, Y[:, 0])
    truth = path_of().leave_one_out(0.01)
    error = np.abs(path.leave_one_out(0.01) - truth).max()
    assert 0 < error < np.finfo(np.float32).eps / 0.01 * 10


def test_nothing_that_comes_in_is_changed():
    targets, weights = Y.copy(), WEIGHTS["some-zero"].copy()
    path = path_of(targets, weights, True)
    path.leave_one_out(0.1)
    path.fitted(0.1)
    assert (targets == Y).all()
    assert (weights == WEIGHTS["some-zero"]).all()


@pytest.mark.parametrize("number", [np.float32(0.5), np.array(0.5), np.int64(1)], ids=str)
def test_any_number_is_a_regularisation(number):
    path = path_of()
    assert np.allclose(path.coefficients(number)[0], path.coefficients(float(number))[0])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"targets": Y[:-1]}, "one row for each"),
        ({"targets": np.full(N, np.nan)}, "finite targets; got nan"),
        ({"weights": np.full(N, -1.0)}, "weights must be finite and nonnegative"),
        ({"weights": np.zeros(N)}, "not all zero"),
        ({"weights": np.ones(3)}, "one number for each"),
    ],
    ids=["rows", "nan", "negative", "zero", "length"],
)
def test_bad_input_is_refused_in_words(changes, text):
    with pytest.raises(ValueError, match=text):
        SpectralPath.of(KERNEL.gram(X), **{"targets": Y, **changes})


def test_a_cut_off_with_an_intercept_leaves_the_mean():
    centred = X - X.mean(axis=0)
    path = path_of(intercept=True, kernel=Linear())
    assert np.isclose(path.coefficients(CutOff(1e3))[1], Y[:, 0].mean())
    path = SpectralPath.of(Linear().gram(centred), Y[:, 0], fit_intercept=True)
    assert np.isclose(path.coefficients(CutOff(1e-3))[1], Y[:, 0].mean())


def test_an_indefinite_matrix_is_not_repaired_in_silence():
    """The fit is to be that of (K + nλI)α = y, or a refusal: not that of another matrix."""
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    y = np.array([1.0, 0.0])
    try:
        alpha = SpectralPath.of(Precomputed(K).gram([0, 1]), y).coefficients(1.0)[0]
    except ValueError as refusal:
        assert "positive definite" in str(refusal)  # noqa: PT017
    else:
        assert np.allclose((K + 2.0 * np.eye(2)) @ alpha, y)
