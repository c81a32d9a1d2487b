"""Real data of the benchmarks, from the folder named by the environment variable MERCER_DATA."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np


class MissingData(Exception):
    """Says which file is not there, and what to set."""


def path(*parts: str) -> Path:
    folder = os.environ.get("MERCER_DATA")
    if not folder:
        raise MissingData(f"set MERCER_DATA to a folder that holds {'/'.join(parts)}")
    found = Path(folder, *parts)
    if not found.is_file():
        raise MissingData(f"the folder MERCER_DATA has no {'/'.join(parts)}")
    return found


SIXTEEN = (  # tables on which whole methods are compared
    "adult", "california_housing", "keel_optdigits", "keel_penbased", "keel_phoneme", "keel_ring",
    "keel_segment", "keel_spambase", "uci_airfoil", "uci_concrete", "uci_elevators", "uci_energy",
    "uci_kin40k", "uci_parkinsons", "uci_protein", "uci_skillcraft",
)  # fmt: skip


def arrays(name: str) -> dict[str, Any]:
    """All arrays of a table."""
    with np.load(path("tables", f"{name}.npz")) as stored:
        return {key: stored[key] for key in stored.files}


def table(name: str, rows: int | None = None) -> tuple[Any, Any]:
    """X in float64 and y of a numeric table, its first rows."""
    stored = arrays(name)
    return stored["X"][:rows].astype(np.float64), stored["y"][:rows]


def texts(name: str) -> list[str]:
    """The texts of a table with the columns split, label and text."""
    with gzip.open(path("text", f"{name}.tsv.gz"), "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row["text"] for row in rows]


def tfidf(name: str) -> Any:
    """Their TF-IDF rows, as scikit-learn makes them by default: CSR, float64, of unit length."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer().fit_transform(texts(name))


def mnist(n: int) -> tuple[Any, Any, Any, Any]:
    """The first n training images and the 10,000 test images of the official split, in [0, 1]."""
    stored = arrays("mnist")
    first, test, y = stored["train_idx"][:n], stored["test_idx"], stored["y"]
    images = stored["X"].reshape(len(y), -1)
    return images[first] / 255.0, y[first], images[test] / 255.0, y[test]


def elevations() -> tuple[Any, Any]:
    """Points of the earth's surface as unit vectors, and their elevations in km, on a grid."""
    stored = arrays("etopo20_grid")
    z = stored["z"][:, :-1] / 1000.0  # the last meridian is the first
    north, east = np.radians(stored["lat"])[:, None], np.radians(stored["lon"])[:-1]
    sides = np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north) + 0.0 * east
    return np.stack(sides, -1).reshape(-1, 3), z.reshape(-1)


def household_split(drop: int | None = None, by_time: bool = False) -> tuple[Any, Any, Any, Any]:
    """Household power: training rows and targets, test rows and targets, standardised.

    Without column 7, the intensity of the current, it is hard; with it a linear model is good. Test
    rows are between the others in time, or the last tenth of all.
    """
    stored = arrays("household_power")
    X, y = stored["X"].astype(np.float64), stored["y"].astype(np.float64)
    trains = np.ones(len(X), bool)
    trains[slice(-len(X) // 10, None) if by_time else stored["test_idx"]] = False
    if drop is not None:
        X = np.delete(X, drop, axis=1)
    X = (X - X[trains].mean(0)) / X[trains].std(0)
    y = (y - y[trains].mean()) / y[trains].std()
    return X[trains], y[trains], X[~trains], y[~trains]


# ---- objects that are no vectors -----------------------------------------------------------------


def graphs(name: str) -> tuple[list[Any], Any, list[Any]]:
    """Graphs as (edges, labels), their classes, and the test rows of ten folds."""
    with gzip.open(path("graphs", f"{name}.jsonl.gz"), "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    pairs = [(np.array(r["edges"], int).reshape(-1, 2), r["node_labels"]) for r in rows]
    folds = json.loads(path("graphs", f"{name}_test_folds.json").read_text("utf-8"))
    return pairs, np.array([r["label"] for r in rows]), [np.array(fold) for fold in folds]


def strings(name: str) -> tuple[list[str], Any]:
    """Strings and their labels."""
    with gzip.open(path("strings", f"{name}.tsv.gz"), "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    return [text for _, text in rows], np.array([label for label, _ in rows])


def trees(count: int) -> list[str]:
    """The first parse trees of the Stanford Sentiment Treebank, as texts with brackets."""
    with gzip.open(path("trees", "sst_ptb.jsonl.gz"), "rt", encoding="utf-8") as file:
        return [json.loads(line)["tree"] for line, _ in zip(file, range(count), strict=False)]


def adult() -> tuple[Any, Any, Any, Any, Any]:
    """Adult with its categories, from the names of the one-hot columns; "?" is missing.

    The table, its one-hot form, the classes, training and test rows.
    """
    import pandas as pd

    stored = arrays("adult")
    X, names = stored["X"].astype(float), stored["feature_names"].tolist()
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        groups.setdefault(name.split("_", 1)[0], []).append(i)
    columns: dict[str, Any] = {}
    for group, places in groups.items():
        if len(places) == 1:
            columns[group] = X[:, places[0]]
            continue
        values = np.array([names[i].split("_", 1)[1] for i in places], object)
        column = values[X[:, places].argmax(axis=1)]
        columns[group] = np.where(column == "?", None, column)
    return pd.DataFrame(columns), X, stored["y"], stored["train_idx"], stored["test_idx"]


def letters(rows: int, classes: int = 26, noise: float = 3.5) -> tuple[Any, Any]:
    """Rows as those of tables of letters: 16 whole numbers up to 15, three forms of each class."""
    random = np.random.default_rng(0)
    forms = random.uniform(2.0, 13.0, (classes, 1, 16)) + random.normal(0, 1.5, (classes, 3, 16))
    y = random.integers(0, classes, rows)
    X = forms[y, random.integers(0, 3, rows)] + noise * random.standard_normal((rows, 16))
    return np.clip(np.rint(X), 0.0, 15.0), y
