"""Shared by kernels on objects: points in flat arrays, and the contract of the kernels."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from mercer.checks import check_between
from mercer.kernels.base import Kernel
from mercer.kernels.facts import Facts
from mercer.points import PointSet, as_objects, is_frame, is_point_set
from mercer.points.kinds import HostPoints

Made = TypeVar("Made")


class Cache:
    """Arrays that kernels computed from all objects of a point set, shared by its slices."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.made: dict[Any, Any] = {}

    def get(self, key: Any, make: Callable[[], Made]) -> Made:
        with self.lock:
            if key not in self.made:
                self.made[key] = make()
            return self.made[key]

    def __reduce__(self) -> Any:
        return Cache, ()  # a copy or a pickle computes again


class Same:
    """A key for the cache that is equal for the same object only, where comparing takes long."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing)


@dataclass(frozen=True, eq=False)
class StructuredPoints(HostPoints):
    """Objects of one kind: flat arrays of all of them, and which of them are the points.

    Object i has the rows starts[i], …, starts[i + 1] − 1 of the arrays that `parts` names. These
    are made and checked once: a slice or a selection shares them, and what kernels computed from
    them; it only has other numbers in `chosen`. `tokens` leads from codes back to symbols.

    A kind of objects implements `read` (from what a user has), `is_object` and `restored` (an
    object as a user would write it).
    """

    parts: ClassVar[tuple[str, ...]]
    chosen: np.ndarray
    starts: np.ndarray
    tokens: dict[int, Any] = field(default_factory=dict, kw_only=True)
    cache: Cache = field(default_factory=Cache, kw_only=True, repr=False)
    own: Cache = field(default_factory=Cache, init=False, repr=False)  # of this selection alone

    # ---- what a kind of objects owes ----------------------------------------------------------

    @classmethod
    def read(cls, data: Any) -> Self:
        """The user's objects as points, or a `ValueError` that names the first bad one."""
        raise NotImplementedError

    @staticmethod
    def is_object(x: Any) -> bool:
        """Whether x is one object rather than a list of objects."""
        raise NotImplementedError

    def restored(self, i: int) -> Any:
        """Object i of the arrays as a user would write it."""
        raise NotImplementedError

    # ---- what is derived ----------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def total(self) -> int:
        """How many objects the arrays hold."""
        return len(self.starts) - 1

    @property
    def owners(self) -> np.ndarray:
        """The object of each part."""
        return np.repeat(np.arange(self.total), np.diff(self.starts))

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64)

    @property
    def data(self) -> list[Any]:
        return list(self)

    def __iter__(self) -> Iterator[Any]:
        return (self.restored(int(i)) for i in self.chosen)

    def symbols_of(self, codes: np.ndarray) -> list[Any]:
        """The symbols with some codes; whole numbers are their own."""
        return [self.tokens.get(code, code) for code in codes.tolist()]

    def slice(self, start: int, stop: int) -> Self:
        return replace(self, chosen=self.chosen[start:stop])

    def take(self, indices: Any) -> Self:
        return replace(self, chosen=self.chosen[np.asarray(indices)])

    def concatenated(self, other: Self) -> Self:
        if other.cache is self.cache:
            return replace(self, chosen=np.concatenate([self.chosen, other.chosen]))
        return self.compact().joined(other.compact())

    def compact(self) -> Self:
        """The same points with no other objects in the arrays."""
        everything = len(self) == self.total and (self.chosen == np.arange(self.total)).all()
        return self if everything else self.selected(self.chosen)

    def selected(self, indices: np.ndarray) -> Self:
        """New arrays that hold the objects `indices` of these."""
        places, starts = gathered(self.starts, indices)
        arrays = {name: getattr(self, name)[places] for name in self.parts}
        return self._with_arrays(starts, arrays)

    def joined(self, other: Self) -> Self:
        """New arrays that hold all objects of these and of the others."""
        # Objects without parts go with all others, whatever the width or kind of their arrays.
        sides = [side for side in (self, other) if side.starts[-1]] or [self]
        arrays = {
            name: np.concatenate([getattr(side, name) for side in sides]) for name in self.parts
        }
        starts = np.concatenate([self.starts, self.starts[-1] + other.starts[1:]])
        return sides[0]._with_arrays(starts, {**arrays, "tokens": self.tokens | other.tokens})

    def _with_arrays(self, starts: np.ndarray, arrays: dict[str, Any]) -> Self:
        chosen = np.arange(len(starts) - 1)
        return replace(self, chosen=chosen, starts=starts, cache=Cache(), **arrays)

    def prepared(self, key: Any, make: Callable[[Self], Made]) -> Made:
        """`make` of all objects of the arrays, computed once."""
        return self.cache.get(key, lambda: make(replace(self, chosen=np.arange(self.total))))

    def __getstate__(self) -> dict[str, Any]:
        """A few support vectors do not take all training objects along."""
        points = self.compact()
        return {f.name: getattr(points, f.name) for f in fields(points)}


