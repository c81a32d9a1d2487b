"""What each solver takes, foreseen on this machine: seconds, bytes, and products with K.

How many products there are depends on the eigenvalues of K, of which some rows tell; how long one
takes is measured (`rates`). Figures behind the formulas are of Gaussian and Matérn kernels on 500
to 30,000 rows with 2 to 100 columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy.linalg.lapack import dpstrf

from mercer.arrays import as_numpy
from mercer.features.centres import drawn
from mercer.kernels import laws
from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from mercer.operators import Gram
from mercer.operators.around import TUNING as STORING
from mercer.points import PointSet
from mercer.runtime.budget import memory_budget
from mercer.runtime.machine import column_memory, stores_faster, value_cost
from mercer.runtime.threads import single_threaded_blas
from mercer.solvers.all_points import stored_as
from mercer.solvers.block_coordinates import BlockCoordinateDescent
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.direct import Direct
from mercer.solvers.dual import DualAscent
from mercer.solvers.dual.rows import is_cheap
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
    value_in_pass,
)
from mercer.solvers.problem import has_few_features
from mercer.solvers.rates import Rates, stored_seconds
from mercer.solvers.splitting import STORED

PER_LOSS = tuple[tuple[type[Loss], float], ...]


@dataclass(frozen=True)
class Tuning:
    """Numbers of what is foreseen."""

    iterations: int = 60  # of conjugate gradients, where nothing is known of the spectrum
    spectrum: int = 512  # rows whose eigenvalues tell what is known
    rank_rows: int = 512  # rows whose rank tells how many centres suffice, where more were asked
    # for: 3 ms

    # Products beside the iterations, and seconds beside all that; those of other losses.
    checks: int = 6
    start: float = 0.1
    begin: float = 0.02

    slow: float = 0.1  # seconds beyond which the values between some rows are not computed
    block_passes: int = 3  # over the rows in blocks, after which predictions are good where no
    # system is solved yet
    newton_steps: int = 8  # for another loss than the square, on centres

    # Over the rows on centres for another loss; times those of a multinomial loss.
    smooth_passes: float = 25.0
    passes_with_kinks: float = 180.0
    class_passes: float = 2.0

    drawing: float = 0.2  # times the multiply-adds of pivots in a pool of rows, from which centres
    # are drawn
    row: float = 1.5e-7  # seconds of a pass for each row, beside kernel values
    launches: float = 5.0  # times those of a factorisation that a solution on centres has: the
    # choice of centres, leverages, the sampled Hessian, the systems
    exact_passes: float = 2.0  # over the rows in float64, each as much slower as float64 is
    ridge: float = 1 / 30  # what is added to the diagonal of K where it is not known: the default
    # of estimators

    # Products with K that Newton's method on all points takes, for each step of conjugate gradients
    # to a residual of about a third.
    newton_products: PER_LOSS = (
        (Logistic, 3.0),
        (Multinomial, 5.0),
        (Huber, 6.0),
        (Poisson, 8.0),
        (SquaredHinge, 10.0),
    )

    other_products: float = 6.0  # the same for a loss that is not named
    exact_products: int = 5  # of them in float64, where K is stored in float32
    factored: tuple[int, int] = (400, 8)  # products from which systems of few points are factored,
    # and times that they are
    writing: float = 1.2e-10  # seconds of each byte of a K that is stored, beside its values: the
    # system clears pages
    step: float = 0.8e-6  # seconds of a product beside that with K, and of a step in two
    # coefficients: those of a working set of 1,024 are brought up to date
    repeated: float = 6.0  # factorisations, where rounding of float32 hides the ridge: 5,000 rows
    # took 5 to 7
    rounded: float = 5.0  # times as many iterations, at most, where rounding of K in float32 is as
    # large as the ridge

    # Passes of working sets over all points, at a gap of 1e-6 with 4,000 points of a kernel with
    # many eigenvalues.
    rounds: PER_LOSS = (
        (Hinge, 8.0),
        (Absolute, 40.0),
        (EpsilonInsensitive, 35.0),
        (Quantile, 12.0),
    )

    many: int = 8000  # points beyond which there are no more of these passes
    fewest_rounds: PER_LOSS = ((Hinge, 1.5),)  # of a kernel with few of them

    # Steps in two coefficients for each point, at a gap of 1e-6 with a ridge of 1/30.
    steps: PER_LOSS = ((Hinge, 4.0), (Absolute, 50.0), (EpsilonInsensitive, 35.0), (Quantile, 12.0))

    adding: float = 5e-11  # seconds of each byte of a stored row that is added
    splitting_steps: int = 300  # of operator splitting, each two products with the eigenvectors
    eigen: float = 13.0  # times n³ multiply-adds that they take
    interior_steps: int = 20  # of an interior-point method in features, or Newton's

    # The time of a kernel value that is used on both sides, over one in a product.
    two_sides: tuple[tuple[str, float], ...] = (("float64", 1.4), ("float32", 2.2))


TUNING = Tuning()


@dataclass(frozen=True)
class Candidate:
    """A solver with its predicted time and memory, and whether it solves the exact problem.

    `rounding` says whether the answer is right to rounding, not to a tolerance only, and `stays`
    whether its factor stays with it, for deviations; `passes` how often K or K_nM is multiplied
    by, where that is foreseen.

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
    stays: bool = False


