"""Which solver a loss gets when nobody chose one."""

from __future__ import annotations

from mercer.losses import Absolute, EpsilonInsensitive, Hinge, Loss, Quantile, Squared
from mercer.solvers.direct import Direct
from mercer.solvers.dual import DualAscent
from mercer.solvers.newton import Newton
from mercer.solvers.problem import Solver
from mercer.solvers.splitting import Splitting

KINKED = (Absolute, EpsilonInsensitive, Hinge, Quantile)


def default_solver(loss: Loss, tolerance: float = 1e-6) -> Solver:
    """A factorisation for the square loss, Newton's method if smooth, dual ascent if kinked.

    A loss of your own with kinks is solved by operator splitting, which asks for a proximal map
    only. The tolerance is a relative duality gap.

    >>> from mercer.losses import Hinge, Logistic
    >>> type(default_solver(Logistic())).__name__, type(default_solver(Hinge())).__name__
    ('Newton', 'DualAscent')
    """
    if isinstance(loss, Squared):
        return Direct()
    if loss.is_smooth:
        return Newton(tolerance)
    return DualAscent(tolerance) if isinstance(loss, KINKED) else Splitting(tolerance)
