"""A metric on the columns of a table, kernels that measure distances by it, and how it is learned.

It is learned from the average outer product of the gradients of f = Σ_j α_j k(·, y_j) with outputs
t, M = (1/Σw) Σ_i w_i Σ_t ∇f_t(x_i) ∇f_t(x_i)ᵀ, which tells along which columns f varies. Gradients
come from the slopes of the kernel's expression, so that beside them a few strips are stored, and
never n × n × d. At a kink the slope is the mean of both sides, so that a point adds nothing to its
own gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array, as_numpy, namespace, to_precision
from mercer.kernels.base import Kernel
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.budget import MEGABYTE, memory_budget
from mercer.runtime.threads import spans


@dataclass(frozen=True)
class Tuning:
    """What is left out of a metric, and the memory for gradients."""

    least_scale: float = 1e-8  # relative to the largest: a column that does not matter keeps a
    # finite lengthscale
    least_eigenvalue: float = 1e-14  # relative to the largest: directions below it are rounding,
    # and are left out of a full map
    levels: int = 5  # of a category, from which they are worth being told apart by how they act
    category_rows: int = 5000  # that are looked at for columns of 0 and 1
    strip_bytes: int = 64 * MEGABYTE  # of gradients that are held at a time
    longest: float = 10.0  # times the median length of a gradient: longer ones are cut. A kernel
    # like exp(−r^½) has unbounded slopes, and one pair of points that nearly coincide would else
    # decide the average


TUNING = Tuning()


Form = str | Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class Metric:
    """‖x − y‖² = (x − y)ᵀM(x − y) for a positive semidefinite M.

    Parameters
    ----------
    matrix : array of shape (d,) or (d, d)
        M, or its diagonal where it is diagonal.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear
    >>> metric = Metric(np.array([4.0, 1.0]))
    >>> metric.applied(Gaussian(3.0))
    Gaussian(lengthscale=(1.5, 3.0))
    >>> metric.applied(Linear())([1.0, 2.0], [3.0, 4.0])
    20.0
    """

    matrix: np.ndarray

    @classmethod
    def of_columns(cls, deviations: np.ndarray) -> Metric:
        """Every column in units of its standard deviation; constant columns as they are."""
        return cls(1.0 / np.where(deviations > 0, deviations, 1.0) ** 2)

    @property
    def is_diagonal(self) -> bool:
        return self.matrix.ndim == 1

    @property
    def diagonal(self) -> np.ndarray:
        """M_kk for every column k."""
        return self.matrix if self.is_diagonal else np.diag(self.matrix)

    def normalised(self, deviations: np.ndarray) -> Metric:
        """The multiple whose columns, in units of their deviations, have mean M_kk = 1."""
        mean = float(np.mean(self.diagonal * deviations**2))
        return Metric(self.matrix / mean) if mean > 0 else self

    def shares(self, deviations: np.ndarray) -> np.ndarray:
        """The part of each column in the trace of M, in units of the columns' deviations."""
        parts = self.diagonal * deviations**2
        total = float(parts.sum())
        return parts / total if total > 0 else np.full(len(parts), 1.0 / len(parts))

    def root(self) -> np.ndarray:
        """A with AᵀA = M, for a diagonal M its diagonal; rows of a full A fall in length."""
        if self.is_diagonal:
            roots = np.sqrt(self.matrix)
            return np.maximum(roots, TUNING.least_scale * roots.max())
        values, vectors = np.linalg.eigh(self.matrix)
        kept = values > TUNING.least_eigenvalue * max(values[-1], 0.0)
        return (np.sqrt(values[kept]) * vectors[:, kept]).T[::-1]

    def embedding(self, columns: Sequence[int], dimensions: int = 2) -> np.ndarray:
        """Coordinates of the levels of a category, whose columns of 0 and 1 are given.

        They are √λ_i v_i for the leading eigenpairs of the columns' block of M, so that with all
        dimensions levels are as far apart as rows that differ in nothing else. The largest entry of
        each v_i is positive.

        >>> Metric(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 9.0]])).embedding(
        ...     [0, 1], 1
        ... )
        array([[1.],
               [1.]])
        """
        matrix = np.diag(self.matrix) if self.is_diagonal else self.matrix
        values, vectors = np.linalg.eigh(matrix[np.ix_(columns, columns)])
        leading = vectors[:, ::-1][:, :dimensions]
        signs = np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(leading.shape[1])])
        return leading * signs * np.sqrt(np.maximum(values[::-1][:dimensions], 0.0))

    def applied(self, kernel: Kernel, scale: float = 1.0) -> Kernel:
        """The kernel on points A x/scale, AᵀA = M: by its lengthscales where that says the same."""
        root = self.root() / scale
        if not self.is_diagonal:
            return kernel.after(root)
        lengthscale = kernel.get_params(deep=False).get("lengthscale")
        if lengthscale is None or np.ndim(lengthscale) != 0:
            return kernel.after(np.diag(root))
        return kernel.with_(lengthscale=tuple((float(lengthscale) / root).tolist()))


