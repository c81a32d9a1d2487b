"""A progress bar with the time left, by rich: on terminals and in notebooks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

Notify = Callable[[str, float], Any]


@contextlib.contextmanager
def progress_bar(show: bool) -> Iterator[Notify | None]:
    """A callback that takes a text and the share of the work that is done; None for no bar."""
    if not show:
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        with _plain() as notify:
            yield notify
        return
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield None
        return
    columns = (TextColumn("{task.description:<28}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        best = [0.0]

        def notify(text: str, done: float) -> None:
            best[0] = max(best[0], done)
            bar.update(task, description=text, completed=best[0])

        yield notify


@contextlib.contextmanager
def _plain() -> Iterator[Notify | None]:
    """One line that is written over, on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return

    def notify(text: str, done: float) -> None:
        sys.stderr.write(f"\r{text:<40} {done:4.0%}")
        sys.stderr.flush()

    yield notify
    sys.stderr.write("\n")