@dataclass(frozen=True, eq=False)
class RowPoints(StructuredPoints):
    """Objects that are arrays of rows of numbers: the rows of all, one object after the other."""

    parts = ("vectors",)
    vectors: np.ndarray
    called: ClassVar[str]  # what a list of such objects is called
    problem: ClassVar[str]  # what is wrong with an object that is none, and what to write
    axes: ClassVar[tuple[int, ...]] = (2,)

    @classmethod
    def read(cls, data: Any) -> Self:
        items = as_arrays(data, cls.called, cls.axes, cls.problem)
        some = [(i, item) for i, item in enumerate(items) if item.size]
        for i, item in some:
            first, other = some[0]
            if item.shape[1:] != other.shape[1:]:
                shapes = f"has shape {item.shape}, and item {first} {other.shape}"
                raise bad_item(i, f"{shapes}: all need vectors of one length")
        rows = np.concatenate([item for _, item in some] or [np.empty((0, 1))])
        starts = offsets([len(item) if item.size else 0 for item in items])
        return cls(np.arange(len(items)), starts, rows if rows.ndim == 2 else rows[:, None])

    def restored(self, i: int) -> np.ndarray:
        return self.vectors[self.starts[i] : self.starts[i + 1]]


class StructuredKernel(Kernel):
    """A kernel on objects that are no vectors.

    Subclasses are frozen dataclasses with a `kind` of points. They implement `block`, and `facts`,
    which say whether they are positive definite.
    """

    kind: ClassVar[type[StructuredPoints]]

    def points(self, data: Any) -> Any:
        if is_point_set(data) and not isinstance(data, self.kind):
            raise ValueError(
                f"{self!r} takes {self.kind.__name__}; got {type(data).__name__}: its objects are "
                "of another kind."
            )
        points = data if isinstance(data, self.kind) else self.kind.read(data)
        self.check_points(points)
        return points

    def check_points(self, points: PointSet) -> None:
        pass

    def is_single(self, x: Any) -> bool:
        return not is_point_set(x) and self.kind.is_object(x)

    def on(self, columns: Any) -> Any:
        """This kernel on the objects that stand in one column of a table, given by its name."""
        from mercer.structured.tables import OfColumn

        return OfColumn(self, columns)

    def diagonal(self, x: Any) -> np.ndarray:
        """All k(x_i, x_i), by blocks of one object each, computed once."""
        return one_by_one(x, (self, "diagonal"), self.block)


def one_by_one(x: Any, key: Any, block: Callable[[Any, Any], np.ndarray]) -> np.ndarray:
    """block(x_i, x_i) for all points, computed once for all objects of their arrays."""

    def own(points: Any) -> np.ndarray:
        single = (points.slice(i, i + 1) for i in range(points.total))
        return np.array([block(point, point)[0, 0] for point in single])

    return x.prepared(key, own)[x.chosen]


def facts_inside(kernel: Any, dimension: int | None) -> Facts:
    """The facts of the kernel inside, which is one of what is made of the points."""
    inner = kernel.kernel.facts()
    known = {"positive_definite": inner.positive_definite, "bounded": inner.bounded}
    return Facts(kernel, dimension, **known)


