"""Real data of the benchmarks, from the folder named by the environment variable MERCER_DATA."""

from __future__ import annotations

import csv
import gzip
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


def table(name: str, rows: int | None = None) -> tuple[Any, Any]:
    """X in float64 and y of a numeric table, its first rows."""
    with np.load(path("tables", f"{name}.npz")) as stored:
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
    table = np.load(path("tables", "mnist.npz"))
    first, test = table["train_idx"][:n], table["test_idx"]
    images = table["X"].reshape(len(table["y"]), -1)
    return images[first] / 255.0, table["y"][first], images[test] / 255.0, table["y"][test]
