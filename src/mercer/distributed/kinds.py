"""Recognising data on a cluster without importing dask."""

from __future__ import annotations

from typing import Any


def is_collection(data: Any) -> bool:
    """Whether this is an array or a table of Dask.

    >>> is_collection([1.0])
    False
    """
    return type(data).__module__.startswith("dask.") and hasattr(type(data), "npartitions")


def is_table(data: Any) -> bool:
    """Whether this is a table of Dask, or a column of one."""
    return is_collection(data) and not hasattr(data, "chunks")


def is_scattered(data: Any) -> bool:
    """Whether the rows of this are on a cluster, or will be."""
    from mercer.distributed.rows import Rows

    return isinstance(data, Rows) or is_collection(data)
