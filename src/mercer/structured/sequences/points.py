"""Sequences of symbols and series of vectors, as points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from mercer.structured.base import FlatPoints, as_items, bad_item, offsets
from mercer.structured.hashing import Coder


@dataclass(frozen=True, eq=False)
class SequencePoints(FlatPoints):
    """Sequences of symbols: the codes of all symbols, one sequence after the other.

    A sequence is a text, whose symbols are its characters, or bytes, or a list, tuple or array of
    tokens (text, numbers, tuples of those). All sequences of a set of points are of one alphabet.
    """

    parts = ("symbols",)
    symbols: np.ndarray
    alphabet: str  # "text", "bytes" or "tokens"
    tokens: dict[int, Any] = field(default_factory=dict)  # of tokens that are no whole numbers

    @classmethod
    def read(cls, data: Any) -> Self:
        items = as_items(data, "sequences")
        alphabet = _alphabet(items)
        lengths = [len(item) for item in items]
        coder = Coder()
        if alphabet == "text":
            joined = "".join(map(str, items)).encode("utf-32-le", "surrogatepass")
            symbols = np.frombuffer(joined, np.uint32).astype(np.int64)
        elif alphabet == "bytes":
            symbols = np.frombuffer(b"".join(items), np.uint8).astype(np.int64)
        else:
            symbols = _tokens(items, coder)
        return cls(np.arange(len(items)), offsets(lengths), symbols, alphabet, coder.tokens)

    @staticmethod
    def is_object(x: Any) -> bool:
        return isinstance(x, (str, bytes, tuple)) or (
            isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype.kind in "iu"
        )

    def restored(self, i: int) -> Any:
        symbols = self.symbols[self.starts[i] : self.starts[i + 1]]
        if self.alphabet == "text":
            return symbols.astype(np.uint32).tobytes().decode("utf-32-le", "surrogatepass")
        if self.alphabet == "bytes":
            return symbols.astype(np.uint8).tobytes()
        return tuple(self.tokens.get(symbol, symbol) for symbol in symbols.tolist())

    def shown(self, symbol: int) -> Any:
        """A symbol as a user would write it."""
        return chr(symbol) if self.alphabet == "text" else self.tokens.get(symbol, symbol)

    def joined(self, other: Self) -> Self:
        same_alphabet(self, other)
        return super().joined(other)


def same_alphabet(x: SequencePoints, y: SequencePoints) -> None:
    """Refuse sequences over different alphabets; empty ones are of any alphabet."""
    if len({side.alphabet for side in (x, y) if len(side.symbols)}) > 1:
        raise ValueError(
            f"both sides must be sequences over one alphabet; got {x.alphabet} and {y.alphabet}."
        )


def _alphabet(items: list[Any]) -> str:
    """The kind of the items, which must be the same for all."""
    first, alphabet = 0, ""
    for i, item in enumerate(items):
        kind = _alphabet_of(i, item)
        if alphabet and kind not in ("", alphabet):
            raise bad_item(i, f"is made of {kind}, and item {first} of {alphabet}: take one kind")
        if kind and not alphabet:
            first, alphabet = i, kind
    return alphabet or "tokens"


def _alphabet_of(i: int, item: Any) -> str:
    if isinstance(item, str):
        return "text"
    if isinstance(item, bytes):
        return "bytes"
    if isinstance(item, Sequence) or (isinstance(item, np.ndarray) and item.ndim == 1):
        return "tokens" if len(item) else ""
    raise bad_item(
        i,
        f"is a {type(item).__name__}; a sequence is a text, bytes, or a list, tuple or "
        "one-dimensional array of symbols",
    )


def _tokens(items: list[Any], coder: Coder) -> np.ndarray:
    """The codes of the tokens of all items."""
    codes = [np.empty(0, np.int64)]
    for i, item in enumerate(items):
        if isinstance(item, np.ndarray) and item.dtype.kind in "iu":
            codes.append(item.astype(np.int64))
            continue
        tokens = item.tolist() if isinstance(item, np.ndarray) else item
        try:
            codes.append(np.array([coder.code(token) for token in tokens], np.int64))
        except TypeError as error:
            raise bad_item(i, f"holds what is no symbol: {error}") from None
    return np.concatenate(codes)


@dataclass(frozen=True, eq=False)
class SeriesPoints(FlatPoints):
    """Series of vectors, as measurements in time: the rows of all series, one after the other.

    A series is an array of numbers, or one with a row for each time.
    """

    parts = ("vectors",)
    vectors: np.ndarray
    flat: bool  # whether the series were arrays of numbers

    @classmethod
    def read(cls, data: Any) -> Self:
        items = [_series(i, item) for i, item in enumerate(as_items(data, "series"))]
        some = [(i, item) for i, item in enumerate(items) if item.size]
        for i, item in some:
            if item.shape[1:] != some[0][1].shape[1:]:
                raise bad_item(
                    i,
                    f"has shape {item.shape}, and item {some[0][0]} {some[0][1].shape}: all "
                    "series need vectors of one length",
                )
        flat = not some or some[0][1].ndim == 1
        width = 1 if flat else some[0][1].shape[1]
        rows = [item.reshape(len(item), width) for _, item in some]
        lengths = [len(item) if item.size else 0 for item in items]
        everything = np.concatenate([np.empty((0, width)), *rows])
        return cls(np.arange(len(items)), offsets(lengths), everything, flat)

    @staticmethod
    def is_object(x: Any) -> bool:
        return isinstance(x, np.ndarray) and x.dtype.kind in "fiub" and x.ndim in (1, 2)

    def restored(self, i: int) -> np.ndarray:
        rows = self.vectors[self.starts[i] : self.starts[i + 1]]
        return rows[:, 0] if self.flat else rows


def _series(i: int, item: Any) -> np.ndarray:
    try:
        values = np.asarray(item, np.float64)
    except (TypeError, ValueError):
        values = np.empty((0, 0, 0))
    if values.ndim not in (1, 2):
        raise bad_item(
            i, "is no series: write an array of numbers, or one with a row of numbers for each time"
        )
    if not np.isfinite(values).all():
        raise bad_item(i, "contains NaN or infinity: fill gaps in first")
    return values
