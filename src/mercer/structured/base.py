"""Shared by kernels on objects: points in flat arrays, and the contract of the kernels."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from mercer.checks import check_between
from mercer.kernels.base import Kernel
from mercer.kernels.facts import Facts
from mercer.points import PointSet, as_objects, is_frame, is_point_set
from mercer.points.kinds import HostPoints

T = TypeVar("T")


class Cache:
    """Arrays that kernels computed from all objects of a point set, shared by its slices."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.made: dict[Any, Any] = {}

    def get(self, key: Any, make: Callable[[], T]) -> T:
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

    The arrays are made and checked once. A slice or a selection shares them, and what kernels
    computed from them; it only has other numbers in `chosen`.

    A kind of objects implements `read` (from what a user has), `is_object`, `total`, `restored`
    (an object as a user would write it), `selected` and `joined`.
    """

    chosen: np.ndarray
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

    @property
    def total(self) -> int:
        """How many objects the arrays hold."""
        raise NotImplementedError

    def restored(self, i: int) -> Any:
        """Object i of the arrays as a user would write it."""
        raise NotImplementedError

    def selected(self, indices: np.ndarray) -> Self:
        """New arrays that hold the objects `indices` of these."""
        raise NotImplementedError

    def joined(self, other: Self) -> Self:
        """New arrays that hold all objects of these and of the others."""
        raise NotImplementedError

    # ---- what is derived ----------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64)

    @property
    def data(self) -> list[Any]:
        return list(self)

    def __iter__(self) -> Iterator[Any]:
        return (self.restored(int(i)) for i in self.chosen)

    def slice(self, start: int, stop: int) -> Self:
        return self._of(self.chosen[start:stop])

    def take(self, indices: Any) -> Self:
        return self._of(self.chosen[np.asarray(indices)])

    def _of(self, chosen: np.ndarray) -> Self:
        return replace(self, chosen=chosen)

    def concatenated(self, other: Self) -> Self:
        if other.cache is self.cache:
            return self._of(np.concatenate([self.chosen, other.chosen]))
        return self.compact().joined(other.compact())

    def compact(self) -> Self:
        """The same points with no other objects in the arrays."""
        everything = len(self) == self.total and (self.chosen == np.arange(self.total)).all()
        return self if everything else self.selected(self.chosen)

    def prepared(self, key: Any, make: Callable[[Self], T]) -> T:
        """`make` of all objects of the arrays, computed once."""
        return self.cache.get(key, lambda: make(self._of(np.arange(self.total))))

    def __getstate__(self) -> dict[str, Any]:
        """A few support vectors do not take all training objects along."""
        points = self.compact()
        return {f.name: getattr(points, f.name) for f in fields(points)}


@dataclass(frozen=True, eq=False)
class FlatPoints(StructuredPoints):
    """Objects made of parts that stand in flat arrays, one object after the other.

    Object i has the rows starts[i], …, starts[i + 1] − 1 of the arrays that `parts` names.
    """

    parts: ClassVar[tuple[str, ...]]
    starts: np.ndarray

    @property
    def total(self) -> int:
        return len(self.starts) - 1

    @property
    def owners(self) -> np.ndarray:
        """The object of each part."""
        return np.repeat(np.arange(self.total), np.diff(self.starts))

    def selected(self, indices: np.ndarray) -> Self:
        places, starts = gathered(self.starts, indices)
        arrays = {name: getattr(self, name)[places] for name in self.parts}
        chosen = np.arange(len(indices))
        return replace(self, chosen=chosen, starts=starts, cache=Cache(), **arrays)

    def joined(self, other: Self) -> Self:
        # Objects without parts go with all others, whatever the width or kind of their arrays.
        sides = [side for side in (self, other) if side.starts[-1]] or [self]
        changes: dict[str, Any] = {
            name: np.concatenate([getattr(side, name) for side in sides]) for name in self.parts
        }
        if "tokens" in self.__dict__:
            changes["tokens"] = self.__dict__["tokens"] | other.__dict__["tokens"]
        starts = np.concatenate([self.starts, self.starts[-1] + other.starts[1:]])
        chosen = np.arange(len(starts) - 1)
        return replace(sides[0], chosen=chosen, starts=starts, cache=Cache(), **changes)


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

    def block(self, x: Any, y: Any) -> np.ndarray:
        raise NotImplementedError

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
        values = self.values(x, y, logs=False)
        self._refuse_infinity(values)
        return values

    def diagonal(self, x: Any) -> np.ndarray:
        values = self._own(x, logs=False)
        self._refuse_infinity(values)
        return values

    def normalised_block(self, x: Any, y: Any) -> np.ndarray:
        """All k(x_i, y_j)/√(k(x_i, x_i) k(y_j, y_j)), on a log scale until the end."""
        rows, columns = (self._own(points, logs=True) for points in (x, y))
        both_zero = np.isneginf(rows)[:, None] & np.isneginf(columns)
        rows, columns = (np.where(np.isneginf(own), 0.0, own) for own in (rows, columns))
        logs = self.values(x, y, logs=True) - 0.5 * (rows[:, None] + columns)
        return np.where(both_zero, 1.0, np.exp(np.minimum(logs, 0.0)))

    def log_diagonal(self, x: Any) -> np.ndarray:
        return self._own(x, logs=True)

    def _own(self, x: Any, logs: bool) -> np.ndarray:
        """All k(x_i, x_i), or their logarithms."""
        return one_by_one(x, (self, logs), lambda one, same: self.values(one, same, logs))

    def _refuse_infinity(self, values: np.ndarray) -> None:
        if np.isposinf(values).any():
            raise ValueError(
                f"{self!r} is larger than {np.finfo(np.float64).max:.2g} on these points: write "
                "kernel.normalised(), which is computed on a log scale, or choose a smaller decay."
            )


def as_items(data: Any, what: str) -> list[Any]:
    """A list, tuple, array or column of objects as a list; one object alone is refused."""
    if isinstance(data, (str, bytes, dict, set, frozenset)) or not hasattr(data, "__len__"):
        shown = repr(data)
        raise ValueError(
            f"points must be a list of {what}; got {shown[:40]}. Write [x] for one of them."
        )
    if is_frame(data):
        raise ValueError(
            f"points must be a list of {what}; got a table: write frame['column'], or "
            "kernel.on('column') for a kernel that looks it up."
        )
    objects = as_objects(data)
    return list(data) if objects is None else objects


def bad_item(i: int, problem: str) -> ValueError:
    """The refusal of one object, by its number."""
    return ValueError(f"item {i} {problem}.")


def check_share(owner: Any, name: str, value: Any) -> None:
    """Refuse anything but 0 < value ≤ 1."""
    if value != 1:
        check_between(owner, name, value, 0.0, 1.0)


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
