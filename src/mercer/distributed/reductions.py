"""Reductions over all rows of a cluster: sums, largest values, rows that are asked for.

A worker goes through its blocks in one task, in order; what workers give is joined two by two, in
the order of their blocks, and comes here as an array of NumPy.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from mercer.distributed.placement import Placement
from mercer.distributed.rows import Rows, mapped, spread, wanted

FEW = 32  # workers whose small results come here one by one


def reduced(name: str, rows: Rows, function: Callable[[np.ndarray], Any], join: Any) -> Any:
    """`function` of each block, the results joined two by two and brought here.

    A worker goes through its blocks in one task: these functions are cheap.
    """
    program, leaves = wanted(rows)
    tasks = [[program, blocks, function, join] for blocks in leaves]
    placement = rows.placement
    parts = placement.each_group(name, _reduce_group, tasks)
    if len(parts) <= FEW:  # these are small: to add them up on workers would only take time
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


def digest(rows: Rows) -> bytes:
    """A few bytes that differ where rows differ."""
    parts = by_block(rows.placement, reduced("digest", rows, _digest_of, joined_in_order))
    return hashlib.sha256(b"".join(parts)).digest()


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


def uniforms(rows: Rows, seed: int) -> Rows:
    """The numbers that `np.random.default_rng(seed).random(n)` gives, where the rows are."""
    placement = rows.placement
    starts = placement.starts[:-1].tolist()
    seeds = [seed] * len(starts)
    blocks = placement.each_block("random", _uniforms, seeds, starts, list(placement.lengths))
    return Rows(placement, np.empty(0), blocks)


def _uniforms(seed: int, start: int, count: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed).advance(start)).random(count)
