"""Learned kernels and other methods on sixteen tables; what they reach is stored in a file.

    python -m benchmarks.learned_peers [--rows N] [--splits N] [--tables A,B] [--methods "A;B"]
        [--again METHOD] [--processes N] [--cores N]

What is stored already is not run again, but for a method that is named with --again; so ours, which
are the only ones that change, are run by `--again LearnedKernel --processes 8` on 16 cores: each
process has --cores of its own, two by default, and has loaded its code before the first fit. A
method that is not installed is left out, and one that takes longer than LIMIT seconds on a table is
not run on its other splits. Errors are compared, seconds are stored as a remark: those of peers are
of whatever else the machine did.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import SIXTEEN, arrays

STORED = Path(__file__).resolve().parent / "results" / "learned_peers.json"
TEST_ROWS = 4000
LIMIT = 300.0
SECONDS = 60.0  # for each of our fits
Split = tuple[Any, Any, Any, Any, bool]


def split_of(table: str, rows: int, number: int) -> Split:
    """Training rows and targets, test rows and targets, and whether it is classification."""
    stored = arrays(table)
    X, y, classes = stored["X"].astype(np.float64), stored["y"], stored["task"] == "classification"
    order = np.random.default_rng(number).permutation(len(X))
    held = min(TEST_ROWS, len(X) // 5)
    test, train = order[:held], order[held : held + rows]
    return X[train], y[train], X[test], y[test], bool(classes)


def error_of(model: Any, split: Split) -> tuple[float, float]:
    """The share of wrong labels, or RMSE over the deviation of the test targets; and seconds."""
    X, y, X_test, y_test, classes = split
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = np.asarray(model.fit(X, y).predict(X_test)).reshape(len(y_test))
    seconds = time.perf_counter() - start
    if classes:
        return float(np.mean(predicted != y_test)), seconds
    return float(np.sqrt(np.mean((predicted - y_test) ** 2)) / np.std(y_test)), seconds


# ---- the methods ---------------------------------------------------------------------------------


def boosted(classes: bool) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(random_state=0)


def tuned_boosted(classes: bool) -> Any:
    from scipy.stats import loguniform, randint
    from sklearn.model_selection import RandomizedSearchCV

    space = {
        "learning_rate": loguniform(0.02, 0.3),
        "max_leaf_nodes": randint(7, 128),
        "min_samples_leaf": randint(2, 60),
        "l2_regularization": loguniform(1e-6, 10.0),
        "max_iter": randint(100, 600),
    }
    return RandomizedSearchCV(boosted(classes), space, n_iter=20, cv=3, random_state=0)


def forest(classes: bool) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    return (RandomForestClassifier if classes else RandomForestRegressor)(random_state=0)


def light(classes: bool) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor

    return (LGBMClassifier if classes else LGBMRegressor)(verbose=-1, random_state=0)


def scaled(model: Any, classes: bool) -> Any:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    piped = make_pipeline(StandardScaler(), model)
    if classes:
        return piped
    return TransformedTargetRegressor(piped, transformer=StandardScaler())


def support_vectors(classes: bool) -> Any:
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC, SVR

    grid = {"C": [0.3, 1.0, 10.0, 100.0], "gamma": ["scale", 0.01, 0.1]}
    return scaled(GridSearchCV(SVC() if classes else SVR(), grid, cv=3), classes)


def network(classes: bool) -> Any:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    return scaled((MLPClassifier if classes else MLPRegressor)(random_state=0), classes)


class Ridge:
    """`KernelRidgeCV` with a Gaussian kernel, on ±1 for labels."""

    def __init__(self, classes: bool) -> None:
        self.labels = classes

    def fit(self, X: Any, y: Any) -> Ridge:
        from mercer import KernelRidgeCV

        self.classes, codes = np.unique(y, return_inverse=True) if self.labels else (None, None)
        targets = y if codes is None else 2.0 * np.eye(len(self.classes))[codes] - 1.0
        self.model = scaled(KernelRidgeCV(fit_intercept=True), classes=True).fit(X, targets)
        return self

    def predict(self, X: Any) -> Any:
        values = self.model.predict(X)
        return values if self.classes is None else self.classes[values.argmax(axis=1)]


class XRFM:
    """xRFM with its defaults, which wants a validation set: a fifth of the rows."""

    def __init__(self, classes: bool) -> None:
        self.labels = classes

    def fit(self, X: Any, y: Any) -> XRFM:
        import torch

        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002 (what xRFM draws from)
        self.mean, self.deviation = X.mean(0), np.where(X.std(0) > 0, X.std(0), 1.0)
        self.classes, codes = np.unique(y, return_inverse=True)
        self.shift, self.unit = (0.0, 1.0) if self.labels else (y.mean(), y.std())
        targets = codes if self.labels else (y - self.shift) / self.unit
        order = np.random.default_rng(0).permutation(len(X))
        held = len(X) // 5
        X = self._tensor((X - self.mean) / self.deviation)
        y = torch.as_tensor(targets) if self.labels else self._tensor(targets[:, None])
        kept, out = order[held:], order[:held]
        self.model = self._model((X[kept], y[kept], X[out], y[out]))
        return self

    def _model(self, parts: tuple[Any, Any, Any, Any]) -> Any:
        """Fitted to rows and targets, with others that it stops by."""
        return self._fitted(parts)

    def _fitted(self, parts: tuple[Any, Any, Any, Any], **settings: Any) -> Any:
        import torch
        from xrfm import xRFM

        metric = "brier" if self.labels else "mse"
        model = xRFM(device=torch.device("cpu"), tuning_metric=metric, verbose=False, **settings)
        model.fit(*parts)
        return model

    def predict(self, X: Any) -> Any:
        values = np.asarray(self.model.predict(self._tensor((X - self.mean) / self.deviation)))
        if self.labels:
            return self.classes[values.reshape(len(X), -1)[:, 0].astype(int)]
        return values.reshape(len(X)) * self.unit + self.shift

    @staticmethod
    def _tensor(values: Any) -> Any:
        import torch

        return torch.as_tensor(np.asarray(values), dtype=torch.float32)


class SearchedXRFM(XRFM):
    """xRFM with the settings that are best on its validation set, of those tried in SECONDS.

    The defaults first, then draws from the space over which its authors search
    (`XRFM_HPO_Regressor` of PyTabKit 1.7.3), until the time is over; each is told what is left.
    """

    def _model(self, parts: tuple[Any, Any, Any, Any]) -> Any:
        ends = time.perf_counter() + SECONDS
        best = self._fitted(parts, time_limit_s=SECONDS)
        least = self._error(best, *parts[2:])
        draws = count()
        while (left := ends - time.perf_counter()) > 0:
            model = self._fitted(parts, time_limit_s=left, **self._drawn(next(draws)))
            error = self._error(model, *parts[2:])
            if error < least:
                best, least = model, error
        return best

    def _error(self, model: Any, X: Any, y: Any) -> float:
        """The share of wrong labels, or the mean square."""
        values, y = np.asarray(model.predict(X)).reshape(len(X), -1)[:, 0], y.numpy().ravel()
        return float(np.mean(values != y if self.labels else (values - y) ** 2))

    @staticmethod
    def _drawn(number: int) -> dict[str, Any]:
        random = np.random.default_rng(number)
        exponent = random.uniform(0.7, 1.4)
        model = {
            "kernel": str(random.choice(["lpq", "l2"], p=[0.8, 0.2])),
            "bandwidth": float(np.exp(random.uniform(np.log(0.5), np.log(200.0)))),
            "exponent": exponent,
            "norm_p": exponent + (2.0 - exponent) * random.uniform(0.0, 0.8),
            "diag": bool(random.integers(2)),
        }
        ridge = float(np.exp(random.uniform(np.log(1e-6), np.log(10.0))))
        fit = {"reg": ridge, "iters": 5, "early_stop_rfm": True, "early_stop_multiplier": 1.1}
        return {
            "rfm_params": {"model": model, "fit": fit},
            "classification_mode": "prevalence",
        }


def learned(classes: bool) -> Any:
    from mercer import LearnedKernelClassifier, LearnedKernelRegressor

    return (LearnedKernelClassifier if classes else LearnedKernelRegressor)(time_limit=SECONDS)


OURS = "LearnedKernel"
METHODS: dict[str, Callable[[bool], Any]] = {
    OURS: learned,
    "HistGradientBoosting": boosted,
    "RandomForest": forest,
    "LightGBM": light,
    "MLP": network,
    "KernelRidgeCV": Ridge,
    "xRFM": XRFM,
    "xRFM, searched 60 s": SearchedXRFM,
    "SVM, 12 settings": support_vectors,
    "HistGradientBoosting, 20 draws": tuned_boosted,
}
TUNED = ("xRFM, searched 60 s", "SVM, 12 settings", "HistGradientBoosting, 20 draws")


# ---- what is stored ------------------------------------------------------------------------------


def stored() -> dict[str, Any]:
    """{rows: {table: {method: [[error, seconds] of each split]}}}."""
    return json.loads(STORED.read_text("utf-8")) if STORED.is_file() else {}


Task = tuple[int, str, str, int]  # rows, table, method, split


def run(
    rows: int,
    splits: int,
    tables: list[str],
    methods: list[str],
    again: str | None = None,
    processes: int = 1,
    cores: int = 2,
) -> None:
    """Run what is not stored yet, and store it after each fit."""
    results = stored()
    if again is not None:
        methods = [again]
        for table in tables:
            results.get(str(rows), {}).get(table, {}).pop(again, None)
    known = results.setdefault(str(rows), {})
    tasks = [
        (rows, table, name, number)
        for number in range(splits)
        for table in tables
        for name in methods
        if len(known.get(table, {}).get(name, [])) <= number
    ]
    ended: dict[Task, list[float]] = {}
    for task, outcome in _outcomes(tasks, processes, cores, known):
        _, table, name, number = task
        if isinstance(outcome, str):
            print(outcome)
            continue
        print(f"{table} {name} split {number}: {outcome[0]:.4f} in {outcome[1]:.1f} s", flush=True)
        ended[task] = outcome
        found = known.setdefault(table, {}).setdefault(name, [])
        while (rows, table, name, len(found)) in ended:  # splits are stored in their order
            found.append(ended[rows, table, name, len(found)])
        STORED.parent.mkdir(exist_ok=True)
        STORED.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _outcomes(
    tasks: list[Task], processes: int, cores: int, known: dict[str, Any]
) -> Iterator[tuple[Task, Any]]:
    """What each task ended with, as they end."""
    if processes == 1:
        for task in tasks:
            _, table, name, _ = task
            if all(seconds <= LIMIT for _, seconds in known.get(table, {}).get(name, [])):
                yield task, outcome_of(task)
        return
    os.environ |= {name: str(cores) for name in THREADS}  # processes read it as they begin
    context = multiprocessing.get_context("spawn")
    groups = context.Queue()
    for group in range(processes):
        groups.put(range(group * cores, (group + 1) * cores))
    with ProcessPoolExecutor(processes, context, _prepare, (groups, context.Lock())) as pool:
        begun = {pool.submit(outcome_of, task): task for task in tasks}
        for future in as_completed(begun):
            yield begun[future], future.result()


THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def _prepare(groups: Any, lock: Any) -> None:
    """Take some cores, and load the code of our fits: one process compiles, others find it."""
    if hasattr(os, "sched_setaffinity"):
        wanted = set(groups.get()) & os.sched_getaffinity(0)
        os.sched_setaffinity(0, wanted or os.sched_getaffinity(0))
    random = np.random.default_rng(0)
    X = random.standard_normal((1500, 8))
    with lock:
        for classes in (False, True):
            y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
            learned(classes).fit(X, (y > 0).astype(int) if classes else y)


def outcome_of(task: Task) -> list[float] | str:
    """The error and the seconds, or why the method could not be run."""
    rows, table, name, number = task
    split = split_of(table, rows, number)
    try:
        error, seconds = error_of(METHODS[name](split[-1]), split)
    except ImportError as missing:
        return f"{name} is left out: {missing}"
    return [round(error, 6), round(seconds, 1)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--tables", default=",".join(SIXTEEN))
    parser.add_argument("--methods", default=";".join(METHODS), help="with ; between them")
    parser.add_argument("--again", choices=METHODS, help="forget this method's results, run it")
    parser.add_argument("--processes", type=int, default=1, help="fits at the same time")
    parser.add_argument("--cores", type=int, default=2, help="of each of several processes")
    options = parser.parse_args()
    names = options.tables.split(","), options.methods.split(";")
    run(options.rows, options.splits, *names, options.again, options.processes, options.cores)