class LogScaleKernel(StructuredKernel):
    """A kernel whose values may be too large or too small for a float.

    Subclasses implement `values(x, y, logs)`, all k(x_i, y_j) or their logarithms. `normalised()`
    uses the latter, so it is right where k itself overflows.
    """

    def values(self, x: Any, y: Any, logs: bool) -> np.ndarray:
        """All k(x_i, y_j), ∞ where that is too large; with `logs` all log k(x_i, y_j)."""
        raise NotImplementedError

    def block(self, x: Any, y: Any) -> np.ndarray:
        return self._finite(self.values(x, y, logs=False))

    def diagonal(self, x: Any) -> np.ndarray:
        return self._finite(self._own(x, logs=False))

    def log_diagonal(self, x: Any) -> np.ndarray:
        return self._own(x, logs=True)

    def normalised_block(self, x: Any, y: Any) -> np.ndarray:
        """All k(x_i, y_j)/√(k(x_i, x_i) k(y_j, y_j)), on a log scale until the end."""
        rows, columns = (self._own(points, logs=True) for points in (x, y))
        both_zero = np.isneginf(rows)[:, None] & np.isneginf(columns)
        rows, columns = (np.where(np.isneginf(own), 0.0, own) for own in (rows, columns))
        logs = self.values(x, y, logs=True) - 0.5 * (rows[:, None] + columns)
        return np.where(both_zero, 1.0, np.exp(np.minimum(logs, 0.0)))

    def _own(self, x: Any, logs: bool) -> np.ndarray:
        """All k(x_i, x_i), or their logarithms."""
        return one_by_one(x, (self, logs), lambda one, same: self.values(one, same, logs))

    def _finite(self, values: np.ndarray) -> np.ndarray:
        if np.isposinf(values).any():
            raise ValueError(
                f"{self!r} is larger than {np.finfo(np.float64).max:.2g} on these points: write "
                "kernel.normalised(), which is computed on a log scale, or choose a smaller decay."
            )
        return values


def as_items(data: Any, what: str) -> list[Any]:
    """A list, tuple, array or column of objects as a list; one object alone is refused."""
    if isinstance(data, (str, bytes, dict, set, frozenset)) or not hasattr(data, "__len__"):
        raise ValueError(
            f"points must be a list of {what}; got {repr(data)[:40]}. Write [x] for one of them."
        )
    if is_frame(data):
        raise ValueError(
            f"points must be a list of {what}; got a table: write frame['column'], or "
            "kernel.on('column') for a kernel that looks it up."
        )
    objects = as_objects(data)
    return list(data) if objects is None else objects


def as_arrays(data: Any, kind: str, axes: tuple[int, ...], problem: str) -> list[np.ndarray]:
    """Items as arrays of finite numbers with so many axes; empty ones may have others."""
    arrays = []
    for i, item in enumerate(as_items(data, kind)):
        try:
            array = np.asarray(item, np.float64)
        except (TypeError, ValueError):
            raise bad_item(i, problem) from None
        if array.ndim not in axes and array.size:
            raise bad_item(i, f"{problem}; got shape {array.shape}")
        if not np.isfinite(array).all():
            raise bad_item(i, "contains NaN or infinity")
        arrays.append(array)
    return arrays


def coded(i: int, symbols: Iterable[Any], coder: Coder) -> list[int]:
    """The codes of the symbols of item i."""
    try:
        return [coder.code(symbol) for symbol in symbols]
    except TypeError as error:
        raise bad_item(i, f"holds what is no symbol: {error}") from None


def bad_item(i: int, problem: str) -> ValueError:
    """The refusal of one object, by its number."""
    return ValueError(f"item {i} {problem}.")


def check_share(owner: Any, name: str, value: Any) -> None:
    """Refuse anything but 0 < value ≤ 1."""
    if value != 1:
        check_between(owner, name, value, 0.0, 1.0)


