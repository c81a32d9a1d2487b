"""The lasso in the coefficients, against coordinate descent and its own conditions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from mercer.losses import Hinge, Squared
from mercer.solvers import L1, Problem, SparseExpansion
from mercer.solvers.sparse import largest_penalty
from regularised import KERNEL, LABELS, NOISY, WEIGHTS, N, X

TWICE = np.repeat(X[: N // 2], 2, axis=0)  # columns that depend on each other


def stationarity(pulls, alpha, strength):
    """How far (Kp r)_i is from μ sign α_i, or from [−μ, μ] where α_i = 0, relative to μ."""
    signs = np.sign(alpha)
    off = np.where(signs != 0, np.abs(pulls - strength * signs), np.abs(pulls) - strength)
    return max(off.max(), 0.0) / strength


@pytest.mark.parametrize("points", [X, TWICE], ids=["", "twice"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("penalty", [0.05, 0.005, 0.0005])
def test_it_is_the_lasso(penalty, fit_intercept, points):
    gram = KERNEL.gram(points)
    problem = Problem(gram, NOISY, Squared(), L1(penalty), WEIGHTS, fit_intercept)
    solution = SparseExpansion(tolerance=1e-8).solve(problem)
    alpha, b, p = solution.coefficients, solution.intercept, WEIGHTS / WEIGHTS.sum()
    assert solution.status.converged
    K = gram.dense()
    rest = NOISY - K @ alpha - b
    primal = 0.5 * p @ rest**2 + penalty * np.abs(alpha).sum()
    assert solution.objective == pytest.approx(primal, rel=1e-12)
    u = p * rest
    u = u * min(1.0, penalty / np.abs(K @ u).max())
    dual = u @ NOISY - 0.5 * (u[p > 0] ** 2 / p[p > 0]).sum()
    assert primal - dual <= 1e-7 * primal
    assert abs(u.sum()) < 1e-12 or not fit_intercept
    assert stationarity(K @ (p * rest), alpha, penalty) < 1e-6
    assert np.count_nonzero(alpha) < 40
    theirs = Lasso(penalty, fit_intercept=fit_intercept, tol=1e-10, max_iter=200_000)
    theirs.fit(K, NOISY, WEIGHTS)
    other = NOISY - K @ theirs.coef_ - theirs.intercept_
    reference = 0.5 * p @ other**2 + penalty * np.abs(theirs.coef_).sum()
    assert primal <= reference + 1e-9


def test_the_largest_penalty_leaves_nothing():
    def problem(strength):
        return Problem(KERNEL.gram(X), NOISY, Squared(), L1(strength), None, True)

    most = largest_penalty(problem(1.0))
    assert not SparseExpansion().solve(problem(most * 1.0001)).coefficients.any()
    few = SparseExpansion().solve(problem(most * 0.999))
    assert np.count_nonzero(few.coefficients) == 1
    K = KERNEL.gram(X).dense()
    pulls = K @ (NOISY - K @ few.coefficients - few.intercept) / N
    assert stationarity(pulls, few.coefficients, most) > 1e-4  # of another penalty


@pytest.mark.parametrize(
    ("loss", "y", "ridge", "text"),
    [
        (Hinge(), LABELS, L1(0.1), r"square loss; got Hinge\(\)"),
        (Squared(), NOISY, 0.1, r"in place of .* got regularization=0\.1\. Write .*L1"),
        (
            Squared(),
            np.stack([NOISY, NOISY], 1),
            L1(0.1),
            r"one target for each point; got .*\(60, 2",
        ),
    ],
)
def test_what_it_refuses(loss, y, ridge, text):
    with pytest.raises(ValueError, match=text):
        SparseExpansion().solve(Problem(KERNEL.gram(X), y, loss, ridge))
    with pytest.raises(ValueError, match="L1 needs a finite strength > 0; got -1"):
        L1(-1)
