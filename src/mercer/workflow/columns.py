"""Columns of a table as numbers of comparable size, on which every kernel of vectors works.

A category becomes a column of 0 and 1 for each of its values: a Laplacian or Gaussian kernel of
those is e^{−w} for different categories, `Category(w)`, so one kernel with a lengthscale for each
column serves mixed tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_count
from mercer.structured.encodings import (
    Categories,
    Numbers,
    categories,
    column_names,
    cycles,
    kind_of,
    numbers,
    rows_of,
)

UNIFORM_DEVIATION = 12.0**-0.5  # of a place among the training values, uniform on [0, 1]


# ---- tables --------------------------------------------------------------------------------------


def as_table(X: Any) -> Any:
    """A table by its columns: a DataFrame as it is, an array as columns x0, x1, …."""
    if isinstance(X, np.ndarray) or (isinstance(X, list) and X and np.ndim(X[0]) == 1):
        rows = np.asarray(X)
        if rows.ndim != 2:
            raise ValueError(f"a table has rows and columns; got an array of shape {rows.shape}.")
        return {f"x{i}": rows[:, i] for i in range(rows.shape[1])}
    if hasattr(X, "toarray"):
        return as_table(X.toarray())
    if hasattr(X, "column_names") and hasattr(X, "to_pydict"):  # of pyarrow
        return {name: X[name].to_numpy(zero_copy_only=False) for name in X.column_names}
    return rows_of(X)


def row_count(table: Any) -> int:
    """The number of rows."""
    names = column_names(table)
    return len(table[names[0]]) if names else 0


def take_rows(table: Any, rows: Any) -> dict[str, Any]:
    """Some rows of a table, as a dictionary of columns."""
    return {name: _array(table[name])[rows] for name in column_names(table)}


def _array(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array if array.dtype.kind in "iufbMO" else np.array(list(values), object)


# ---- one column ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberColumn:
    """A number, standardised or by its place among the training values; whether it is missing.

    >>> encoder = TableEncoder().fit({"age": [20.0, 30.0, 40.0]})
    >>> encoder.transform({"age": [30.0]}).tolist()
    [[0.0]]
    """

    learned: Numbers
    rank: bool
    may_miss: bool

    def encoded(self, values: Any, name: str) -> list[np.ndarray]:
        own = self.learned.encoded(values, name, "%" if self.rank else "")
        columns = [(own - 0.5) / UNIFORM_DEVIATION if self.rank else own]
        return [*columns, self.learned.encoded(values, name, "?")] if self.may_miss else columns

    def names(self, name: str) -> list[str]:
        own = f"{name}%" if self.rank else name
        return [own, f"{name}?"] if self.may_miss else [own]


@dataclass(frozen=True)
class DateColumn(NumberColumn):
    """A date: when it is, and its place in the year, the week and the day, on circles.

    >>> days = np.arange("2024-01-01", "2025-12-31", dtype="datetime64[D]")
    >>> encoder = TableEncoder().fit({"day": days})
    >>> "cos(day@year)" in encoder.get_feature_names_out()
    True
    """

    periods: tuple[str, ...]

    def encoded(self, values: Any, name: str) -> list[np.ndarray]:
        columns = super().encoded(values, name)
        for period in self.periods:
            angle = 2.0 * np.pi * self.learned.encoded(values, name, f"@{period}")
            columns += [np.cos(angle), np.sin(angle)]
        return columns

    def names(self, name: str) -> list[str]:
        parts = [f"{side}({name}@{p})" for p in self.periods for side in ("cos", "sin")]
        return super().names(name) + parts


@dataclass(frozen=True)
class CategoryColumn:
    """A column of 0 and 1 for each frequent category.

    Missing values are a category of their own; a rare category has 0 in all columns.

    >>> CategoryColumn(("Bonn", "Rome")).names("town")
    ['town=Bonn', 'town=Rome']
    >>> [column.tolist() for column in CategoryColumn(("Bonn", "Rome")).encoded(["Rome"], "town")]
    [[0.0], [1.0]]
    """

    values: tuple[Any, ...]

    def encoded(self, values: Any, name: str) -> list[np.ndarray]:
        places = {value: i for i, value in enumerate(self.values)}
        codes = np.array([places.get(value, -1) for value in categories(values)])
        return [(codes == i).astype(np.float64) for i in range(len(self.values))]

    def names(self, name: str) -> list[str]:
        return [f"{name}={value}" for value in self.values]


@dataclass(frozen=True, eq=False)
class TextColumn:
    """The leading components of TF-IDF.

    >>> vectorizer = TfidfVectorizer().fit(["red bike", "blue bike"])
    >>> TextColumn(vectorizer, np.eye(3)[:2]).names("note")
    ['note~0', 'note~1']
    """

    vectorizer: TfidfVectorizer
    components: np.ndarray

    def encoded(self, values: Any, name: str) -> list[np.ndarray]:
        words = self.vectorizer.transform(_texts(values))
        return list((words @ self.components.T).T)

    def names(self, name: str) -> list[str]:
        return [f"{name}~{i}" for i in range(len(self.components))]


Column = NumberColumn | CategoryColumn | TextColumn
"""What was learned of a column: it encodes one as columns of numbers, and names them."""


def _texts(values: Any) -> list[str]:
    return ["" if value is None or value != value else str(value) for value in values]


# ---- a table -------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class TableEncoder(TransformerMixin, BaseEstimator):
    """Columns of a table as numbers: standardised, one-hot, on circles, with missing values.

    Numbers are standardised (or replaced by their place among the training values), and what is
    missing is replaced by the median, and marked in a column of its own. Categories are
    one-hot, dates also have their place in the year, the week and the day, texts the leading
    components of TF-IDF. Columns that are different in every row and no numbers, as names and
    keys, are left out.

    Parameters
    ----------
    numbers : "standard" or "rank", default="standard"
    max_categories : int, default=50
        The most frequent categories of a column; rarer ones are not distinguished.
    text_components : int, default=30

    Attributes
    ----------
    columns_ : list of pairs of a name and what was learned of that column
    feature_names_in_ : array of names

    Examples
    --------
    >>> table = {"town": ["Bonn", "Rome", "Bonn", None], "age": [30.0, 40.0, None, 50.0]}
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['town=Bonn', 'town=Rome', 'town=None', 'age', 'age?']
    >>> encoder.transform(table).shape
    (4, 5)
    """

    _: KW_ONLY
    numbers: str = "standard"
    max_categories: int = 50
    text_components: int = 30

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn medians, deviations, categories and words from training rows."""
        if self.numbers not in ("standard", "rank"):
            raise ValueError(f'numbers must be "standard" or "rank"; got {self.numbers!r}.')
        check_count(self, "max_categories", self.max_categories)
        table = as_table(X)
        names = column_names(table)
        learned = {name: self._learned(table[name], name) for name in names}
        self.columns_ = [(name, column) for name, column in learned.items() if column is not None]
        self.feature_names_in_ = np.array(names, object)
        self.n_features_in_ = len(names)
        if not self.columns_:
            raise ValueError(
                "the table has no column to learn from: all are keys, different in every row, or "
                "there is none."
            )
        return self

    def _learned(self, values: Any, name: str) -> Column | None:
        kind, rank = kind_of(values), self.numbers == "rank"
        if kind == "key":
            return None
        if kind in ("number", "date"):
            read = numbers(values, name)
            known = Numbers.learned(values, name), rank, bool(np.isnan(read).any())
            return NumberColumn(*known) if kind == "number" else DateColumn(*known, cycles(read))
        if kind == "category":
            categories = Categories.learned(values, name)
            return CategoryColumn(categories.values[: self.max_categories])
        vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=20_000)
        words = vectorizer.fit_transform(_texts(values))
        count = max(1, min(self.text_components, min(words.shape) - 1))
        components = TruncatedSVD(count, random_state=0).fit(words).components_
        return TextColumn(vectorizer, components)

    def transform(self, X: Any) -> np.ndarray:
        """The columns as numbers, in float64."""
        check_is_fitted(self)
        table = as_table(X)
        missing = [name for name, _ in self.columns_ if name not in column_names(table)]
        if missing:
            raise ValueError(
                f"column {missing[0]!r} is missing; the model was fitted with the columns "
                f"{list(self.feature_names_in_)}."
            )
        encoded = [c for name, learned in self.columns_ for c in learned.encoded(table[name], name)]
        return np.stack(encoded, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns that `transform` makes."""
        check_is_fitted(self)
        return np.array([n for name, column in self.columns_ for n in column.names(name)], object)

    def origins(self) -> list[str]:
        """The column of the table behind each column of numbers."""
        return [name for name, column in self.columns_ for _ in column.names(name)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags


def summarised(table: Mapping[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """For each column its kind, how much is missing, and its range or most frequent values."""
    summaries = []
    for name in names:
        kind = kind_of(table[name])
        summary: dict[str, Any] = {"name": name, "kind": kind}
        if kind in ("number", "date"):
            read = numbers(table[name], name)
            present, places = read[~np.isnan(read)], [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0]
            summary["missing"] = float(np.isnan(read).mean())
            summary["quantiles"] = np.quantile(present, places).tolist() if len(present) else []
        else:
            read_values = categories(table[name])
            summary["missing"] = sum(v is None for v in read_values) / max(1, len(read_values))
            learned = Categories.learned(table[name], name)
            summary["distinct"] = len(learned.values)
            most = list(zip(learned.values, learned.shares, strict=True))[:5]
            summary["frequent"] = [[str(value)[:40], share] for value, share in most]
        summaries.append(summary)
    return summaries
