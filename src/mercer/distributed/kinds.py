"""What lies on a cluster, told without importing dask."""

from __future__ import annotations

import sys
from typing import Any


def is_collection(data: Any) -> bool:
    """Whether this is an array or a table of Dask.

    >>> is_collection([1.0])
    False
    """
    return (
        _is("dask.array", "Array", data)
        or _is("dask.dataframe", "DataFrame", data)
        or (_is("dask.dataframe", "Series", data))
    )


def is_table(data: Any) -> bool:
    """Whether this is a table of Dask, or a column of one."""
    return is_collection(data) and not _is("dask.array", "Array", data)


def is_scattered(data: Any) -> bool:
    """Whether the rows of this are on a cluster, or will be."""
    from mercer.distributed.rows import Rows

    return isinstance(data, Rows) or is_collection(data)


def _is(module: str, name: str, data: Any) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(data, kind)
