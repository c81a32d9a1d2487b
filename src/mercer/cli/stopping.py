"""Ctrl-C, which ends the search and not the command."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def stopping(limit: Any) -> Iterator[None]:
    """The first Ctrl-C ends the search with the best model so far, the second one everything."""

    def first(*_: Any) -> None:
        limit.stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stderr.write("\nstopping: the best model so far is fitted; Ctrl-C again to leave\n")

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
