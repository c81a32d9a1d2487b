"""`mercer demo`: the whole way on a table that scikit-learn ships."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes

SEVERITY = "progression"


def table() -> dict[str, Any]:
    """Diabetes: ten measurements of 442 patients, and how the disease went on after a year.

    The sex is a category again, and some blood values are made missing, as in real tables.
    """
    rows, target = load_diabetes(return_X_y=True, scaled=False)
    names = ["age", "sex", "bmi", "blood pressure", "cholesterol", "LDL", "HDL", "ratio",
             "triglycerides", "glucose"]  # fmt: skip
    found: dict[str, Any] = {name: rows[:, i] for i, name in enumerate(names)}
    found["sex"] = np.where(found["sex"] == 1, "female", "male").astype(object)
    missing = np.random.default_rng(0).random(len(rows)) < 0.05
    found["glucose"] = np.where(missing, np.nan, found["glucose"])
    found[SEVERITY] = target
    return found


def run(options: Any) -> None:
    """Write the table, then run the commands that a user would type."""
    from mercer.cli import commands
    from mercer.cli.arguments import parser

    folder = Path(options.folder)
    csv, model = folder / "diabetes.csv", folder / "model.mercer"
    data = table()
    lines = [",".join(data)]
    lines += [",".join(map(_cell, row)) for row in zip(*data.values(), strict=True)]
    commands._check_writable(str(csv))
    commands._write(csv, "\n".join(lines) + "\n")
    for line in (
        ["fit", str(csv), "--target", SEVERITY, "--time", "20s", "-o", str(model),
         "--report", str(folder / "report.html")],
        ["explain", str(model)],
    ):  # fmt: skip
        if options.quiet:
            line.append("--quiet")
        asked = parser().parse_args(line)
        if not options.json:
            print(f"$ mercer {' '.join(line)}\n")
        _run(commands, asked, options)


def _run(commands: Any, asked: argparse.Namespace, options: Any) -> None:
    asked.json = options.json
    if options.json and asked.command == "explain":
        return
    getattr(commands, asked.command)(asked)
    if not options.json:
        print()


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if np.isnan(value) else f"{value:g}"
