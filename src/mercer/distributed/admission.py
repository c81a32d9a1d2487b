"""From arrays and tables of Dask to rows on workers, and back."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.distributed.placement import Placement, connected, token
from mercer.distributed.rows import Rows, counts, spread


def is_collection(data: Any) -> bool:
    """Whether this is an array or a table of Dask, without importing dask.

    >>> is_collection([1.0])
    False
    """
    return type(data).__module__.startswith("dask.") and hasattr(type(data), "npartitions")


def is_table(data: Any) -> bool:
    """Whether this is a table of Dask, or a column of one."""
    return is_collection(data) and not hasattr(data, "chunks")


def is_scattered(data: Any) -> bool:
    """Whether the rows of this are on a cluster, or will be."""
    return isinstance(data, Rows) or is_collection(data)


def admitted(data: Any, beside: Rows | None = None, what: str = "X") -> Rows:
    """An array or a table of Dask as rows on workers, computed once and never moved again.

    `beside` are rows that have the same blocks, as X has for y. Arrays of NumPy are sent to the
    workers of these.
    """
    if isinstance(data, Rows):
        return data
    if not is_collection(data):
        return _of_numbers(data, beside, what)
    blocks, width = _delayed_blocks(data, beside)
    placement = _placement(data, blocks) if beside is None else beside.placement
    if len(blocks) != len(placement.lengths):
        raise ValueError(
            f"X and {what} must have the same blocks of rows; got {len(placement.lengths)} and "
            f"{len(blocks)} blocks: rechunk or repartition one of them."
        )
    futures: list[Any] = [None] * len(blocks)
    with connected():
        for group, worker in zip(placement.groups, placement.workers, strict=True):
            made = placement.client.compute([blocks[i] for i in group], workers=[worker])
            for i, future in zip(group, made, strict=True):
                futures[i] = future
    rows = Rows(placement, np.empty((0, *width), _dtype(data)), futures)
    return _with_lengths(rows, beside, what)


def _of_numbers(data: Any, beside: Rows | None, what: str) -> Rows:
    """An array here, with a row for each of those there."""
    array = np.asarray(data)
    if beside is None or array.ndim not in (1, 2) or len(array) != len(beside):
        rows = "rows" if beside is None else f"{len(beside)} rows"
        raise ValueError(
            f"{what} must have one row for each of the {rows} of X; got {array.shape}."
        )
    return spread(array, beside.placement)


def _delayed_blocks(data: Any, beside: Rows | None) -> tuple[list[Any], tuple[int, ...]]:
    """A delayed array for each block of rows, named for the dashboard, and its other dimensions."""
    from dask import delayed

    if is_table(data):
        # Optimised, columns of one file would be read in blocks of different lengths.
        parts = list(data.to_delayed(optimize_graph=False))
        width = () if data.ndim == 1 else (len(data.columns),)
    else:
        if data.ndim not in (1, 2):
            raise ValueError(
                f"arrays of Dask must have one or two dimensions; got shape {data.shape}."
            )
        if data.ndim == 2 and data.numblocks[1] > 1:
            data = data.rechunk({1: -1})
        lengths = () if beside is None else beside.placement.lengths
        if data.shape[0] == sum(lengths) and tuple(data.chunks[0]) != lengths:
            data = data.rechunk({0: lengths})
        parts, width = list(data.to_delayed().ravel()), data.shape[1:]
    dtype = _dtype(data)
    read, key = delayed(as_block, pure=False), token("rows")
    blocks = [read(part, dtype, dask_key_name=f"{key}-{i}") for i, part in enumerate(parts)]
    return blocks, tuple(width)


def as_block(part: Any, dtype: Any) -> np.ndarray:
    """A block of rows as an array of numbers, in order in memory; runs on a worker."""
    array = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
    block = np.ascontiguousarray(array, dtype)
    if block.dtype.kind == "f" and not np.isfinite(block).all():
        what = "NaN" if np.isnan(block).any() else "infinity"
        raise ValueError(
            f"Input contains {what}: remove those rows, or fill them in first, as by "
            "frame.fillna(...)."
        )
    return block


def _dtype(data: Any) -> np.dtype:
    """float32 and float64 stay; other numbers are read as float64, and labels as they are."""
    if is_table(data) and data.ndim == 2:
        kinds = {kind if isinstance(kind, np.dtype) else np.dtype(object) for kind in data.dtypes}
        if any(kind.kind not in "fiub" for kind in kinds):
            raise ValueError(
                f"the columns must be numbers; got {dict(data.dtypes)}: encode the others first, "
                "for example with frame.categorize() and dask.dataframe.get_dummies."
            )
        return np.result_type(*kinds) if kinds == {np.dtype(np.float32)} else np.dtype(np.float64)
    dtype = data.dtype if isinstance(data.dtype, np.dtype) else np.dtype(object)
    if data.ndim == 2 and dtype not in (np.float32, np.float64):
        return np.dtype(np.float64)
    return dtype


def _placement(data: Any, blocks: Sequence[Any]) -> Placement:
    """Where the blocks are, if they are somewhere, in equal shares."""
    from dask.core import flatten

    client = cluster_client()
    gc.collect()  # what earlier fits left in cycles would hold memory on the workers
    with connected():
        known = client.run_on_scheduler(_holders, list(flatten(data.__dask_keys__())))
    workers = sorted(known["workers"])
    if not workers:
        raise ValueError(
            "the cluster has no workers: start some, or wait for client.wait_for_workers(1)."
        )
    groups: dict[str, list[int]] = {}
    for i, worker in enumerate(_shares(len(blocks), workers, known["held"])):
        groups.setdefault(worker, []).append(i)
    return Placement(client, [0] * len(blocks), list(groups.values()), list(groups))


def _shares(count: int, workers: list[str], held: list[str | None]) -> list[str]:
    """The worker of each block: the one that has it, unless that has more than its equal share.

    A pass takes as long as the worker with the most blocks, so that those beyond a share are worth
    being moved once. Blocks that are nowhere yet are given out one after the other.

    >>> _shares(4, ["a", "b"], ["a", "a", "a", "b"])
    ['a', 'a', 'b', 'b']
    """
    there = [worker for worker in held if worker is not None]
    if len(there) != count:
        return [workers[i * len(workers) // max(count, len(workers))] for i in range(count)]
    taken = dict.fromkeys(workers, 0)
    beyond = []
    for i, worker in enumerate(there):
        if taken[worker] * len(workers) < count:
            taken[worker] += 1
        else:
            beyond.append(i)
    for i in beyond:
        there[i] = min(workers, key=taken.__getitem__)
        taken[there[i]] += 1
    return there


def _holders(keys: list[Any], dask_scheduler: Any = None) -> dict[str, Any]:
    """The workers, and which of them has each of some results; runs on the scheduler."""
    tasks = [dask_scheduler.tasks.get(key) for key in keys]
    there = [{ws.address for ws in task.who_has or ()} if task else set() for task in tasks]
    held = [min(addresses, default=None) for addresses in there]
    return {"workers": list(dask_scheduler.workers), "held": held}


def cluster_client() -> Any:
    """The client of the cluster, whose scheduler knows what to do when a worker is lost."""
    from distributed import get_client
    from mercer.distributed.failover import Failover

    try:
        client = get_client()
    except ValueError:
        raise ValueError(
            "arrays of Dask are computed on a cluster, and there is none: write client = "
            "distributed.Client() first, which starts one on this machine."
        ) from None
    client.register_plugin(Failover())
    return client


def _with_lengths(rows: Rows, beside: Rows | None, what: str) -> Rows:
    """The same rows with the lengths of their blocks, which must be those of `beside`."""
    lengths = tuple(counts("lengths", rows, len))
    if beside is None:
        if not sum(lengths):
            raise ValueError(f"{what} has no rows.")
        return Rows(rows.placement.with_lengths(lengths), rows.sample, rows.blocks())
    if lengths != beside.placement.lengths:
        raise ValueError(
            f"{what} must have one row for each of the {len(beside)} rows of X, in blocks of the "
            f"same lengths; got {sum(lengths)} rows in {len(lengths)} blocks: rechunk or "
            "repartition one of them."
        )
    return rows


def names_of(data: Any) -> tuple[str, ...] | None:
    """The names of the columns of a table, where all are texts."""
    if not is_table(data) or data.ndim == 1:
        return None
    names = tuple(data.columns)
    return names if all(isinstance(name, str) for name in names) else None
