"""An array whose rows lie on workers, and the functions of NumPy for it.

What is computed for each row waits until it is needed, and is then computed where the rows are,
all operations together in one task for each block. What is computed over all rows (sums, largest
values, rows that are asked for) comes here, as an array of NumPy. An array that is asked for a
second time is stored where its rows are, so that nobody has to say which ones are needed again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from mercer.distributed.blockwise import Blockwise, Result, Slot, Step
from mercer.distributed.placement import Broadcast, Placement


class Rows(NDArrayOperatorsMixin):
    """An array of shape (n, ...) whose blocks of rows are on the workers of a cluster.

    Parameters
    ----------
    placement : Placement
    sample : array of shape (0, ...)
        What a block without rows would be: it has the type and the other dimensions.
    blocks : list of futures, optional
        The blocks, where they are computed.
    call : Call, optional
        What they are computed from, otherwise.
    """

    __array_priority__ = 1000
    device = None

    def __init__(
        self,
        placement: Placement,
        sample: np.ndarray,
        blocks: list[Any] | None = None,
        call: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = None,
    ) -> None:
        self.placement, self.sample, self._blocks, self.call = placement, sample, blocks, call
        self.cached: dict[Any, Any] = {}  # sums over rows, which are asked for more than once
        self.asked = False  # whether it was computed for a sum, and not stored

    # ---- what arrays have ------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self.placement.rows, *self.sample.shape[1:]

    @property
    def ndim(self) -> int:
        return self.sample.ndim

    @property
    def dtype(self) -> np.dtype:
        return self.sample.dtype

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.placement.rows

    def __repr__(self) -> str:
        blocks, workers = len(self.placement.lengths), len(self.placement.groups)
        return f"Rows(shape={self.shape}, dtype={self.dtype}, {blocks} blocks on {workers} workers)"

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return _functions()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows, here."""
        parts = self.placement.fetched(self.blocks("gather"))
        return np.asarray(np.concatenate(parts), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options.get("out") is not None:
            return NotImplemented
        if ufunc is np.matmul:
            return _reductions().matrix_product(*inputs)
        return mapped(ufunc, *inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return getattr(_functions(), function.__name__)(*args, **kwargs)

    def __bool__(self) -> bool:
        raise ValueError("the truth of many rows is ambiguous: write any() or all().")

    def __iter__(self) -> Any:
        raise TypeError(
            "rows on a cluster are not gone through one by one: np.asarray(rows) first."
        )

    @property
    def T(self) -> Any:
        return self if self.ndim == 1 else Transposed(self)

    def __getattr__(self, name: str) -> Any:
        if name in ARRAY_METHODS:
            function = getattr(_functions(), name)
            return lambda *args, **options: function(self, *args, **options)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def reshape(self, *shape: Any) -> Rows:
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return _functions().reshape(self, shape)

    def copy(self) -> Rows:
        return self  # nothing writes into it

    def __getitem__(self, places: Any) -> Any:
        first, *rest = places if isinstance(places, tuple) else (places,)
        if first is Ellipsis or (isinstance(first, slice) and first == slice(None)):
            return mapped(operator.getitem, self, (first, *rest))
        if isinstance(first, Rows) and first.dtype == bool:
            some = _reductions().chosen(self, first)
        else:
            some = _reductions().taken(self, first)
            if np.ndim(first) == 0 and not isinstance(first, slice):
                return np.asarray(some)[tuple(rest)] if rest else some
        return some[(slice(None), *rest)] if rest else some

    # ---- what is on the workers ------------------------------------------------------------------

    @property
    def is_stored(self) -> bool:
        """Whether the workers hold its blocks, or make them where they are asked for."""
        return self._blocks is not None

    def digest(self) -> bytes:
        """A few bytes that differ where rows differ."""
        return _reductions().digest(self)

    def heads(self, count: int) -> Rows:
        """The first rows of each block, where they are."""
        head = mapped(_head, self, count)
        lengths = [min(count, length) for length in self.placement.lengths]
        return Rows(self.placement.with_lengths(lengths), head.sample, head.blocks("heads"))

    def placed(self, values: Any) -> Rows:
        """Numbers for each row, where the rows are."""
        return values if isinstance(values, Rows) else spread(np.asarray(values), self.placement)

    def __getstate__(self) -> dict[str, Any]:
        """A stored model knows what rows it had, not the rows."""
        forgotten: dict[str, Any] = {"cached": {}, "_blocks": None, "call": None, "asked": False}
        return {"sample": self.sample, "placement": self.placement} | forgotten

    def blocks(self, name: str = "values") -> list[Any]:
        """The blocks as futures, computed now if they were not."""
        if self._blocks is None and self.call is None:
            raise ValueError(
                "the rows that this model was fitted to were on a cluster, and are not stored with "
                "it: fit it again for what needs them."
            )
        if self._blocks is None:
            program, leaves = compiled(self)
            self._blocks = self.placement.each_block(name, run_block, Broadcast(program), leaves)
            self.call = None
        return self._blocks


OVER_ALL = ("sum", "mean", "max", "min", "std", "var", "any", "all", "argmax", "argmin")
ARRAY_METHODS = frozenset((*OVER_ALL, "astype", "clip", "nonzero", "round", "squeeze"))


class Transposed:
    """The transposed of rows: to be multiplied by rows, or iterated over by column."""

    __array_ufunc__ = None

    def __init__(self, rows: Rows) -> None:
        self.T, self.shape, self.dtype = rows, rows.shape[::-1], rows.dtype
        self.ndim = 2

    def __matmul__(self, other: Any) -> np.ndarray:
        return _reductions().contracted(self.T, other)

    def __iter__(self) -> Any:
        return (self.T[:, column] for column in range(self.shape[0]))

    def __len__(self) -> int:
        return self.shape[0]


def _reductions() -> Any:
    from mercer.distributed import reductions

    return reductions


def _functions() -> Any:
    from mercer.distributed.namespace import rows_namespace

    return rows_namespace


# ---- what waits, as steps for a block ------------------------------------------------------------


def mapped(function: Callable[..., Any], *args: Any, **options: Any) -> Rows:
    """A function of NumPy applied to each block, computed when it is needed."""
    placement = next(rows_in((args, list(options.values())))).placement
    for part in rows_in((args, list(options.values()))):
        if part.placement.lengths != placement.lengths:
            raise ValueError(
                f"arrays on a cluster must have the same blocks of rows; got {placement.rows} rows "
                f"in {len(placement.lengths)} blocks and {part.placement.rows} rows in "
                f"{len(part.placement.lengths)}: rechunk one of them."
            )
    depth = max(part.ndim for part in rows_in((args, list(options.values()))))
    args, options = _placed(args, placement, depth), _placed(options, placement, depth)
    with np.errstate(all="ignore"):
        sample = np.asarray(function(*samples(args), **samples(options)))
    return Rows(placement, sample, call=(function, args, options))


def _placed(thing: Any, placement: Placement, depth: int) -> Any:
    """Arrays of NumPy with a row for each row become rows on the workers."""
    if isinstance(thing, (list, tuple)):
        return type(thing)(_placed(part, placement, depth) for part in thing)
    if isinstance(thing, dict):
        return {name: _placed(part, placement, depth) for name, part in thing.items()}
    if isinstance(thing, np.ndarray) and thing.ndim >= depth and len(thing) == placement.rows > 1:
        return spread(thing, placement)
    return thing


def spread(array: np.ndarray, placement: Placement) -> Rows:
    """The rows of an array of NumPy, each block with the worker that has it."""
    starts = placement.starts
    pieces = [np.ascontiguousarray(array[a:b]) for a, b in pairwise(starts)]
    return Rows(placement, array[:0], placement.each_block("spread", np.asarray, pieces))


def samples(thing: Any) -> Any:
    """Arguments with blocks without rows in place of rows."""
    if isinstance(thing, Rows):
        return thing.sample
    if isinstance(thing, (list, tuple)):
        return type(thing)(map(samples, thing))
    if isinstance(thing, dict):
        return {name: samples(part) for name, part in thing.items()}
    return thing


def rows_in(thing: Any) -> Any:
    """The arrays of rows among arguments."""
    if isinstance(thing, Rows):
        yield thing
    elif isinstance(thing, (list, tuple)):
        for part in thing:
            yield from rows_in(part)


def wanted(rows: Rows) -> tuple[Blockwise, list[list[Any]]]:
    """The same as `compiled`, for a sum over rows: when it is wanted again, the array is stored."""
    if rows.asked:
        rows.blocks()
    rows.asked = True
    return compiled(rows)


def compiled(rows: Rows) -> tuple[Blockwise, list[list[Any]]]:
    """The steps that compute a block, and for each block those that they begin with."""
    steps: list[Step] = []
    known: dict[int, Any] = {}
    leaves: list[Rows] = []

    def place(part: Any) -> Any:
        if isinstance(part, (list, tuple)):
            return type(part)(place(one) for one in part)
        if not isinstance(part, Rows):
            return part
        if id(part) not in known:
            if part.asked and part is not rows:
                part.blocks()
            if part.call is None:
                leaves.append(part)
                known[id(part)] = Slot(len(leaves) - 1)
            else:
                function, args, options = part.call
                arguments = place(args)
                named = {name: place(option) for name, option in options.items()}
                steps.append(Step(function, arguments, named))
                known[id(part)] = Result(len(steps) - 1)
        return known[id(part)]

    place(rows)
    count = range(len(rows.placement.lengths))
    return Blockwise(tuple(steps)), [[leaf.blocks()[i] for leaf in leaves] for i in count]


def run_block(program: Blockwise, leaves: Sequence[np.ndarray]) -> np.ndarray:
    """A block of what a program computes; runs on a worker."""
    return np.asarray(program(leaves))


def _head(block: np.ndarray, count: int) -> np.ndarray:
    return np.ascontiguousarray(block[:count])
