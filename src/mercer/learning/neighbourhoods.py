"""Learning at the density of all rows: from some rows and their nearest neighbours.

A sample of a large table is sparse. What varies between neighbours looks like noise in it, and the
lengthscales that predict its rows best are wider than those that predict a row from the whole
table. A neighbourhood, the rows with the largest k(x, ·), is as dense as the table is: the sum of
the log likelihoods of some of them tells lengthscales and ridge, as in local kriging, and what they
say of the rows in their middle tells what a fit of all rows will miss.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import as_numpy, largest
from mercer.kernels.base import Kernel
from mercer.kernels.input_maps import LinearMap
from mercer.learning.fits import Sample, column_deviations
from mercer.learning.metric import Metric
from mercer.learning.parameters import MarginalLikelihood
from mercer.learning.rounds import LearnedKernel, Round
from mercer.operators import Gram
from mercer.runtime.budget import memory_budget
from mercer.runtime.threads import spans


@dataclass(frozen=True)
class Tuning:
    """Numbers of learning from neighbourhoods."""

    sparse: float = 10.0  # rows for each of a sample from which it does not tell lengthscales
    count: int = 40  # neighbourhoods that are learned from
    size: int = 200  # rows of each
    passes: int = 2  # so often neighbours are found, then in the metric that was learned
    iterations: int = 15  # of each pass
    judges: int = 200  # rows that are predicted from their neighbours
    first_ridge: float = 1e-2
    """Where the ridge begins, at most: a sample may have taken for noise what varies between its
    rows."""
    least_ridge: float = 1e-3
    """Below it predictions gain little (household power: 1 in 100), while systems of all rows take
    many more iterations, or float64."""


TUNING = Tuning()


class Neighbourhoods:
    """Rows of a large table that are learned from and judged by, each with its neighbours."""

    def __init__(self, sample: Sample, random_state: Any, tuning: Tuning | None = None) -> None:
        self.sample, self.tuning = sample, tuning or TUNING
        count, random = self.tuning.count, np.random.default_rng(random_state)
        rows = random.permutation(sample.drawn_rows(count + self.tuning.judges, random))
        self.anchors, self.judges = rows[:count], rows[count:]
        targets = as_numpy(sample.targets)
        self.mean, self.deviations = targets.mean(axis=0), targets.std(axis=0)
        self.deviations = np.where(self.deviations > 0, self.deviations, 1.0)
        self.units = column_deviations(sample)

    @staticmethod
    def serve(sample: Sample, rows: int) -> bool:
        """Whether a sample of so many rows is too sparse, and neighbours can be looked for."""
        return sample.points.machine.pairs_rows and len(sample) >= TUNING.sparse * rows

    def neighbours(self, kernel: Kernel, rows: np.ndarray, skip: bool = False) -> list[np.ndarray]:
        """For each of some rows those with the largest k(row, ·); without itself where asked."""
        points, size = self.sample.points, min(self.tuning.size + skip, len(self.sample))
        # where k(x, x) is constant the order is the same, and takes a fraction of the time
        constant = kernel.facts(points.width).constant_diagonal  # type: ignore[attr-defined]
        normalised, found = kernel if constant else kernel.normalised(), list[np.ndarray]()
        strip = max(1, memory_budget() // 16 // (8 * len(points)))
        for start, stop in spans(len(rows), min(strip, 16)):
            near = Gram(normalised, points.take(rows[start:stop]), points).dense()
            places = largest(near, size)
            for row, own in zip(rows[start:stop], places, strict=True):
                found.append(own[own != row][: self.tuning.size] if skip else own)
        return found

    def hosted(self, kernel: Kernel, rows: np.ndarray) -> Sample:
        """Some rows on the host in float64, where many small systems are solved quickest.

        Targets are those of the whole table with mean 0 and variance 1.
        """
        taken = self.sample.take(rows)
        points: Any = taken.points
        targets = (as_numpy(taken.targets) - self.mean) / self.deviations
        weights = None if taken.weights is None else as_numpy(taken.weights)
        return Sample(kernel.points(as_numpy(points.data).astype(np.float64)), targets, weights)

    def samples(self, kernel: Kernel) -> list[Sample]:
        """The neighbourhoods that are learned from."""
        return [self.hosted(kernel, rows) for rows in self.neighbours(kernel, self.anchors)]

    def predictions(self, kernel: Kernel, ridge: float) -> np.ndarray:
        """What neighbours say of the rows that judge."""
        said = np.empty((len(self.judges), len(self.mean)))
        near = self.neighbours(kernel, self.judges, skip=True)
        for i, (row, rows) in enumerate(zip(self.judges, near, strict=True)):
            sample, own = self.hosted(kernel, rows), self.hosted(kernel, np.array([row]))
            matrix, noise = Gram(kernel, sample.points).dense(), ridge
            if sample.weights is not None:
                noise = ridge / np.maximum(sample.weights, 1e-300)
            matrix[np.diag_indices(len(matrix))] += noise
            cross = Gram(kernel, own.points, sample.points).dense()
            said[i] = (cross @ linalg.cholesky(matrix, overwrite=True).solve(sample.targets))[0]
        return self.mean + self.deviations * said

    def learned(self, start: LearnedKernel, seconds: float = math.inf) -> LearnedKernel:
        """A kernel with lengthscales and a ridge for the density of all rows, from one for a part.

        A kernel without lengthscales stays as it is.
        """
        begun = time.perf_counter()
        kernel = _per_column(start.kernel, len(start.importances))
        alpha = min(start.alpha, self.tuning.first_ridge)
        if kernel is None:
            return self.judged(start)
        for number in range(self.tuning.passes):
            left = seconds - (time.perf_counter() - begun)
            if left <= 0:
                break
            search = MarginalLikelihood(
                ridge=max(alpha, self.tuning.least_ridge),
                iterations=self.tuning.iterations,
                time_limit=None if left == math.inf else left / (self.tuning.passes - number),
            )
            found = search.learn_from(kernel, self.samples(kernel), self.tuning.least_ridge)
            kernel, alpha = found.kernel, found.alpha
        metric = _metric_of(kernel, start.metric.is_diagonal)
        return self.judged(replace(start, kernel=kernel, metric=metric, alpha=alpha), begun)

    def judged(self, learned: LearnedKernel, begun: float | None = None) -> LearnedKernel:
        """The same kernel with what it says of the rows that judge, as one more round."""
        begun = time.perf_counter() if begun is None else begun
        said = self.predictions(learned.kernel, learned.alpha)
        missed = as_numpy(self.sample.targets)[self.judges] - said
        last, shares = learned.rounds[learned.chosen], learned.metric.shares(self.units)
        error = float(np.mean(missed**2))
        seconds = learned.rounds[-1].seconds + time.perf_counter() - begun
        one = Round(last.scale, learned.alpha, error, shares, seconds)
        return replace(
            learned,
            rounds=[*learned.rounds, one],
            chosen=len(learned.rounds),
            importances=shares,
            held_out=(self.judges, said),
        )


def densest(
    around: Neighbourhoods,
    learned: LearnedKernel,
    others: Sequence[LearnedKernel],
    judged: Callable[[LearnedKernel], float],
    seconds: float = math.inf,
) -> tuple[LearnedKernel, list[float]]:
    """The best at the density of all rows: what a sample chose, or one learned in neighbourhoods.

    The second list has the loss of each of the others, the best of which come first. Neighbours are
    sought among all rows, before and after a search: where there is no time for that, the loss of
    one is unknown (NaN).
    """
    begun = time.perf_counter()
    best = around.judged(learned)
    seeking = 2.0 * (time.perf_counter() - begun)
    losses = [math.nan] * len(others)
    order = sorted(range(len(others)), key=lambda i: judged(others[i]))
    for done, i in enumerate(order):
        left = seconds - (time.perf_counter() - begun)
        if left <= seeking:
            break
        refined = around.learned(others[i], left / (len(others) - done) - seeking)
        losses[i] = judged(refined)
        best = min(best, refined, key=judged)
    return best, losses


def _per_column(kernel: Kernel, width: int) -> Kernel | None:
    """A lengthscale for each column, or image of columns; None where the kernel has none."""
    if isinstance(kernel, LinearMap):
        inner = _per_column(kernel.kernel, len(kernel.matrix))
        return None if inner is None else LinearMap(inner, kernel.matrix)
    lengthscale = kernel.get_params(deep=False).get("lengthscale")
    if lengthscale is None:
        return None
    if np.ndim(lengthscale):
        return kernel
    return kernel.with_(lengthscale=(float(lengthscale),) * width)


def _metric_of(kernel: Any, diagonal: bool) -> Metric:
    """The metric of a kernel with a lengthscale for each column, or image of columns."""
    if not isinstance(kernel, LinearMap):
        return Metric(1.0 / np.square(kernel.lengthscale))
    inner: Any = kernel.kernel
    root = np.asarray(kernel.matrix) / np.asarray(inner.lengthscale)[:, None]
    matrix = root.T @ root
    return Metric(np.diag(matrix).copy() if diagonal else matrix)
