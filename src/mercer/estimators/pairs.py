"""One machine for each pair of classes, which share the kernel's values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from mercer.estimators.progress import FitTask
from mercer.kernels import laws
from mercer.operators import Gram
from mercer.points import DensePoints, PointSet
from mercer.runtime.budget import memory_budget
from mercer.runtime.machine import value_cost
from mercer.runtime.threads import run, single_threaded_blas, thread_count
from mercer.solvers.driver import limited
from mercer.solvers.dual.rows import PairRows, Rows, StoredRows, is_cheap
from mercer.solvers.dual.solver import DualAscent, ending
from mercer.solvers.problem import Problem, has_few_features
from mercer.solvers.solution import Solution


@dataclass(frozen=True)
class Tuning:
    """Sizes that decide how pairs of classes are solved."""

    one_matrix: int = 2048  # points up to which one matrix serves all pairs, in one thread:
    # starting others takes longer
    one_call: int = 3072  # points of a pair up to which it is solved in one compiled call
    exact: int = 512  # points up to which pairs are solved to rounding, which takes no longer
    grouped: int = 400  # points of small classes whose matrix is computed at once
    halves: float = 8e7  # multiply-adds of float64 values that float32 ones must save in a pair to
    # be worth the rounds and the certificate in float64 that they need: 2.5 ms
    by_rows: int = 128  # points of a mean pair from which it is tried with the rows that its steps
    # need
    few_rows: float = 0.25  # of the rows of a pair, up to which a mean one is solved quicker by
    # computing them one by one than out of blocks, which pairs share and of which half is computed
    rows_of_large: int = 128  # rows up to which pairs beyond `one_call` are tried: a twentieth of
    # what their own way takes. A pair alone is not tried: of eight tables it lost a tenth to a
    # fifth of the time on seven, and gained a quarter where one class was rare
    tried: int = 8  # pairs at most that say whether the others need few rows
    one_of: int = 4  # of so many pairs one is tried, where that makes fewer
    open_share: float = 0.5  # of its rows, what a pair that is then not solved is taken to need:
    # their mean


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Machine:
    """f + b for one pair of classes: positive for the first of them."""

    coefficients: np.ndarray
    intercept: float
    solution: Solution

    @classmethod
    def of(cls, solution: Solution) -> Machine:
        """From a solution; that of a ν-machine, with b and ρ, is divided by its margin ρ."""
        if np.ndim(solution.intercept) == 0:
            return cls(solution.coefficients, float(solution.intercept), solution)
        b, margin = map(float, solution.intercept)
        scale = 1.0 / margin if margin > 0 else 1.0
        return cls(scale * solution.coefficients, scale * b, solution)

    @property
    def steps(self) -> int:
        return int(self.solution.history["steps"][0])


@dataclass(eq=False, repr=False)
class Machines(Sequence[Machine]):
    """The machines of all pairs, in their order: numbers of each in one array.

    Of many small ones a `Machine` with its solution is made when it is asked for: to write down how
    a pair was solved would take longer than to solve it.

    Parameters
    ----------
    ends : array
        Where the coefficients of each pair end.
    alphas : array
        All coefficients.
    numbers : array of shape (pairs, 5)
        b, the gap, the primal objective, steps and the number of support vectors of each.
    totals : array
        Σc of each: its λ is 1/Σc.
    solver : DualAscent
    made : dict
        Those that were made another way.
    """

    ends: np.ndarray
    alphas: np.ndarray
    numbers: np.ndarray
    totals: np.ndarray
    solver: DualAscent
    made: dict[int, Machine] = field(default_factory=dict)

    @classmethod
    def of(cls, solver: DualAscent, machines: list[Machine]) -> Machines:
        """Those that were made one by one."""
        ends = np.cumsum([len(machine.coefficients) for machine in machines])
        alphas, numbers = np.empty(int(ends[-1])), np.zeros((len(machines), 5))
        found = cls(ends, alphas, numbers, np.ones(len(machines)), solver)
        for k, machine in enumerate(machines):
            found.put(k, machine)
        return found

    def put(self, k: int, machine: Machine) -> None:
        """In place of the k-th."""
        self.made[k] = machine
        self.coefficients(k)[:] = machine.coefficients
        self.numbers[k, [0, 3]] = machine.intercept, machine.steps

    def coefficients(self, k: int) -> np.ndarray:
        """α of a pair."""
        return self.alphas[(self.ends[k - 1] if k else 0) : self.ends[k]]

    @property
    def intercepts(self) -> np.ndarray:
        return self.numbers[:, 0].copy()

    @property
    def steps(self) -> np.ndarray:
        return self.numbers[:, 3].astype(np.int32)

    @property
    def relative_gaps(self) -> np.ndarray:
        """Of those that were not made another way."""
        return relative_gaps(self.numbers)

    def unsolved(self) -> list[int]:
        """The pairs that did not converge."""
        open_ones = self.relative_gaps > self.solver.tolerance
        for k, machine in self.made.items():
            open_ones[k] = not machine.solution.status.converged
        return [int(k) for k in np.flatnonzero(open_ones)]

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        k = range(len(self))[k]
        if k in self.made:
            return self.made[k]
        relative, (b, gap, primal, steps, support) = self.relative_gaps[k], self.numbers[k].tolist()
        alpha, total = self.coefficients(k), float(self.totals[k])
        status = ending(self.solver, float(relative), int(steps), (int(support), len(alpha)))
        history: dict[str, list[Any]] = {"relative_gap": [float(relative)], "steps": [int(steps)]}
        solution = Solution(alpha, status, primal / total, gap / total, history, b)
        return Machine(alpha, b, solution)

    def __iter__(self) -> Iterator[Machine]:
        return (self[k] for k in range(len(self)))


def relative_gaps(numbers: np.ndarray) -> np.ndarray:
    """Of pairs, from b, the gap and the primal objective of each."""
    gap, primal = numbers[:, 1], numbers[:, 2]
    scale = np.maximum(np.abs(primal), np.abs(primal - gap))
    return gap / np.where(scale > 0, scale, 1.0)


Pose = Callable[[Gram, np.ndarray, np.ndarray], Problem]


@dataclass(frozen=True, eq=False)
class OneVersusOne:
    """All pairs of classes, in scikit-learn's order; a problem is posed for each.

    The matrix of each class is shared by its pairs, where it is worth its memory; that between two
    classes belongs to one pair alone, and is gone after it.
    """

    gram: Gram
    order: np.ndarray  # of the points, by class
    bounds: np.ndarray  # where classes start in that order
    weights: np.ndarray

    @classmethod
    def of(cls, gram: Gram, codes: np.ndarray, classes: int, weights: np.ndarray) -> OneVersusOne:
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(classes + 1))
        return cls(gram, order, bounds, weights)

    @property
    def classes(self) -> int:
        return len(self.bounds) - 1

    @cached_property
    def sizes(self) -> np.ndarray:
        """How many points each class has."""
        return np.diff(self.bounds)

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(self.classes), 2))

    def span(self, code: int) -> tuple[int, int]:
        """Where the points of a class are, in the order."""
        return int(self.bounds[code]), int(self.bounds[code + 1])

    def members(self, pair: tuple[int, int]) -> np.ndarray:
        """The numbers of the points of a pair: those of the first class, then the others."""
        return np.concatenate([self.order[slice(*self.span(code))] for code in pair])

    def solve(
        self,
        pose: Pose,
        solver: DualAscent,
        task: FitTask | None = None,
        costs: np.ndarray | None = None,
    ) -> Machines:
        """The machines of all pairs, several at a time; one by one where there are callbacks.

        `costs` says that they are machines with the hinge loss and these factors of it.
        """
        machines, rest = None, list(range(len(self.pairs)))
        if costs is not None and task is None and len(self.order) > TUNING.exact:
            few = has_few_features(self.gram)  # then what steps do not solve another method does
            machines = self._quickly(solver, costs, few)
            if machines is not None:
                short = self._rows_at_most(solver) < self._pair_sizes
                rest = [k for k in machines.unsolved() if few or short[k]]
        if machines is not None and not rest:
            return machines
        found: dict[int, Machine] = {}
        small = len(self.order) <= TUNING.one_matrix
        alone = small or task is not None or not getattr(self.gram.kernel, "parallel", True)
        threads = 1 if alone else int(min(thread_count(), self.gram.machine.threads))
        left, limit = list(rest), solver.time_limit
        deadline = None if limit is None else time.perf_counter() + limit
        rows_of = self._whole() if small else self._by_class(solver, threads)

        def work(k: int) -> None:
            pair = self.pairs[k]
            part_task = task and task.part("pair")
            members = self.members(pair)
            labels = np.repeat([1.0, -1.0], self.sizes[list(pair)])
            part = Gram(self.gram.kernel, self.gram.x.take(members), None, self.gram.memory)
            problem = pose(part, labels, self.weights[members])
            share = min(1.0, threads / len(left))
            left.pop()
            own = solver if deadline is None else limited(solver, deadline, share)
            solution = own.solve(problem, rows_of(pair))
            found[k] = Machine.of(replace(solution, asked=problem.asked))
            if part_task:
                part_task.end()

        with single_threaded_blas():
            run(work, rest, threads)
        if machines is None:
            return Machines.of(solver, [found[k] for k in rest])
        for k, machine in found.items():
            machines.put(k, machine)
        return machines

    @cached_property
    def _firsts(self) -> np.ndarray:
        """The first class of each pair."""
        return np.array([i for i, _ in self.pairs])

    @cached_property
    def _seconds(self) -> np.ndarray:
        """The second one."""
        return np.array([j for _, j in self.pairs])

    @cached_property
    def _pair_sizes(self) -> np.ndarray:
        """How many points each pair has."""
        return self.sizes[self._firsts] + self.sizes[self._seconds]

    @cached_property
    def _ends(self) -> np.ndarray:
        """Where α of each pair ends, one after the other."""
        return np.cumsum(self._pair_sizes)

    def _share_blocks(self, solver: DualAscent) -> bool:
        """Whether many small pairs share what is computed for a class, within memory."""
        n, largest = len(self.order), int(self._pair_sizes.max())
        if len(self.pairs) < 3 or largest > TUNING.one_call or self._halves_pay(solver):
            return False
        numbers = float((self.sizes.astype(float) ** 2).sum())
        rows = max(float(self.sizes.max()), min(TUNING.grouped, n))
        numbers += thread_count() * (float(largest) ** 2 + rows * n)
        return 8.0 * numbers <= memory_budget(solver.cache)

    def _halves_pay(self, solver: DualAscent) -> bool:
        """Whether values in float32, with a certificate in float64, save more than they cost."""
        if not solver.starts_in_single(self.gram):
            return False
        saved = value_cost(self.gram) - value_cost(self.gram, np.float32)
        return saved * float(self._pair_sizes.mean()) ** 2 / 4 > TUNING.halves

    def _quickly(self, solver: DualAscent, costs: np.ndarray, some: bool) -> Machines | None:
        """Every pair in one compiled call: with the rows that it needs, or with whole blocks.

        None where pairs are few and large, or the kernel may be indefinite.

        `some` says that a hundred steps for each point are to be enough.
        """
        kernel, width = self.gram.kernel, getattr(self.gram.x, "width", None)
        few, blocks = self._may_need_few_rows(), self._share_blocks(solver)
        if not (few or blocks) or not laws.positive_definite(kernel, width).yes:
            return None
        ordered, points = costs[self.order], self.gram.x.take(self.order)
        limit = solver.limit(len(ordered))
        if some:
            limit = min(limit, solver.tuning.steps_before_polish * int(self._pair_sizes.max()))
        found = self._by_rows(solver, points, ordered, limit) if few else None
        if found is None and blocks:
            found = self._by_blocks(solver, points, ordered, limit)
        if found is None:
            return None
        sums, (alphas, numbers) = np.add.reduceat(ordered, self.bounds[:-1]), found
        totals = sums[self._firsts] + sums[self._seconds]
        return Machines(self._ends, alphas, numbers[:, :5], totals, solver)

    def _may_need_few_rows(self) -> bool:
        """Whether it is worth a trial: several pairs, of some size."""
        return len(self.pairs) >= 3 and 2 * len(self.order) >= TUNING.by_rows * self.classes

    def _rows_at_most(self, solver: DualAscent) -> np.ndarray:
        """Of each pair, so many as are worth computing one by one and fit into memory."""
        sizes = self._pair_sizes
        room = memory_budget(solver.cache) / (8.0 * thread_count() * sizes)
        wanted = np.where(sizes > TUNING.one_call, TUNING.rows_of_large, sizes)
        return np.minimum(wanted, np.maximum(room, 1)).astype(np.int64)

    def _by_rows(
        self, solver: DualAscent, points: PointSet, costs: np.ndarray, limit: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """α and the other numbers of all pairs; None where those tried first need many rows."""
        from mercer.solvers.dual.two_classes import SingleRows

        gram = Gram(self.gram.kernel, points, None, self.gram.memory)
        if not SingleRows.suit(gram):
            return None
        rows, sizes, count = SingleRows(gram), self._pair_sizes, len(self.pairs)
        alphas, numbers = np.zeros(int(self._ends[-1])), np.zeros((count, 6))
        most, each = self._rows_at_most(solver), np.arange(count)

        def solve(some: np.ndarray, most: np.ndarray) -> None:
            parts = [
                part for i in range(self.classes) if len(part := some[self._firsts[some] == i])
            ]

            def work(part: np.ndarray) -> None:
                settings = solver.tolerance, limit, most
                numbers[part] = self._with_others(part, rows, costs, alphas, *settings)

            run(work, parts, thread_count())
            self.gram.evaluations += int(numbers[some, 5] @ sizes[some])

        tried = each[:: -(-count // min(TUNING.tried, -(-count // TUNING.one_of)))]
        with single_threaded_blas():
            few = np.minimum(most, np.ceil(TUNING.few_rows * sizes)).astype(np.int64)
            solve(tried, few)
            shares = numbers[tried, 5] / sizes[tried]
            open_ones = relative_gaps(numbers[tried]) > solver.tolerance
            if np.where(open_ones, TUNING.open_share, shares).mean() > TUNING.few_rows:
                return None
            solve(np.setdiff1d(each, tried[~open_ones]), most)
        return alphas, numbers

    def _with_others(
        self,
        part: np.ndarray,
        rows: Any,
        costs: np.ndarray,
        alphas: np.ndarray,
        tolerance: float,
        limit: int,
        most: np.ndarray,
    ) -> np.ndarray:
        """What `TwoClasses.solve_with_others` says of some pairs of one class."""
        from mercer.solvers.dual.two_classes import TwoClasses

        sizes, others = self._pair_sizes[part], self._seconds[part]
        numbers = int((most[part] * sizes).max())
        work = TwoClasses(int(sizes.max()), numbers, tolerance, limit)
        settings = most[part], self._ends[part] - sizes, alphas
        first = int(self._firsts[part[0]])
        return work.solve_with_others(first, others, self.bounds, rows, costs, *settings)

    def _by_blocks(
        self, solver: DualAscent, points: PointSet, costs: np.ndarray, limit: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Some classes with all later ones at a time: their matrix is computed by one product."""
        groups, bounds = self._groups(), self.bounds.tolist()
        ends = np.cumsum(self.sizes**2)
        places, squares = ends - self.sizes**2, np.empty(int(ends[-1]))
        alphas, numbers = np.zeros(int(self._ends[-1])), np.zeros((len(self.pairs), 6))

        def square(group: range) -> None:
            start, stop = bounds[group[0]], bounds[group[-1] + 1]
            matrix = self._matrix(points.slice(start, stop), None, np.float64)
            for i in group:
                own = slice(bounds[i] - start, bounds[i + 1] - start)
                squares[places[i] : ends[i]] = matrix[own, own].ravel()

        def solved(group: range) -> None:
            start, stop = bounds[group[0]], bounds[group[-1] + 1]
            origin = stop if len(group) == 1 else start  # of a class alone its own is there already
            if origin == len(points):
                return
            later = points.slice(origin, len(points))
            stripe = self._matrix(points.slice(start, stop), later, np.float64)
            for i in group:
                own = stripe[bounds[i] - start : bounds[i + 1] - start]
                part = np.flatnonzero(self._firsts == i)
                if len(part):
                    blocks = squares, places, own, origin
                    settings = solver.tolerance, limit, self._pair_sizes
                    numbers[part] = self._with_others(part, blocks, costs, alphas, *settings)

        threads = thread_count() if getattr(self.gram.kernel, "parallel", True) else 1
        with single_threaded_blas():
            run(square, groups, threads)
            run(solved, groups, threads)
        return alphas, numbers

    def _groups(self) -> list[range]:
        """Consecutive classes of few points together: a product for each class would cost more."""
        most = min(TUNING.grouped, len(self.order) // (4 * thread_count()))
        groups, first = [], 0
        for code in range(1, self.classes + 1):
            last = code == self.classes
            if last or self.bounds[code + 1] - self.bounds[first] > most:
                groups.append(range(first, code))
                first = code
        return groups

    def _whole(self) -> Callable[[tuple[int, int]], Rows | None]:
        """Rows of pairs out of one matrix, which is small."""
        if len(self.pairs) < 2:
            return lambda pair: None
        points = self.gram.x.take(self.order)
        matrix = self._matrix(points, None, np.float64)
        room = np.empty(int(np.sort(self.sizes)[-2:].sum()) ** 2)  # for one pair after the other

        def rows(pair: tuple[int, int]) -> Rows:
            i, j = (slice(*self.span(code)) for code in pair)
            split, size = self.sizes[pair[0]], self.sizes[list(pair)].sum()
            store = room[: size * size].reshape(size, size)
            store[:split, :split], store[:split, split:] = matrix[i, i], matrix[i, j]
            store[split:, :split], store[split:, split:] = matrix[j, i], matrix[j, j]
            return StoredRows(store)

        return rows

    def _by_class(
        self, solver: DualAscent, threads: int
    ) -> Callable[[tuple[int, int]], Rows | None]:
        """Rows of pairs out of a matrix for each class, and one between the two."""
        dtype = self._stored(solver)
        if dtype is None:
            return lambda pair: None
        points = [self._points(code, dtype) for code in range(self.classes)]
        squares: list[Any] = [None] * self.classes

        def square(code: int) -> None:
            squares[code] = self._matrix(points[code], None, dtype)

        def rows(pair: tuple[int, int]) -> Rows:
            i, j = pair
            return PairRows(squares[i], squares[j], self._matrix(points[i], points[j], dtype))

        with single_threaded_blas():
            run(square, range(self.classes), threads)
        return rows

    def _points(self, code: int, dtype: Any) -> PointSet:
        """The points of a class; dense ones are rounded once, not for each product."""
        points = self.gram.x.take(self.order[slice(*self.span(code))])
        if isinstance(points, DensePoints):
            return replace(points, rows=np.ascontiguousarray(points.rows, dtype))
        return points

    def _matrix(self, x: PointSet, y: PointSet | None, dtype: Any) -> np.ndarray:
        """K between the points of two classes."""
        between = Gram(self.gram.kernel, x, y, self.gram.memory).astype(dtype)
        self.gram.evaluations += between.shape[0] * between.shape[1]
        return between.dense()

    def _stored(self, solver: DualAscent) -> Any:
        """The precision in which matrices are stored, where that pays and fits; else None."""
        sizes = self.sizes.astype(float)
        if len(self.pairs) < 2 or is_cheap(self.gram):
            return None
        numbers = float((sizes**2).sum()) + 2.0 * thread_count() * float(sizes.max()) ** 2
        dtype = np.dtype(np.float32 if solver.starts_in_single(self.gram) else np.float64)
        return dtype if numbers * dtype.itemsize <= memory_budget(solver.cache) else None
