"""How all rows are fitted once kernel and ridge are known: in which precision, and in what time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import to_precision
from mercer.kernels.base import Kernel
from mercer.points import PointSet
from mercer.solvers import automatic
from mercer.solvers.block_coordinates import BlockCoordinateDescent
from mercer.solvers.direct import Direct
from mercer.solvers.newton import Newton
from mercer.solvers.problem import Solver


@dataclass(frozen=True)
class Tuning:
    """How the time of a fit is divided."""

    surely: float = 0.5  # the part of the time left within which iterations are expected to end, if
    # they are to be chosen: the expected time may be off by a factor of 2
    solving: float = 0.95  # the part of the time left for iterations; the residual takes the rest
    fewest_passes: float = 1.5  # over all rows in blocks, that beat centres
    short: float = 1.0  # seconds that a fit may take in any case: centres would not be quicker
    fewest_centres: int = 500  # that a fit has, whatever the time


TUNING = Tuning()


@dataclass(frozen=True)
class Affordable:
    """A solver that ends in time; on how many centres, or None; and seconds of an exact fit."""

    solver: Solver | str
    centres: int | None = None
    exact_seconds: float = 0.0


def in_precision(X: Any, kernel: Kernel, ridge: float, outputs: int) -> Any:
    """Rows in float64 where a factorisation serves all of them, as they are elsewhere.

    A ridge that was chosen with matrices in float64 may be less than rounding in float32.
    """
    points = kernel.points(X)
    if points.dtype == np.float64:
        return X
    chosen = automatic.choose(kernel, points, outputs=outputs, ridge=ridge).chosen
    return to_precision(X, "float64") if isinstance(chosen.solver, Direct) else X


def affordable(
    kernel: Kernel, points: PointSet, ridge: float, outputs: int, left: Callable[[], float]
) -> Affordable:
    """Solver and centres for the seconds that are left.

    Where conjugate gradients might not end in time, steps on blocks of rows predict well long
    before they converge (household power, 100 s on one H200: an error of 0.21, where the larger
    ridge that conjugate gradients solve in the time has 0.31). Where there is no time for them
    either, centres are quicker.
    """
    choice = automatic.choose(kernel, points, ridge=ridge)
    seconds = left()  # after choosing, which takes some of them
    exact = [one for one in choice.candidates if one.exact]
    possible = [one for one in exact if one.obstacle in ("", automatic.too_long())]
    for one in possible:
        part = 1.0 if one.rounding else TUNING.surely
        if one.seconds <= max(part * seconds, TUNING.short):
            return Affordable("auto" if one is choice.chosen else one.solver)
    solving = TUNING.solving * seconds
    for one in possible:
        if one.passes and TUNING.fewest_passes * one.seconds / one.passes <= solving:
            return Affordable(BlockCoordinateDescent(time_limit=solving))
    count = centres_within(TUNING.surely * seconds, kernel, points, outputs)
    least = min(one.seconds for one in exact)
    return Affordable(Newton(time_limit=max(solving, TUNING.short)), count, least)


def centres_within(seconds: float, kernel: Kernel, points: PointSet, outputs: int) -> int:
    """As many centres, of those that so many rows ask for, as take no more than the seconds.

    The time grows like their number at least, so that what is foreseen for some tells how many to
    try.
    """
    count = most = min(len(points), automatic.default_centres(len(points)))
    fewest = min(most, TUNING.fewest_centres)
    while count > fewest:
        one = automatic.choose(kernel, points, outputs=outputs, centres=count).chosen
        if one.seconds <= seconds:
            break
        count = max(fewest, int(count * max(0.5, 0.9 * seconds / one.seconds)))
    return count