def blocks_of(form: Form, width: int) -> list[np.ndarray] | None:
    """The groups of columns that may be mixed: None for none, one group for a full matrix."""
    if isinstance(form, str):
        if form not in ("diagonal", "full"):
            raise ValueError(
                'form must be "diagonal", "full", or a list of groups of columns that are mapped '
                f"together, as [[0, 1], [2, 3, 4]]; got {form!r}."
            )
        return None if form == "diagonal" else [np.arange(width)]
    groups = [np.asarray(group, dtype=int) for group in form]
    columns = np.concatenate(groups) if groups else np.empty(0, int)
    outside = columns.size and (columns.min() < 0 or columns.max() >= width)
    if outside or len(np.unique(columns)) != len(columns):
        raise ValueError(
            f"the groups of form must name columns from 0 to {width - 1}, each at most once; got "
            f"{[group.tolist() for group in groups]}."
        )
    return groups


def category_blocks(X: Any) -> list[np.ndarray]:
    """The columns of each category: neighbours of 0 and 1, of which every row has at most one 1.

    None where no category has so many levels that it pays to learn which of them act alike.

    >>> X = np.column_stack([np.arange(12.0), np.eye(6)[np.arange(12) % 6], np.arange(12) % 2 > 0])
    >>> [block.tolist() for block in category_blocks(X)]
    [[1, 2, 3, 4, 5, 6]]
    """
    rows = np.asarray(as_numpy(X[: TUNING.category_rows]), np.float64)
    blocks: list[list[int]] = []
    ones = np.zeros(len(rows))
    for k, column in enumerate(rows.T):
        if not ((column == 0) | (column == 1)).all():
            continue
        adjacent = bool(blocks) and blocks[-1][-1] == k - 1
        if adjacent and (ones + column).max() <= 1:
            blocks[-1].append(k)
            ones = ones + column
        else:
            blocks.append([k])
            ones = column
    several = [np.array(block) for block in blocks if len(block) > 1]
    return several if any(len(block) >= TUNING.levels for block in several) else []


def within_blocks(product: np.ndarray, groups: list[np.ndarray] | None) -> Metric:
    """The metric of an outer product, without what mixes columns of different groups."""
    if groups is None:
        return Metric(product if product.ndim == 1 else np.diag(product).copy())
    kept: Any = np.diag(np.diag(product))
    for group in groups:
        places = np.ix_(group, group)
        kept[places] = product[places]
    return Metric(kept)


def average_outer_product(
    kernel: Kernel,
    points: PointSet,
    centres: PointSet,
    coefficients: Array,
    deviations: np.ndarray,
    *,
    weights: Array | None = None,
    diagonal: bool = False,
) -> np.ndarray:
    """M, or its diagonal, for f = Σ_j α_j k(·, centre_j) at some points; in float64 on the host.

    `deviations` are the units in which the lengths of gradients are compared.
    """
    outputs = coefficients.shape[1] if coefficients.ndim == 2 else 1
    room = min(TUNING.strip_bytes, memory_budget() // 8)
    strip = room // (8 * outputs * getattr(points, "width", 1))
    gradients = []
    for start, stop in spans(len(points), max(1, strip)):
        part = Gram(kernel, points.slice(start, stop), centres).gradient(coefficients)
        part = to_precision(part, "float64")  # (rows, outputs, columns)
        gradients.append(part if part.ndim == 3 else part[:, None, :])
    xp = namespace(gradients[0])
    units = xp.asarray(deviations, device=gradients[0].device)
    sizes = [xp.sqrt(xp.sum((part * units) ** 2, axis=(1, 2))) for part in gradients]
    lengths = np.concatenate([as_numpy(size) for size in sizes])
    own = np.ones(len(points)) if weights is None else as_numpy(weights)
    positive = lengths[(lengths > 0) & (own > 0)]
    longest = TUNING.longest * float(np.median(positive)) if len(positive) else 0.0
    factors = own * np.minimum(1.0, longest / np.maximum(lengths, 1e-300)) ** 2 / own.sum()
    total: Any = 0.0
    for part in gradients:
        own, factors = factors[: len(part)], factors[len(part) :]
        rows = part * xp.asarray(np.sqrt(own), device=part.device)[:, None, None]
        rows = xp.reshape(rows, (-1, rows.shape[-1]))
        total = total + as_numpy(xp.sum(rows**2, axis=0) if diagonal else rows.T @ rows)
    return total
