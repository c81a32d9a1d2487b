"""Columns of a table as numbers: kinds of columns, and what is learned of them in training."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.structured.base import token_code

PERIODS = {"year": 365.2425, "week": 7.0, "day": 1.0}  # in days
SUFFIXES = ("%", "?", "#", *(f"@{period}" for period in PERIODS))
KNOTS = 1024  # quantiles by which the rank of a number is found
WORDS = 3.0  # in the mean, from which different texts are texts rather than categories


# ---- reading -------------------------------------------------------------------------------------


def rows_of(data: Any) -> Any:
    """A table as something with named columns: a DataFrame, a dictionary, a list of rows.

    >>> rows_of([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    {'a': [1, 2], 'b': ['x', 'y']}
    """
    if hasattr(data, "columns") or isinstance(data, Mapping):
        return data
    if isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(name for row in data for name in row)
        return {name: [row.get(name) for row in data] for name in names}
    raise ValueError(
        "a table is a DataFrame, a dictionary of columns, or a list of rows that are dictionaries; "
        f"got {type(data).__name__}."
    )


def column_names(frame: Any) -> list[str]:
    """The names of the columns."""
    return [str(name) for name in getattr(frame, "columns", frame)]


def _array(values: Any) -> np.ndarray:
    """A column as a NumPy array: of numbers, of dates, or of objects."""
    array = np.asarray(values)
    if array.dtype.kind in "iufbM":
        return array
    return np.array([None if _is_missing(value) else value for value in values], object)


def _is_missing(value: Any) -> bool:
    """None, NaN, and what pandas writes for missing values."""
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def kind_of(values: Any) -> str:
    """Whether a column holds a "number", a "date", a "category", a "text", or a "key".

    A key is different in every row. Texts are mostly different too, and of several words.

    >>> kind_of([1.0, None]), kind_of(["a", "b", "a"]), kind_of(["a", "b", "c"])
    ('number', 'category', 'key')
    """
    array = _array(values)
    if array.dtype.kind in "iufM":
        return "date" if array.dtype.kind == "M" else "number"
    if array.dtype.kind == "b":
        return "category"
    present = [value for value in array if value is not None]
    if present and all(isinstance(v, (int, float, np.number)) for v in present):
        numbers = not all(isinstance(value, bool) for value in present)
        return "number" if numbers else "category"
    if present and all(isinstance(v, (datetime.date, np.datetime64)) for v in present):
        return "date"
    different = len(set(present))
    if present and all(isinstance(value, str) for value in present):
        words = sum(len(value.split()) for value in present) / len(present)
        if words >= WORDS and different > 0.5 * len(present):
            return "text"
    return "key" if different == len(present) and len(present) > 1 else "category"


def numbers(values: Any, name: str) -> np.ndarray:
    """A column of numbers or dates, the latter in days; NaN where it is missing."""
    array = _array(values)
    if array.dtype.kind == "O" and kind_of(values) == "date":
        array = np.array([np.datetime64("NaT") if v is None else v for v in array], "M8[us]")
    if array.dtype.kind == "M":
        days = array.astype("M8[us]").astype(np.int64) / 86_400_000_000.0
        return np.where(np.isnat(array), np.nan, days)
    try:
        plain = array.dtype.kind in "iufb"  # a million rows are not walked through one by one
        listed = array if plain else [np.nan if v is None else v for v in array]
        read = np.asarray(listed, np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"column {name!r} holds {_odd(array)!r}, which is no number: write "
            f"Category().on({name!r}), or Text().on({name!r})."
        ) from None
    if np.isinf(read).any():
        raise ValueError(
            f"column {name!r} holds infinity, in row {int(np.argmax(np.isinf(read)))}."
        )
    return read


def _odd(array: np.ndarray) -> Any:
    """The first value that is no number."""
    return next(v for v in array if not isinstance(v, (int, float, np.number, type(None))))


def cycles(read: np.ndarray) -> tuple[str, ...]:
    """The periods that dates have been through, of which they show more than one moment."""
    present = read[~np.isnan(read)]
    if not len(present):
        return ()
    return tuple(
        period
        for period, days in PERIODS.items()
        if np.ptp(present) > days and np.ptp(np.mod(present, days)) > 0.1 * days
    )


def categories(values: Any) -> list[Any]:
    """A column of categories, None where it is missing; whole numbers are written as such."""
    array = _array(values)
    if array.dtype.kind == "M":
        array = array.astype(str)
    read = (None if _is_missing(value) else value for value in array.tolist())
    return [int(v) if isinstance(v, float) and v.is_integer() else v for v in read]


# ---- what is learned -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers:
    """A column of numbers or dates: its median and deviation, and its values in order."""

    centre: float
    scale: float
    knots: tuple[float, ...]

    @classmethod
    def learned(cls, values: Any, name: str) -> Numbers:
        read = numbers(values, name)
        present = read[~np.isnan(read)]
        if not len(present):
            return cls(0.0, 1.0, (0.0,))
        knots = np.unique(present)
        if len(knots) > KNOTS:
            knots = np.unique(np.quantile(present, np.linspace(0.0, 1.0, KNOTS)))
        scale = float(present.std())
        return cls(float(np.median(present)), scale if scale > 0 else 1.0, tuple(knots.tolist()))

    def encoded(self, values: Any, name: str, suffix: str) -> np.ndarray:
        read = numbers(values, name)
        missing = np.isnan(read)
        if suffix == "?":
            return missing.astype(np.float64)
        filled = np.where(missing, self.centre, read)
        if suffix == "%":
            return np.interp(filled, self.knots, np.linspace(0.0, 1.0, len(self.knots)))
        if suffix.startswith("@"):
            period = PERIODS[suffix[1:]]
            return np.mod(filled, period) / period
        return (filled - self.centre) / self.scale


@dataclass(frozen=True)
class Categories:
    """A column of categories, from the most frequent to the rarest, and their shares."""

    values: tuple[Any, ...]
    shares: tuple[float, ...]

    @classmethod
    def learned(cls, values: Any, name: str = "") -> Categories:
        counts = Counter(categories(values)).most_common()
        total = max(1, sum(count for _, count in counts))
        names = tuple(value for value, _ in counts)
        return cls(names, tuple(count / total for _, count in counts))

    def encoded(self, values: Any, name: str, suffix: str) -> np.ndarray:
        places = {value: i for i, value in enumerate(self.values)}
        read = categories(values)
        codes = [places.get(v, -1) for v in read]
        if suffix == "#":
            return np.array([1.0 if c < 0 else (1.0 - self.shares[c]) ** 0.5 for c in codes])
        # unseen categories come after all others; float32 holds these numbers exactly
        unseen = (len(places) + token_code((value,)) % 2**20 for value in read)
        return np.array([u if c < 0 else c for u, c in zip(unseen, codes, strict=True)], float)


@dataclass(frozen=True)
class Encoding:
    """How the columns of a table become numbers, as learned from training rows."""

    columns: tuple[tuple[str, Numbers | Categories], ...]

    @classmethod
    def learned(cls, frame: Any, asked: Iterable[tuple[str, bool]]) -> Encoding:
        """Learn the columns behind encoded names, of which some are asked for as categories."""
        columns: dict[str, Numbers | Categories] = {}
        for name, as_category in asked:
            column, suffix = split_name(frame, name)
            counted = suffix == "#" or (as_category and suffix != "?")
            kind = Categories if counted else Numbers
            if column not in columns:
                columns[column] = kind.learned(frame[column], column)
            elif not isinstance(columns[column], kind):
                raise ValueError(
                    f"column {column!r} is asked for as a number and as a category: write a "
                    "copy of it under another name."
                )
        return cls(tuple(columns.items()))

    def rows(self, frame: Any, names: Sequence[str]) -> np.ndarray:
        """The encoded columns of a table, side by side."""
        known, rows = dict(self.columns), len(frame[column_names(frame)[0]])
        encoded = []
        for name in names:
            column, suffix = split_name(frame, name)
            encoded.append(known[column].encoded(frame[column], column, suffix))
        return np.stack(encoded, axis=1) if encoded else np.empty((rows, 0))


def split_name(frame: Any, name: str) -> tuple[str, str]:
    """The column behind an encoded name, and what of it is meant.

    >>> split_name({"age": [1.0]}, "age%")
    ('age', '%')
    """
    columns = column_names(frame)
    if name in columns:
        return name, ""
    for suffix in SUFFIXES:
        column = name.removesuffix(suffix)
        if column != name and column in columns:
            return column, suffix
    raise ValueError(f"column {name!r} does not exist; there are {columns}.")
