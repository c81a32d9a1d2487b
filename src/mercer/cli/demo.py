"""`mercer demo`: the whole way on two tables that scikit-learn ships."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, load_digits

from mercer.cli.commands import check_writable, csv_of
from mercer.cli.main import run_command
from mercer.persistence.container import write_whole

MEASUREMENTS = (
    "age", "sex", "bmi", "blood pressure", "cholesterol", "LDL", "HDL", "ratio", "triglycerides",
    "glucose",
)  # fmt: skip


def diabetes() -> dict[str, Any]:
    """Ten measurements of 442 patients, and how the disease went on after a year.

    The sex is a category again, and some values of glucose are made missing, as in real tables.
    """
    rows, target = load_diabetes(return_X_y=True, scaled=False)
    columns: dict[str, Any] = {name: rows[:, i] for i, name in enumerate(MEASUREMENTS)}
    columns["sex"] = np.where(columns["sex"] == 1, "female", "male").astype(object)
    missing = np.random.default_rng(0).random(len(rows)) < 0.05
    columns["glucose"] = np.where(missing, np.nan, columns["glucose"])
    return {**columns, "progression": target}


def digits() -> dict[str, Any]:
    """1,797 images of digits by hand: the ink in 8 × 8 fields, and the digit."""
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
