"""Every loss on tensors of torch: the same answer as on arrays, of the same kind as what came.

They are on the CPU, or where MERCER_DEVICE says: MERCER_DEVICE=cuda runs all of this on a card.
"""

from __future__ import annotations

import os
import pickle
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from mercer.arrays import as_numpy  # noqa: E402
from mercer.estimators import (  # noqa: E402
    KernelClassifier,
    KernelLogisticRegression,
    KernelPoissonRegressor,
    KernelQuantileRegressor,
    KernelRegressor,
    KernelRidge,
    KernelRidgeCV,
    losses,
)
from mercer.features import Nystroem  # noqa: E402
from mercer.features.centres import KMeansPlusPlus  # noqa: E402
from mercer.kernels import Gaussian  # noqa: E402
from mercer.linalg import Factor, cholesky  # noqa: E402
from mercer.linalg.factors import Triangle  # noqa: E402
from mercer.linalg.panels import Tuning  # noqa: E402
from mercer.losses import (  # noqa: E402
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.operators import Gram, cross_gram  # noqa: E402
from mercer.points.tensors import TensorPoints  # noqa: E402
from mercer.solvers import (  # noqa: E402
    DoublyStochastic,
    DualAscent,
    HeldOut,
    KernelGradientDescent,
    MiniBatch,
    Newton,
    Problem,
    SubgradientDescent,
    all_points,
    regularization_path,
)
from mercer.solvers.newton import Tuning as NewtonTuning  # noqa: E402
from mercer.solvers.optimality import duality_gap  # noqa: E402
from mercer.solvers.root import PivotedCholesky  # noqa: E402
from mercer.solvers.schedules import Constant  # noqa: E402

DEVICE = os.environ.get("MERCER_DEVICE", "cpu")
tensor = partial(torch.tensor, device=DEVICE)

SMOOTH = [Squared(), Logistic(), Multinomial(), SquaredHinge(), Huber(0.3), Poisson()]
KINKED = [Hinge(), Quantile(0.3), EpsilonInsensitive(0.1)]


def data(loss, n=80, dtype=np.float64):
    """Rows, and targets that the loss takes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(n)
    if isinstance(loss, Multinomial):
        y = np.digitize(y, [-0.5, 0.5])
    elif isinstance(loss, Poisson):
        y = np.floor(np.exp(y))
    elif loss.is_classification:
        y = np.where(y > 0, 1.0, -1.0)
    return X.astype(dtype), y


def named(loss):
    return type(loss).__name__


def on_centres(made, loss, dtype=np.float64, fit_intercept=True):
    X, y = data(loss, dtype=dtype)
    kernel, weights = Gaussian(1.5), np.arange(80.0) % 4
    rows = cross_gram(kernel, kernel.points(made(X)), kernel.points(made(X[::5])))
    return Problem.on_centres(rows, made(y), loss, 1e-3, made(weights), fit_intercept)


class TestCentres:
    @pytest.mark.parametrize("loss", SMOOTH + KINKED, ids=named)
    def test_every_loss_has_the_answer_of_arrays(self, loss):
        theirs, ours = (on_centres(made, loss) for made in (np.asarray, tensor))
        expected, found = (Newton(1e-3).solve(problem) for problem in (theirs, ours))
        assert isinstance(found.coefficients, torch.Tensor)
        assert found.coefficients.dtype == torch.float64
        assert found.status.converged
        np.testing.assert_allclose(as_numpy(found.coefficients), expected.coefficients, atol=1e-7)
        np.testing.assert_allclose(as_numpy(found.intercept), expected.intercept, atol=1e-7)
        assert found.gap == pytest.approx(expected.gap, abs=1e-9)
        assert ours.objective(found.coefficients, found.intercept) == pytest.approx(found.objective)

    def test_float32_stays_float32(self):
        problem = on_centres(tensor, Logistic(), np.float32, fit_intercept=False)
        found = Newton(1e-5).solve(problem)
        assert found.coefficients.dtype == torch.float32
        assert found.status.converged

    def test_a_path_from_one_solution_to_the_next(self):
        new = data(Logistic(), 10)
        risks = [
            [
                point.held_out_risk
                for point in regularization_path(
                    on_centres(made, Logistic()), [1e-2, 1e-3], held_out=tuple(map(made, new))
                )
            ]
            for made in (np.asarray, tensor)
        ]
        np.testing.assert_allclose(risks[1], risks[0], rtol=1e-6)


class TestNewton:
    @pytest.mark.parametrize("loss", SMOOTH, ids=named)
    def test_every_smooth_loss_has_the_answer_of_arrays(self, loss):
        X, y = data(loss)
        theirs, ours = (
            Newton(1e-10).solve(
                Problem(Gaussian(1.5).gram(made(X)), made(y), loss, 1e-2, fit_intercept=True)
            )
            for made in (np.asarray, tensor)
        )
        assert isinstance(ours.coefficients, torch.Tensor)
        assert ours.status.converged
        np.testing.assert_allclose(as_numpy(ours.coefficients), theirs.coefficients, atol=1e-9)
        np.testing.assert_allclose(as_numpy(ours.intercept), theirs.intercept, atol=1e-9)

    def test_products_on_the_device_in_float32_first(self):
        large = NewtonTuning(all_points=all_points.Tuning(stored=10))
        X, y = data(Logistic())
        problem = Problem(Gaussian(1.5).gram(tensor(X)), tensor(y), Logistic(), 1e-2)
        solution = Newton(1e-8, tuning=large).solve(problem)
        assert solution.status.converged
        assert "computed for each product" in solution.status.message
        warm = Newton(1e-8, tuning=large).solve(problem, start=solution)
        assert warm.status.converged
        assert duality_gap(problem, warm.coefficients) <= 1e-8

    def test_a_root_is_taken_on_the_host(self):
        X, y = data(Logistic())
        problem = Problem(Gaussian(1.5).gram(tensor(X)), tensor(y), Logistic(), 1e-2)
        solution = Newton(1e-6, root=PivotedCholesky(1e-12)).solve(problem)
        assert isinstance(solution.coefficients, torch.Tensor)
        assert solution.status.converged


REGRESSORS = {
    "ridge": KernelRidge(0.1, kernel=Gaussian(1.5), fit_intercept=True),
    "ridge on centres": KernelRidge(0.1, kernel=Gaussian(1.5), centres=20, random_state=0),
    "ridge cv": KernelRidgeCV(np.logspace(-3, 0, 4), lengthscales=[0.5, 1.5]),
    "squared": KernelRegressor("squared_error", kernel=Gaussian(1.5)),
    "huber": KernelRegressor("huber", gamma="scale"),
    "absolute": KernelRegressor("absolute_error", kernel=Gaussian(1.5)),
    "epsilon": KernelRegressor("epsilon_insensitive", kernel=Gaussian(1.5)),
    "centres": KernelRegressor(
        "huber", kernel=Gaussian(1.5), centres=20, random_state=0, solver=Newton(1e-13)
    ),
    "spread centres": KernelRegressor(
        "squared_error", kernel=Gaussian(1.5), centres=KMeansPlusPlus(20, random_state=0)
    ),
    "quantiles": KernelQuantileRegressor([0.8, 0.2], kernel=Gaussian(1.5)),
    "poisson": KernelPoissonRegressor(kernel=Gaussian(1.5), tol=1e-10),
    "poisson by name": KernelRegressor("poisson", kernel=Gaussian(1.5), tol=1e-10),
}
CLASSIFIERS = {
    "logistic": KernelClassifier("log_loss", kernel=Gaussian(1.5)),
    "multinomial": KernelClassifier("multinomial", kernel=Gaussian(1.5)),
    "squared hinge": KernelClassifier("squared_hinge", kernel=Gaussian(1.5)),
    "pairs": KernelClassifier("squared_hinge", multi_class="ovo", kernel=Gaussian(1.5)),
    "pairs on centres": KernelClassifier(
        "log_loss", multi_class="ovo", kernel=Gaussian(1.5), centres=20, random_state=0
    ),
    "squared": KernelClassifier("squared_error", kernel=Gaussian(1.5)),
    "hinge": KernelClassifier("hinge", 0.01, kernel=Gaussian(1.5)),
    "hinge on centres": KernelClassifier(
        "hinge", 0.01, kernel=Gaussian(1.5), centres=20, random_state=0
    ),
    "logistic regression": KernelLogisticRegression(
        kernel=Gaussian(1.5), class_weight="balanced", tol=1e-9
    ),
}
TO_A_TOLERANCE = {  # where dual ascent solves it for arrays, and smoothing for tensors
    "absolute": 0.05,
    "epsilon": 0.05,
    "quantiles": 0.05,
    "hinge": 0.05,
}


def checked(answer, expected, like, tolerance):
    """A tensor of the type and on the device of another one, with the values of an array."""
    assert isinstance(answer, torch.Tensor)
    assert answer.dtype == like.dtype
    assert answer.device == like.device
    np.testing.assert_allclose(as_numpy(answer), expected, atol=tolerance)


class TestEstimators:
    @pytest.mark.filterwarnings("ignore::mercer.errors.GridEdgeWarning")
    @pytest.mark.parametrize("name", REGRESSORS)
    def test_every_regressor(self, name):
        model, new = REGRESSORS[name], tensor(data(Squared(), 9)[0]) + 0.1
        X, y = data(Poisson() if "poisson" in name else Squared())
        weights = 1.0 + np.arange(80) % 3
        theirs = clone(model).fit(X, y, weights)
        ours = clone(model).fit(*map(tensor, (X, y, weights)))
        ours = pickle.loads(pickle.dumps(ours))
        tolerance = TO_A_TOLERANCE.get(name, 1e-6)
        expected = theirs.predict(as_numpy(new))
        checked(ours.predict(new), expected, new, tolerance)
        score = ours.score(*map(tensor, (X, y, weights)))
        assert score == pytest.approx(theirs.score(X, y, weights), abs=tolerance)
        there = clone(model).set_params(device=DEVICE).fit(X, y, weights)
        assert isinstance(there.function_.coefficients, torch.Tensor)
        assert isinstance(there.predict(as_numpy(new)), np.ndarray)
        np.testing.assert_allclose(there.predict(as_numpy(new)), expected, atol=tolerance)

    @pytest.mark.parametrize("classes", [2, 3])
    @pytest.mark.parametrize("name", CLASSIFIERS)
    def test_every_classifier(self, name, classes):
        model, new = CLASSIFIERS[name], tensor(data(Squared(), 9)[0]) + 0.1
        X, y = data(Multinomial())
        y = np.minimum(y, classes - 1) + 4
        theirs = clone(model).fit(X, y)
        ours = clone(model).fit(tensor(X), tensor(y))
        tolerance = TO_A_TOLERANCE.get(name, 1e-6)
        expected = theirs.decision_function(as_numpy(new))
        checked(ours.decision_function(new), expected, new, tolerance)
        labels = ours.predict(new)
        assert labels.dtype == torch.int64
        sure = np.abs(expected).reshape(9, -1).min(axis=1) > 0.1
        np.testing.assert_array_equal(as_numpy(labels)[sure], theirs.predict(as_numpy(new))[sure])
        assert ours.score(tensor(X), tensor(y)) == pytest.approx(theirs.score(X, y), abs=0.02)
        if hasattr(theirs, "predict_proba"):
            for method in ("predict_proba", "predict_log_proba"):
                found = getattr(ours, method)(new)
                checked(found, getattr(theirs, method)(as_numpy(new)), new, 10 * tolerance)

    def test_labels_that_are_words(self):
        X, y = data(Logistic())
        words = np.where(y > 0, "up", "down")
        model = KernelClassifier(kernel=Gaussian()).fit(tensor(X), words)
        answer = model.predict(tensor(X))
        assert isinstance(answer, np.ndarray)
        assert model.score(tensor(X), words) == np.mean(answer == words)

    def test_float32_in_float32_out(self):
        X, y = data(Multinomial(), dtype=np.float32)
        for model in (KernelClassifier("multinomial"), KernelRidge(fit_intercept=True)):
            targets = np.stack([y, y], axis=1) if isinstance(model, KernelRidge) else y
            model.fit(tensor(X), tensor(targets))
            values = getattr(model, "decision_function", model.predict)(tensor(X))
            assert values.dtype == torch.float32

    def test_gamma_of_points_far_from_zero(self):
        X = 1e4 + data(Squared(), dtype=np.float32)[0]
        models = (
            KernelClassifier(gamma="scale").fit(made(X), np.arange(80) % 2)
            for made in (np.asarray, tensor)
        )
        scales = [model.kernel_.lengthscale for model in models]
        assert scales[0] == pytest.approx(scales[1], rel=1e-4)

    def test_what_is_refused(self):
        X, y = (tensor(part) for part in data(Logistic()))
        for bad, message in (
            (X.clone().requires_grad_(), r"points require gradients.*\.detach\(\)"),
            (X.to_sparse(), r"dense tensor.*sparse_coo.*to_dense"),
            (X * torch.nan, "contain NaN"),
        ):
            with pytest.raises(ValueError, match=message):
                KernelClassifier().fit(bad, y)
        with pytest.raises(ValueError, match=rf"one device; got {X.device} and meta.*y\.to"):
            KernelClassifier().fit(X, y.to("meta"))
        with pytest.raises(ValueError, match=rf"one device; got {X.device} and meta.*X\.to"):
            Gram(Gaussian(), TensorPoints(X), TensorPoints(X.to("meta")))
        with pytest.raises(ValueError, match=r"DualAscent computes on the CPU.*Newton"):
            KernelClassifier("hinge", solver=DualAscent()).fit(X, y)
        with pytest.raises(ValueError, match="centres are for Newton"):
            KernelClassifier(solver=DualAscent(), centres=10).fit(X, y)
        with pytest.raises(ValueError, match="a precomputed kernel has none"):
            KernelClassifier(kernel="precomputed", centres=10).fit(np.eye(4), [0, 1, 0, 1])
        fitted = KernelClassifier().fit(as_numpy(X), as_numpy(y))
        with pytest.raises(ValueError, match=r"fitted on arrays of NumPy.*X\.cpu\(\)\.numpy"):
            fitted.predict(X)
        with pytest.raises(ValueError, match=r"on one device; got .* and meta"):
            Gaussian().gram(X) @ y.to("meta")
        with pytest.raises(ValueError, match=r"values require gradients.*detach"):
            Gaussian().gram(X) @ y.clone().requires_grad_()
        fitted = KernelClassifier().fit(X, y)
        with pytest.raises(ValueError, match=r"fitted on tensors.*toarray"):
            fitted.predict(scipy.sparse.csr_array(as_numpy(X)))

    def test_too_many_rows_for_kinks_without_centres(self, monkeypatch):
        monkeypatch.setattr(losses, "TUNING", losses.Tuning(most_centres=50))
        X, y = (tensor(part) for part in data(Hinge()))
        with pytest.raises(ValueError, match=r"Hinge has kinks, and 80 rows.*centres=5000"):
            KernelClassifier("hinge").fit(X, y)

    def test_gradients_are_not_asked_for(self):
        X, y = (tensor(part) for part in data(Logistic()))
        with torch.no_grad():
            model = KernelClassifier().fit(X.clone().requires_grad_(), y)
        assert not model.decision_function(X).requires_grad

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
    @pytest.mark.parametrize("model", [KernelClassifier(), KernelRegressor("huber")])
    def test_a_device_that_is_not_there(self, model):
        with pytest.raises(ValueError, match=r"torch sees none.*device=None"):
            clone(model).set_params(device="cuda").fit(*data(Logistic()))


class TestDescents:
    """Solvers that take tensors because they are written for any library of arrays."""

    @pytest.mark.parametrize(
        ("solver", "loss"),
        [
            (KernelGradientDescent(60, stopping=HeldOut()), Logistic()),
            (KernelGradientDescent(30), Squared()),
            (SubgradientDescent(30, Constant(0.05)), Hinge()),
        ],
        ids=["held out", "gradient", "subgradient"],
    )
    def test_on_the_whole_matrix(self, solver, loss):
        X, y = data(loss)
        theirs, ours = (
            solver.solve(Problem(Gaussian(1.5).gram(made(X)), made(y), loss, 1e-2))
            for made in (np.asarray, tensor)
        )
        checked(ours.coefficients, theirs.coefficients, tensor(X), 1e-9)
        assert ours.objective == pytest.approx(theirs.objective)

    @pytest.mark.parametrize("loss", [Squared(), Multinomial(), Hinge()], ids=named)
    def test_mini_batches_of_features(self, loss):
        X, y = data(loss)
        phi = Nystroem(kernel=Gaussian(1.5), n_components=15, random_state=0).fit(X)
        weights = 1.0 + np.arange(80) % 2
        theirs, ours = (
            Problem.on_features(phi, made(X), made(y), loss, 1e-2, made(weights))
            for made in (np.asarray, tensor)
        )
        solver = MiniBatch(3, Constant(0.2), batch_size=16)
        expected, found = solver.solve(theirs), solver.solve(ours)
        like = tensor(X)
        checked(found.coefficients, expected.coefficients, like, 1e-9)
        assert found.gap == pytest.approx(expected.gap)
        checked(ours.function(found)(like), theirs.function(expected)(X), like, 1e-9)

    @pytest.mark.parametrize("loss", [Squared(), Multinomial(), Hinge()], ids=named)
    def test_doubly_stochastic(self, loss):
        X, y = data(loss)
        solver = DoublyStochastic(40, Constant(0.3), frequencies=32, batch_size=100)
        problems = [
            Problem(Gaussian(1.5).gram(made(X)), made(y), loss, 1e-2)
            for made in (np.asarray, tensor)
        ]
        expected, found = map(solver.solve, problems)
        like = tensor(X)
        checked(found.coefficients, expected.coefficients, like, 1e-9)
        f = pickle.loads(pickle.dumps(solver.function(problems[1], found)))
        checked(f(like), solver.function(problems[0], expected)(X), like, 1e-9)


def test_a_triangle_by_panels():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(size=(50, 1)), axis=0)
    matrix = tensor(Gaussian(0.3).gram(X).dense() + 1e-12 * np.eye(50))  # condition 1e13
    b = tensor(rng.standard_normal((50, 2)))
    factor = cholesky(matrix)
    expected = factor.half_solve(b), factor.other_half_solve(b)
    factor = Factor(factor.lower, 0.0, Tuning(device_panel=16, panels_on_host=True))
    panels = Triangle(factor.lower, panel=16)
    assert factor.by_panels(b)
    for found, x, L in (
        (panels.solve(b), expected[0], factor.lower),
        (panels.solve(b, transposed=True), expected[1], factor.lower.T),
    ):
        residuals = (float((L @ z - b).norm() / (L.norm() * z.norm())) for z in (found, x))
        assert next(residuals) <= 4 * next(residuals) + 1e-16
    np.testing.assert_allclose(
        *map(as_numpy, (factor.solve(b), torch.linalg.solve(matrix, b))), rtol=0.1
    )
