"""The commands and their options. Imports nothing heavy: `mercer --help` is there at once."""

from __future__ import annotations

import argparse
import re

from mercer.version import __version__

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
    """A seed of random numbers.

    >>> seed("7")
    7
    """
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"a seed is a whole number, 0 or more; got {text!r}")
    return int(text)


def level(text: str) -> float:
    """The share of new rows that an interval is to hold.

    >>> level("0.9")
    0.9
    """
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
    _fit(commands)
    _predict(commands)
    _explain(commands)
    _compare(commands)
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


def _table(made: argparse.ArgumentParser) -> None:
    made.add_argument("table", help=FILES)
    made.add_argument("--target", required=True, help="the column to predict")
    made.add_argument("--task", choices=["regression", "classification"], help="else as it looks")
    made.add_argument("--time", type=seconds, default=60.0, metavar="60s", help="about so long")
    made.add_argument("--rows", type=int, help="a random part of the rows")
    made.add_argument("--seed", type=seed, default=0, help="the same seed, the same model")
    made.add_argument("--memory", metavar="2GB", help="what computations may take")


def _fit(commands: argparse._SubParsersAction) -> None:
    made = _command(commands, "fit", "choose, fit and test a model of one column by the others")
    _table(made)
    made.add_argument("-o", "--output", default="model.mercer", help="default: %(default)s")
    made.add_argument("--report", default="report.html", help="default: %(default)s")
    made.add_argument("--no-report", action="store_true")
    made.add_argument("--loss", help="for numbers: squared_error, absolute_error, huber, …")
    made.add_argument("--device", help="cuda fits on a GPU")
    made.add_argument("--centres", type=int, help="write a smaller model, without training rows")
    made.add_argument(
        "--checkpoint", metavar="FILE", help="written on the way; a run that was killed goes on"
    )


def _predict(commands: argparse._SubParsersAction) -> None:
    made = _command(commands, "predict", "predictions with intervals or probabilities, as CSV")
    made.add_argument("model", help="a file that `mercer fit` wrote")
    made.add_argument("table", help=FILES)
    made.add_argument("-o", "--output", help="a CSV file; default: standard output")
    made.add_argument("--level", type=level, default=0.9, help="of intervals; default: 0.9")


def _explain(commands: argparse._SubParsersAction) -> None:
    made = _command(commands, "explain", "kernel, errors, certificate, what the solver did and why")
    made.add_argument("model", help="a file that `mercer fit` wrote")
    made.add_argument("--report", help="write the report to this file")


def _compare(commands: argparse._SubParsersAction) -> None:
    made = _command(commands, "compare", "kernels, losses and other models, by the same folds")
    _table(made)
    made.add_argument("--folds", type=int, default=3, help="default: %(default)s")
