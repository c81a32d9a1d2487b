"""Kernels on mixed tables: categories, numbers, dates and texts, with missing values.

A `Table` is a kernel on named columns, and what it learned of a training table: the scale of its
numbers, the frequencies of its categories. `table_kernel(frame)` proposes one.

>>> import pandas as pd
>>> frame = pd.DataFrame({"town": ["Bonn", "Rome", None, "Rome"], "age": [31.0, 45.0, 28.0, None]})
>>> k = table_kernel(frame, main_effects=False)
>>> k.kernel
Gaussian(lengthscale=1.0).on(['age']) * Category(weight=1.6...).on(['town']) * ...
>>> k(frame).shape
(4, 4)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np

from mercer.checks import check_positive
from mercer.evaluation.expression import (
    Expression,
    X,
    Y,
    absolute,
    coordinate_product,
    coordinate_sum,
    decay,
    minimum,
)
from mercer.kernels.base import Kernel, checked, parts
from mercer.kernels.facts import UNIT_DIAGONAL, Facts, yes
from mercer.kernels.input_maps import Columns, OnImages
from mercer.kernels.periodic import PeriodicExponential
from mercer.kernels.radial import Exponential, Gaussian
from mercer.points import DensePoints, PointSet, VectorPoints, is_point_set
from mercer.structured.base import StructuredPoints, facts_inside
from mercer.structured.encodings import (
    Categories,
    Encoding,
    column_names,
    cycles,
    kind_of,
    numbers,
    rows_of,
)
from mercer.structured.text import Text


def _different() -> Expression:
    """1 for different categories, 0 for equal ones: codes are whole numbers."""
    return minimum(absolute(X - Y), 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class Category(Kernel):
    """e^{−w·(number of columns in which two rows differ)}, for columns of categories.

    Parameters
    ----------
    weight : float, default=1.0
        w > 0.

    References
    ----------
    Couto, Kernel k-means for categorical data, 2005.

    Examples
    --------
    >>> import math
    >>> Category(0.5)([1.0, 7.0], [2.0, 7.0]) == math.exp(-0.5)
    True
    """

    weight: float = 1.0
    checks = checked(weight=check_positive)

    def expression(self) -> Expression:
        return decay(float(self.weight) * coordinate_sum(_different()))

    def facts(self, dimension: int | None = None) -> Facts:
        return Facts(
            self,
            dimension,
            positive_definite=yes("each column is e^{−w} + (1 − e^{−w})·1[a = b]"),
            positive_values=True,
            **UNIT_DIAGONAL,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Match(Kernel):
    """1 where two rows have the same categories in all columns, 0 elsewhere.

    Rare categories say more than frequent ones: `Match().on("town") * Linear().on("town#")` is
    1 − p for two rows of the same town, p being the share of that town in training.

    Examples
    --------
    >>> Match()([1.0, 7.0], [1.0, 7.0]), Match()([1.0, 7.0], [2.0, 7.0])
    (1.0, 0.0)
    """

    def expression(self) -> Expression:
        return coordinate_product(1.0 - _different())

    def facts(self, dimension: int | None = None) -> Facts:
        definite = yes("it is the inner product of indicators of categories")
        return Facts(self, dimension, positive_definite=definite, **UNIT_DIAGONAL)


@dataclass(frozen=True, eq=False, repr=False)
class OfColumn(OnImages):
    """A kernel on objects, as texts, that stand in one column of a table.

    It is `kernel.on("comment")` for one of `mercer.structured`; for sums and normalised forms of
    these write OfColumn(kernel, "comment").

    Parameters
    ----------
    kernel : Kernel
        On objects.
    column : str

    Examples
    --------
    >>> import pandas as pd
    >>> from mercer.structured import Spectrum
    >>> frame = pd.DataFrame({"name": ["anna", "hanna"], "age": [3, 4]})
    >>> Table(Spectrum(2).on("name")).fitted(frame)(frame).tolist()
    [[3.0, 3.0], [3.0, 4.0]]
    """

    kernel: Kernel
    column: str

    def facts(self, dimension: int | None = None) -> Facts:
        return facts_inside(self, dimension)

    def fitted(self, data: Any) -> Kernel:
        return replace(self, kernel=self.kernel.fitted(_texts(data, self.column)))

    def _image(self, points: Any) -> Any:
        return points.objects[self.column]

    def __repr__(self) -> str:
        return f"{self.kernel!r}.on({self.column!r})"


def _texts(frame: Any, column: str) -> list[Any]:
    """The objects of a column; what is missing is the empty text."""
    if column not in column_names(frame):
        raise ValueError(f"column {column!r} does not exist; there are {column_names(frame)}.")
    return ["" if value is None or value != value else value for value in frame[column]]


class EncodedRow(NamedTuple):
    """A row of a table as a kernel sees it: numbers, and objects."""

    numbers: tuple[float, ...]
    objects: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class TablePoints(DensePoints):
    """Rows of numbers, and columns of objects beside them."""

    objects: Mapping[str, StructuredPoints] = field(default_factory=dict)

    @property
    def data(self) -> Any:
        columns = [points.data for points in self.objects.values()]
        numbers = map(tuple, self.rows.tolist())
        return list(map(EncodedRow, numbers, zip(*columns, strict=True)))

    def slice(self, start: int, stop: int) -> Self:
        objects = {name: points.slice(start, stop) for name, points in self.objects.items()}
        return replace(self, rows=self.rows[start:stop], objects=objects)

    def take(self, indices: Any) -> Self:
        objects = {name: points.take(indices) for name, points in self.objects.items()}
        return replace(self, rows=self.rows[np.asarray(indices)], objects=objects)

    def concatenated(self, other: Any) -> Self:
        objects = {n: points.concatenated(other.objects[n]) for n, points in self.objects.items()}
        return replace(self, rows=np.concatenate([self.rows, other.rows]), objects=objects)


@dataclass(frozen=True, eq=False, repr=False)
class Table(OnImages):
    """A kernel on the columns of a table, with numbers estimated from a training table.

    The kernel is made of kernels on named columns. Of a column "age" of numbers it may look at

    - "age": (value − median)/deviation; a missing value is the median,
    - "age%": its place among the values of training, from 0 to 1,
    - "age?": 1 where it is missing, else 0;

    of a column "town" of categories at

    - "town": a code, for `Category` and `Match`; what is missing is a category, and so is a town
      that was not seen in training,
    - "town#": √(1 − share of this town in training), for `Linear`;

    of a column "when" of dates at "when" and "when?", as for numbers, and at `"when@year"`,
    `"when@week"` and `"when@day"`, from 0 to 1, for periodic kernels; and of a column of texts
    through `Text().on("comment")`.

    Medians, deviations, shares and words are learned from training rows: by the `fit` of an
    estimator, in each fold of a cross-validation anew, or by `kernel.fitted(frame)`. Distances over
    the columns that both rows have would not be positive definite; filling in and telling that it
    was missing is.

    Parameters
    ----------
    kernel : Kernel
        On named columns, as Category().on("town") * Gaussian(2.0).on(["age", "income"]).
    encoding : Encoding, optional
        What was learned.

    Examples
    --------
    >>> import pandas as pd
    >>> from mercer.kernels import Gaussian
    >>> frame = pd.DataFrame({"town": ["Bonn", "Rome", "Bonn"], "age": [30.0, 40.0, 50.0]})
    >>> k = Table(Category(1.0).on("town") * Gaussian().on("age")).fitted(frame)
    >>> bool(
    ...     np.isclose(k({"town": "Rome", "age": 41.0}, {"town": "Bonn", "age": 41.0}), np.exp(-1))
    ... )
    True
    """

    kernel: Kernel
    encoding: Encoding | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise ValueError(f"Table needs a kernel on named columns; got {self.kernel!r}.")
        self.columns()

    def columns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns that the kernel depends on: encoded ones, and those of objects."""
        inner = list(parts(self.kernel))
        names = [c for part in inner if isinstance(part, Columns) for c in part.columns]
        objects = [part.column for part in inner if isinstance(part, OfColumn)]
        if (not names and not objects) or not all(isinstance(name, str) for name in names):
            raise ValueError(
                "the kernel of a Table looks at columns by name: write for example "
                f"Gaussian().on(['age', 'income']); got {self.kernel!r}."
            )
        return tuple(dict.fromkeys(map(str, names))), tuple(dict.fromkeys(objects))

    def fitted(self, data: Any) -> Table:
        """This kernel with numbers estimated from the rows of a training table."""
        if is_point_set(data) or _is_array(data) or _is_encoded(data):
            return self
        frame = rows_of(data)
        return Table(self.kernel.fitted(frame), Encoding.learned(frame, _asked(self.kernel)))

    def points(self, data: Any) -> PointSet:
        if isinstance(data, VectorPoints):
            return data
        names, objects = self.columns()
        if _is_array(data) and not objects:
            return DensePoints(np.asarray(data), names)  # encoded already
        if _is_encoded(data):
            rows = np.array([row.numbers for row in data], float)
            values = zip(*(row.objects for row in data), strict=True)
            return self._points(rows, dict(zip(objects, values, strict=True)))
        if self.encoding is None:
            raise ValueError(
                "a Table learns scales and categories from training rows: write "
                "kernel.fitted(frame), or pass it to an estimator, whose fit does that."
            )
        frame = rows_of(data)
        columns = {name: _texts(frame, name) for name in objects}
        return self._points(self.encoding.rows(frame, names), columns)

    def _points(self, rows: np.ndarray, columns: Mapping[str, Any]) -> PointSet:
        names, objects = self.columns()
        if not objects:
            return DensePoints(rows, names)
        made: dict[str, Any] = {}
        for part in parts(self.kernel):
            if isinstance(part, OfColumn):
                points = part.kernel.points(list(columns[part.column]))
                if type(made.setdefault(part.column, points)) is not type(points):
                    raise ValueError(
                        f"column {part.column!r} is read by kernels on different kinds of objects: "
                        "write a copy of it under another name."
                    )
        return TablePoints(rows, names, made)

    def is_single(self, x: Any) -> bool:
        if isinstance(x, Mapping):
            return not any(np.ndim(value) for value in x.values())  # else these are columns
        return isinstance(x, EncodedRow) or (isinstance(x, np.ndarray) and x.ndim == 1)

    def expression(self) -> Expression | None:
        return self.kernel.expression()

    def _image(self, points: Any) -> Any:
        return points

    def _derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        return self.kernel.derivative(x, y)

    def facts(self, dimension: int | None = None) -> Facts:
        return facts_inside(self, dimension)

    def _columns_read(self) -> tuple[str, ...]:
        names, objects = self.columns()
        return names + objects

    def __repr__(self) -> str:
        return f"Table({self.kernel!r})"


