"""The entry point: reads a command, runs it, and turns errors into a sentence and an exit code.

Nothing heavy is imported here, so that `mercer --help` is there at once.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence

from mercer.version import __version__

DONE, FAILED, REFUSED, NOT_WRITTEN, STOPPED = 0, 1, 3, 4, 130
SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
FILES = "CSV, TSV, Parquet, Feather or npz; - reads CSV from standard input"


def seconds(text: str) -> float:
    """A time as users write it.

    >>> seconds("90"), seconds("2min"), seconds("1.5h")
    (90.0, 120.0, 5400.0)
    """
    match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in SECONDS or not float(match[1]) > 0:
        raise argparse.ArgumentTypeError(f"a time is a text like 60s, 5min or 1h; got {text!r}")
    return float(match[1]) * SECONDS[match[2]]


def seed(text: str) -> int:
    """A seed of random numbers."""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"a seed is a whole number, 0 or more; got {text!r}")
    return int(text)


def level(text: str) -> float:
    """The share of new rows that an interval is to hold."""
    if not (re.fullmatch(r"0?\.[0-9]+", text) and float(text) > 0):
        raise argparse.ArgumentTypeError(f"a level lies between 0 and 1, as 0.9; got {text!r}")
    return float(text)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="mercer",
        description="From a table to a model that can be trusted, by kernels.",
        epilog="Exit codes: 0 done, 2 wrong command, 3 input refused, 4 not written, 130 stopped.",
    )
    top.add_argument("--version", action="version", version=f"mercer {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    fit = _command(commands, "fit", "choose, fit and test a model of one column by the others")
    _add_table(fit)
    fit.add_argument("-o", "--output", default="model.mercer", help="default: %(default)s")
    fit.add_argument("--report", default="report.html", help="default: %(default)s")
    fit.add_argument("--no-report", action="store_true")
    fit.add_argument("--loss", help="for numbers: squared_error, absolute_error, huber, …")
    fit.add_argument("--device", help="cuda fits on a GPU")
    fit.add_argument("--centres", type=int, help="write a smaller model, without training rows")
    fit.add_argument(
        "--checkpoint", metavar="FILE", help="written on the way; a run that was killed goes on"
    )
    predict = _command(commands, "predict", "predictions with intervals or probabilities, as CSV")
    predict.add_argument("model", help="a file that `mercer fit` wrote")
    predict.add_argument("table", help=FILES)
    predict.add_argument("-o", "--output", help="a CSV file; default: standard output")
    predict.add_argument("--level", type=level, default=0.9, help="of intervals; default: 0.9")
    text = "kernel, errors, certificate, what the solver did and why"
    explain = _command(commands, "explain", text)
    explain.add_argument("model", help="a file that `mercer fit` wrote")
    explain.add_argument("--report", help="write the report to this file")
    compare = _command(commands, "compare", "kernels, losses and other models, by the same folds")
    _add_table(compare)
    compare.add_argument("--folds", type=int, default=3, help="default: %(default)s")
    demo = _command(commands, "demo", "the whole way on data that scikit-learn ships")
    demo.add_argument("--folder", default=".", help="where the model and the report are written")
    bench = _command(commands, "bench", "speed on this machine against the installed peers")
    bench.add_argument("--rows", type=int, default=4000, help="of the data that is made up")
    return top


def _command(commands: argparse._SubParsersAction, name: str, text: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    made.add_argument("--json", action="store_true", help="print the result as JSON, nothing else")
    made.add_argument("--quiet", action="store_true", help="no progress bar")
    return made


def _add_table(made: argparse.ArgumentParser) -> None:
    made.add_argument("table", help=FILES)
    made.add_argument("--target", required=True, help="the column to predict")
    made.add_argument("--task", choices=["regression", "classification"], help="else as it looks")
    made.add_argument("--time", type=seconds, default=60.0, metavar="60s", help="about so long")
    made.add_argument("--rows", type=int, help="a random part of the rows")
    made.add_argument("--seed", type=seed, default=0, help="the same seed, the same model")
    made.add_argument("--memory", metavar="2GB", help="what computations may take")


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
    commands = importlib.import_module("mercer.cli.commands")  # which is heavy: not for --help
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
