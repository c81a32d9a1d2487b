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
from mercer.solvers.centres import (  # noqa: E402
    CentresNewton,
    CentresProblem,
    centres_path,
    passes,
)

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
