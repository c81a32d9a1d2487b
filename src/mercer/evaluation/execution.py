"""The wall: what a way of computing with K(X, Y) implements, and what is handed to it and back.

`Execution` is all that operators know of CPUs, GPUs and other places. A new one is a class with
these methods and a line in `dispatch.execution_for`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from mercer.arrays import Array, as_numpy, namespace, to_precision

Names = Collection[str] | None  # of parameters; None for all
SPLIT_BITS = 24  # of a float32: what rounding takes from a number is below 2⁻²⁴ times its size


class MappedRows(NamedTuple):
    """The result of a row map on some rows of K V.

    >>> import numpy as np
    >>> MappedRows(np.zeros((2, 1))).product.shape
    (2, 1)
    """

    product: Array  # rows that are multiplied by Kᵀ; any number of columns
    sums: Array | None = None  # small numbers, which are added over all rows in float64
    values: Array | None = None  # rows that are handed back, one for each row of K


class RowMap(Protocol):
    """A map of the rows start, …, stop − 1 of K V on their own.

    It is a value that can be pickled, may be called from several threads and on other machines,
    once for each block of rows, and has no side effects: it only returns values.

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> def doubled(start, stop, rows):
    ...     return MappedRows(2.0 * rows)
    >>> Linear().gram(np.eye(2)).row_pass(np.ones((2, 1)), doubled).product.ravel()
    array([2., 2.])
    """

    def __call__(self, start: int, stop: int, rows: Array) -> MappedRows: ...


class RowPass(NamedTuple):
    """The result of a pass over the rows of K: Kᵀ M(K V) in float64, the sums, the values.

    >>> import numpy as np
    >>> RowPass(np.zeros((2, 1))).product.shape
    (2, 1)
    """

    product: Array
    sums: Array = None  # None where the map has none
    values: Array = None


def added_passes(passes: Iterable[RowPass]) -> RowPass:
    """The pass over all blocks of rows: products and sums are added in order, values joined."""
    product: Any = 0.0
    sums: Any = None
    values: list[Array] = []
    for part in passes:
        product = product + part.product
        if part.sums is not None:
            sums = part.sums if sums is None else sums + part.sums
        if part.values is not None:
            values.append(part.values)
    return RowPass(product, sums, namespace(*values).concat(values, axis=0) if values else None)


@dataclass(frozen=True, eq=False)
class Affine:
    """The row map R ↦ w ∘ (R + B) of the first columns of K V, which compiled code can do.

    Parameters
    ----------
    factors : array of shape (n or 1, columns or 1)
        w, in float64.
    added : array of shape (n or 1, columns)
        B, in float64; its columns are those that are mapped.
    keep_values : bool
        Whether K V is handed back, with all its columns.
    with_factors : bool
        Whether a last column w is multiplied by Kᵀ, too.
    split : bool
        Whether the second half of the columns of V is what rounding took from the first, times 2²⁴.

    Examples
    --------
    >>> import numpy as np
    >>> double = Affine(np.full((1, 1), 2.0), np.ones((1, 1)))
    >>> double(0, 2, np.array([[3.0], [4.0]])).product.ravel()
    array([ 8., 10.])
    """

    factors: Array
    added: Array
    keep_values: bool = False
    with_factors: bool = False
    split: bool = False

    def __call__(self, start: int, stop: int, rows: Array) -> MappedRows:
        values = joined_halves(rows) if self.split else rows
        part = self.part(start, stop)
        product = part.factors * (values[:, : self.added.shape[1]] + part.added)
        if self.with_factors:
            xp = namespace(product)
            last = xp.broadcast_to(part.factors[:, :1], (stop - start, 1))
            product = xp.concat([product, last], axis=1)
        image = to_precision(values, "float64") if self.keep_values else None
        return MappedRows(to_precision(product, rows.dtype), None, image)

    def part(self, start: int, stop: int) -> Affine:
        """The same map of the rows start, …, stop − 1, which are counted from 0."""
        factors, added = (a if len(a) == 1 else a[start:stop] for a in (self.factors, self.added))
        return replace(self, factors=factors, added=added)

    @property
    def columns(self) -> int:
        """The number of columns that are multiplied by Kᵀ."""
        return int(self.added.shape[1]) + self.with_factors


@dataclass(frozen=True, eq=False)
class Seen:
    """A row map of rows that come in another form.

    Row 0 here is row `first` there; where `split`, the second half of the columns is what rounding
    took from the first.
    """

    row_map: RowMap
    first: int = 0
    split: bool = False

    def __call__(self, start: int, stop: int, rows: Array) -> MappedRows:
        rows = joined_halves(rows) if self.split else rows
        return self.row_map(self.first + start, self.first + stop, rows)


def joined(row_map: RowMap) -> RowMap:
    """A map of K V for a V that was cut in two by `split_halves`."""
    if isinstance(row_map, Affine):
        return replace(row_map, split=True)
    return Seen(row_map, split=True)


def part_of(row_map: RowMap, first: int, count: int) -> RowMap:
    """The map of `count` rows from `first` on, which are counted from 0."""
    if isinstance(row_map, Affine):
        return row_map.part(first, first + count)
    return Seen(row_map, first)


def split_halves(values: Array, dtype: Any) -> tuple[Array, bool]:
    """V for a product in float32 without loss: its rounding, and beside it 2²⁴ times the rest.

    The second value says whether there is a rest. Coefficients on centres that lie close together
    are large and cancel. What rounding does to K differs from row to row and averages out in Kᵀ;
    what it would do to V is the same in every row.

    >>> import numpy as np
    >>> halves, _ = split_halves(np.full((1, 1), np.pi), np.float32)
    >>> bool(abs(halves[0] @ [1.0, 2.0**-24] - np.pi) < 1e-14)
    True
    """
    rounded = to_precision(values, dtype)
    rest = to_precision(2.0**SPLIT_BITS * (values - rounded), dtype)  # as large as V: no subnormals
    if not bool((rest != 0).any()):
        return rounded, False
    return namespace(values).concat([rounded, rest], axis=1), True


def joined_halves(rows: Array) -> Array:
    """K V from the product with what `split_halves` made of V."""
    half = rows.shape[1] // 2
    return rows[:, :half] + rows[:, half:] / 2.0**SPLIT_BITS


@dataclass(frozen=True)
class Plan:
    """How a product will be computed: execution, tiles, threads and memory.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> isinstance(Gaussian().gram(np.eye(3)).plan(), Plan)
    True
    """

    execution: str
    distances: str
    tile: tuple[int, int]
    threads: int
    symmetric: bool
    memory: int

    def __str__(self) -> str:
        distances = f", distances by {self.distances}" if self.distances else ""
        symmetric = ", each symmetric pair once" if self.symmetric else ""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return (
            f"{self.execution}: tiles of {self.tile[0]} × {self.tile[1]} in {threads}"
            f"{distances}{symmetric}; at most {self.memory / 2**20:.0f} MB beside input and output"
        )


class Execution(Protocol):
    """A way of computing with the matrix K(X, Y) of one kernel, in one precision.

    Values V are matrices where the points live, in the precision of the execution; what is
    returned lives there, too. Empty sides are allowed.
    """

    def product(self, values: Array) -> Array:
        """K V."""

    def transposed_product(self, values: Array) -> Array:
        """Kᵀ V."""

    def row_pass(self, values: Array, row_map: RowMap) -> RowPass:
        """Kᵀ M(K V) for a map M of rows; each value of K is computed once where that pays."""

    def block(self) -> Array:
        """K, stored."""

    def diagonal(self) -> Array:
        """k(x_i, x_i) for every row."""

    def gradient(self, values: Array) -> Array:
        """∇ₓ Σ_j v_j k(x, y_j) at every row x; shape (n, columns of V, coordinates)."""

    def parameter_gradient(
        self, left: Array, right: Array | None = None, names: Names = None
    ) -> dict[str, Any]:
        """Σ_t u_tᵀ(∂K/∂θ)v_t for every parameter θ of the kernel, or some of them, by its name.

        Without `right`, `left` is a matrix P of weights, and the sum Σ_ij P_ij ∂k(x_i, y_j)/∂θ.
        """

    def plan(self, columns: int) -> Plan:
        """The plan of a product with so many columns, which is not computed."""


class Adapted:
    """An execution for numbers of another precision, library or place, which are converted.

    `bring` makes numbers of the execution `inside` from a caller's, `back` a caller's from its own.
    """

    def __init__(
        self, inside: Execution, bring: Callable[[Any], Any], back: Callable[[Any], Any]
    ) -> None:
        self.inside, self.bring, self.back = inside, bring, back

    def product(self, values: Array) -> Array:
        return self.back(self.inside.product(self.bring(values)))

    def transposed_product(self, values: Array) -> Array:
        return self.back(self.inside.transposed_product(self.bring(values)))

    def row_pass(self, values: Array, row_map: RowMap) -> RowPass:
        return self.inside.row_pass(self.bring(values), row_map)

    def block(self) -> Array:
        return self.back(self.inside.block())

    def diagonal(self) -> Array:
        return self.back(self.inside.diagonal())

    def gradient(self, values: Array) -> Array:
        return self.back(self.inside.gradient(self.bring(values)))

    def parameter_gradient(
        self, left: Array, right: Array | None = None, names: Names = None
    ) -> dict[str, Array]:
        other = None if right is None else self.bring(right)
        return self.inside.parameter_gradient(self.bring(left), other, names)

    def plan(self, columns: int) -> Plan:
        return self.inside.plan(columns)


class Hosted(Adapted):
    """K(X, Y) of points on a device for numbers on the host: they are copied there and back."""

    def __init__(self, inside: Execution, points: Any) -> None:
        super().__init__(inside, points.vector, as_numpy)
        self.points = points

    def row_pass(self, values: Array, row_map: RowMap) -> RowPass:
        """The map is one of the host: all rows of K V are brought there."""
        mapped = row_map(0, len(self.points), self.product(values))
        product = self.transposed_product(to_precision(mapped.product, values.dtype))
        return RowPass(to_precision(product, "float64"), mapped.sums, mapped.values)

    def parameter_gradient(
        self, left: Array, right: Array | None = None, names: Names = None
    ) -> dict[str, Array]:
        slopes = super().parameter_gradient(left, right, names)
        return {name: as_numpy(slope) for name, slope in slopes.items()}
