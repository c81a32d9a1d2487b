"""Errors of peers on sixteen tables, run once and stored: python -m benchmarks.job_peers [ROWS].

Tuned scikit-learn SVC and SVR (a grid of 12 points, three folds, standardised columns), and
HistGradientBoosting and RandomForest with their defaults. What is stored already is kept, so that
an interrupted run goes on.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import path

TABLES = (
    "adult", "california_housing", "keel_optdigits", "keel_penbased", "keel_phoneme", "keel_ring",
    "keel_segment", "keel_spambase", "uci_airfoil", "uci_concrete", "uci_elevators", "uci_energy",
    "uci_kin40k", "uci_parkinsons", "uci_protein", "uci_skillcraft",
)  # fmt: skip
STORED = Path(__file__).resolve().parent / "results" / "job_peers.json"
MOST_ROWS = 10_000


def split(name: str, most: int) -> tuple[Any, Any, Any, Any, bool]:
    """Training rows (at most so many, drawn once), test rows, and whether y holds classes."""
    with np.load(path("tables", f"{name}.npz")) as stored:
        table = {key: stored[key] for key in stored.files}
    X, y = table["X"].astype(np.float64), table["y"]
    test = table["test_mask"][:, 0].nonzero()[0] if "test_mask" in table else table["test_idx"]
    train = table.get("train_idx", np.setdiff1d(np.arange(len(y)), test))
    train = np.random.default_rng(0).permutation(train)[:most]
    return X[train], y[train], X[test], y[test], str(table["task"]) == "classification"


def error(truth: Any, predicted: Any, classes: bool) -> float:
    """The share of wrong labels, or the root mean squared error."""
    if classes:
        return float(np.mean(truth != predicted))
    return float(np.sqrt(np.mean((np.asarray(truth, float) - predicted) ** 2)))


def peers(classes: bool, width: int) -> dict[str, Any]:
    from sklearn import ensemble, svm
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    grid = {"C": [1.0, 10.0, 100.0], "gamma": [g / width for g in (0.1, 0.3, 1.0, 3.0)]}
    machine = svm.SVC(cache_size=1000) if classes else svm.SVR(cache_size=1000)
    tuned: Any = make_pipeline(StandardScaler(), GridSearchCV(machine, grid, cv=3))
    if classes:
        return {
            "tuned SVC": tuned,
            "HistGradientBoosting": ensemble.HistGradientBoostingClassifier(random_state=0),
            "RandomForest": ensemble.RandomForestClassifier(random_state=0),
        }
    return {
        "tuned SVR": TransformedTargetRegressor(tuned, transformer=StandardScaler()),
        "HistGradientBoosting": ensemble.HistGradientBoostingRegressor(random_state=0),
        "RandomForest": ensemble.RandomForestRegressor(random_state=0),
    }


def stored() -> dict[str, dict[str, dict[str, float]]]:
    return json.loads(STORED.read_text("utf-8")) if STORED.is_file() else {}


def main(most: int = MOST_ROWS) -> None:
    for name in TABLES:
        X, y, X_test, y_test, classes = split(name, most)
        for peer, model in peers(classes, X.shape[1]).items():
            known = stored()
            key = f"{name}, {len(y)} rows"
            if peer in known.get(key, {}):
                continue
            start = time.perf_counter()
            found = error(y_test, model.fit(X, y).predict(X_test), classes)
            seconds = time.perf_counter() - start
            known.setdefault(key, {})[peer] = {"error": found, "seconds": round(seconds, 1)}
            STORED.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
            print(f"{key}: {peer} {found:.4g} in {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