def _asked(kernel: Kernel) -> Iterator[tuple[str, bool]]:
    """The encoded columns, and whether categories are meant, as by `Category` and `Match`."""
    for part in parts(kernel):
        if isinstance(part, Columns):
            counted = any(isinstance(inner, (Category, Match)) for inner in parts(part.kernel))
            yield from ((str(name), counted) for name in part.columns)


def _is_array(data: Any) -> bool:
    """Whether data are encoded rows of numbers."""
    rows = isinstance(data, list) and len(data) > 0 and isinstance(data[0], np.ndarray)
    return rows or isinstance(data, np.ndarray)


def _is_encoded(data: Any) -> bool:
    return isinstance(data, list) and len(data) > 0 and isinstance(data[0], EncodedRow)


# ---- a proposal ----------------------------------------------------------------------------------


def table_kernel(frame: Any, *, main_effects: bool = True, exponent: float = 2.0) -> Table:
    """A kernel for a table: a product over all columns, and functions of single numbers beside it.

    Numbers, categories, dates and texts are recognised by their type; a text is a category unless
    most of them are different and of several words. Columns of categories that are all different,
    as names and keys, are left out. What it proposes is there to be read and changed:
    `k.kernel` is a kernel on named columns, `k.with_(kernel=...)` another table.

    Parameters
    ----------
    frame : DataFrame, or dictionary of columns
        Training rows.
    main_effects : bool, default=True
        Whether functions of each number alone are added, on a fine scale: products over many
        columns are smooth in each of them.
    exponent : float, default=2.0
        The product is e^{−s} with s of about this size for two rows at random, to which every
        column adds its share; larger is rougher.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"town": ["Bonn", "Rome", "Rome"], "age": [30.0, 40.0, 50.0]})
    >>> table_kernel(frame)
    Table(Exponential(lengthscale=0.1).on(['age%']) + Gaussian(lengthscale=1.0).on(['age']) * ...
    """
    check_positive("table_kernel", "exponent", exponent)
    table = rows_of(frame)
    kinds = {name: kind_of(table[name]) for name in column_names(table)}
    used = [name for name, kind in kinds.items() if kind != "key"]
    if not used:
        raise ValueError("the table has no column to learn from: all are keys, or it has none.")
    share = float(exponent) / len(used)
    numerical = [name for name in used if kinds[name] in ("number", "date")]
    factors: list[Kernel] = []
    if numerical:
        # two random standardised numbers differ by 2 in the mean square, so this adds `share`
        factors.append(Gaussian(_rounded(1.0 / math.sqrt(share))).on(numerical))
    for name in used:
        factors += _factors(table[name], name, kinds[name], share)
    product = reduce(lambda left, right: left * right, factors)
    effects = [Exponential(0.1).on(f"{n}%") for n in numerical if kinds[n] == "number"]
    terms = [*effects, product] if main_effects else [product]
    return Table(reduce(lambda left, right: left + right, terms)).fitted(table)


def _factors(values: Any, name: str, kind: str, share: float) -> list[Kernel]:
    """The factors that a column adds to the product, beside the Gaussian of all numbers."""
    if kind == "category":
        shares = np.array(Categories.learned(values).shares)
        differ = max(1.0 - float((shares**2).sum()), 0.05)  # two rows at random do so
        return [Category(_rounded(share / differ)).on(name)]
    if kind == "text":
        return [1.0 + Text().on(name)]
    read = numbers(values, name)
    missing: list[Kernel] = []
    if np.isnan(read).any():
        missing.append(Category(_rounded(share)).on(f"{name}?"))
    if kind == "number":
        return missing
    periodic = PeriodicExponential(alpha=4.0)
    periodic = (1.0 / periodic([0.0], [0.0])) * periodic  # k(x, x) = 1
    return [*(periodic.on(f"{name}@{period}") for period in cycles(read)), *missing]


def _rounded(value: float) -> float:
    """Three digits: what is proposed is there to be read."""
    return float(f"{value:.3g}")
