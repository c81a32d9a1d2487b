"""Ridge fits of one kernel on one part of the rows, and what they miss on the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, as_numpy, floating, namespace, to_precision
from mercer.checks import check_weights
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.inner_product import Linear
from mercer.losses import Squared
from mercer.operators import Gram, cross_gram
from mercer.points import PointSet, View
from mercer.solvers.krylov import conjugate_gradients
from mercer.solvers.newton import Newton
from mercer.solvers.problem import Problem


@dataclass(frozen=True)
class Tuning:
    """Sizes and accuracy of fits."""

    linear_rows: int = 50_000  # tell a linear function to 1/√50,000 of what it leaves
    mixed_rows: int = 2000  # from which a factor in float32 pays
    refined: float = 1e-7  # residual relative to the targets: held-out errors do not need more
    refinements: int = 12


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows with targets (n, outputs) and weights, where they are computed."""

    points: PointSet
    targets: Array
    weights: Array | None = None

    @classmethod
    def of(cls, points: PointSet, targets: Any, weights: np.ndarray | None) -> Sample:
        y = to_precision(floating(points.vector(targets)), "float64")
        if y.ndim not in (1, 2) or len(y) != len(points):
            raise ValueError(
                f"targets must be one or several numbers for each of {len(points)} rows; got shape "
                f"{tuple(y.shape)}."
            )
        if weights is not None:
            check_weights(as_numpy(weights), len(points), "sample_weight")
            weights = to_precision(floating(points.vector(weights)), "float64")
        return cls(points, y[:, None] if y.ndim == 1 else y, weights)

    def __len__(self) -> int:
        return len(self.points)

    def take(self, rows: np.ndarray) -> Sample:
        places = self.points.vector(rows)
        weights = None if self.weights is None else self.weights[places]
        return Sample(self.points.take(rows), self.targets[places], weights)

    def drawn_rows(self, most: int, random_state: Any) -> np.ndarray:
        """All rows with a weight, or as many as may be, drawn at random, in their order."""
        rows = np.arange(len(self))
        if self.weights is not None:
            rows = np.flatnonzero(as_numpy(self.weights) > 0)
        if len(rows) <= most:
            return rows
        return np.sort(np.random.default_rng(random_state).choice(rows, most, replace=False))

    def mean(self, values: Array) -> Array:
        """The weighted mean over rows."""
        xp = namespace(values)
        if self.weights is None:
            return xp.mean(values, axis=0)
        shape = (-1, *[1] * (values.ndim - 1))
        return xp.sum(xp.reshape(self.weights, shape) * values, axis=0) / xp.sum(self.weights)


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """f = Σ_j c_j k(·, x_j) + b with (SKS + αmI)S⁻¹c = S(y − b), S = diag(√w), m the mean of K_ii.

    b is the weighted mean of the targets. α is relative to the kernel, so that one list of values
    serves all kernels.
    """

    kernel: Kernel
    sample: Sample
    tuning: Tuning = field(default=Tuning(), repr=False, kw_only=True)

    @cached_property
    def matrix(self) -> Array:
        """SKS."""
        # in float32 a small ridge would not keep the rounded K positive definite
        values = Gram(self.kernel, self.sample.points).astype(np.float64).dense()
        return self.weighted(self.weighted(values).T)

    def weighted(self, rows: Array) -> Array:
        """S times a matrix."""
        weights = self.sample.weights
        return rows if weights is None else namespace(weights).sqrt(weights)[:, None] * rows

    @cached_property
    def scale(self) -> float:
        """The mean of k(x, x)."""
        diagonal = Gram(self.kernel, self.sample.points).diagonal()
        return float(namespace(diagonal).mean(to_precision(diagonal, "float64"))) or 1.0

    @cached_property
    def intercept(self) -> Array:
        return self.sample.mean(self.sample.targets)

    def coefficients(self, alpha: float) -> Array:
        """c, one column for each output."""
        sides = self.weighted(self.sample.targets - self.intercept)
        solved = self._refined(alpha, sides)
        if solved is None:
            matrix = linalg.shift_diagonal(1.0 * self.matrix, alpha * self.scale)
            solved = linalg.cholesky(matrix, overwrite=True).solve(sides)
        return self.weighted(solved)

    def _refined(self, alpha: float, sides: Array) -> Array | None:
        """By a factor in float32, half of the work, and a few steps with the matrix in float64.

        None where there are few rows, where float64 is as fast, and where float32 does not do.
        """
        if len(self.sample) < self.tuning.mixed_rows or not self.sample.points.machine.mixed_pays:
            return None
        ridge = alpha * self.scale
        try:
            single = linalg.shift_diagonal(to_precision(self.matrix, "float32"), ridge)
            factor = linalg.cholesky(single, jitter=0.0, overwrite=True)
        except ValueError:  # not positive definite in float32
            return None
        run = conjugate_gradients(
            lambda v: self.matrix @ v + ridge * v,
            lambda r: to_precision(factor.solve(to_precision(r, "float32")), "float64"),
            sides,
            tolerance=self.tuning.refined,
            iterations=self.tuning.refinements,
        )
        return run.solution if run.residual <= self.tuning.refined else None

    @property
    def centres(self) -> PointSet:
        """What f is made of."""
        return self.sample.points

    def predictions_at(self, points: PointSet) -> Callable[[Array], Array]:
        """From c to the values of f at other points; the cross matrix is computed once."""
        cross = Gram(self.kernel, points, self.centres).astype(np.float64).dense()
        return lambda c: cross @ c + self.intercept


