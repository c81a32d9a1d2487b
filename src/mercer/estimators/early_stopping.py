"""Early stopping of estimators: three parameters of scikit-learn's as a rule for the solver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.checks import is_number
from mercer.kernels.measures import generator
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.direct import Direct
from mercer.solvers.early_stopping import HeldOut
from mercer.solvers.solution import Solution


def stopping_rule(estimator: Any) -> HeldOut:
    """Which rows to hold out, and for how long to wait."""
    patience = estimator.n_iter_no_change
    if isinstance(patience, bool) or not isinstance(patience, (int, np.integer)) or patience < 1:
        raise ValueError(f"n_iter_no_change must be a whole number ≥ 1; got {patience!r}.")
    return replace(held_out_rule(estimator), patience=int(patience))


def held_out_rule(estimator: Any) -> HeldOut:
    """Which rows to hold out; without a `random_state` always the same."""
    fraction, seed = estimator.validation_fraction, getattr(estimator, "random_state", 0)
    if not (is_number(fraction) and 0 < fraction < 1):
        raise ValueError(f"validation_fraction must be between 0 and 1; got {fraction!r}.")
    if not isinstance(seed, (int, np.integer)):  # one draw for all problems of a fit
        seed = int(generator(seed).integers(2**31))
    return HeldOut(float(fraction), random_state=int(seed))


def iterative(solver: Any) -> Any:
    """What iterates in place of a factorisation."""
    return ConjugateGradient() if isinstance(solver, Direct) else solver


def stopped_by(solver: Any, rule: HeldOut) -> Any:
    """The solver with the rule; one without iterations that could end early is refused."""
    if not hasattr(solver, "stopping"):
        raise ValueError(
            f"early_stopping needs a solver whose iterates can be looked at; got {solver!r}. Write "
            'solver="auto", ConjugateGradient(), Newton(), KernelGradientDescent(...) or '
            "DualAscent()."
        )
    return replace(solver, stopping=rule)


def validation_scores(solution: Solution) -> Any:
    """−(mean loss of held-out rows) before the first step and after each.

    A solution of several problems has a list for each.
    """
    risks = solution.history["held_out_risk"]
    if isinstance(risks[0], list):
        return [-np.asarray(part, np.float64) for part in risks]
    return -np.asarray(risks, np.float64)
