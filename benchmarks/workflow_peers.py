"""Errors of peers on sixteen tables, stored: python -m benchmarks.workflow_peers [TABLE …].

Tuned scikit-learn SVC and SVR (a grid of 12 points, three folds, standardised columns), and
HistGradientBoosting and RandomForest with their defaults. What is stored already is kept, points of
the grid too, so that an interrupted run goes on.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import SIXTEEN, arrays
from benchmarks.learned_peers import boosted, forest
from benchmarks.measure import timed

RESULTS = Path(__file__).resolve().parent / "results"
PEERS, OURS = RESULTS / "workflow_peers.json", RESULTS / "workflow_tables.json"
ROWS = int(os.environ.get("MERCER_WORKFLOW_ROWS", "10000"))  # at most, of each table
GRID = Path(tempfile.gettempdir()) / "mercer_workflow_grid"  # scores of points of grids, on the way


def split(name: str, most: int) -> tuple[Any, Any, Any, Any, bool]:
    """Training rows (at most so many, drawn once), test rows, and whether y holds classes."""
    table = arrays(name)
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
    return {
        "tuned SVC" if classes else "tuned SVR": Tuned(classes),
        "HistGradientBoosting": boosted(classes),
        "RandomForest": forest(classes),
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
    for name in names or SIXTEEN:
        X, y, X_test, y_test, classes = split(name, ROWS)
        for peer, model in peers(classes).items():
            key = f"{name}, {len(y)} rows"
            if peer in stored().get(key, {}):
                continue
            predicted, seconds = timed(lambda: model.fit(X, y).predict(X_test))  # noqa: B023
            found = error(y_test, predicted, classes)
            store(PEERS, key, {peer: {"error": found, "seconds": round(seconds, 1)}})
            print(f"{key}: {peer} {found:.4g} in {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
