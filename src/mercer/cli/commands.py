"""The commands of the command line: fit, predict, explain, compare, demo, bench."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mercer.cli.main import run_command
from mercer.estimators import SVC, KernelRidge
from mercer.kernels import Gaussian
from mercer.persistence import load
from mercer.persistence.container import write_whole
from mercer.runtime.budget import free_memory, memory_budget
from mercer.structured.encodings import column_names
from mercer.workflow import FittedModel
from mercer.workflow import fit as fit_table
from mercer.workflow.columns import row_count, take_rows
from mercer.workflow.comparison import compare as compare_models
from mercer.workflow.model import score_table
from mercer.workflow.progress import progress_bar
from mercer.workflow.reading import read_table
from mercer.workflow.search import Limit


@dataclass(frozen=True)
class Tuning:
    """Sizes and times of commands."""

    predicted_rows: int = 20_000  # at a time
    report_seconds: float = 4.0  # in which a report is drawn
    copies: int = 4  # of a table in memory while it is encoded and fitted
    turns: int = 3  # of mercer and a peer, the best of which count


TUNING = Tuning()
MEASUREMENTS = (
    "age", "sex", "bmi", "blood pressure", "cholesterol", "LDL", "HDL", "ratio", "triglycerides",
    "glucose",
)  # fmt: skip


def fit(options: Any) -> None:
    """Choose, fit, test; write the model and the report."""
    check_writable(options.output)
    if not options.no_report:
        check_writable(options.report)
    table = _table(options)
    start = time.perf_counter()
    with _limited(options, 0.0 if options.no_report else TUNING.report_seconds) as (limit, notify):
        model = fit_table(
            table,
            options.target,
            task=options.task,
            loss=options.loss,
            random_state=options.seed,
            device=options.device,
            limit=limit,
            notify=notify,
            checkpoint=options.checkpoint,
        )
    model.save(options.output, centres=options.centres)
    report = None if options.no_report else _reported(model, options.report)
    if options.checkpoint:
        Path(options.checkpoint).unlink(missing_ok=True)
    _print_fit(model, options, report, time.perf_counter() - start)


def _print_fit(model: FittedModel, options: Any, report: Any, seconds: float) -> None:
    record, written = model.record_, None if report is None else str(report)
    if options.json:
        times = {"seconds": round(seconds, 2), "parts": record.seconds}
        files = {"model": str(options.output), "report": written}
        _print_json(files | _described(model) | times)
        return
    print(
        f"{record.task} of {record.target!r}: {record.rows:,} rows, {len(record.columns)} columns"
    )
    print(score_table(record))
    print("\nThe same model in code:\n")
    print("    " + record.code.replace("\n", "\n    "))
    print(f"\nmodel   {options.output}")
    if report is not None:
        print(f"report  {report}")
    print(f"in {seconds:.1f} s")


def _described(model: FittedModel) -> dict[str, Any]:
    """What is known of a model, as plain values."""
    record = model.record_
    return {
        "task": record.task,
        "target": record.target,
        "rows": record.rows,
        "kernel": repr(model.model_.kernel_),
        "scores": record.scores,
        "certificate": record.figures,
        "importance": record.importance,
        "code": record.code,
    }


def predict(options: Any) -> None:
    """Predictions as CSV: with intervals for numbers, probabilities for classes."""
    model = _model(options.model)
    if options.output:
        check_writable(options.output)
    table = _read(options.table)
    with progress_bar(not (options.quiet or options.json)) as notify:
        columns = _predictions(model, table, options.level, notify)
    if options.json:
        _print_json({name: np.asarray(values).tolist() for name, values in columns.items()})
        return
    if not options.output:
        sys.stdout.write(csv_of(columns))
        return
    write_whole(options.output, csv_of(columns).encode())
    print(f"{row_count(columns):,} predictions in {options.output}", file=sys.stderr)


def _predictions(model: Any, table: Any, level: float, notify: Any = None) -> dict[str, Any]:
    """Columns of the result, made of blocks of rows."""
    record, rows = model.record_, row_count(table)
    numbers = record.task == "regression"
    width = model.interval_width(level) if numbers else 0.0
    parts = []
    for start in range(0, max(rows, 1), TUNING.predicted_rows):
        part = take_rows(table, slice(start, start + TUNING.predicted_rows))
        parts.append(model.predict(part) if numbers else model.predict_proba(part))
        if notify is not None:
            notify("predicting", min(start + TUNING.predicted_rows, rows) / max(rows, 1))
    values = np.concatenate(parts)
    if numbers:
        return {record.target: values, "low": values - width, "high": values + width}
    columns: dict[str, Any] = {record.target: model.classes_[values.argmax(axis=1)]}
    for label, of_class in zip(model.classes_, values.T, strict=True):
        columns[f"p({label})"] = of_class
    return columns


def explain(options: Any) -> None:
    """Describe a model and its errors."""
    model = _model(options.model)
    if options.report:
        _reported(model, options.report)
    if options.json:
        _print_json(_described(model))
    else:
        print(model.explain())


def compare(options: Any) -> None:
    """Models by the same folds."""
    table = _table(options)
    with _limited(options) as (limit, notify):
        comparison = compare_models(
            table,
            options.target,
            task=options.task,
            folds=options.folds,
            random_state=options.seed,
            limit=limit,
            notify=notify,
        )
    if options.json:
        _print_json(comparison.as_dict())
    else:
        print(comparison)


# ---- demo and bench ------------------------------------------------------------------------------


def diabetes() -> dict[str, Any]:
    """Ten measurements of 442 patients, and how the disease went on after a year.

    The sex is a category again, and some values of glucose are made missing, as in real tables.
    """
    from sklearn.datasets import load_diabetes

    rows, target = load_diabetes(return_X_y=True, scaled=False)
    columns: dict[str, Any] = {name: rows[:, i] for i, name in enumerate(MEASUREMENTS)}
    columns["sex"] = np.where(columns["sex"] == 1, "female", "male").astype(object)
    missing = np.random.default_rng(0).random(len(rows)) < 0.05
    columns["glucose"] = np.where(missing, np.nan, columns["glucose"])
    return {**columns, "progression": target}


def digits() -> dict[str, Any]:
    """1,797 images of digits by hand: the ink in 8 × 8 fields, and the digit."""
    from sklearn.datasets import load_digits

    rows, target = load_digits(return_X_y=True)
    columns = {f"row {i // 8} column {i % 8}": rows[:, i] for i in range(64)}
    return {**columns, "digit": target}


def demo(options: Any) -> None:
    """Write the tables, then run the commands that a user would type."""
    folder = Path(options.folder)
    check_writable(str(folder / "diabetes.csv"))
    for name, table in {"diabetes": diabetes(), "digits": digits()}.items():
        write_whole(folder / f"{name}.csv", csv_of(table).encode())
    flags = [flag for flag in ("--json", "--quiet") if getattr(options, flag[2:])]
    for line in (
        "fit diabetes.csv --target progression --time 8s -o diabetes.mercer --report diabetes.html",
        "explain diabetes.mercer",
        "fit digits.csv --target digit --time 15s -o digits.mercer --report digits.html",
    ):
        if not options.json:
            print(f"\n$ mercer {line}\n", flush=True)
        files = (".csv", ".mercer", ".html")
        words = [str(folder / w) if w.endswith(files) else w for w in line.split()]
        run_command([*words, *flags])
    if not options.json:
        print(f"\nreports worth a look: {folder / 'diabetes.html'} and {folder / 'digits.html'}")


def works(rows: int) -> list[tuple[str, str, Callable[[], Any], Callable[[], Any]]]:
    """The comparisons: a title, the peer, our function and theirs, whose numbers must agree."""
    from sklearn import kernel_ridge, svm
    from sklearn.metrics.pairwise import rbf_kernel

    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 10))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(rows)
    labels = np.where(y + 0.3 * rng.standard_normal(rows) > 0, 1, -1)
    gram = Gaussian(2.0).gram(X)
    ridge: dict[str, Any] = {"kernel": "rbf", "gamma": 0.125}
    machine: dict[str, Any] = {"C": 10.0, "gamma": 0.125, "tol": 1e-4}
    return [
        ("K(X, X)v", "rbf_kernel(X) @ v", lambda: gram @ y, lambda: rbf_kernel(X, gamma=0.125) @ y),
        (
            "kernel ridge regression",
            "KernelRidge",
            lambda: KernelRidge(0.1, **ridge).fit(X, y).predict(X[:500]),
            lambda: kernel_ridge.KernelRidge(alpha=0.1, **ridge).fit(X, y).predict(X[:500]),
        ),
        (
            "support vector machine",
            "SVC",
            lambda: SVC(**machine).fit(X, labels).decision_function(X[:500]),
            lambda: svm.SVC(**machine).fit(X, labels).decision_function(X[:500]),
        ),
    ]


def bench(options: Any) -> None:
    """Time them in turns and print the table."""
    asked = works(options.rows)
    results: list[dict[str, Any]] = []
    with progress_bar(not (options.quiet or options.json)) as notify:
        for work in asked:
            if notify is not None:
                notify(work[0], len(results) / len(asked))
            results.append(_measured(*work))
    if options.json:
        _print_json(results)
        return
    head = f"work, {options.rows:,} rows"
    print(f"{head:<28}{'mercer':>10}{'peer':>10}{'times':>8}  agreement")
    for row in results:
        times = row["peer"] / row["mercer"]
        print(
            f"{row['work']:<28}{row['mercer']:>9.3f}s{row['peer']:>9.3f}s{times:>7.1f}×"
            f"  {row['agreement']:.1e}, scikit-learn's {row['against']}"
        )


def _measured(work: str, against: str, ours: Any, theirs: Any) -> dict[str, Any]:
    answers = [np.asarray(ours()), np.asarray(theirs())]  # code is compiled, memory is touched
    best = [float("inf")] * 2
    for _ in range(TUNING.turns):
        for i, side in enumerate((ours, theirs)):
            start = time.perf_counter()
            side()
            best[i] = min(best[i], time.perf_counter() - start)
    gap = float(np.linalg.norm(answers[0] - answers[1]) / np.linalg.norm(answers[1]))
    times = {"mercer": best[0], "peer": best[1]}
    return {"work": work, "against": against, **times, "agreement": gap}


# ---- input and output ----------------------------------------------------------------------------


@contextmanager
def _limited(options: Any, after: float = 0.0) -> Iterator[tuple[Limit, Any]]:
    """A limit of time that Ctrl-C ends, less the seconds of what comes after; the progress bar."""
    limit = Limit(max(options.time - after, 0.7 * options.time))
    with stopping(limit), progress_bar(not (options.quiet or options.json)) as notify:
        yield limit, notify


def _read(source: str) -> Any:
    return read_table(sys.stdin.buffer.read() if source == "-" else source)


def _table(options: Any) -> Any:
    """The table that was asked for, or a random part of its rows, where memory is enough."""
    table = _read(options.table)
    rows, columns = row_count(table), len(column_names(table))
    if options.target not in column_names(table):
        raise ValueError(
            f"{options.table} has no column {options.target!r}; it has {column_names(table)}."
        )
    if options.rows is not None and options.rows < rows:
        chosen = np.random.default_rng(options.seed).choice(rows, options.rows, replace=False)
        return take_rows(table, np.sort(chosen))
    needed = TUNING.copies * 8 * rows * columns
    most = memory_budget(options.memory) if options.memory else free_memory()
    if needed > most:
        raise ValueError(
            f"{rows:,} rows of {columns} columns take about {_megabytes(needed)}, and "
            f"{_megabytes(most)} may be used: take a part of them, as --rows "
            f"{int(rows * most / needed / 2):d}."
        )
    return table


def _megabytes(count: float) -> str:
    size = count / 1e6
    return f"{size:,.0f} MB" if size >= 10 else f"{size:.2g} MB"


def _model(path: str) -> Any:
    model = load(path)
    if not hasattr(model, "record_"):
        raise ValueError(f"{path} holds a {type(model).__name__}, not a model of `mercer fit`.")
    return model


def check_writable(path: str) -> None:
    """Refuse before the work what could not be written after it."""
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(2, f"there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise PermissionError(13, f"the folder {folder} cannot be written to")


def _reported(model: Any, path: str) -> Path | None:
    """The report, where matplotlib is there to draw it."""
    try:
        return Path(model.report(path))
    except ImportError:
        print("mercer: the report takes matplotlib: pip install 'mercer[cli]'", file=sys.stderr)
        return None


def csv_of(columns: Mapping[str, Any]) -> str:
    """A table as CSV, numbers with ten digits; what is missing is empty."""

    def written(value: Any) -> str:
        if not isinstance(value, (float, np.floating)):
            return str(value)
        return "" if np.isnan(value) else f"{value:.10g}"

    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(columns)
    rows.writerows(map(written, row) for row in zip(*columns.values(), strict=True))
    return file.getvalue()


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))


@contextmanager
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
