"""How far from the least objective: a point of the dual problem bounds it from below.

With p = w/Σw and K̂ = K_nM K_MM⁻¹ K_Mn the dual of the problem on centres is

    max over u of  −Σ p_i ℓ*(y_i, u_i) − (pu)ᵀK̂(pu)/(2λ),    Σ_i p_i u_i = 0 with an intercept.

The slopes u_i = ℓ'(y_i, f(x_i) + b) lie in its domain; where an intercept makes their sum matter,
they are moved a little.
"""

from __future__ import annotations

import numpy as np

from mercer.losses import Loss, Squared
from mercer.solvers.centres.problem import CentresProblem


def balanced(problem: CentresProblem, slopes: np.ndarray) -> np.ndarray:
    """Slopes near the given ones, in the domain of ℓ*, with Σ p_i u_i = 0 in each column."""
    p = problem.shares
    if isinstance(problem.loss, Squared):
        return slopes - (p * slopes).sum(axis=0)
    if problem.loss.is_multiclass:
        return _balanced_probabilities(problem.columns, slopes, p)
    up = (p * np.maximum(slopes, 0.0)).sum(axis=0)
    down = -(p * np.minimum(slopes, 0.0)).sum(axis=0)
    least = np.minimum(up, down)
    with np.errstate(divide="ignore", invalid="ignore"):
        shrunk_up = np.where(up > 0, least / up, 0.0)
        shrunk_down = np.where(down > 0, least / down, 0.0)
    return np.where(slopes > 0, shrunk_up, shrunk_down) * slopes


def _balanced_probabilities(y: np.ndarray, slopes: np.ndarray, p: np.ndarray) -> np.ndarray:
    """(1 − τ)P + τq has the mean of y, for the least τ with which q is a probability."""
    probabilities = slopes + y
    mean, wanted = (p * probabilities).sum(axis=0), (p * y).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(mean > 0, (mean - wanted) / mean, 0.0)
    mixing = float(np.clip(shares.max(), 0.0, 1.0))
    if mixing == 0.0:
        return slopes
    rest = np.maximum(mean + (wanted - mean) / mixing, 0.0)
    return (1.0 - mixing) * probabilities + mixing * rest / rest.sum() - y


def dual_value(
    problem: CentresProblem, loss: Loss, slopes: np.ndarray, moments: np.ndarray
) -> float:
    """The dual objective of `loss` at u, given L⁻¹K_Mn(pu): no more than the least objective."""
    counted = problem.shares[:, 0] > 0
    conjugate = np.asarray(loss.conjugate(problem.columns, slopes)).reshape(len(slopes), -1)
    value = float(problem.shares[counted, 0] @ conjugate[counted].sum(axis=1))
    return -value - float(np.vdot(moments, moments)) / (2.0 * problem.regularization)
