"""Errors of peers on sixteen tables, run once and stored: python -m benchmarks.job_peers [TABLE …].

Tuned scikit-learn SVC and SVR (a grid of 12 points, three folds, standardised columns), and
HistGradientBoosting and RandomForest with their defaults. What is stored already is kept, points of
the grid too, so that an interrupted run goes on.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
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
RESULTS = Path(__file__).resolve().parent / "results"
PEERS, OURS = RESULTS / "job_peers.json", RESULTS / "job_tables.json"
ROWS = int(os.environ.get("MERCER_JOB_ROWS", "10000"))  # at most, of each table
GRID = Path(tempfile.gettempdir()) / "mercer_job_grid"  # scores of points of grids, on the way


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


def peers(classes: bool) -> dict[str, Any]:
    from sklearn import ensemble

    if classes:
        return {
            "tuned SVC": Tuned(classes),
            "HistGradientBoosting": ensemble.HistGradientBoostingClassifier(random_state=0),
            "RandomForest": ensemble.RandomForestClassifier(random_state=0),
        }
    return {
        "tuned SVR": Tuned(classes),
        "HistGradientBoosting": ensemble.HistGradientBoostingRegressor(random_state=0),
        "RandomForest": ensemble.RandomForestRegressor(random_state=0),
    }


class Tuned:
    """`GridSearchCV` over 12 support vector machines, which remembers points that it has been to.

    Columns, and targets that are numbers, are standardised.
    """

    def __init__(self, classes: bool) -> None:
        self.classes = classes

    def fit(self, X: Any, y: Any) -> Tuned:
        from joblib import Memory
        from sklearn.preprocessing import StandardScaler

        score = Memory(GRID, verbose=0).cache(grid_score)
        self.columns, self.mean, self.deviation = StandardScaler().fit(X), 0.0, 1.0
        if not self.classes:
            self.mean, self.deviation = float(y.mean()), float(y.std())
            y = (y - self.mean) / self.deviation
        Z = self.columns.transform(X)
        grid = [(C, g / X.shape[1]) for C in (1.0, 10.0, 100.0) for g in (0.1, 0.3, 1.0, 3.0)]
        best = max(grid, key=lambda point: score(self.classes, *point, Z, y))
        self.model = machine(self.classes, *best).fit(Z, y)
        return self

    def predict(self, X: Any) -> Any:
        values = self.model.predict(self.columns.transform(X))
        return values if self.classes else self.mean + self.deviation * values


def machine(classes: bool, C: float, gamma: float) -> Any:
    from sklearn import svm

    return (svm.SVC if classes else svm.SVR)(C=C, gamma=gamma, cache_size=1000)


def grid_score(classes: bool, C: float, gamma: float, Z: Any, y: Any) -> float:
    """The mean score of three folds."""
    from sklearn.model_selection import cross_val_score

    return float(cross_val_score(machine(classes, C, gamma), Z, y, cv=3).mean())


def stored(path: Path = PEERS) -> dict[str, Any]:
    """What is known of tables, by their name and number of training rows."""
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def store(path: Path, key: str, found: dict[str, Any]) -> None:
    """Add what was found of a table."""
    known = stored(path)
    known[key] = known.get(key, {}) | found
    path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")


def main(names: list[str]) -> None:
    for name in names or TABLES:
        X, y, X_test, y_test, classes = split(name, ROWS)
        for peer, model in peers(classes).items():
            key = f"{name}, {len(y)} rows"
            if peer in stored().get(key, {}):
                continue
            start = time.perf_counter()
            found = error(y_test, model.fit(X, y).predict(X_test), classes)
            seconds = time.perf_counter() - start
            store(PEERS, key, {peer: {"error": found, "seconds": round(seconds, 1)}})
            print(f"{key}: {peer} {found:.4g} in {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
