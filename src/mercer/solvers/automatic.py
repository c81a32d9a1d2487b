"""Which solver: predicted time and memory of each candidate on this machine, and why one wins."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mercer.losses import Absolute, EpsilonInsensitive, Hinge, Loss, Quantile, Squared
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.budget import Memory, free_memory, memory_budget
from mercer.solvers import foreseen
from mercer.solvers.direct import Direct
from mercer.solvers.dual import DualAscent
from mercer.solvers.foreseen import Candidate, Posed
from mercer.solvers.newton import Newton
from mercer.solvers.preconditioners.memory import memory_needed
from mercer.solvers.problem import Solver, has_few_features
from mercer.solvers.rates import Rates
from mercer.solvers.splitting import Splitting

__all__ = [
    "Candidate",
    "Choice",
    "Rates",
    "choose",
    "choose_among",
    "default_centres",
    "default_solver",
]


@dataclass(frozen=True)
class Tuning:
    """Numbers of the choice."""

    small: int = 3000  # rows up to which a factorisation is quickest, and nothing is measured: 0.3
    # s
    rounding: float = 1.5  # prefer a direct solver, right to rounding, up to so many times the time
    # of the fastest iterative one
    staying: float = 2.5  # the same where its factor stays: deviations and leave-one-out need one
    # then, which conjugate gradients leave to make
    patience: float = 900.0  # seconds of an exact solution beyond which centres are taken
    share: float = 0.6  # of the free memory that a solution may take
    in_time: float = 0.5  # of a time limit in which a solution on centres is foreseen to end
    fewest_centres: int = 50  # that are taken whatever the memory and the time


TUNING = Tuning()


@dataclass(frozen=True)
class Choice:
    """The candidates, the one that was chosen, and the reason.

    >>> import numpy as np
    >>> from mercer import KernelRidge
    >>> model = KernelRidge(kernel="rbf").fit(np.eye(5), np.ones(5))
    >>> "Direct" in str(model.explain())
    True
    """

    candidates: tuple[Candidate, ...]
    chosen: Candidate
    reason: str
    rows: int = field(default=0)

    def explain(self) -> str:
        """A line for each candidate, and why one won.

        >>> choice = choose_among([Candidate("Direct", None, 2.0, 8e6, True)], asked=None)
        >>> print(choice.explain())
        → Direct: about 2 s and 8 MB
        It is exact.
        """
        lines = []
        for candidate in self.candidates:
            mark = "→" if candidate is self.chosen else " "
            kind = "" if candidate.exact else f", on {candidate.centres} centres"
            why = f"; {candidate.obstacle}" if candidate.obstacle else ""
            passes = "" if candidate.passes is None else f", {candidate.passes:.0f} passes"
            lines.append(
                f"{mark} {candidate.name}{kind}: about {in_seconds(candidate.seconds)}{passes} and "
                f"{in_megabytes(candidate.memory)}{why}"
            )
        return "\n".join([*lines, self.reason])


def in_seconds(value: float) -> str:
    """A time in words, as `2.3 s` or `140 s`."""
    return f"{value:.2g} s" if value < 100 else f"{value:.0f} s"


def in_megabytes(value: float) -> str:
    """An amount of memory in words, as `0.4 MB` or `3600 MB`."""
    return f"{value / 1e6:.2g} MB" if value < 9.95e6 else f"{value / 1e6:.0f} MB"


def choose(
    kernel: Any,
    points: PointSet,
    loss: Loss | None = None,
    *,
    outputs: int = 1,
    centres: int | None = None,
    memory: Memory = None,
    ridge: float | None = None,
    exact: Sequence[Candidate] | None = None,
    rates: Rates | None = None,
    tolerance: float | None = None,
    iterative: bool = False,
    time_limit: float | None = None,
    problems: float = 1.0,
) -> Choice:
    """The quickest exact solver that fits, and centres where none does in reasonable time.

    Parameters
    ----------
    kernel, points : Kernel, PointSet
    loss : Loss, default=Squared()
    outputs : int
        Columns of the targets.
    centres : int, optional
        So many centres were asked for; then only these are a candidate.
    memory : int or str, optional
        What a solution may take; by default `MERCER_MEMORY`, or 60 % of what is free.
    ridge : float, optional
        What will be added to the diagonal of K, by which iterations are foreseen; for another loss
        than the square nλ over its curvature, or over its slope for targets of spread 1.
    exact : sequence of Candidate, optional
        Exact candidates, where the caller knows some.
    rates : Rates, optional
        Speeds of this machine; measured by default.
    tolerance : float, optional
        The relative duality gap at which a solver of another loss than the square stops.
    iterative : bool
        Whether a factorisation will not do, as where iterates are judged on held-out rows.
    time_limit : float, optional
        Seconds beyond which no exact solution is waited for; centres are then as few as end in
        half of them.
    problems : float
        How many such problems are solved, one after the other; a smaller one counts by its time.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> k, X = Gaussian(), np.zeros((100_000, 3), np.float32)
    >>> rates = Rates({"float32": 1e11, "float64": 5e10}, 1e-9, 3)
    >>> choose(k, k.points(X), rates=rates).chosen.name
    'ConjugateGradient'
    >>> choose(k, k.points(X), rates=rates, centres=2000).chosen.name
    'Newton'
    """
    loss, n = Squared() if loss is None else loss, len(points)
    simple = centres is None and exact is None and isinstance(loss, Squared) and not iterative
    only = Candidate("Direct", Direct(), problems * 1e-11 * n**3, 8.0 * n * n, True)
    in_time = time_limit is None or only.seconds <= TUNING.in_time * time_limit
    if simple and in_time and _few_rows(kernel, points, memory):
        return Choice((only,), only, "Few rows: a factorisation is quickest.", n)
    rates = Rates.measured(kernel, points) if rates is None else rates
    if memory is None and not points.machine.uses_numpy:
        memory = int(TUNING.share * points.free_memory())
    posed = Posed(kernel, points, loss, outputs, rates, tolerance)
    known = None if centres else ridge  # where centres were asked for no spectrum is needed
    candidates = _exact(posed, known, iterative) if exact is None else list(exact)
    if centres is not None or kernel.null_degree() is None:  # splines have no centres
        count = centres or fitting_centres(n, outputs, points.dtype, loss, memory)
        most = math.inf if centres or time_limit is None else TUNING.in_time * time_limit
        candidates.append(_within(most / problems, count, posed))
    candidates = [replace(one, seconds=problems * one.seconds) for one in candidates]
    return choose_among(candidates, centres, memory, n, time_limit)


def _few_rows(kernel: Any, points: PointSet, memory: Memory) -> bool:
    """Whether a factorisation is taken without measuring anything: it is quickest."""
    n, limited = len(points), memory is not None or "MERCER_MEMORY" in os.environ
    if n > TUNING.small or has_few_features(Gram(kernel, points, memory=memory)):
        return False
    return not limited or 8.0 * n * n <= memory_budget(memory)


def _exact(posed: Posed, ridge: float | None, iterative: bool) -> list[Candidate]:
    """The solvers of all points that come into question."""
    if not isinstance(posed.loss, Squared):
        solver = default_solver(posed.loss, posed.tolerance or 1e-6)
        return [foreseen.of_loss(posed, solver, ridge)]
    steps = foreseen.conjugate_gradients(posed, ridge)
    blocks = steps.seconds > TUNING.patience and not steps.obstacle
    return [
        *([] if iterative else [foreseen.direct(posed, ridge)]),
        steps,
        *([foreseen.in_blocks(posed)] if blocks else []),
    ]


def _within(seconds: float, count: int, posed: Posed) -> Candidate:
    """A solution on so many centres, or on as many as are foreseen to end in time.

    The time grows like their number at least, so that what is foreseen for some tells how many to
    try.
    """
    candidate, fewest = foreseen.on_centres(posed, count), min(count, TUNING.fewest_centres)
    while candidate.seconds > seconds and count > fewest:
        count = max(fewest, int(count * max(0.5, 0.9 * seconds / candidate.seconds)))
        candidate = foreseen.on_centres(posed, count)
    return candidate


def exact_seconds(kernel: Any, points: PointSet) -> float:
    """Seconds of an exact ridge fit where the spectrum is unknown, from the time of a product.

    It tells kernels apart whose values take longer than those of others.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> exact_seconds(Gaussian(), Gaussian().points(np.eye(3))) < 1.0
    True
    """
    n, machine = len(points), points.machine
    if n <= TUNING.small:
        return 1e-11 * n**3
    rates = Rates.measured(kernel, points)
    product = n * n * rates.value_seconds * machine.symmetric_share
    seconds = foreseen.direct(Posed(kernel, points, Squared(), 1, rates)).seconds
    return min(foreseen.TUNING.iterations * product, seconds)


def choose_among(
    candidates: Sequence[Candidate],
    asked: int | None,
    memory: Memory = None,
    rows: int = 0,
    time_limit: float | None = None,
) -> Choice:
    """The choice among candidates whose times and memories are known.

    >>> slow = Candidate("one", None, seconds=9.0, memory=1e6, exact=True)
    >>> fast = Candidate("another", None, seconds=1.0, memory=1e6, exact=True)
    >>> choose_among([slow, fast], asked=None).chosen.name
    'another'
    """
    limit = memory_limit(memory)
    judged = tuple(_judged(candidate, limit, asked, time_limit) for candidate in candidates)
    possible = [candidate for candidate in judged if not candidate.obstacle]
    exact = [candidate for candidate in possible if candidate.exact]
    if exact:
        least = min(candidate.seconds for candidate in exact)
        best = min(exact, key=lambda c: (c.seconds > _worth(c) * least, c.seconds))
        return Choice(judged, best, _reason(best, exact, judged), rows)
    if possible:
        best = min(possible, key=lambda candidate: candidate.seconds)
        reason = "Centres were asked for." if asked else "No exact solution is within reach."
        return Choice(judged, best, reason, rows)
    fitting = [c for c in judged if c.memory <= memory_limit(memory) and c.name != "Direct"]
    if time_limit is not None and fitting:  # all but a factorisation end at the limit by themselves
        best = min(fitting, key=lambda candidate: candidate.seconds)
        return Choice(judged, best, "Nothing ends in time; this is the quickest.", rows)
    best = min(judged, key=lambda candidate: candidate.memory)
    return Choice(judged, best, "Nothing fits; this takes the least memory.", rows)


def memory_limit(memory: Memory = None) -> float:
    """Bytes that a solution may take."""
    limited = memory is not None or "MERCER_MEMORY" in os.environ
    return memory_budget(memory) if limited else TUNING.share * free_memory()


def _worth(candidate: Candidate) -> float:
    """Times the quickest's seconds that are taken for what the answer has besides."""
    if not candidate.rounding:
        return 0.0
    return TUNING.staying if candidate.stays else TUNING.rounding


