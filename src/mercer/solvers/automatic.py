"""Which solver: predicted time and memory of each candidate on this machine, and why one wins."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpstrf

from mercer.arrays import as_numpy
from mercer.evaluation.dispatch import program_of
from mercer.kernels import laws
from mercer.losses import Absolute, EpsilonInsensitive, Hinge, Loss, Quantile, Squared
from mercer.operators import Gram
from mercer.points import PointSet, SparsePoints, VectorPoints
from mercer.runtime.budget import Memory, free_memory, memory_budget
from mercer.runtime.machine import column_memory, stores_faster, value_cost
from mercer.runtime.threads import thread_count
from mercer.solvers.block_coordinates import BlockCoordinateDescent
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.direct import Direct
from mercer.solvers.dual import DualAscent
from mercer.solvers.newton import Newton, default_tolerance
from mercer.solvers.preconditioners.low_rank import (
    RankBudget,
    block_bytes,
    default_rank,
    most_columns,
)
from mercer.solvers.preconditioners.memory import memory_needed
from mercer.solvers.preconditioners.sampling import (
    class_rows,
    expected_steps,
    passes_for_classes,
    sample_size,
)
from mercer.solvers.problem import Solver
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
    """Numbers of the choice.

    Parameters
    ----------
    small : int
        Rows up to which a factorisation is quickest, and nothing is measured: 0.3 s. Twice as many
        are factored where the factor stays (`Direct`), for deviations and leave-one-out.
    rounding : float
        Prefer a direct solver, right to rounding, up to so many times the time of the fastest
        iterative one.
    patience : float
        Seconds of an exact solution beyond which centres are taken.
    share : float
        Of the free memory that a solution may take.
    iterations : int
        Of conjugate gradients, where nothing is known of the spectrum.
    spectrum : int
        Rows whose eigenvalues tell what is known.
    rank_rows : int
        Rows whose rank tells how many centres suffice, where more were asked for: 3 ms.
    checks, start : float
        Products beside the iterations, and seconds beside all that.
    block_passes : int
        Over the rows in blocks, after which predictions are good where no system is solved yet.
    newton_steps : int
        For another loss than the square, on centres.
    launches : float
        Times those of a factorisation that a solution on centres has: the choice of centres,
        leverages, the sampled Hessian, the systems.
    exact_passes : float
        Over the rows in float64, each as many times as long as float64 takes.
    products : int
        With K, of Newton's method on all points: about ten steps of about a dozen each.
    dual_rows : float
        Times that dual ascent computes each row of K.
    splitting_steps : int
        Of operator splitting, each a solution with the factor.
    two_sides : pairs of precision and factor
        The time of a kernel value that is used on both sides, over one in a product.
    """

    small: int = 3000
    rounding: float = 1.5
    patience: float = 900.0
    share: float = 0.6
    iterations: int = 60
    spectrum: int = 512
    rank_rows: int = 512
    checks: int = 6
    start: float = 0.1
    block_passes: int = 3
    newton_steps: int = 8
    launches: float = 5.0
    exact_passes: float = 2.0
    products: int = 120
    dual_rows: float = 6.0
    splitting_steps: int = 300
    two_sides: tuple[tuple[str, float], ...] = (("float64", 1.4), ("float32", 2.2))


TUNING = Tuning()
FEWEST_CENTRES = 50  # that are taken whatever the memory


@dataclass(frozen=True)
class Rates:
    """Measured speed: multiply-adds a second, and seconds for a kernel value on these points.

    >>> Rates({"float64": 1e10}, value_seconds=1e-9).value_seconds
    1e-09
    """

    multiply_adds: dict[str, float]  # of a large matrix product, by precision
    value_seconds: float  # for each kernel value of a product
    width: int = 1

    @classmethod
    def measured(cls, kernel: Any, points: PointSet) -> Rates:
        """Time a matrix product, and the kernel on some of the points.

        Both once for each process where that is possible, so that a problem that is posed again is
        solved by the same solver.
        """
        some = points.slice(0, min(points.machine.probe, len(points)))
        seconds = _once(_likeness(kernel, some), lambda: _value_seconds(kernel, some))
        if points.home == "host" and kernel.factors(some, some) is not None:
            seconds *= len(some) / len(points)  # products of sparse features take time in n, not n²
        rates = {name: product_rate(name, points) for name in ("float32", "float64")}
        return cls(rates, seconds, int(getattr(points, "width", 1)))


_KNOWN: dict[Any, float] = {}


def _once(key: Any, measure: Callable[[], float]) -> float:
    """A measurement, made once in each process where there is a key."""
    if key is None:
        return measure()
    if key not in _KNOWN:
        _KNOWN[key] = measure()
    return _KNOWN[key]


def _likeness(kernel: Any, points: PointSet) -> Any:
    """A key of all that the time of a kernel value depends on; None where it is not known."""
    program = program_of(kernel)
    if program is None or not isinstance(points, VectorPoints) or isinstance(points, SparsePoints):
        return None
    widths = tuple(map(points.width_of, program.views))
    where = points.home, thread_count()
    return program.structure, widths, str(points.dtype), len(points), where


def _value_seconds(kernel: Any, points: PointSet) -> float:
    """Seconds for each kernel value of a product."""
    gram = Gram(kernel, points, points.slice(0, len(points)))
    v = points.vector(np.ones(len(points), gram.dtype))

    def product() -> Any:
        return as_numpy((gram @ v)[:1])  # a card is waited for

    product()  # code is loaded
    return min(_timed(product) for _ in range(3)) / len(points) ** 2


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def product_rate(dtype: str, points: PointSet) -> float:
    """Multiply-adds in a second of a matrix product where the points live."""
    order = points.machine.order

    def measure() -> float:
        matrix = points.vector(np.ones((order, order), dtype))

        def product() -> Any:
            return as_numpy((matrix @ matrix)[:1, :1])  # a card is waited for

        product()
        return float(order) ** 3 / min(_timed(product) for _ in range(2))

    return _once((dtype, points.home, thread_count()), measure)


@dataclass(frozen=True)
class Candidate:
    """A solver with its predicted time and memory, and whether it solves the exact problem.

    `rounding` says whether the answer is right to rounding, not to a tolerance only; `passes` how
    often K or K_nM is multiplied by, where that is foreseen.

    >>> Candidate("factorisation", None, seconds=2.0, memory=1e9, exact=True).exact
    True
    """

    name: str
    solver: Any
    seconds: float
    memory: float
    exact: bool
    centres: int | None = None
    obstacle: str = ""
    rounding: bool = True
    passes: float | None = None


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
                f"{candidate.memory / 1e6:.0f} MB{why}"
            )
        return "\n".join([*lines, self.reason])


def in_seconds(value: float) -> str:
    """A time in words, as `2.3 s` or `140 s`."""
    return f"{value:.2g} s" if value < 100 else f"{value:.0f} s"


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
        What will be added to the diagonal of K, by which iterations are foreseen.
    exact : sequence of Candidate, optional
        Exact candidates, where the caller knows some.
    rates : Rates, optional
        Speeds of this machine; measured by default.
    tolerance : float, optional
        The relative duality gap at which a solver of another loss than the square stops.
    iterative : bool
        Whether a factorisation will not do, as where iterates are judged on held-out rows.

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
    loss = Squared() if loss is None else loss
    n = len(points)
    simple = centres is None and exact is None and isinstance(loss, Squared) and not iterative
    limited = memory is not None or "MERCER_MEMORY" in os.environ
    fits = not limited or 8.0 * n * n <= memory_budget(memory)
    few = n <= TUNING.small and fits
    if simple and (few or (n <= 2 * TUNING.small and _factor_stays(kernel, points, memory))):
        only = Candidate("Direct", Direct(), 1e-11 * n**3, 8.0 * n * n, True)
        why = "a factorisation is quickest" if few else "a factor can stay for deviations"
        return Choice((only,), only, f"Few rows: {why}.", n)
    rates = Rates.measured(kernel, points) if rates is None else rates
    if memory is None and not points.machine.uses_numpy:
        memory = int(TUNING.share * points.free_memory())
    candidates = list(exact or [])
    if exact is None and isinstance(loss, Squared):
        known = None if centres else ridge  # where centres were asked for no spectrum is needed
        candidates = [_iterative(kernel, points, outputs, rates, known)]
        if candidates[0].seconds > TUNING.patience and not candidates[0].obstacle:
            candidates.append(_in_blocks(points, outputs, rates))
        if not iterative:
            candidates.insert(0, _direct(kernel, points, rates))
    count = centres or fitting_centres(n, outputs, points.dtype, loss, memory)
    if exact is None and not isinstance(loss, Squared):
        candidates = [_of_loss(points, loss, outputs, rates, tolerance or 1e-6)]
    if centres is not None or kernel.null_degree() is None:  # splines have no centres
        candidates.append(_on_centres(kernel, points, loss, outputs, count, rates, tolerance))
    return choose_among(candidates, asked=centres, memory=memory, rows=n)


def _factor_stays(kernel: Any, points: PointSet, memory: Memory) -> bool:
    return Direct().factor_plan(Gram(kernel, points, memory=memory))[0]


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
    return min(TUNING.iterations * product, _direct(kernel, points, rates).seconds)


def choose_among(
    candidates: Sequence[Candidate], asked: int | None, memory: Memory = None, rows: int = 0
) -> Choice:
    """The choice among candidates whose times and memories are known.

    >>> slow = Candidate("one", None, seconds=9.0, memory=1e6, exact=True)
    >>> fast = Candidate("another", None, seconds=1.0, memory=1e6, exact=True)
    >>> choose_among([slow, fast], asked=None).chosen.name
    'another'
    """
    limit = memory_limit(memory)
    judged = tuple(_judged(candidate, limit, asked) for candidate in candidates)
    possible = [candidate for candidate in judged if not candidate.obstacle]
    exact = [candidate for candidate in possible if candidate.exact]
    if exact:
        limit = TUNING.rounding * min(candidate.seconds for candidate in exact)
        best = min(exact, key=lambda c: (not (c.rounding and c.seconds <= limit), c.seconds))
        return Choice(judged, best, _reason(best, exact, judged), rows)
    if possible:
        best = min(possible, key=lambda candidate: candidate.seconds)
        reason = "Centres were asked for." if asked else "No exact solution is within reach."
        return Choice(judged, best, reason, rows)
    best = min(judged, key=lambda candidate: candidate.memory)
    return Choice(judged, best, "Nothing fits; this takes the least memory.", rows)


def memory_limit(memory: Memory = None) -> float:
    """Bytes that a solution may take."""
    limited = memory is not None or "MERCER_MEMORY" in os.environ
    return memory_budget(memory) if limited else TUNING.share * free_memory()


def _reason(best: Candidate, exact: Sequence[Candidate], judged: Sequence[Candidate]) -> str:
    if any(candidate.seconds < best.seconds for candidate in exact):
        return "It is right to rounding, and takes little longer than the quickest."
    return f"It is exact{' and the quickest that fits' if len(judged) > 1 else ''}."


def too_long() -> str:
    """The obstacle of what takes longer than anybody waits."""
    return f"longer than {TUNING.patience:.0f} s"


def _judged(candidate: Candidate, limit: float, asked: int | None) -> Candidate:
    if candidate.obstacle:
        return candidate
    if asked is not None and candidate.exact:
        return replace(candidate, obstacle="centres were asked for")
    if candidate.memory > limit:
        return replace(candidate, obstacle=f"more than the {limit / 1e6:.0f} MB there are")
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
    while count > FEWEST_CENTRES and memory_needed(rows, count, outputs, dtype, loss=loss) > limit:
        count = int(0.9 * count)
    return count


# ---- what each takes ---------------------------------------------------------------------------


def _direct(kernel: Any, points: PointSet, rates: Rates) -> Candidate:
    n, machine = len(points), points.machine
    _, mixed = Direct().factor_plan(Gram(kernel, points))
    dtype = "float32" if mixed else str(points.dtype)
    size = 4 if dtype == "float32" else 8
    seconds = n**3 / 6 / rates.multiply_adds[dtype] * 1.4 + n * n * rates.value_seconds
    seconds += machine.launch
    if mixed:
        seconds += 6 * n * n * (0.5 * rates.value_seconds + 1.0 / rates.multiply_adds["float32"])
    return Candidate("Direct", Direct(), seconds, machine.factor_copies * size * n * n, True)


def _iterative(
    kernel: Any, points: PointSet, outputs: int, rates: Rates, ridge: float | None
) -> Candidate:
    n, size, machine = len(points), 4, points.machine
    rank, iterations = _foreseen(kernel, points, ridge)
    factor = (1.5 * n * rank**2 + rank**3 / 3) / rates.multiply_adds["float32"]
    speed = 0.67 if points.dtype == np.float64 else 1.0  # iterations are in float32
    value, first = rates.value_seconds * machine.symmetric_share * speed, 0.0
    if stores_faster(Gram(kernel, points)):
        value, first = machine.stored_seconds, n * n * rates.value_seconds
    product = n * n * value * (1 + 0.2 * (outputs - 1))
    solver = ConjugateGradient()
    spline = kernel.null_degree() is not None  # positive definite where iterates are
    known = spline or laws.is_positive_definite(kernel, getattr(points, "width", None))
    obstacle = "" if known else "the kernel is not known to be positive definite"
    columns = factor + 2 * n * rank * rates.value_seconds
    seconds = TUNING.start + first + columns + (iterations + TUNING.checks) * product
    memory = machine.copies * size * n * rank + 16.0 * rank**2
    memory += 64.0 * n * outputs + machine.blocks * block_bytes()
    passes = iterations + TUNING.checks
    return Candidate(
        "ConjugateGradient", solver, seconds, memory, True, None, obstacle, False, passes
    )


def _in_blocks(points: PointSet, outputs: int, rates: Rates) -> Candidate:
    """A few passes of block coordinate descent, which is shown and never taken.

    They predict better than the centres that are taken then, but how far they are from the solution
    is known when they are done.
    """
    n, speed = len(points), 0.67 if points.dtype == np.float64 else 1.0
    product = n * n * speed * rates.value_seconds * (1 + 0.2 * (outputs - 1))
    seconds = TUNING.start + 1.3 * (TUNING.block_passes - 0.5) * product  # the first is half a one
    why = "it ends by a time limit: ask for it by solver=BlockCoordinateDescent(time_limit=…)"
    solver, memory = BlockCoordinateDescent(), 80.0 * n * outputs + block_bytes()
    passes = TUNING.block_passes
    name = "BlockCoordinateDescent"
    return Candidate(name, solver, seconds, memory, True, None, why, False, passes)


def _foreseen(kernel: Any, points: PointSet, ridge: float | None) -> tuple[int, float]:
    """Columns of a preconditioner and iterations, from the eigenvalues of K on some rows."""
    n, solver = len(points), ConjugateGradient()
    if not ridge:
        return min(n, 2 * default_rank(n, 4)), TUNING.iterations
    sample = points.take(np.linspace(0, n - 1, min(n, TUNING.spectrum)).astype(int))
    matrix = as_numpy(Gram(kernel.anchored(sample), sample).astype(np.float64).dense())
    values = np.linalg.eigvalsh(matrix)[::-1] * (n / len(sample))
    gram = Gram(kernel, points)
    entry = value_cost(gram, np.float32)  # the precision of iterations
    budget = RankBudget(ridge, solver.goal(gram), n, entry)
    most = most_columns(n, 4, column_memory(gram), gram.machine)
    rank, iterations = budget.foreseen(values[: len(values) // 3], most)
    return min(most, int(1.5 * rank)), iterations  # they are added some at a time


def _of_loss(
    points: PointSet, loss: Loss, outputs: int, rates: Rates, tolerance: float
) -> Candidate:
    """Newton's method, dual ascent or splitting on all points."""
    n, solver = len(points), default_solver(loss, tolerance)
    name, pairs = type(solver).__name__, float(n) * n
    seconds, memory = TUNING.start, 64.0 * n * outputs
    if isinstance(solver, Newton):
        product = 0.5 * pairs * rates.value_seconds * (1 + 0.15 * (outputs - 1))
        if points.machine.uses_numpy and 4.0 * pairs <= memory_budget(None):  # K is stored
            each = pairs * outputs / rates.multiply_adds["float32"]
            product = min(product, 0.5 * pairs * rates.value_seconds / TUNING.products + each)
        seconds += TUNING.products * product
    elif isinstance(solver, DualAscent):
        seconds += TUNING.dual_rows * pairs * rates.value_seconds * outputs
    else:
        seconds += n**3 / 3 / rates.multiply_adds["float64"]
        seconds += TUNING.splitting_steps * 2 * pairs * outputs / rates.multiply_adds["float64"]
        memory += 8.0 * pairs
    passes = TUNING.products if isinstance(solver, Newton) else None
    return Candidate(name, solver, seconds, memory, True, rounding=False, passes=passes)