def check_whole(owner: Any, name: str, value: Any, length: int | None = None) -> None:
    """Refuse anything but a whole number ≥ 0, below a length where one is given."""
    whole = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0
    if not whole or (length is not None and value >= length):
        wanted = "≥ 0" if length is None else f"from 0 to length − 1 = {length - 1}"
        raise ValueError(
            f"{type(owner).__name__} needs a whole number {name} {wanted}; got {value!r}."
        )


def offsets(lengths: Any) -> np.ndarray:
    """Where each object starts in a flat array, and where the last one ends.

    >>> offsets([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def gathered(starts: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the parts of the chosen objects stand in a flat array, and their new starts.

    >>> places, starts = gathered(np.array([0, 2, 2, 5]), np.array([2, 0]))
    >>> places.tolist(), starts.tolist()
    ([2, 3, 4, 0, 1], [0, 3, 5])
    """
    lengths = starts[indices + 1] - starts[indices]
    new = offsets(lengths)
    places = np.arange(new[-1]) + np.repeat(starts[indices] - new[:-1], lengths)
    return places, new


# ---- symbols and structures as 64-bit numbers, the same in every process -------------------------

# A feature of a string, tree or graph (a word, a subtree, a label with its neighbours) is known by
# a hash of 64 bits. So points that are seen later need no table of what was seen before: an unseen
# word is simply another number. Two of f different features share a number with probability
# f²/2⁶⁵, which is 3·10⁻⁸ for a million of them.
Hashes = np.ndarray  # of uint64; sums and products wrap around

_STEP = 0x9E3779B97F4A7C15  # 2⁶⁴ divided by the golden ratio: salts far apart


def mixed(values: Any, salt: Any = 0) -> Hashes:
    """A random-looking one-to-one map of 64-bit numbers: the finaliser of SplitMix64.

    Other salts, one or one for each value, make other maps.

    References
    ----------
    Steele, Lea, Flood, Fast splittable pseudorandom number generators, 2014.

    Examples
    --------
    >>> codes = mixed(np.arange(1000))
    >>> len(set(codes.tolist()))
    1000
    """
    z = np.asarray(values)
    z = z if z.dtype == np.uint64 else z.astype(np.int64).view(np.uint64)
    with np.errstate(over="ignore"):
        z = z + (np.asarray(salt).astype(np.uint64) + np.uint64(1)) * np.uint64(_STEP)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def token_code(token: Any) -> int:
    """A token as a 64-bit number: a whole number is itself, text and tuples are hashed.

    >>> token_code(7), token_code("seven") == token_code("seven")
    (7, True)
    """
    if isinstance(token, (float, np.floating)) and float(token).is_integer():
        token = int(token)  # equal to it, as keys of a dictionary are
    if isinstance(token, (int, np.integer)) and -(2**63) <= token < 2**63:
        return int(token)
    digest = hashlib.blake2b(_spelled(token), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _spelled(token: Any) -> bytes:
    """A token as bytes, different for different tokens."""
    if isinstance(token, str):
        return b"s" + token.encode("utf-8", "surrogatepass")
    if isinstance(token, bytes):
        return b"b" + token
    if isinstance(token, (int, np.integer)):
        return b"i" + str(int(token)).encode()
    if isinstance(token, (float, np.floating)):
        return b"f" + float(token).hex().encode()
    if token is None:
        return b"n"
    if isinstance(token, tuple):
        parts = [_spelled(part) for part in token]
        return b"t" + b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    raise TypeError(
        f"{token!r} cannot be a symbol: symbols are text, bytes, numbers, None or tuples of those"
    )


class Coder:
    """Codes of tokens, each computed once; `tokens` leads back from code to token."""

    def __init__(self) -> None:
        self.codes: dict[Any, int] = {}
        self.tokens: dict[int, Any] = {}

    def code(self, token: Any) -> int:
        if type(token) is int and -(2**63) <= token < 2**63:
            return token
        if token not in self.codes:
            self.codes[token] = token_code(token)
            self.tokens[self.codes[token]] = token
        return self.codes[token]
