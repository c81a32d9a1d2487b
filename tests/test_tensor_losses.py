"""Every loss on tensors of torch: the same answer as on arrays, of the same kind as what came."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from mercer.kernels import Gaussian  # noqa: E402
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
from mercer.solvers import Newton, Problem  # noqa: E402
from mercer.solvers.centres import (  # noqa: E402
    CentresNewton,
    CentresProblem,
    centres_path,
    passes,
)
from mercer.solvers.gaps import duality_gap  # noqa: E402
from mercer.solvers.root import PivotedCholesky  # noqa: E402

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
    rows = passes(kernel, kernel.points(made(X)), kernel.points(made(X[::5])))
    return CentresProblem(rows, made(y), loss, 1e-3, made(weights), fit_intercept)


class TestCentres:
    @pytest.mark.parametrize("loss", SMOOTH + KINKED, ids=named)
    def test_every_loss_has_the_answer_of_arrays(self, loss):
        theirs, ours = (on_centres(made, loss) for made in (np.asarray, torch.tensor))
        expected, found = (CentresNewton(1e-3).solve(problem) for problem in (theirs, ours))
        assert isinstance(found.coefficients, torch.Tensor)
        assert found.coefficients.dtype == torch.float64
        assert found.status.converged
        np.testing.assert_allclose(found.coefficients.numpy(), expected.coefficients, atol=1e-7)
        np.testing.assert_allclose(np.asarray(found.intercept), expected.intercept, atol=1e-7)
        assert found.gap == pytest.approx(expected.gap, abs=1e-9)
        assert ours.objective(found.coefficients, found.intercept) == pytest.approx(found.objective)

    def test_float32_stays_float32(self):
        problem = on_centres(torch.tensor, Logistic(), np.float32, fit_intercept=False)
        found = CentresNewton(1e-5).solve(problem)
        assert found.coefficients.dtype == torch.float32
        assert found.status.converged

    def test_a_path_from_one_solution_to_the_next(self):
        new = data(Logistic(), 10)
        risks = [
            [
                point.held_out_risk
                for point in centres_path(
                    on_centres(made, Logistic()), [1e-2, 1e-3], held_out=tuple(map(made, new))
                )
            ]
            for made in (np.asarray, torch.tensor)
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
            for made in (np.asarray, torch.tensor)
        )
        assert isinstance(ours.coefficients, torch.Tensor)
        assert ours.status.converged
        np.testing.assert_allclose(ours.coefficients.numpy(), theirs.coefficients, atol=1e-9)
        np.testing.assert_allclose(np.asarray(ours.intercept), theirs.intercept, atol=1e-9)

    def test_products_on_the_device_in_float32_first(self, monkeypatch):
        monkeypatch.setattr("mercer.solvers.newton.products.SMALL", 10)
        X, y = data(Logistic())
        problem = Problem(Gaussian(1.5).gram(torch.tensor(X)), torch.tensor(y), Logistic(), 1e-2)
        solution = Newton(1e-8).solve(problem)
        assert solution.status.converged
        assert "on the device" in solution.status.message
        warm = Newton(1e-8).solve(problem, start=solution)
        assert warm.status.converged
        assert duality_gap(problem, warm.coefficients) <= 1e-8

    def test_a_root_is_taken_on_the_host(self):
        X, y = data(Logistic())
        problem = Problem(Gaussian(1.5).gram(torch.tensor(X)), torch.tensor(y), Logistic(), 1e-2)
        solution = Newton(1e-6, root=PivotedCholesky(1e-12)).solve(problem)
        assert isinstance(solution.coefficients, torch.Tensor)
        assert solution.status.converged
