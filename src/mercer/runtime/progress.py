"""A line on the terminal that says how far a long computation is, and how long it will take."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

SILENT = 2.0  # seconds after which the first line comes: what is shorter needs none
EVERY = 0.5  # seconds between two lines


class ProgressLine:
    """A progress line that is overwritten; on a terminal only.

    >>> import io
    >>> class Terminal(io.StringIO):
    ...     def isatty(self):
    ...         return True
    >>> out = Terminal()
    >>> with ProgressLine("pairs of points", 10, out, silent=0.0) as line:
    ...     line.done(5)
    >>> "pairs of points: 50% of 10" in out.getvalue()
    True
    """

    def __init__(
        self, what: str, total: int, out: TextIO | None = None, silent: float = SILENT
    ) -> None:
        self.what, self.total = what, total
        self.out = sys.stderr if out is None else out
        self.start = time.monotonic()
        self.next, self.shown = self.start + silent, False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.shown:
            self.out.write("\n")

    def done(self, count: int) -> None:
        """Say that so many are done, where it is time to."""
        now = time.monotonic()
        if now < self.next or not count or not self.out.isatty():
            return
        left = (now - self.start) * (self.total - count) / count
        share = count / self.total
        self.out.write(f"\r{self.what}: {share:.0%} of {self.total:,}, about {left:.0f} s left   ")
        self.out.flush()
        self.next, self.shown = now + EVERY, True
