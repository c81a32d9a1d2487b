"""An array whose rows lie on workers, and the functions of NumPy for it.

What is computed for each row waits until it is needed, and is then computed where the rows are,
all operations together in one task for each block. What is computed over all rows (sums, largest
values, rows that are asked for) comes here, as an array of NumPy: a worker goes through its blocks
in one task, in order, and what workers give is joined two by two, in the order of their blocks. An
array that is asked for a second time is stored where its rows are, so that nobody has to say which
ones are needed again.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from mercer.distributed.placement import Placement

FEW_WORKERS = 32  # workers whose small results come here one by one


class Rows(NDArrayOperatorsMixin):
    """An array of shape (n, ...) whose blocks of rows are on the workers of a cluster.

    Parameters
    ----------
    placement : Placement
    sample : array of shape (0, ...)
        What a block without rows would be: it has the type and the other dimensions.
    blocks : list of futures, optional
        The blocks, where they are computed.
    call : tuple, optional
        A function, its arguments and its options, from which they are computed otherwise.
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
        return rows_namespace

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows, here."""
        parts = self.placement.fetched(self.blocks("gather"))
        return np.asarray(np.concatenate(parts), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options.get("out") is not None:
            return NotImplemented
        if ufunc is np.matmul:
            return matrix_product(*inputs)
        return mapped(ufunc, *inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return getattr(rows_namespace, function.__name__)(*args, **kwargs)

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
            function = getattr(rows_namespace, name)
            return lambda *args, **options: function(self, *args, **options)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def reshape(self, *shape: Any) -> Rows:
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        return rows_namespace.reshape(self, shape)

    def copy(self) -> Rows:
        return self  # nothing writes into it

    def __getitem__(self, places: Any) -> Any:
        first, *rest = places if isinstance(places, tuple) else (places,)
        if first is Ellipsis or (isinstance(first, slice) and first == slice(None)):
            return mapped(operator.getitem, self, (first, *rest))
        if isinstance(first, Rows) and first.dtype == bool:
            some: Any = chosen(self, first)
        else:
            some = taken(self, first)
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
        parts = by_block(self.placement, reduced("digest", self, _digest_of, joined_in_order))
        return hashlib.sha256(b"".join(parts)).digest()

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
            self._blocks = self.placement.each_block(name, program, leaves)
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
        return contracted(self.T, other)

    def __iter__(self) -> Any:
        return (self.T[:, column] for column in range(self.shape[0]))

    def __len__(self) -> int:
        return self.shape[0]


# ---- what waits, as steps for a block ------------------------------------------------------------


class Slot:
    """The place of a block among those that a task is given, or −1, −2, … among its results."""

    def __init__(self, place: int) -> None:
        self.place = place


def changed(thing: Any, change: Callable[[Any], Any]) -> Any:
    """Arguments of a function, each of them changed, in lists, tuples and dictionaries, too."""
    if isinstance(thing, (list, tuple)):
        return type(thing)(changed(part, change) for part in thing)
    if isinstance(thing, dict):
        return {name: changed(part, change) for name, part in thing.items()}
    return change(thing)


def rows_in(thing: Any) -> list[Rows]:
    """The arrays of rows among arguments."""
    found: list[Rows] = []

    def note(part: Any) -> None:
        if isinstance(part, Rows):
            found.append(part)

    changed(thing, note)
    return found


def samples(thing: Any) -> Any:
    """Arguments with blocks without rows in place of rows."""
    return changed(thing, lambda part: part.sample if isinstance(part, Rows) else part)


def mapped(function: Callable[..., Any], *args: Any, **options: Any) -> Rows:
    """A function of NumPy applied to each block, computed when it is needed.

    Arrays of NumPy with a row for each row become rows on the workers.
    """
    every = rows_in((args, options))
    placement, depth = every[0].placement, max(part.ndim for part in every)
    for part in every:
        if part.placement.lengths != placement.lengths:
            raise ValueError(
                f"arrays on a cluster must have the same blocks of rows; got {placement.rows} rows "
                f"in {len(placement.lengths)} blocks and {part.placement.rows} rows in "
                f"{len(part.placement.lengths)}: rechunk one of them."
            )

    def placed(part: Any) -> Any:
        long = isinstance(part, np.ndarray) and part.ndim >= depth
        return spread(part, placement) if long and len(part) == placement.rows > 1 else part

    args, options = changed((args, options), placed)
    with np.errstate(all="ignore"):
        sample = np.asarray(function(*samples(args), **samples(options)))
    return Rows(placement, sample, call=(function, args, options))


def spread(array: np.ndarray, placement: Placement) -> Rows:
    """The rows of an array of NumPy, each block with the worker that has it."""
    pieces = [np.ascontiguousarray(array[a:b]) for a, b in pairwise(placement.starts)]
    return Rows(placement, array[:0], placement.each_block("spread", np.asarray, pieces))


def wanted(rows: Rows) -> tuple[Callable[..., np.ndarray], list[list[Any]]]:
    """The same as `compiled`, for a sum over rows: when it is wanted again, the array is stored."""
    if rows.asked:
        rows.blocks()
    rows.asked = True
    return compiled(rows)


def compiled(rows: Rows) -> tuple[Callable[..., np.ndarray], list[list[Any]]]:
    """What computes a block, and for each block those that it begins with."""
    steps: list[tuple[Callable[..., Any], Any, Any]] = []
    known: dict[int, Slot] = {}
    leaves: list[Rows] = []

    def place(part: Any) -> Any:
        if not isinstance(part, Rows):
            return part
        if id(part) not in known:
            if part.asked and part is not rows:
                part.blocks()
            if part.call is None:
                leaves.append(part)
                known[id(part)] = Slot(len(leaves) - 1)
            else:
                function, *given = part.call
                steps.append((function, *changed(given, place)))
                known[id(part)] = Slot(-len(steps))
        return known[id(part)]

    place(rows)
    count = range(len(rows.placement.lengths))
    blocks = [[leaf.blocks()[i] for leaf in leaves] for i in count]
    return partial(evaluated, steps), blocks


def evaluated(steps: Sequence[tuple[Any, ...]], blocks: Sequence[np.ndarray]) -> np.ndarray:
    """A block of rows by steps from other blocks, itself where there are none; on a worker."""
    values = dict(enumerate(blocks))

    def value(part: Any) -> Any:
        return values[part.place] if isinstance(part, Slot) else part

    with np.errstate(all="ignore"):
        for number, (function, args, options) in enumerate(steps, 1):
            values[-number] = function(*changed(args, value), **changed(options, value))
    return np.asarray(values[-len(steps)])


def _head(block: np.ndarray, count: int) -> np.ndarray:
    return np.ascontiguousarray(block[:count])


# ---- over all rows -------------------------------------------------------------------------------


def reduced(name: str, rows: Rows, function: Callable[[np.ndarray], Any], join: Any) -> Any:
    """`function` of each block, the results joined two by two and brought here.

    A worker goes through its blocks in one task: these functions are cheap.
    """
    program, leaves = wanted(rows)
    tasks = [[program, blocks, function, join] for blocks in leaves]
    placement = rows.placement
    parts = placement.each_group(name, _reduce_group, tasks)
    if len(parts) <= FEW_WORKERS:  # these are small: to add them up on workers would only take time
        return join(placement.fetched(parts))
    return placement.total(name, parts, join)


def _reduce_group(tasks: list[Any]) -> Any:
    parts = [function(program(blocks)) for program, blocks, function, _ in tasks]
    with np.errstate(all="ignore"):
        return tasks[0][3](parts)


def of_block(function: Callable[..., Any], block: np.ndarray, **options: Any) -> Any:
    """A function of NumPy over a block; without rows it has no largest and no least value."""
    if not len(block) and function in (np.max, np.min):
        return None
    return function(block, **options)


def add_up(parts: list[Any]) -> Any:
    """The sum, in order."""
    return reduce(operator.add, parts)


def over_parts(function: Callable[..., Any], parts: list[Any]) -> Any:
    """The same function over the results of the blocks that have one."""
    there = [part for part in parts if part is not None]
    return function(np.stack(there), axis=0) if there else None


def union(parts: list[Any]) -> Any:
    """All values that occur."""
    return np.unique(np.concatenate(parts))


def joined_in_order(parts: list[Any]) -> list[Any]:
    """Lists one after the other."""
    return [one for part in parts for one in part]


def _digest_of(block: np.ndarray) -> list[bytes]:
    return [hashlib.sha256(np.ascontiguousarray(block).tobytes()).digest()]


def contracted(left: Rows, right: Any) -> np.ndarray:
    """Σ_i l_i r_iᵀ over all rows i."""
    outer = mapped(_outer_sums, left, right)
    return np.asarray(reduced("products", outer, partial(np.sum, axis=0), add_up))


def _outer_sums(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """LᵀR as an array with one row, or none where there are no rows."""
    return (left.T @ right)[None][: max(len(left), 0) and 1]


def matrix_product(left: Any, right: Any) -> Any:
    """L R: over all rows where R has rows, else for each row."""
    if isinstance(right, Rows):
        if isinstance(left, Rows) and left.ndim == 1:
            return contracted(left, right)
        if isinstance(left, np.ndarray) and left.shape[-1] == len(right):
            return contracted(spread(np.ascontiguousarray(left.T), right.placement), right)
        raise ValueError("rows on a cluster are multiplied from the left by rows: write rows.T @.")
    return mapped(np.matmul, left, right)


# ---- some rows -----------------------------------------------------------------------------------


def taken(rows: Rows, places: Any) -> np.ndarray:
    """Rows with the given numbers as an array of NumPy, in that order."""
    n = len(rows)
    if isinstance(places, slice):
        return taken(rows, np.arange(*places.indices(n)))
    numbers = np.asarray(places)
    if numbers.dtype == bool:
        numbers = np.flatnonzero(numbers)
    flat = np.atleast_1d(numbers).astype(np.int64)
    if len(flat) and (flat.min() < -n or flat.max() >= n):
        raise IndexError(f"row {flat.max()} is out of range: there are {n} rows.")
    flat = flat % n if n else flat
    order = np.argsort(flat, kind="stable")
    ordered, starts = flat[order], rows.placement.starts
    cuts = np.searchsorted(ordered, starts)
    program, leaves = wanted(rows)
    tasks = [
        [program, blocks, ordered[cuts[i] : cuts[i + 1]] - starts[i]]
        for i, blocks in enumerate(leaves)
    ]
    parts = rows.placement.each_group("take", _take_group, tasks)
    gathered = joined_in_order(rows.placement.fetched(parts))
    pieces = by_block(rows.placement, gathered)
    rows_here = np.concatenate(pieces) if pieces else rows.sample
    back = np.empty(len(flat), np.int64)
    back[order] = np.arange(len(flat))
    result = rows_here[back]
    return result[0] if numbers.ndim == 0 else result


def _take_group(tasks: list[Any]) -> list[np.ndarray]:
    return [program(blocks)[numbers] for program, blocks, numbers in tasks]


def chosen(rows: Rows, mask: Rows) -> Rows:
    """The rows where a mask holds, each where it is; how many there are is counted first."""
    picked = mapped(operator.getitem, rows, mask)
    picked.blocks("choose")
    lengths = counts("count", mask, np.count_nonzero)
    return Rows(rows.placement.with_lengths(lengths), picked.sample, picked.blocks())


def counts(name: str, rows: Rows, function: Callable[[np.ndarray], Any]) -> list[int]:
    """A number for each block, in the order of blocks."""
    return by_block(rows.placement, reduced(name, rows, function, _one_list))


def _one_list(parts: list[Any]) -> list[int]:
    """Numbers, or lists of numbers, as one list."""
    return [one for part in parts for one in (part if isinstance(part, list) else [int(part)])]


def by_block(placement: Placement, values: list[Any]) -> list[Any]:
    """The results of groups of blocks, in the order of blocks."""
    order = [i for group in placement.groups for i in group]
    in_order: list[Any] = [None] * len(order)
    for i, value in zip(order, values, strict=True):
        in_order[i] = value
    return in_order


def row_numbers(mask: Rows) -> np.ndarray:
    """The numbers of the rows where something is not 0; at most a bit is sent for each row."""
    marks = reduced("nonzero", mask, _marks, joined_in_order)
    starts, lengths = mask.placement.starts, mask.placement.lengths
    places = []
    for i, mark in enumerate(by_block(mask.placement, marks)):
        if mark is True:
            places.append(np.arange(starts[i], starts[i + 1]))
        elif mark is not False:
            bits = np.unpackbits(mark, count=lengths[i])
            places.append(starts[i] + np.flatnonzero(bits))
    return np.concatenate(places) if places else np.empty(0, np.int64)


def _marks(block: np.ndarray) -> list[Any]:
    mask = block != 0
    if mask.all():
        return [True]
    return [np.packbits(mask) if mask.any() else False]


def smallest(rows: Rows, count: int) -> np.ndarray:
    """The numbers of the rows with the least values, in their order; a worker sends `count`."""
    starts, placement = rows.placement.starts, rows.placement
    program, leaves = wanted(rows)
    tasks = [[program, blocks, int(starts[i]), count] for i, blocks in enumerate(leaves)]
    parts = placement.each_group("smallest", _smallest_group, tasks)
    candidates = np.concatenate(placement.fetched(parts))
    return candidates[np.argsort(candidates[:, 0], kind="stable")[:count], 1].astype(np.int64)


def _smallest_group(tasks: list[Any]) -> np.ndarray:
    """Values and row numbers of the least values in some blocks."""
    pairs = []
    for program, blocks, start, _ in tasks:
        values = np.asarray(program(blocks), np.float64)
        pairs.append(np.stack([values, start + np.arange(len(values), dtype=np.float64)], axis=1))
    every, count = np.concatenate(pairs), tasks[0][3]
    return every[np.argsort(every[:, 0], kind="stable")[:count]]


# ---- the functions of NumPy ----------------------------------------------------------------------


class RowsNamespace:
    """The functions of NumPy that follow the array API, for arrays with rows on a cluster.

    Arrays of NumPy are computed with as ever: they are those of length M, and small ones.
    """

    __name__ = "mercer.distributed"
    takes_numpy = True
    linalg: Any = None

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        if not callable(function) or isinstance(function, type):
            return function

        def call(*args: Any, **options: Any) -> Any:
            options.pop("device", None)
            if not rows_in((args, options)):
                return function(*args, **options)
            if name in OF_ROWS:
                return OF_ROWS[name](*args, **options)
            axis = options.get("axis", args[1] if len(args) > 1 else None)
            if name in SUMS and (axis is None or 0 in np.atleast_1d(axis)):
                return SUMS[name](*args, **options)
            if name in REFUSED_FUNCTIONS:
                raise NotImplementedError(
                    f"{name} goes across all rows, which lie on a cluster: take some of them first."
                )
            return mapped(function, *args, **options)

        return call

    def astype(self, values: Any, dtype: Any, copy: bool = True, **options: Any) -> Any:
        if not isinstance(values, Rows):
            return values.astype(dtype, copy=copy)
        return values if values.dtype == dtype else mapped(np.astype, values, np.dtype(dtype))

    def uniform(self, seed: int, like: Rows) -> Rows:
        """The numbers that `np.random.default_rng(seed).random(n)` gives, where the rows are."""
        placement = like.placement
        starts = placement.starts[:-1].tolist()
        seeds = [seed] * len(starts)
        blocks = placement.each_block("random", _uniforms, seeds, starts, list(placement.lengths))
        return Rows(placement, np.empty(0), blocks)

    def smallest(self, values: Rows, count: int) -> np.ndarray:
        """The numbers of the rows with the least values, in their order."""
        return smallest(values, count)


def _uniforms(seed: int, start: int, count: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed).advance(start)).random(count)


def _as_array(values: Any, dtype: Any = None) -> Any:
    return values if dtype is None else rows_namespace.astype(values, dtype)


def _reshaped(values: Rows, shape: Any) -> Rows:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if shape == values.shape or (shape == (-1,) and values.ndim == 1):
        return values
    if shape[0] not in (len(values), -1):
        raise ValueError(f"rows on a cluster stay rows; got the shape {shape} for {values.shape}.")
    rest = values.sample.shape[1:]
    known = int(np.prod([s for s in shape[1:] if s != -1])) if shape[1:] else 1
    width = int(np.prod(rest)) if rest else 1
    return mapped(
        _reshape_block, values, tuple(width // known if s == -1 else s for s in shape[1:])
    )


def _reshape_block(block: np.ndarray, tail: tuple[int, ...]) -> np.ndarray:
    return block.reshape((len(block), *tail))


def _joined(arrays: Any, axis: int = 0) -> Any:
    arrays = list(arrays)
    if axis != 0:
        return mapped(np.concat, arrays, axis=axis)
    if len(arrays) == 1:
        return arrays[0]
    raise NotImplementedError("rows on a cluster are not put one below the other.")


def _broadcast(*arrays: Any) -> list[Rows]:
    return [mapped(_broadcast_one, i, *arrays) for i in range(len(arrays))]


def _broadcast_one(i: int, *arrays: Any) -> np.ndarray:
    return np.broadcast_arrays(*arrays)[i]


def _take(values: Any, indices: Any, axis: int | None = None) -> Any:
    if isinstance(values, Rows) and axis == 0:
        return values[indices]
    return mapped(np.take, values, indices, axis=axis)


def _bincount(values: Rows, weights: Any = None, minlength: int = 0) -> np.ndarray:
    length = max(int(minlength), int(rows_namespace.max(values)) + 1)
    rows = values if weights is None else mapped(_beside, values, weights)
    return np.asarray(reduced("bincount", rows, partial(_bincount_block, length=length), add_up))


def _beside(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.stack([np.asarray(values, np.float64), np.asarray(weights, np.float64)], axis=1)


def _bincount_block(block: np.ndarray, length: int) -> np.ndarray:
    if block.ndim == 1:
        return np.bincount(block, minlength=length)
    return np.bincount(block[:, 0].astype(np.intp), block[:, 1], minlength=length)


OF_ROWS: dict[str, Callable[..., Any]] = {
    "array_equal": lambda left, right: (
        left.shape == right.shape and bool(rows_namespace.all(left == right))
    ),
    "asarray": _as_array,
    "bincount": _bincount,
    "broadcast_arrays": _broadcast,
    "concat": _joined,
    "concatenate": _joined,
    "flatnonzero": lambda mask: row_numbers(mask),
    "matmul": operator.matmul,
    "ndim": lambda values: values.ndim,
    "nonzero": lambda mask: (row_numbers(mask),),
    "reshape": _reshaped,
    "result_type": lambda *arrays: np.result_type(*samples(arrays)),
    "shape": lambda values: values.shape,
    "take": _take,
    "unique": lambda values: reduced("unique", values, np.unique, union),
}
REFUSED_FUNCTIONS = frozenset(
    ("sort", "argsort", "cumsum", "cumulative_sum", "median", "quantile", "percentile")
)


def _over_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    join = add_up if function is np.sum else partial(over_parts, function)

    def over_rows(
        rows: Rows, axis: Any = None, keepdims: bool = False, dtype: Any = None, **options: Any
    ) -> Any:
        more = {} if dtype is None else {"dtype": dtype}
        key = function, axis, keepdims, dtype
        if key not in rows.cached:
            work = partial(of_block, function, axis=axis, keepdims=keepdims, **more)
            rows.cached[key] = reduced(function.__name__, rows, work, join)
        return np.copy(rows.cached[key])[()]  # a number stays a number

    return over_rows


def _mean(rows: Rows, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:
    total = SUMS["sum"](rows, axis=axis, keepdims=keepdims, dtype=np.float64)
    axes = range(rows.ndim) if axis is None else np.atleast_1d(axis)
    return total / float(np.prod([rows.shape[a] for a in axes]))


def _variance(rows: Rows, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:
    mean = _mean(rows, axis, keepdims=True)
    return _mean((rows - mean) ** 2, axis, keepdims)


SUMS: dict[str, Callable[..., Any]] = {
    name: _over_rows(getattr(np, name)) for name in ("sum", "max", "min", "any", "all")
}
SUMS |= {
    "amax": SUMS["max"],
    "amin": SUMS["min"],
    "count_nonzero": lambda rows, **options: SUMS["sum"](rows != 0),
    "mean": _mean,
    "var": _variance,
    "std": lambda rows, *args, **options: np.sqrt(_variance(rows, *args, **options)),
}


class RowsLinalg:
    """Norms over rows; everything else is NumPy's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np.linalg, name)

    def vector_norm(self, values: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if not isinstance(values, Rows):
            return np.linalg.vector_norm(values, axis=axis, keepdims=keepdims)
        return np.sqrt(rows_namespace.sum(values**2, axis=axis, keepdims=keepdims))


rows_namespace: Any = RowsNamespace()
RowsNamespace.linalg = RowsLinalg()
