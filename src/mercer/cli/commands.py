"""The commands of the command line: fit, predict, explain, compare."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

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

PREDICTED_ROWS = 20_000  # at a time
REPORT_SECONDS = 4.0  # in which a report is drawn
COPIES = 4  # of a table in memory while it is encoded and fitted


def fit(options: Any) -> None:
    """Choose, fit, test; write the model and the report."""
    check_writable(options.output)
    if not options.no_report:
        check_writable(options.report)
    table = _table(options)
    start = time.perf_counter()
    with _limited(options, 0.0 if options.no_report else REPORT_SECONDS) as (limit, notify):
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
    for start in range(0, max(rows, 1), PREDICTED_ROWS):
        part = take_rows(table, slice(start, start + PREDICTED_ROWS))
        parts.append(model.predict(part) if numbers else model.predict_proba(part))
        if notify is not None:
            notify("predicting", min(start + PREDICTED_ROWS, rows) / max(rows, 1))
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
    needed = COPIES * 8 * rows * columns
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
