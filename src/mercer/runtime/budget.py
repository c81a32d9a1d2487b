"""The memory a product may take beyond its inputs and its output."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from functools import lru_cache

MEGABYTE = 1 << 20
UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": MEGABYTE, "gb": 1 << 30, "tb": 1 << 40}
SHARE = 0.25  # of the free memory, where nothing else was said
FRESH = 0.25  # seconds for which the answer of the system counts
FALLBACK = 1024 * MEGABYTE  # where the system does not tell what is free

Memory = int | str | None


def memory_budget(memory: Memory = None) -> int:
    """Bytes from an argument, from `MERCER_MEMORY`, or a share of what is free.

    >>> memory_budget("64MB") == 64 * 2**20
    True
    """
    if memory is None:
        memory = os.environ.get("MERCER_MEMORY")
    if memory is None:
        return _share(free_memory, int(time.monotonic() / FRESH))
    amount = _bytes(memory)
    if amount <= 0:
        raise ValueError(f"memory must be positive; got {memory!r}. Write for example '500MB'.")
    return amount


@lru_cache(maxsize=1)
def _share(free: Callable[[], int], moment: int) -> int:
    """Asked once in a while: the answer takes longer than a small product."""
    return int(SHARE * free())


def _bytes(memory: int | str) -> int:
    if isinstance(memory, int):
        return memory
    match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*)\s*([a-z]*)\s*", str(memory).lower())
    if match is None or match[2] not in UNITS:
        raise ValueError(
            f"memory must be a number of bytes or a text like '500MB' or '2GB'; got {memory!r}."
        )
    return int(float(match[1]) * UNITS[match[2]])


def free_memory() -> int:
    """Bytes that could be taken now without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return FALLBACK