@dataclass(frozen=True, eq=False)
class FitOnCentres(RidgeFit):
    """The same over f = Σ_j c_j k(·, z_j) with fewer centres than rows, spread over the sample."""

    count: int = 1000

    @cached_property
    def centres(self) -> PointSet:
        places = np.linspace(0, len(self.sample) - 1, self.count).round().astype(int)
        return self.sample.points.take(places)

    def coefficients(self, alpha: float) -> Array:
        sample = self.sample
        total = float(len(sample)) if sample.weights is None else float(sample.weights.sum())
        problem = Problem.on_centres(
            cross_gram(self.kernel, sample.points, self.centres),
            sample.targets - self.intercept,
            Squared(),
            alpha * self.scale / total,
            sample.weights,
        )
        return to_precision(Newton().solve(problem).coefficients, "float64")


def fit_of(kernel: Kernel, sample: Sample, centres: int) -> RidgeFit:
    """A fit on all points of a sample, or on centres where it has more."""
    if len(sample) <= centres:
        return RidgeFit(kernel, sample)
    return FitOnCentres(kernel, sample, centres)


def mean_square(held: Sample, values: Array) -> float:
    """The weighted mean square of what values miss on rows, over all outputs."""
    gap = (held.targets - values) ** 2
    return float(namespace(gap).mean(held.mean(gap)))


def splits_of(
    rows: int, held_out: float, count: int, random: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of kept and held-out rows; held-out parts overlap only where they must."""
    held = max(1, round(held_out * rows))
    if rows - held < 1:
        raise ValueError(f"learning a metric needs two rows or more; got n_samples = {rows}.")
    pairs, order = [], np.empty(0, int)
    for _ in range(count):
        if len(order) < held:
            order = random.permutation(rows)
        out, order = order[:held], order[held:]
        pairs.append((np.setdiff1d(np.arange(rows), out), np.sort(out)))
    return pairs


def column_deviations(sample: Sample) -> np.ndarray:
    """The standard deviation of every column, weighted; on the host."""
    points: Any = sample.points
    rows = to_precision(points.seen(View(), points.dtype), "float64")
    mean = sample.mean(rows)
    return np.sqrt(as_numpy(sample.mean((rows - mean) ** 2)))


def linear_fit(
    points: PointSet, y: Any, weights: Any = None, random_state: Any = 0
) -> tuple[RKHSFunction, float]:
    """x ↦ ⟨w, x⟩ by least squares with an intercept, and the part of the variance that it leaves.

    w is fitted to some of the rows where there are many, and the part is that of unseen rows, as if
    errors were normal.

    >>> from mercer.kernels import Linear
    >>> X = np.random.default_rng(0).uniform(size=(50, 2))
    >>> f, left = linear_fit(Linear().points(X), X @ [1.0, -2.0] + 3.0)
    >>> f([[1.0, 0.0], [0.0, 1.0]]).round(6), left < 1e-12
    (array([ 1., -2.]), True)
    """
    sample = Sample.of(points, y, weights)
    some = sample.take(sample.drawn_rows(Tuning.linear_rows, random_state))
    rows = to_precision(some.points.seen(View(), points.dtype), "float64")  # type: ignore[attr-defined]
    X, targets = as_numpy(rows), as_numpy(some.targets)
    roots = np.sqrt(np.ones(len(X)) if some.weights is None else as_numpy(some.weights))[:, None]
    mean = (roots**2 * X).sum(axis=0) / (roots**2).sum()
    units = np.sqrt((roots**2 * (X - mean) ** 2).sum(axis=0))
    units[units == 0] = 1.0
    whole = roots * (targets - (roots**2 * targets).sum(axis=0) / (roots**2).sum())
    columns = roots * (X - mean) / units
    w, *_ = np.linalg.lstsq(columns, whole, rcond=1e-10)
    rest = whole - columns @ w
    used = len(w) + 1  # degrees of freedom: the mean square of unseen rows is (n + used)/(n - used)
    unseen = (len(X) + used) / max(len(X) - used, 1e-300)
    left = float(unseen * (rest**2).sum() / max((whole**2).sum(), 1e-300))
    centres = Linear().points(points.vector(np.eye(len(w), dtype=points.dtype)))
    w = w / units[:, None]
    return RKHSFunction(Linear(), centres, w[:, 0] if y.ndim == 1 else w), left
