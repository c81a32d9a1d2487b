"""Step sizes η_t of solvers and online machines, averages of the iterates, and their bounds.

Steps are counted from 1: f_t = f_{t−1} − η_t g_t, where g_t is a subgradient at f_{t−1}. Averages
and bounds are of f_0, …, f_{T−1}, the iterates at which a subgradient was taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer.checks import check_count, check_nonnegative, check_positive

__all__ = [
    "Adaptive",
    "Aggressive",
    "Average",
    "Constant",
    "InverseSquareRoot",
    "InverseTime",
    "Schedule",
    "average_bound",
    "step_sizes",
    "subgradient_bound",
    "weighted_average_bound",
]


class Schedule(Protocol):
    """The step sizes η_1 ≥ η_2 ≥ … > 0 of a descent.

    >>> schedule: Schedule = InverseTime(2.0)
    >>> step_sizes(schedule, 1, 3).round(3).tolist()
    [2.0, 1.0, 0.667]
    """

    def step(self, t: int) -> float:
        """η_t, for t = 1, 2, and so on."""


def step_sizes(schedule: Schedule, first: int, count: int) -> np.ndarray:
    """η_t for t = first, …, first + count − 1.

    >>> step_sizes(InverseTime(6.0), first=2, count=2)
    array([3., 2.])
    """
    times = np.arange(first, first + count)
    many = getattr(schedule, "steps", None)
    sizes = [schedule.step(int(t)) for t in times] if many is None else many(times)
    return np.asarray(sizes, np.float64)


@dataclass(frozen=True)
class Constant:
    """η_t = η.

    Over T steps from f_0, with subgradients of norm at most ρ, η = ‖f_0 − f*‖/(ρ√T) gives the best
    bound, `subgradient_bound`.

    >>> Constant(0.1).step(1) == Constant(0.1).step(1000) == 0.1
    True
    """

    size: float

    def __post_init__(self) -> None:
        check_positive(self, "size", self.size)

    def step(self, t: int) -> float:
        return float(self.size)

    def steps(self, times: np.ndarray) -> np.ndarray:
        return np.full(len(times), float(self.size))


@dataclass(frozen=True)
class InverseTime:
    """η_t = scale/(t + offset): Ση_t = ∞ and Ση_t² < ∞, the conditions of Robbins and Monro.

    With a regularisation λ, `InverseTime(1/λ)` and a plain average, or `InverseTime(2/λ, 1)` and
    weights ∝ t, have bounds that need neither ‖f*‖ nor the number of steps. An offset shortens the
    first steps.

    References
    ----------
    H. Robbins, S. Monro, A stochastic approximation method, 1951.

    Examples
    --------
    >>> schedule = InverseTime(2.0, offset=1.0)
    >>> [schedule.step(t) for t in (1, 3)]
    [1.0, 0.5]
    """

    scale: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        check_positive(self, "scale", self.scale)
        check_nonnegative(self, "offset", self.offset)

    def step(self, t: int) -> float:
        return float(self.scale / (t + self.offset))

    def steps(self, times: np.ndarray) -> np.ndarray:
        return float(self.scale) / (times + float(self.offset))


@dataclass(frozen=True)
class InverseSquareRoot:
    """η_t = scale/√t: as good as the best constant step up to a logarithm, for any number of steps.

    >>> InverseSquareRoot(3.0).step(9)
    1.0
    """

    scale: float

    def __post_init__(self) -> None:
        check_positive(self, "scale", self.scale)

    def step(self, t: int) -> float:
        return float(self.scale / math.sqrt(t))

    def steps(self, times: np.ndarray) -> np.ndarray:
        return float(self.scale) / np.sqrt(times)


InverseSqrt = InverseSquareRoot  # the short name that users of online machines write


# ---- steps that depend on the losses met, for online machines ------------------------------------


@dataclass(frozen=True)
class Adaptive:
    """η_t = scale/√(Σ_{s≤t} ‖ℓ'_s k(x_s, ·)‖²): shorter the steeper the losses met so far.

    It needs neither the number of rounds nor a bound on the slopes. ηλ is kept at most 1.

    References
    ----------
    M. Streeter, H. B. McMahan, Less regret via online conditioning, 2010.

    Examples
    --------
    >>> Adaptive(scale=0.5)
    Adaptive(scale=0.5)
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "scale", self.scale)


@dataclass(frozen=True)
class Aggressive:
    """The step of passive-aggressive learning: just long enough to mend the loss of this sample.

    η = min(C, ℓ/(|ℓ'|² k(x, x))), or, softened, η = ℓ/(|ℓ'|² k(x, x) + 1/(2C)). For a weighted
    sample C is multiplied by its weight. Where k(x, x) = 0 no step mends anything, and none is
    taken.

    Parameters
    ----------
    limit : float, default=inf
        C > 0.
    soft : bool, default=False
        Whether C softens the step rather than cutting it.

    References
    ----------
    K. Crammer, O. Dekel, J. Keshet, S. Shalev-Shwartz, Y. Singer, Online passive-aggressive
    algorithms, 2006.

    Examples
    --------
    >>> Aggressive(limit=0.1).soft
    False
    """

    limit: float = math.inf
    soft: bool = False

    def __post_init__(self) -> None:
        if self.limit != math.inf:
            check_positive(self, "limit", self.limit)