@dataclass(frozen=True, eq=False)
class Posed:
    """What is to be solved, and what some rows tell of K.

    Parameters
    ----------
    kernel, points : Kernel, PointSet
    loss : Loss
    outputs : int
        Columns of the targets.
    rates : Rates
    tolerance : float or None
        The relative gap at which solvers of other losses than the square stop.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> k, X = Gaussian(), np.linspace(0.0, 1.0, 600)[:, None]
    >>> posed = Posed(k, k.points(X), Squared(), 1, Rates({}, 1e-9))
    >>> bool(posed.eigenvalues[0] > 500), posed.rank < 20
    (True, True)
    """

    kernel: Any
    points: PointSet
    loss: Loss
    outputs: int
    rates: Rates
    tolerance: float | None = None

    @property
    def rows(self) -> int:
        return len(self.points)

    @cached_property
    def gram(self) -> Gram:
        """K."""
        return Gram(self.kernel, self.points)

    def _of_sample(self, rows: int, anchored: bool = False) -> np.ndarray | None:
        """K in float64 between so many rows; None where that takes long, as functions of Python."""
        rows = min(self.rows, rows)
        if rows**2 * self.rates.value_seconds > TUNING.slow:
            return None
        some = self.points.take(np.linspace(0, self.rows - 1, rows).astype(int))
        kernel = self.kernel.anchored(some) if anchored else self.kernel
        return as_numpy(Gram(kernel, some).astype(np.float64).dense())

    @cached_property
    def eigenvalues(self) -> np.ndarray | None:
        """Those of K, the largest first, as far as the sample tells; None where it is slow."""
        matrix = self._of_sample(TUNING.spectrum, anchored=True)
        if matrix is None:
            return None
        with single_threaded_blas():  # threads wait for each other: seconds on a busy machine
            return np.linalg.eigvalsh(matrix)[::-1] * (self.rows / len(matrix))

    @cached_property
    def rank(self) -> int | None:
        """The numerical rank of K, as far as some rows tell; None where that takes long.

        A smooth kernel gains about as many dimensions whenever rows double: 210, 314, 416, 530 and
        657 for 256 to 4,096 normal points in three columns. Where nearly all rows of the sample are
        independent, nothing is known of the others.
        """
        matrix = self._of_sample(TUNING.rank_rows)
        if matrix is None:
            return None
        unit = float(np.finfo(self.points.dtype).eps) * float(matrix.diagonal().max())
        with single_threaded_blas():
            half, rank = (
                int(dpstrf(part, tol=unit, lower=True)[2]) for part in (matrix[::2, ::2], matrix)
            )
        if rank > 0.75 * len(matrix):
            return self.rows
        return int(rank + (rank - half) * math.log2(self.rows / len(matrix)))

    def steps(self, ridge: float) -> float:
        """Of conjugate gradients for K + ρI to a residual of about a third, from any start.

        k of them remove the k largest eigenvalues, and √κ the others, for the best k.
        """
        if self.eigenvalues is None:
            return 0.5 * TUNING.iterations
        left = np.sqrt(1.0 + np.maximum(self.eigenvalues, 0.0) / ridge)
        return float((np.arange(len(left)) + left).min())

    @property
    def rounding(self) -> float:
        """What float32 leaves of the largest eigenvalue of K."""
        values = self.eigenvalues
        return 0.0 if values is None else float(np.finfo(np.float32).eps * abs(values[0]))

    @property
    def tail(self) -> float:
        """The share of the trace of K beyond the larger half of the eigenvalues of the sample."""
        values = self.eigenvalues
        if values is None or not values[0] > 0:
            return 0.0
        values = np.maximum(values, 0.0)
        return float(values[len(values) // 2 :].sum() / values.sum())


def _of(loss: Loss, numbers: PER_LOSS, otherwise: float) -> float:
    """The number for a loss."""
    return next((number for kind, number in numbers if isinstance(loss, kind)), otherwise)


# ---- the square loss on all points ---------------------------------------------------------------


def direct(posed: Posed, ridge: float | None = None) -> Candidate:
    """A factorisation of K, or of the normal equations of few features."""
    n, gram, rates, machine = posed.rows, posed.gram, posed.rates, posed.points.machine
    if has_few_features(gram):
        return _in_features("Direct", Direct(), posed, 1, rounding=True)
    stays, mixed = Direct().factor_plan(gram)
    dtype = "float32" if mixed else str(posed.points.dtype)
    size = 4 if dtype == "float32" else 8
    seconds = n**3 / 6 / rates.multiply_adds[dtype] * 1.4 + n * n * rates.value_seconds
    seconds += machine.launch
    hidden = ridge is not None and 0.0 < ridge < 1.5 * posed.rounding
    if hidden and not mixed and dtype == "float32":  # again and again, with more on the diagonal
        seconds *= TUNING.repeated
    elif mixed and hidden:  # it is factored again in float64
        seconds += n**3 / 6 / rates.multiply_adds["float64"] * 1.4
        size = 8
    elif mixed:
        seconds += 6 * n * n * (0.5 * rates.value_seconds + 1.0 / rates.multiply_adds["float32"])
    memory = machine.factor_copies * size * n * n
    return Candidate("Direct", Direct(), seconds, memory, True, stays=stays)


def conjugate_gradients(posed: Posed, ridge: float | None) -> Candidate:
    """Conjugate gradients in products that are not stored, with a preconditioner of columns."""
    n, points, rates, machine = posed.rows, posed.points, posed.rates, posed.points.machine
    rank, most, iterations = _columns(posed, ridge)
    factor = (1.5 * n * rank**2 + rank**3 / 3) / rates.multiply_adds["float32"]
    speed = 0.67 if points.dtype == np.float64 else 1.0  # iterations are in float32
    value, first, column = rates.value_seconds * machine.symmetric_share * speed, 0.0, 0.2
    if stores_faster(posed.gram):  # of which all columns of a product are made in one reading
        value, first, column = machine.stored_seconds, n * n * rates.value_seconds, 0.03
    product = n * n * value * (1 + column * (posed.outputs - 1))
    spline = posed.kernel.null_degree() is not None  # positive definite where iterates are
    width = getattr(points, "width", None)
    known = spline or laws.is_positive_definite(posed.kernel, width)
    obstacle = "" if known else "the kernel is not known to be positive definite"
    columns = factor + 2 * n * rank * rates.value_seconds
    seconds = TUNING.start + first + columns + (iterations + TUNING.checks) * product
    memory = machine.copies * 4 * n * most + 16.0 * rank**2  # there is room for most at once
    memory += 64.0 * n * posed.outputs + machine.blocks * block_bytes()
    passes, name = iterations + TUNING.checks, "ConjugateGradient"
    return Candidate(
        name, ConjugateGradient(), seconds, memory, True, None, obstacle, False, passes
    )


def _columns(posed: Posed, ridge: float | None) -> tuple[int, int, float]:
    """Columns of a preconditioner, at most, and iterations, from the eigenvalues on some rows."""
    n, gram, values = posed.rows, posed.gram, posed.eigenvalues if ridge else None
    most = most_columns(n, 4, column_memory(gram), gram.machine)
    if not ridge or values is None:
        return min(n, 2 * default_rank(n, 4)), most, TUNING.iterations
    entry = value_cost(gram, np.float32)  # the precision of iterations
    budget = RankBudget(ridge, ConjugateGradient().goal(gram), n, entry)
    rank, iterations = budget.foreseen(values[: len(values) // 3], most)
    iterations *= 1.0 + min(TUNING.rounded * posed.rounding / ridge, TUNING.rounded)
    return min(most, int(1.5 * rank)), most, iterations  # they are added some at a time


def in_blocks(posed: Posed) -> Candidate:
    """A few passes of block coordinate descent, which is shown and never taken.

    They predict better than the centres that are taken then, but how far they are from the solution
    is known when they are done.
    """
    n, outputs = posed.rows, posed.outputs
    speed = 0.67 if posed.points.dtype == np.float64 else 1.0
    product = n * n * speed * posed.rates.value_seconds * (1 + 0.2 * (outputs - 1))
    seconds = TUNING.start + 1.3 * (TUNING.block_passes - 0.5) * product  # the first is half a one
    why = "it ends by a time limit: ask for it by solver=BlockCoordinateDescent(time_limit=…)"
    solver, memory = BlockCoordinateDescent(), 80.0 * n * outputs + block_bytes()
    passes = TUNING.block_passes
    name = "BlockCoordinateDescent"
    return Candidate(name, solver, seconds, memory, True, None, why, False, passes)


# ---- other losses on all points ------------------------------------------------------------------


def of_loss(posed: Posed, solver: Any, ridge: float | None = None) -> Candidate:
    """Newton's method, dual ascent or splitting on all points."""
    ridge = ridge or TUNING.ridge
    if isinstance(solver, Newton):
        return newton(posed, solver, ridge)
    if isinstance(solver, DualAscent):
        return dual_ascent(posed, solver, ridge)
    n, rates = posed.rows, posed.rates
    steps = TUNING.splitting_steps * 2.0 * n * n * stored_seconds("float64", posed.outputs)
    seconds = TUNING.begin + TUNING.eigen * n**3 / rates.multiply_adds["float64"] + steps
    return Candidate("Splitting", solver, seconds, 8.0 * STORED * n * n, True, rounding=False)


def newton(posed: Posed, solver: Newton, ridge: float) -> Candidate:
    """Products with a K that is stored, or computed anew for each; few points may be factored."""
    n, outputs, loss, gram = posed.rows, posed.outputs, posed.loss, posed.gram
    if has_few_features(gram):
        return _in_features("Newton", solver, posed, TUNING.newton_steps * outputs)
    products = _of(loss, TUNING.newton_products, TUNING.other_products) * posed.steps(ridge)
    products = max(products, 2.0 * TUNING.newton_steps)
    value = gram.machine.symmetric_share * posed.rates.value_seconds
    pairs, memory = float(n) * n, 64.0 * n * outputs
    computed = pairs * value * (1 + 0.15 * (outputs - 1))
    if not (stored := stored_as(gram, solver.tuning.all_points)):
        seconds = products * computed
    else:
        size = np.dtype(stored).itemsize
        read = pairs * stored_seconds(stored, outputs)
        seconds = pairs * (value + size * TUNING.writing) + products * read
        memory += size * pairs
        if stored == "float32":
            seconds += TUNING.exact_products * computed
        elif products > TUNING.factored[0] and not loss.is_multiclass:
            factor = TUNING.factored[1] * outputs * n**3 / 3
            seconds += factor / posed.rates.multiply_adds["float64"]
            memory += 2.0 * size * pairs
    seconds += TUNING.begin + products * 100 * TUNING.step
    return Candidate("Newton", solver, seconds, memory, True, rounding=False, passes=products)


def dual_ascent(posed: Posed, solver: DualAscent, ridge: float) -> Candidate:
    """Rounds of working sets, each with the rows of K that it changes, and steps inside of them."""
    n, outputs, loss, gram = posed.rows, posed.outputs, posed.loss, posed.gram
    if has_few_features(gram):
        return _in_features("DualAscent", solver, posed, TUNING.interior_steps * outputs)
    value, pairs = posed.rates.value_seconds, float(n) * n
    size = 4 if solver.starts_in_single(gram) else 8
    digits = math.log10(1.0 / solver.tolerance)
    hard = min(1.0, posed.tail / ridge)  # little where few eigenvalues are most of K
    many = math.sqrt(min(n, TUNING.many) / 4000)
    passes = _of(loss, TUNING.rounds, 30.0) * hard**0.7 * many * digits / 6
    steps = _of(loss, TUNING.steps, 30.0) * min(1.0, TUNING.ridge / ridge) * 10 ** (digits / 3 - 2)
    steps = n * (1.0 + steps + 2.0 * passes)
    passes += _of(loss, TUNING.fewest_rounds, 4.5)
    memory = 200.0 * n * outputs + 2 * size * min(n, solver.working_set) ** 2
    if n <= solver.tuning.stored:
        work = pairs * (value + size * TUNING.writing)
        memory += 8.0 * pairs
    elif is_cheap(gram, solver.tuning):
        narrow = 0.7 if size == 4 and gram.dtype == np.float64 else 1.0
        work = passes * pairs * value * narrow
    else:
        work = pairs * (value + size * TUNING.writing) + passes * pairs * size * TUNING.adding
        memory += min(pairs * size, memory_budget(solver.cache))
    seconds = TUNING.begin + outputs * (work + steps * TUNING.step)
    return Candidate("DualAscent", solver, seconds, memory, True, rounding=False)


def _in_features(
    name: str, solver: Any, posed: Posed, steps: int, rounding: bool = False
) -> Candidate:
    """Systems of the order of the features, of which there are few: no K."""
    kernel, points = posed.kernel, cast(Any, posed.points)
    n, count = posed.rows, kernel.feature_count(points.width)
    work = n * count * (count + 20.0)
    seconds = TUNING.begin + steps * work / posed.rates.multiply_adds["float64"]
    memory = 8.0 * n * (3 * count + 20) + 24.0 * count**2
    return Candidate(name, solver, seconds, memory, True, rounding=rounding)


# ---- centres -------------------------------------------------------------------------------------


def independent(posed: Posed, count: int) -> int:
    """How many of so many centres are taken: those that give K up to rounding suffice."""
    few = count <= min(posed.rows, TUNING.rank_rows)
    if few or posed.kernel.null_degree() is not None or posed.rank is None:
        return count
    return min(count, int(1.25 * posed.rank))


def on_centres(posed: Posed, count: int) -> Candidate:
    """Newton's method on so many centres, which are drawn first."""
    n, points, loss, outputs = posed.rows, posed.points, posed.loss, posed.outputs
    rates, dtype, asked = posed.rates, str(points.dtype), count
    count = max(1, independent(posed, asked))  # K may be 0 on these points
    goal = max(default_tolerance(loss, dtype), posed.tolerance or 0.0)
    solver = Newton(None if posed.tolerance is None else goal)
    newton = 1 if isinstance(loss, Squared) else TUNING.newton_steps
    if newton == 1:
        sample = sample_size(n, count, goal, rates.width, outputs)
        passes = expected_steps(n, count, sample, goal) + 2.0
    else:
        sample, kinks = min(n, 2 * count), not loss.is_smooth
        passes = TUNING.passes_with_kinks if kinks else TUNING.smooth_passes
    # NumPy's arrays take a triangular system with the sample, others half a product of it
    each = 1.2 if points.machine.uses_numpy else 0.6
    factor = each * sample * count**2 / rates.multiply_adds[dtype]
    if loss.is_multiclass:
        drawn_rows = class_rows(n, count, outputs)
        factor = 1.5 * outputs * drawn_rows**2 * count / rates.multiply_adds["float64"]
        passes = TUNING.class_passes * passes_for_classes(n, count, outputs, goal, newton)
    factor = newton * factor + count**3 / 2 / rates.multiply_adds["float64"]
    choice = drawn(asked, posed.kernel, points)
    pool, pivots = getattr(choice, "pool", 0) or 0, min(count, getattr(choice, "pivots", 0) or 0)
    factor += TUNING.drawing * pool * pivots**2 / rates.multiply_adds[dtype]
    spent, stored = _passes(posed, count, passes)
    seconds = TUNING.launches * points.machine.launch + factor + spent
    memory = memory_needed(n, asked, outputs, points.dtype, loss=loss) + stored
    memory = max(memory, pool * asked * points.dtype.itemsize)
    return Candidate("Newton", solver, seconds, memory, False, centres=asked, passes=passes)


def _passes(posed: Posed, count: int, passes: float) -> tuple[float, float]:
    """Seconds of passes over the rows, and bytes of what is stored to make them quicker."""
    n, points, outputs, rates = posed.rows, posed.points, posed.outputs, posed.rates
    machine, numbers, size = points.machine, float(n) * count, points.dtype.itemsize
    value = dict(TUNING.two_sides)[str(points.dtype)] * rates.value_seconds
    value, stored, width = value * (1 + 0.15 * (outputs - 1)), 0.0, rates.width
    wide = machine.uses_numpy and width >= STORING.stored_width  # `cross_gram` stores these
    if wide and size * numbers <= STORING.stored_share * memory_budget(None):
        value = min(value, 2.0 * stored_seconds(str(points.dtype), outputs))
        stored, width = size * numbers, 0
    slow = TUNING.exact_passes * (machine.float64_factor - 1.0) if size == 4 else 0.0
    beside = TUNING.row * n * passes if machine.uses_numpy else 0.0
    before = (count if size == 8 else count // 2) / value_in_pass(width, outputs)
    kept = machine.keeps_rows and 8.0 * numbers <= memory_budget(None)
    if isinstance(posed.loss, Squared) or passes <= before or not kept:
        return (passes + slow) * numbers * value + beside, stored
    # rows in coordinates of the basis are stored as soon as passes have cost as much
    lifting = rates.value_seconds + 0.5 * count / rates.multiply_adds[str(points.dtype)]
    read = 2.0 * stored_seconds("float32", outputs)
    spent = before * value + lifting + (passes - before) * read
    return numbers * spent + beside, stored + 4.0 * numbers
