"""The function along one or two columns, the others at their medians and most frequent values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.report import figures

POINTS, SIDE, SLICES = 80, 28, 4


def typical_row(record: Any) -> dict[str, Any]:
    """Medians, and the most frequent categories; dates as dates."""
    row: dict[str, Any] = {}
    for column in record.columns:
        if column["kind"] == "number":
            row[column["name"]] = column["quantiles"][3] if column["quantiles"] else np.nan
        elif column["kind"] == "date":
            row[column["name"]] = _day(column["quantiles"][3])
        else:
            row[column["name"]] = column["frequent"][0][0] if column["frequent"] else ""
    return row


def _day(days: float) -> np.datetime64:
    return np.datetime64(int(days * 86_400_000_000), "us")


def drawn_slices(model: Any, record: Any) -> list[str]:
    """Figures of the columns of numbers that matter most, and of the first two together."""
    columns = _numbers_by_importance(record)
    row, width = typical_row(record), _width(record)
    title, values_of = _values(model, record, row)
    lines = []
    for column in columns[:SLICES]:
        x = np.linspace(column["quantiles"][1], column["quantiles"][5], POINTS)
        lines.append((column, x, values_of(_rows(row, {column["name"]: x}, POINTS))))
    limits = _limits(record, [values for *_, values in lines], width)
    drawings = [figures.one_slice(title, *line, width, limits) for line in lines]
    if len(columns) >= 2:
        first, second = columns[:2]
        sides = [np.linspace(c["quantiles"][1], c["quantiles"][5], SIDE) for c in (first, second)]
        x, y = np.meshgrid(*sides)
        rows = _rows(row, {first["name"]: x.ravel(), second["name"]: y.ravel()}, SIDE * SIDE)
        grid = x, y, values_of(rows).reshape(SIDE, SIDE)
        drawings.append(figures.plane(title, first, second, grid, record.task != "regression"))
    return drawings


def _limits(record: Any, values: list[np.ndarray], width: float) -> tuple[float, float]:
    """One vertical axis for all slices, so that they can be compared: of probabilities, all."""
    if record.task != "regression" or not values:
        return -0.02, 1.02
    low, high = min(map(np.min, values)) - width, max(map(np.max, values)) + width
    margin = 0.05 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


def _values(model: Any, record: Any, row: dict[str, Any]) -> tuple[str, Callable[..., np.ndarray]]:
    """Name and values of the drawn quantity: the target, or the probability of one class.

    Of several classes that is the most probable one of the typical row.
    """
    if record.task == "regression":
        return record.target, lambda rows: np.asarray(model.predict(rows), float)
    shown = 1
    if len(model.classes_) > 2:
        shown = int(model.predict_proba(_rows(row, {}, 1))[0].argmax())
    title = f"probability that {record.target} is {model.classes_[shown]}"
    return title, lambda rows: np.asarray(model.predict_proba(rows)[:, shown], float)


def _numbers_by_importance(record: Any) -> list[dict[str, Any]]:
    numbers = [
        column
        for column in record.columns
        if column["kind"] == "number"
        and column["quantiles"]
        and column["quantiles"][5] > column["quantiles"][1]
    ]
    return sorted(numbers, key=lambda column: -record.importance.get(column["name"], 0.0))


def _rows(row: dict[str, Any], changed: dict[str, Any], count: int) -> dict[str, Any]:
    return {name: changed.get(name, np.array([value] * count)) for name, value in row.items()}


def _width(record: Any) -> float:
    """Half of the 90 % interval of held-out residuals."""
    if record.task != "regression":
        return 0.0
    return float(np.quantile(np.abs(record.truth - record.predicted), 0.9))