def _independent(kernel: Any, points: PointSet, count: int, rates: Rates) -> int:
    """How many of so many centres are taken: those that give K up to rounding suffice.

    The rank of K on some rows tells, where it is well below their number.
    """
    rows = min(len(points), TUNING.rank_rows)
    slow = rows**2 * rates.value_seconds > TUNING.start  # as functions of Python are
    if count <= rows or slow or kernel.null_degree() is not None:
        return count
    sample = points.take(np.linspace(0, len(points) - 1, rows).astype(int))
    matrix = as_numpy(Gram(kernel, sample).astype(np.float64).dense())
    unit = float(np.finfo(points.dtype).eps) * float(matrix.diagonal().max())
    *_, rank, _ = dpstrf(matrix, tol=unit, lower=True, overwrite_a=True)
    return count if rank > rows // 2 else min(count, int(1.25 * rank))  # more rows have a bit more


def _on_centres(
    kernel: Any,
    points: PointSet,
    loss: Loss,
    outputs: int,
    count: int,
    rates: Rates,
    tolerance: float | None = None,
) -> Candidate:
    n, dtype, asked = len(points), str(points.dtype), count
    count = max(1, _independent(kernel, points, asked, rates))  # K may be 0 on these points
    goal = max(default_tolerance(loss, dtype), tolerance or 0.0)
    solver = Newton(None if tolerance is None else goal)
    sample = sample_size(n, count, goal, rates.width, outputs)
    newton = 1 if isinstance(loss, Squared) else TUNING.newton_steps
    machine = points.machine
    # NumPy's arrays take a triangular system with the sample, others half a product of it
    factor = (1.2 if machine.uses_numpy else 0.6) * sample * count**2 / rates.multiply_adds[dtype]
    passes = (expected_steps(n, count, sample, goal) + 2.0) * (1.0 if newton == 1 else 0.5 * newton)
    if loss.is_multiclass:
        drawn = class_rows(n, count, outputs)
        factor = 1.5 * outputs * drawn**2 * count / rates.multiply_adds["float64"]
        passes = passes_for_classes(n, count, outputs, goal, newton)
    factor = newton * factor + count**3 / 2 / rates.multiply_adds["float64"]
    if count < asked:  # all of them are pivots, with a column for each
        factor += n * count**2 / rates.multiply_adds[dtype]
    value = dict(TUNING.two_sides)[dtype] * rates.value_seconds * (1 + 0.15 * (outputs - 1))
    memory = memory_needed(n, asked, outputs, points.dtype, loss=loss)
    slow = TUNING.exact_passes * (machine.float64_factor - 1.0) if dtype == "float32" else 0.0
    spent = (passes + slow) * n * count * value
    if newton > 1 and machine.keeps_rows:  # they are stored as soon as passes have cost as much
        stored = n * count * (rates.value_seconds + 0.5 * count / rates.multiply_adds[dtype])
        each = 2.0 * n * count * outputs / rates.multiply_adds["float32"]
        spent = min(spent, 2.0 * stored + passes * each)
    seconds = TUNING.launches * machine.launch + factor + spent
    return Candidate("Newton", solver, seconds, memory, False, centres=asked, passes=passes)


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
