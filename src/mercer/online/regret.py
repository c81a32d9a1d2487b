"""Regret: what a stream cost beyond the best function of a ball, and what theory promises."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from mercer.checks import check_positive
from mercer.functions import RKHSFunction
from mercer.online.hindsight import best_in_ball
from mercer.online.rounds import Recorded, Settings
from mercer.online.schedules import Constant, InverseTime
from mercer.online.state import UNBOUNDED
from mercer.operators import Gram

MATCH = 1e-9  # how near λ times the scale of 1/t steps is to 1


@dataclass(frozen=True, eq=False)
class Regret:
    """Cumulative losses of a stream, of the best f with ‖f‖ ≤ U, and the bound between them.

    Attributes
    ----------
    online, best : arrays of shape (rounds,)
        Sums of the losses up to each round: of the predictions, each made before its sample was
        learned, and of the best function of the ball in hindsight.
    bound : array or None
        What online − best cannot exceed; None where nothing is proved.
    reason : str
        Which bound it is, or why there is none.
    regularised : bool
        Whether losses include (λ/2)‖f‖², as the bound needs with λ > 0.
    function : RKHSFunction
        The best function.
    gap : float
        By how much the least sum of losses may be lower than that of `function`, by duality.
    """

    online: np.ndarray
    best: np.ndarray
    bound: np.ndarray | None
    reason: str
    regularised: bool
    radius: float
    function: RKHSFunction
    gap: float

    @property
    def regret(self) -> np.ndarray:
        return self.online - self.best


def regret(machine: Any, radius: float) -> Regret:
    """The regret of a machine that recorded its rounds, against ‖f‖ ≤ radius.

    It takes the eigendecomposition of the Gram matrix of all rounds: a few thousand at most.

    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> from mercer.online import OnlineKernelMachine, schedules
    >>> m = OnlineKernelMachine(
    ...     Gaussian(),
    ...     loss=Squared(),
    ...     regularization=0.0,
    ...     record=True,
    ...     step=schedules.Constant(0.5),
    ... )
    >>> found = regret(m.partial_fit([[0.0], [1.0], [0.0]], [1.0, -1.0, 1.0]), radius=2.0)
    >>> bool((found.regret <= found.bound).all())
    True
    """
    check_positive("regret", "radius", radius)
    recorded, stream = _recorded(machine), machine.stream_
    settings, points = stream.settings, reduce(lambda a, b: a.concatenated(b), recorded.points)
    targets, weights = np.concatenate(recorded.targets), np.concatenate(recorded.weights)
    bound, reason = _bound(settings, stream.rules.policy, recorded, radius)
    ridge = float(settings.regularization) if bound is not None else 0.0
    found = best_in_ball(
        Gram(stream.kernel, points),
        targets,
        weights,
        settings.loss,
        radius,
        regularization=ridge * len(targets),
    )
    online, best = np.concatenate(recorded.losses), found.losses
    if ridge:
        online = online + 0.5 * ridge * np.concatenate(recorded.norms)
        best = best + 0.5 * ridge * found.squared_norm
    return Regret(
        np.cumsum(online),
        np.cumsum(best),
        bound,
        reason,
        bool(ridge),
        float(radius),
        found.function,
        found.gap,
    )


def _recorded(machine: Any) -> Recorded:
    recorded = getattr(machine, "recorded_", None)
    if recorded is None or not len(recorded):
        raise ValueError(
            "the regret needs the rounds of the stream, which this machine did not keep: make it "
            "with record=True, and let it learn."
        )
    return recorded


def _bound(
    settings: Settings, policy: int, recorded: Recorded, radius: float
) -> tuple[np.ndarray | None, str]:
    """The bound up to each round, with its name; or None, with the reason."""
    if policy != UNBOUNDED:
        return None, "no bound: bumps that a budget drops are not paid for in the proof."
    step, ridge = settings.step, float(settings.regularization)
    gradients = np.concatenate(recorded.gradients)
    if isinstance(step, Constant):
        bound = radius**2 / (2.0 * step.size) + 0.5 * step.size * np.cumsum(gradients)
        return bound, "U²/(2η) + (η/2) Σ‖g_t‖²"
    strong = isinstance(step, InverseTime) and ridge > 0 and step.offset == 0
    if strong and math.isclose(step.scale * ridge, 1.0, rel_tol=MATCH):
        rounds = np.arange(1, len(gradients) + 1)
        return np.cumsum(gradients / (2.0 * ridge * rounds)), "Σ‖g_t‖²/(2λt)"
    return None, (
        "no bound: it is proved for a constant step, and for η = 1/(λt) on the regularised loss."
    )
