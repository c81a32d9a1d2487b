"""The entry point: runs a command, and turns errors into a sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from mercer.cli.arguments import parser

DONE, FAILED, REFUSED, NOT_WRITTEN, STOPPED = 0, 1, 3, 4, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    try:
        run_command(arguments)
    except KeyboardInterrupt:
        return _said("stopped.", STOPPED)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone
    except Exception as refusal:
        if os.environ.get("MERCER_TRACEBACK"):
            raise
        return _said(*_sentence(refusal))
    return DONE


def run_command(arguments: Sequence[str] | None) -> None:
    """Run a command; errors are raised."""
    options = parser().parse_args(arguments)
    if getattr(options, "memory", None):
        os.environ["MERCER_MEMORY"] = options.memory
    commands = importlib.import_module("mercer.cli.commands")  # heavy, so not for --help
    getattr(commands, options.command)(options)


def _sentence(refusal: Exception) -> tuple[str, int]:
    """The sentence for an error, and the exit code."""
    if isinstance(refusal, OSError):
        where = f"{refusal.filename}: " if refusal.filename else ""
        return f"{where}{refusal.strerror or refusal}.", NOT_WRITTEN
    if isinstance(refusal, MemoryError):
        return "the memory is not enough: take fewer rows with --rows.", REFUSED
    if isinstance(refusal, (ValueError, ImportError)):  # an extra that is not installed
        return str(refusal), REFUSED
    return f"{type(refusal).__name__}: {refusal} (MERCER_TRACEBACK=1 shows where)", FAILED


def _said(text: str, code: int) -> int:
    print(f"mercer: {text}", file=sys.stderr)
    return code
