"""On centres: which rows the preconditioner is made of, uniform or by leverage, and how many."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array, as_numpy, beside, namespace, to_precision, uniform, zeros
from mercer.losses import Loss, Squared
from mercer.operators import Gram
from mercer.runtime.budget import Memory, memory_budget
from mercer.runtime.machine import float64_is_slow
from mercer.runtime.threads import spans
from mercer.solvers.preconditioners.low_rank import LEAST_POSITIVE
from mercer.solvers.preconditioners.sampled_hessian import (
    ClassHessians,
    GeneralHessian,
    SampledHessian,
)
from mercer.solvers.problem import Problem


@dataclass(frozen=True)
class Tuning:
    """How many rows are sampled, and which."""

    factors: tuple[int, ...] = (2, 3, 4, 6, 8, 12, 16, 24, 32)  # rows of the sample for each centre
    # that are considered

    # What a kernel value in a pass costs, in multiply-adds of the preconditioner, and what one more
    # coordinate and output add to that (Gaussian in float32 on two cores, 4,000 centres: 0.33 ns
    # for d = 11, against 0.014 ns).
    entry: float = 12.0
    coordinate: float = 1.0
    output: float = 8.0

    first: int = 1  # rows for each centre of a first sample, which tells whether uniform rows do.
    # It is all there is where passes are quick (50,000 stored rows of 5,000 centres: 0.1 s for each
    # of 8 steps, where twice the sample takes 2 s and saves two of them)
    pilot: int = 2  # rows for each centre of the sample from which leverages are estimated
    sketch: int = 8  # random vectors that estimate them
    looked_at: int = 4096  # rows whose leverages tell whether it is worth having those of all
    spread: float = 2.0  # times the rows of a pilot: a larger sum of leverages tells of directions
    # that it has missed
    begin: float = 1e-6  # the gap is about one over this at the start, relative to the objective
    # (household power, where λ = 1e-8: 3e6)
    inexact: float = 2.0  # times as many rows does a sample by estimated leverages need as one by
    # exact ones
    slowest: float = 0.8  # of the excess that a step leaves, at most
    class_steps: tuple[float, float] = (3.5, 1.1)  # steps of conjugate gradients for a digit of the
    # gap of a multinomial loss, and what grows with the logarithm of the share of rows that a
    # preconditioner is not of (five fits of 3 to 26 classes, 5,000 to 30,000 rows, 300 to 1,000
    # centres took 19 to 42 steps: within 1.3)
    few_classes: int = 4  # for which the mean of their curvatures does: a factor of it, of three
    # rows for each centre, takes 0.5 to 1 times the time of a block for each (14 fits of 3 and 4)
    free_share: float = 0.01  # of the curvature in a constant, what holds it in the block of a
    # class beside its rows
    stale: float = 0.2  # change of the curvatures, relative to their sum, that makes a
    # preconditioner old
    corrections: int = 2  # solutions with the factor of P for one with P itself: the second mends
    # its rounding


TUNING = Tuning()


class SampledHessians:
    """The preconditioner in use, cached as long as curvatures are near those it was made for."""

    def __init__(self, space: Any) -> None:
        # The space owns this, and both own the largest arrays there are: in a circle these would
        # stay, on a card for good, until Python looks for garbage.
        self.space = weakref.proxy(space)
        self.current: Any = None
        self.used: Any = None  # curvatures of the current one
        self.theta: Any = None  # the point that has these
        self.lifted = False  # whether it was made of stored rows
        self.sample: Any = None  # its rows, their curvatures, and one over the chance of each
        self.largest_weight = 1.0  # w of P ⪯ wH, for the Hessian P on the sample and H on all rows
        self.made = 0

    def take_over(self, last: SampledHessians) -> None:
        """Begin with that of another λ."""
        self.current, self.used, self.sample = last.current, last.used, last.sample
        self.largest_weight = last.largest_weight
        last.current = None
        if self.current is not None:
            self.current.space = self.space
            self.current.factorise(self.space.ridge)

    def at(self, point: Any, loss: Loss) -> Any:
        """The preconditioner for a point, made anew where the current one is old."""
        space = self.space
        factors = mean_curvature(space.problem, loss, point.values)
        xp, old = namespace(factors), self.current
        if old is not None:
            change = float(xp.sum(xp.abs(factors - self.used)))
            if change <= TUNING.stale * float(xp.sum(self.used)):
                return old
        self.used, self.current, old = factors, None, None  # the memory of the old one goes first
        self.theta, self.lifted = point.theta, space.lifted is not None
        if loss.is_multiclass and space.columns > TUNING.few_classes:
            self.current = self._of_classes(class_curvatures(space.problem, loss, point.values))
            return self.current
        active = xp.nonzero(factors)[0]
        count = min(self._count(len(active)), len(active))
        if count < len(active) or self._looks_first(len(active)):
            self.current, rows, chances = self._sampled(factors, active, count)
        else:
            rows, chances = as_numpy(active), np.ones(len(active))
            self.current = self._of(factors, rows, chances)
        self.sample = rows, factors[beside(rows, factors)], 1.0 / chances
        _, which = np.unique(rows, return_inverse=True)  # a row of two samples counts twice in P
        self.largest_weight = float(np.bincount(which, self.sample[2]).max(initial=1.0))
        return self.current

    def excess_bounds(self, *gradients: Array) -> list[float]:
        """Upper bounds of ½gᵀH⁻¹g, which for the square loss is J − min J at a point.

        Whichever rows were sampled, P = Σ w_i p_i z_i z_iᵀ + λI ⪯ max(w)·H; and for any v

            gᵀP⁻¹g = 2gᵀv − vᵀPv + eᵀP⁻¹e ≤ 2gᵀv − vᵀPv + ‖e‖²/λ,    e = g − Pv.

        v comes from the preconditioner, products with P from the sampled rows in float64: nothing
        is left to the precision of its factor. In other words, the dual point is moved on the
        sampled rows, so that its gradient vanishes. The duality gap ‖g‖²/(2λ) at the slopes as they
        are is larger by the ratio of curvature to λ, and takes many more steps to become small.
        """
        assert self.current is not None
        space, (rows, bends, weights) = self.space, self.sample
        xp, ridge, size = namespace(gradients[0]), space.ridge, space.size
        part = space.operator[rows, :].astype(np.float64)
        bends = (bends * beside(weights, bends))[:, None]
        g = xp.concat(gradients, axis=1)
        v, e, nothing = 0.0 * g, g, 0.0 * g[: int(space.problem.fit_intercept), :]
        for _ in range(TUNING.corrections):
            v = v + self.current.solve(xp.concat([e, nothing]))[:size, :]
            values = part @ space.basis.coefficients(v)
            if space.problem.fit_intercept:  # the best constant is part of the Hessian's minimum
                values = values - xp.sum(bends * values, axis=0) / xp.sum(bends)
            e = g - space.basis.pull(part.T @ (bends * values)) - ridge * v
        bounds = xp.sum(g * v - 0.5 * ridge * v**2 + e**2 / (2.0 * ridge), axis=0)
        bounds = self.largest_weight * (bounds - 0.5 * xp.sum(bends * values**2, axis=0))
        bounds = as_numpy(bounds).reshape(len(gradients), -1)
        return [float(part.sum()) for part in bounds]

    def _of(
        self, factors: Array, rows: np.ndarray, chances: np.ndarray
    ) -> SampledHessian | GeneralHessian:
        """The Hessian on some rows, which were chosen with these chances."""
        space = self.space
        make = SampledHessian if space.operator.machine.uses_numpy else GeneralHessian
        floor = space.floor if space.problem.fit_intercept else None
        self.made += 1
        return make(space, rows, self._weights(factors, rows, chances), space.ridge, floor)

    def _of_classes(self, bends: Array) -> ClassHessians:
        """A block for each class, on rows drawn by their curvature there; at f = 0 they are one."""
        space, drawn = self.space, []
        xp, classes = namespace(bends), bends.shape[1]
        alike = bool(xp.all(bends == bends[:, :1]))
        memory: Memory = getattr(space.operator, "memory", None)
        count = class_rows(len(bends), space.size, classes, memory)
        draws = uniform(space.solver.random_state, bends, same=True)  # for all classes
        for k in range(1 if alike else classes):
            own = bends[:, k]
            rows, chances = _drawn_by(own, count, draws)
            drawn.append((rows, own[beside(rows, own)] / beside(chances, own)))
        drawn *= classes if alike else 1
        constants = TUNING.free_share * xp.sum(bends, axis=0) + space.floor
        self.made += 1
        return ClassHessians(space, drawn, constants, space.ridge)

    @staticmethod
    def _weights(factors: Array, rows: np.ndarray, chances: np.ndarray) -> Array:
        """The curvatures of rows over the chances of these."""
        return factors[beside(rows, factors)] / beside(chances, factors)

    def _sampled(
        self, factors: Array, active: Array, count: int
    ) -> tuple[SampledHessian | GeneralHessian, np.ndarray, np.ndarray]:
        """The Hessian on rows by leverage, these, and the chance of each; uniform if as good.

        Where few rows have most of the leverage, as those far out in a table with heavy tails, a
        uniform sample misses them, and conjugate gradients pay. Leverages are estimated from a
        small uniform sample, first for few rows, to see what that would cost. It overestimates them
        in directions that it misses, so that another small sample, drawn by these estimates, gives
        better ones; a row has the larger of its two shares. The rest is drawn by them, and both
        samples count, each by its share of the rows. Where uniform rows do, the sum of
        leverages tells the dimension of the problem, and with it how many are enough. With eight
        rows for each of 1,000 centres of household power P⁻¹H has the condition number 4,000 for
        uniform rows, 130 after one estimate, 7 after two, and 5 with leverages that are known.
        """
        space, rows, seed = self.space, len(active), self.space.solver.random_state
        random = np.random.default_rng(seed)
        # shuffled apart: else all row numbers would be, where the sample is not very small
        some = random.choice(rows, count, replace=False, shuffle=False)
        chosen = as_numpy(active[beside(random.permutation(some), active)])
        if not self._looks_first(rows):
            return self._uniform(factors, chosen, rows)
        first, fewer = (min(count, many * space.size) for many in (TUNING.first, TUNING.pilot))
        if float64_is_slow(space.operator):
            first = fewer  # a factor of its own would take longer than the rows that it may spare
        pilot, *_ = self._uniform(factors, chosen[:first], rows)
        looked_at = random_rows(rows, TUNING.looked_at, seed + 1)
        some = as_numpy(active[beside(looked_at, active)])
        seen = as_numpy(self._leverages(pilot, factors, some))
        enough = max(first, min(count, self._count(rows, rows * float(np.minimum(seen, 1).mean()))))
        if self._uniform_do(rows, seen, first, enough, fewer + count):
            return self._uniform(factors, chosen[:enough], rows, pilot, first)
        pilot, *_ = self._uniform(factors, chosen[:fewer], rows, pilot, first)
        if count == rows:
            return self._uniform(factors, chosen, rows, pilot, fewer)
        xp = namespace(factors)
        shares = xp.clip(self._leverages(pilot, factors), max=1.0)  # none is larger
        del pilot  # its memory goes first
        shares = xp.clip(shares / xp.sum(shares), min=0.5 / rows)
        shares = xp.where(factors != 0, shares, 0.0)
        early = min(fewer, count // 2)
        chosen, chances = _drawn_by(shares, early, uniform(seed, shares))
        hessian = self._of(factors, chosen, chances)
        scores = xp.clip(self._leverages(hessian, factors), max=1.0)
        shares = xp.maximum(shares, scores / xp.sum(scores))
        late, late_chances = _drawn_by(shares, count - early, uniform(seed + 1, shares))
        del scores, shares  # a number for each row, beside the largest arrays
        part = early / count
        chances = np.concatenate([chances / part, late_chances / (1.0 - part)])
        weights = self._weights(factors, late, chances[len(chosen) :])
        hessian.extend(late, weights, part, space.ridge)
        return hessian, np.concatenate([chosen, late]), chances

    def _uniform(
        self, factors: Array, chosen: np.ndarray, rows: int, known: Any = None, seen: int = 0
    ) -> tuple[SampledHessian | GeneralHessian, np.ndarray, np.ndarray]:
        """The Hessian on rows chosen uniformly, after that on the first of them where it is known.

        What that has seen is not computed again.
        """
        count = len(chosen)
        sample = np.sort(chosen), np.full(count, count / rows)
        if known is None:
            return self._of(factors, *sample), *sample
        rest = np.sort(chosen[seen:])
        if len(rest):
            weights = self._weights(factors, rest, np.full(len(rest), count / rows))
            known.extend(rest, weights, seen / count, self.space.ridge)
        return known, *sample

    def _uniform_do(
        self, rows: int, seen: np.ndarray, pilot: int, count: int, instead: int
    ) -> bool:
        """Whether a uniform sample is cheaper than so many rows of samples by leverage.

        It costs steps of conjugate gradients, as the leverages d_i z_iᵀP⁻¹z_i tell, of rows that
        the preconditioner P of a pilot has not seen. Their sum over all rows is the trace of P⁻¹H,
        which is not much more than the rows of the pilot where these stand for all others. An
        excess E leaves at most E/c eigenvalues above c: they take a step each, the others √c times
        as many as s, together 1.9(Es²)^⅓ for the best c. On rows with heavy tails that is within
        0.6 to 1.7 of what is taken, where the largest leverage foretells a third of it. (Household
        power, 300,000 rows of 2,000 centres: 636 steps with uniform rows, 10 by leverage.)
        """
        space = self.space
        width, outputs, factor = self._pass_terms()
        dimension = rows * float(np.minimum(seen, 1.0).mean())
        steps = expected_steps(rows, space.size, count, space.solver.goal(space.problem), dimension)
        excess = max(0.0, rows * float(seen.mean()) - TUNING.spread * pilot)
        more = 1.9 * (excess * steps**2) ** (1.0 / 3.0)
        return more * rows * factor * value_in_pass(width, outputs) <= instead * space.size

    def _looks_first(self, active: int) -> bool:
        """Whether a small sample tells how many rows to take, and which.

        Losses other than the square have a new Hessian for every few steps.
        """
        space = self.space
        few = active <= max(TUNING.looked_at, TUNING.pilot * space.size)
        return isinstance(space.loss, Squared) and not space.solver.sample and not few

    def _leverages(self, pilot: Any, factors: Array, rows: np.ndarray | None = None) -> Array:
        """d_i z_iᵀP⁻¹z_i for some rows or all, from products with a few random vectors."""
        space, size = self.space, self.space.size
        shape = size + space.problem.fit_intercept, TUNING.sketch
        random = np.random.default_rng(space.solver.random_state).standard_normal(shape)
        directions = pilot.half_solve(space.problem.array(random))
        beta = to_precision(space.basis.coefficients(directions[:size, :]), space.operator.dtype)
        shift = to_precision(directions[size:, :], beta.dtype)

        def scores(operator: Any, bends: Array) -> Array:
            values = operator @ beta
            values = values + shift if space.problem.fit_intercept else values
            squares = to_precision(namespace(values).mean(values * values, axis=1), "float64")
            return bends * squares

        if rows is not None:
            return scores(space.operator[rows, :], factors[beside(rows, factors)])
        n, most = space.problem.rows, space.operator.machine.values_rows
        if n <= most or not isinstance(space.operator, Gram):  # rows of others are read once
            return scores(space.operator, factors)
        leverages = zeros(n, factors)
        for start, stop in spans(n, int(most)):
            part = space.operator[start:stop, :]
            leverages[start:stop] = scores(part, factors[start:stop])
        return leverages

    def _count(self, active: int, dimension: float | None = None) -> int:
        """How many of the rows that bend the objective are sampled.

        `dimension` is the sum of their leverages, where they are known to be even.
        """
        space = self.space
        if space.solver.sample is not None:
            return space.solver.sample
        goal = space.solver.goal(space.problem)
        count = sample_size(max(active, 1), space.size, goal, *self._pass_terms(), dimension)
        if space.loss.is_multiclass:
            return min(count, TUNING.factors[1] * space.size)
        slow = float64_is_slow(space.operator)
        if slow and not isinstance(space.loss, Squared):  # a Newton step asks for a digit only
            return min(count, TUNING.factors[2] * space.size)
        return count

    def _pass_terms(self) -> tuple[int, int, float]:
        """What a pass costs by: columns of points, outputs, times as long as on two cores."""
        operator, stored = self.space.operator, getattr(self.space.operator, "matrix", None)
        width = 0 if stored is not None else getattr(getattr(operator, "y", None), "width", 1)
        slow = float64_is_slow(operator) and self.space.products == "float64"
        return width, self.space.columns, operator.machine.float64_factor if slow else 1.0


def _drawn_by(shares: Array, count: int, draws: Array) -> tuple[np.ndarray, np.ndarray]:
    """About so many rows with chances ∝ shares, by a uniform draw of each, and these chances."""
    chances = inclusion_chances(shares, count)
    chosen = namespace(chances).nonzero(draws < chances)[0]
    return as_numpy(chosen), as_numpy(chances[chosen])


def inclusion_chances(shares: Array, count: int) -> Array:
    """Chances ∝ shares and at most 1, that add up to a count.

    Those that would be larger than 1 are 1, and the others larger for it, until none is.

    >>> inclusion_chances(np.array([0.8, 0.1, 0.1]), 2)
    array([1. , 0.5, 0.5])
    """
    xp, certain = namespace(shares), 0
    chances = count / max(float(shares.sum()), LEAST_POSITIVE) * shares
    while True:
        below = chances < 1.0
        now = len(shares) - int(xp.sum(below))
        if now <= certain:
            return xp.clip(chances, max=1.0)
        certain, rest = now, float(xp.sum(xp.where(below, shares, 0.0)))
        chances = xp.where(below, (count - certain) / max(rest, LEAST_POSITIVE) * shares, 1.0)


def class_rows(rows: int, centres: int, classes: int, memory: Memory = None) -> int:
    """Rows of each class in `ClassHessians`, beyond which more take longer than they save.

    Their products with each other take as long as four factors of M × M then; as a row bends about
    one class, n/C are all there are. They take at most a quarter of the memory budget.

    >>> class_rows(10**6, 1000, 25), class_rows(5000, 1000, 25)
    (400, 200)
    >>> class_rows(10**6, 1000, 25, memory="1MB")
    1
    """
    room = memory_budget(memory) // 4
    most = min(2.0 * centres / math.sqrt(classes), rows / classes, room / (8 * classes * centres))
    return max(1, int(most))


def mean_curvature(problem: Problem, loss: Loss, values: Array) -> Array:
    """p·ℓ'' of each row, the mean over outputs."""
    if loss.is_multiclass:
        bends = class_curvatures(problem, loss, values)
        return namespace(bends).mean(bends, axis=1)
    curvature = loss.curvature(problem.y_columns, values)
    return problem.shares * namespace(curvature).mean(curvature, axis=1)


def class_curvatures(problem: Problem, loss: Loss, values: Array) -> Array:
    """p·q(1 − q) of each row and class."""
    q = loss.probability(values)  # type: ignore[attr-defined]
    return problem.shares[:, None] * q * (1.0 - q)


def passes_for_classes(
    rows: int, centres: int, classes: int, tolerance: float, newton: int, memory: Memory = None
) -> float:
    """Passes over the rows of a multinomial fit: Newton's own, and steps with `ClassHessians`.

    A digit of the gap takes more steps where its rows are fewer of all.

    >>> few, many = (passes_for_classes(n, 1000, 26, 1e-6, 8) for n in (6_000, 60_000))
    >>> 25 < few < many < 60
    True
    """
    drawn = classes * class_rows(rows, centres, classes, memory)
    digits = math.log10(1.0 / min(tolerance, 0.1))
    each = TUNING.class_steps[0] + TUNING.class_steps[1] * math.log(max(1.0, rows / drawn))
    return 2.0 + newton + digits * each


def random_rows(rows: int, count: int, seed: int) -> np.ndarray:
    """So many different row numbers, in order.

    >>> random_rows(3, 5, seed=0)
    array([0, 1, 2])
    """
    if count >= rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, count, replace=False))


def expected_steps(
    rows: int, centres: int, sample: int, tolerance: float, dimension: float | None = None
) -> float:
    """Steps of conjugate gradients to a relative gap, with a preconditioner of so many rows.

    With m rows for a problem of dimension d, which is at most the number of centres M, the excess
    falls by d/m in a step; where d is known the square loss is meant, whose certified gap is the
    excess times n/m, and which begins at the size of the objective.

    >>> expected_steps(1_000, 50, 1_000, 1e-6), round(expected_steps(10**6, 50, 500, 1e-6), 1)
    (1.0, 17.2)
    >>> round(expected_steps(10**6, 50, 500, 1e-6, dimension=20.0), 1)
    6.7
    """
    if sample >= rows:
        return 1.0
    if dimension is None:
        goal, left = TUNING.begin * min(tolerance, 1.0), TUNING.inexact * centres / sample
    else:
        goal, left = min(tolerance, 1.0) * sample / rows, min(dimension, centres) / sample
    return max(1.0, math.log(goal) / math.log(min(left, TUNING.slowest)))


def sample_size(
    rows: int,
    centres: int,
    tolerance: float,
    width: int,
    outputs: int = 1,
    factor: float = 1.0,
    dimension: float | None = None,
) -> int:
    """How many rows to take for the preconditioner: more rows cost more, and save steps.

    >>> sample_size(1_000, 200, 1e-6, 3), sample_size(10**6, 2_000, 1e-6, 3) > 8_000
    (1000, True)
    >>> sample_size(10**6, 2_000, 1e-6, 3, dimension=100.0)
    8000
    """
    entry = factor * value_in_pass(width, outputs)  # times as long as on two cores

    def cost(sample: int) -> float:
        steps = expected_steps(rows, centres, sample, tolerance, dimension)
        return sample * centres + (steps + 2.0) * rows * entry

    first = TUNING.factors if dimension is None else (TUNING.first, *TUNING.factors)
    return min((min(rows, many * centres) for many in (*first, rows)), key=cost)


def value_in_pass(width: int, outputs: int) -> float:
    """What a kernel value costs in a pass, in multiply-adds of the preconditioner."""
    return TUNING.entry + TUNING.coordinate * width + TUNING.output * (outputs - 1)
