"""The memory budget: bytes that a computation may take beyond its inputs and its output."""

from __future__ import annotations

import math
import os
import re
import time
from dataclasses import dataclass

MEGABYTE = 1 << 20
UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": MEGABYTE, "gb": 1 << 30, "tb": 1 << 40}

Memory = int | str | None
"""A budget as users write it: bytes, a text like "500MB", or None for the default."""


@dataclass(frozen=True)
class Tuning:
    """The default budget."""

    share: float = 0.25
    """Of the free memory: four such computations may run side by side."""
    seconds: float = 0.25
    """For which an answer of the system counts: asking takes 15 µs, as long as a small product."""
    unknown: int = 1024 * MEGABYTE
    """Bytes that count as free where the system does not say."""


TUNING = Tuning()
EVERYTHING = Tuning(share=1.0)  # that is free, for what is refused otherwise
_asked = [-math.inf, 0.0]  # when, and what was free


def memory_budget(memory: Memory = None, tuning: Tuning = TUNING) -> int:
    """Bytes from an argument, from `MERCER_MEMORY`, or a share of what is free.

    >>> memory_budget("64MB") == 64 * 2**20
    True
    """
    if memory is None:
        memory = os.environ.get("MERCER_MEMORY")
    if memory is None:
        now = time.monotonic()
        if now - _asked[0] > tuning.seconds:
            _asked[:] = now, free_memory(tuning)
        return int(tuning.share * _asked[1])
    whole = isinstance(memory, int) and not isinstance(memory, bool)
    amount = int(memory) if whole else _bytes(memory)
    if amount <= 0:
        raise ValueError(f"memory must be positive; got {memory!r}. Write for example '500MB'.")
    return amount


def require_room(what: str, needed: float, advice: str, memory: Memory = None) -> None:
    """Refuse what takes more bytes than the budget, or than are free where none was set.

    >>> require_room("the matrix", 2**30, "Take fewer points", memory="1MB")
    Traceback (most recent call last):
    ValueError: the matrix takes 1,024 MB, and there are 1 MB. Take fewer points, or raise \
MERCER_MEMORY.
    """
    limit = memory_budget(memory, EVERYTHING)
    if needed > limit:
        raise ValueError(
            f"{what} takes {in_words(needed)}, and there are {in_words(limit)}. {advice}, or raise "
            "MERCER_MEMORY."
        )


def in_words(amount: float) -> str:
    """A number of bytes to read, in a unit in which it is not 0.

    >>> in_words(250), in_words(3 * 2**20), in_words(5e12)
    ('250 bytes', '3 MB', '4,657 GB')
    """
    for unit, size in (("GB", 10 * 1024 * MEGABYTE), ("MB", MEGABYTE), ("KB", 1024)):
        if amount >= size:
            return f"{amount / min(size, 1024 * MEGABYTE):,.0f} {unit}"
    return f"{amount:,.0f} bytes"


def _bytes(memory: object) -> int:
    match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*)\s*([a-z]*)\s*", str(memory).lower())
    if match is None or match[2] not in UNITS:
        raise ValueError(
            f"memory must be a number of bytes or a text like '500MB' or '2GB'; got {memory!r}."
        )
    return int(float(match[1]) * UNITS[match[2]])


def free_memory(tuning: Tuning = TUNING) -> int:
    """Bytes that could be taken now without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return tuning.unknown
