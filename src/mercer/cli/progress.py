"""A progress bar with the time left, by rich where it is installed; on a terminal only."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

Notify = Callable[[str, float], Any]


@contextlib.contextmanager
def progress_bar(show: bool) -> Iterator[Notify | None]:
    """A callback that takes a text and the share of the work that is done."""
    if not (show and sys.stderr.isatty()):
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield _plain
        sys.stderr.write("\n")
        return
    columns = (TextColumn("{task.description:<28}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        best = [0.0]

        def notify(text: str, done: float) -> None:
            best[0] = max(best[0], done)
            bar.update(task, description=text, completed=best[0])

        yield notify


def _plain(text: str, done: float) -> None:
    sys.stderr.write(f"\r{text:<40} {done:4.0%}")
    sys.stderr.flush()


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
