"""The card of a worker, and what is copied to it once."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

from mercer.arrays import cards

_copies: dict[Any, tuple[Any, Any]] = {}  # of blocks of rows and models, as long as these are


def card() -> str | None:
    """The card of the worker that runs this task, as torch calls it; None without one.

    Workers of one machine take its cards in turn, by the numbers that are their names.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        name = str(distributed.get_worker().name)
    except ValueError:
        return None  # not on a worker
    count = cards()
    return f"cuda:{(int(name) if name.isdigit() else 0) % count}" if count else None


def resident(thing: Any, moved: Callable[[Any, str], Any]) -> Any:
    """`moved(thing, card)`, made once and cached as long as the worker has the thing itself."""
    device = card()
    if device is None:
        return thing
    key = id(thing), device
    if key not in _copies:
        # Names of a module are gone before the last arrays are.
        forget = weakref.ref(thing, lambda _, held=_copies: held.pop(key, None))  # type: ignore[misc]
        _copies[key] = forget, moved(thing, device)
    return _copies[key][1]