# ---- averages ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Average:
    """The mean of the iterates with weights t^power: Σ t^power f_{t−1} / Σ t^power.

    Power 0 is the plain average; power 1 forgets the start sooner, and goes with
    `InverseTime(2/λ, 1)`.

    >>> [Average(power=1).weight(t) for t in (1, 2, 3)]
    [1.0, 2.0, 3.0]
    """

    power: float = 0.0

    def __post_init__(self) -> None:
        check_nonnegative(self, "power", self.power)

    def weight(self, t: int) -> float:
        """The weight of f_{t−1}."""
        return float(t) ** self.power


# ---- what is promised --------------------------------------------------------------------------


def subgradient_bound(distance: float, lipschitz: float, steps: int) -> float:
    """Dρ/√T ≥ J(f̄) − J(f*), for the plain average f̄ of T steps of size η = D/(ρ√T).

    D = `distance` bounds ‖f_0 − f*‖, ρ = `lipschitz` the norm of all subgradients met. It follows
    from summing J(f_{t−1}) − J(f*) ≤ ⟨g_t, f_{t−1} − f*⟩, which telescopes to D²/(2ηT) + ηρ²/2.

    >>> subgradient_bound(distance=2.0, lipschitz=3.0, steps=9)
    2.0
    """
    check_nonnegative("subgradient_bound", "distance", distance)
    check_nonnegative("subgradient_bound", "lipschitz", lipschitz)
    check_count("subgradient_bound", "steps", steps)
    return distance * lipschitz / math.sqrt(steps)


def average_bound(lipschitz: float, radius: float, regularization: float, steps: int) -> float:
    """2G²R²(1 + log t)/(λt) ≥ E J(f̄) − J(f*), for the plain average and steps 1/(λs).

    The loss is G-Lipschitz, √k(x, x) ≤ R, samples are independent, f_0 = 0. As ‖λf_s‖ ≤ GR all
    along, stochastic gradients have norm at most 2GR.

    >>> average_bound(lipschitz=1.0, radius=1.0, regularization=0.5, steps=1)
    4.0
    """
    _check_stochastic("average_bound", lipschitz, radius, regularization, steps)
    return 2.0 * (lipschitz * radius) ** 2 * (1.0 + math.log(steps)) / (regularization * steps)


def weighted_average_bound(
    lipschitz: float, radius: float, regularization: float, steps: int
) -> float:
    """8G²R²/(λ(t + 1)) ≥ E J(f̄) − J(f*), for weights ∝ s and steps 2/(λ(s + 1)).

    The symbols are those of `average_bound`; the logarithm is gone.

    References
    ----------
    S. Lacoste-Julien, M. Schmidt, F. Bach, A simpler approach to obtaining an O(1/t) convergence
    rate for the projected stochastic subgradient method, 2012.

    Examples
    --------
    >>> weighted_average_bound(lipschitz=1.0, radius=1.0, regularization=0.5, steps=3)
    4.0
    """
    _check_stochastic("weighted_average_bound", lipschitz, radius, regularization, steps)
    return 8.0 * (lipschitz * radius) ** 2 / (regularization * (steps + 1))


def _check_stochastic(owner: str, lipschitz: Any, radius: Any, ridge: Any, steps: Any) -> None:
    check_nonnegative(owner, "lipschitz", lipschitz)
    check_nonnegative(owner, "radius", radius)
    check_positive(owner, "regularization", ridge)
    check_count(owner, "steps", steps)


# ---- what descents refuse ------------------------------------------------------------------------


def check_first_step(schedule: Schedule, curvature: float, regularization: float) -> None:
    """Refuse a schedule that begins with steps under which f turns round or blows up."""
    first = schedule.step(1)
    if first * regularization > 1.0 + 1e-9:
        raise ValueError(
            f"the first step, {first:g}, turns f round: 1 − ηλ = {1 - first * regularization:.3g}. "
            f"Begin with at most 1/λ = {1 / regularization:.3g}, as InverseTime(1/λ) does."
        )
    if curvature > 0 and first * (curvature + regularization) >= 2.0:
        raise ValueError(
            f"the first step, {first:g}, is too long for a loss with unbounded slope: descent is "
            f"stable below {2.0 / (curvature + regularization):.3g}. Write a smaller scale, or "
            "InverseTime(scale, offset) with an offset."
        )


def check_schedule(owner: object, name: str, value: Any) -> None:
    """Refuse a number where a schedule is wanted."""
    if not hasattr(value, "step"):
        raise ValueError(
            f"{type(owner).__name__} needs a {name} of steps; got {value!r}. Write "
            "schedules.Constant(0.1), InverseTime(scale) or InverseSquareRoot(scale)."
        )


def check_averaging(owner: object, name: str, value: Any) -> None:
    """Refuse a flag where an average is wanted."""
    if not (value is None or hasattr(value, "weight")):
        raise ValueError(
            f"{type(owner).__name__} needs {name}=Average(), Average(power=1) or None; got "
            f"{value!r}."
        )
