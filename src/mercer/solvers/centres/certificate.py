"""How far from the least objective: a point of the dual problem bounds it from below.

With p = w/Σw and K̂ = K_nM K_MM⁻¹ K_Mn the dual of the problem on centres is

    max over u of  −Σ p_i ℓ*(y_i, u_i) − (pu)ᵀK̂(pu)/(2λ),    Σ_i p_i u_i = 0 with an intercept.

The slopes u_i = ℓ'(y_i, f(x_i) + b) lie in its domain; where an intercept makes their sum matter,
they are moved a little.
"""

from __future__ import annotations

from mercer.arrays import Array, inner, namespace
from mercer.losses import Loss, Squared
from mercer.solvers.problem import Problem


def balanced(problem: Problem, slopes: Array) -> Array:
    """Slopes near the given ones, in the domain of ℓ*, with Σ p_i u_i = 0 in each column."""
    p, xp = problem.shares[:, None], namespace(slopes)
    if isinstance(problem.loss, Squared):
        return slopes - (p * slopes).sum(axis=0)
    if problem.loss.is_multiclass:
        return _balanced_probabilities(problem.y_columns, slopes, p)
    up = (p * xp.clip(slopes, min=0.0)).sum(axis=0)
    down = -(p * xp.clip(slopes, max=0.0)).sum(axis=0)
    least = xp.minimum(up, down)
    return xp.where(slopes > 0, _quotient(least, up), _quotient(least, down)) * slopes


def _quotient(a: Array, b: Array) -> Array:
    """a/b, and 0 where b is not positive."""
    xp = namespace(b)
    return xp.where(b > 0, a / xp.where(b > 0, b, 1.0), 0.0)


def _balanced_probabilities(y: Array, slopes: Array, p: Array) -> Array:
    """(1 − τ)P + τq has the mean of y, for the least τ with which q is a probability."""
    probabilities = slopes + y
    mean, wanted = (p * probabilities).sum(axis=0), (p * y).sum(axis=0)
    mixing = min(max(float(_quotient(mean - wanted, mean).max()), 0.0), 1.0)
    if mixing == 0.0:
        return slopes
    rest = namespace(mean).clip(mean + (wanted - mean) / mixing, min=0.0)
    return (1.0 - mixing) * probabilities + mixing * rest / rest.sum() - y


def dual_value(problem: Problem, loss: Loss, slopes: Array, moments: Array) -> float:
    """The dual objective of `loss` at u, given L⁻¹K_Mn(pu): no more than the least objective."""
    counted = problem.shares > 0
    conjugate = loss.conjugate(problem.y_columns, slopes).reshape(len(slopes), -1)
    value = float(problem.shares[counted] @ conjugate[counted].sum(axis=1))
    return -value - inner(moments, moments) / (2.0 * problem.regularization)