def _reason(best: Candidate, exact: Sequence[Candidate], judged: Sequence[Candidate]) -> str:
    if any(candidate.seconds < best.seconds for candidate in exact):
        kept = "its factor stays for deviations" if best.stays else "takes little longer"
        return f"It is right to rounding, and {kept}."
    return f"It is exact{' and the quickest that fits' if len(judged) > 1 else ''}."


def too_long() -> str:
    """The obstacle of what takes longer than anybody waits."""
    return f"longer than {TUNING.patience:.0f} s"


def _judged(
    candidate: Candidate, limit: float, asked: int | None, time_limit: float | None
) -> Candidate:
    if candidate.obstacle:
        return candidate
    if asked is not None and candidate.exact:
        return replace(candidate, obstacle="centres were asked for")
    if candidate.memory > limit:
        return replace(candidate, obstacle=f"more than the {limit / 1e6:.0f} MB there are")
    if asked is None and time_limit is not None and candidate.seconds > time_limit:
        return replace(candidate, obstacle=f"longer than the time limit of {time_limit:g} s")
    if candidate.exact and candidate.seconds > TUNING.patience:
        return replace(candidate, obstacle=too_long())
    return candidate


def default_centres(rows: int) -> int:
    """4√n centres, from 1000 to 8000: what learning rates ask for, and a laptop can do.

    >>> default_centres(1_000_000), default_centres(100)
    (4000, 1000)
    """
    return int(min(8000, max(1000, 4 * math.sqrt(rows))))


def fitting_centres(
    rows: int,
    outputs: int,
    dtype: Any,
    loss: Loss | None = None,
    memory: Memory = None,
    most: int | None = None,
) -> int:
    """As many of the default centres, or of `most`, as fit the memory, fifty at least.

    >>> (
    ...     fitting_centres(3000, 1, "float64"),
    ...     fitting_centres(3000, 1, "float64", memory="20MB") < 600,
    ... )
    (1000, True)
    """
    count, limit = min(rows, most or default_centres(rows)), memory_limit(memory)
    least = TUNING.fewest_centres
    while count > least and memory_needed(rows, count, outputs, dtype, loss=loss) > limit:
        count = int(0.9 * count)
    return count


# ---- without measuring -------------------------------------------------------------------------


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
    known = isinstance(loss, (Absolute, EpsilonInsensitive, Hinge, Quantile))
    return DualAscent(tolerance) if known else Splitting(tolerance)
