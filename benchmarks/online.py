"""The figures of the online machines: speed against NumPy and river, errors, budgets.

The tables lie in the folder MERCER_DATA; river is a peer here only (pip install river).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks import online_peers as peers
from benchmarks.data import MissingData, table
from benchmarks.measure import Effort, Groups, Row, faster, interleaved, measured, relative_error
from mercer.kernels import Gaussian
from mercer.losses import Hinge
from mercer.online import OnlineKernelMachine, budgets, schedules

TUNED = 2_000  # samples on which everything is tuned, and columns are standardised
STREAMS = {"elec2_stream": None, "keel_phoneme": None, "keel_banana": None, "ijcnn1": 50_000}
RIDGE, BUDGET, COMPONENTS = 1e-5, 500, 500  # of the race against river
KEPT = 100  # bumps, and features (both libraries' default), of the contenders for least error
POLICIES = ("Oldest", "Smallest", "Random", "LeastLoss", "Project", "Merge")
SIZES = (25, 50, 100, 200, 400, 800, 1600)


def stream(name: str, rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Columns standardised by the first samples, labels ±1."""
    X, y = table(name, rows)
    start = X[:TUNED]
    spread = start.std(axis=0)
    X = (X - start.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X, np.where(y == np.unique(y)[-1], 1.0, -1.0)


def machine(lengthscale: float, step: float, budget: Any) -> OnlineKernelMachine:
    return OnlineKernelMachine(
        Gaussian(lengthscale),
        loss=Hinge(),
        regularization=RIDGE,
        step=schedules.Constant(step),
        budget=budget,
        random_state=0,
    )


def learned(model: OnlineKernelMachine, X: np.ndarray, y: np.ndarray) -> OnlineKernelMachine:
    """By `partial_fit` in blocks of 1,000."""
    for start in range(0, len(X), 1000):
        part = slice(start, start + 1000)
        model.partial_fit(X[part], y[part], classes=[-1.0, 1.0])
    return model


def missing(work: str, error: Exception) -> Row:
    return Row(work, None, "", note=str(error))


# ---- against NumPy -----------------------------------------------------------------------------


def against_numpy(effort: Effort) -> Iterator[Row]:
    size, scale, ridge = 200, 0.5, 1e-4
    try:
        X, y = table("elec2_stream", effort.size(45_312))
    except MissingData as error:
        yield missing("budget 200, elec2", error)
        return
    y = np.where(y > 0, 1.0, -1.0)
    for name, budget, floor in (
        ("merging", budgets.Merge(size), 20.0),
        ("oldest out", budgets.Oldest(size), 10.0),
    ):
        kept: dict[str, Any] = {}

        def ours(budget: Any = budget, kept: dict[str, Any] = kept) -> None:
            model = OnlineKernelMachine(
                Gaussian(scale),
                loss=Hinge(),
                regularization=ridge,
                step=schedules.InverseSqrt(1.0),
                budget=budget,
            )
            kept["mercer"] = learned(model, X, y)

        def plain(merge: bool = name == "merging", kept: dict[str, Any] = kept) -> None:
            model = peers.PlainMachine(scale, ridge, size, merge)
            for start in range(0, len(X), 1000):
                model.learn(X[start : start + 1000], y[start : start + 1000])
            kept["NumPy"] = model

        times = interleaved({"mercer": ours, "NumPy": plain}, 3)
        answers = kept["mercer"].decision_function(X[:500]), kept["NumPy"].decision(X[:500])
        yield faster(
            f"budget {size}, {name}, hinge loss, elec2 ({len(X):,} samples), blocks of 1,000",
            times,
            "NumPy",
            len(X) * size,
            floor=floor,
            error=relative_error(*answers),
            note=f"Gaussian(0.5), λ = {ridge}, η = 1/√t; "
            f"{1e6 * times['mercer'] / len(X):.2f} µs a sample; mistakes: ours "
            f"{kept['mercer'].mistakes_:,}, NumPy's {kept['NumPy'].mistakes:,}",
        )


# ---- against river -----------------------------------------------------------------------------


def against_river(effort: Effort) -> Iterator[Row]:
    work = f"samples a second, ijcnn1, budget {BUDGET}, merging"
    try:
        from river import linear_model  # noqa: F401

        X, y = stream("ijcnn1", effort.size(20_000))
    except (ImportError, MissingData) as error:
        yield missing(work, error)
        return
    scale, some = X.shape[1] ** 0.5, effort.size(400)
    (_, pipeline), *_ = peers.river_sampler(X.shape[1], COMPONENTS)
    times = interleaved(
        {
            "mercer": lambda: learned(machine(scale, 1.0, budgets.Merge(BUDGET)), X, y),
            "river": lambda: peers.river_mistakes(pipeline, X[:some], y[:some]),
        },
        {"mercer": 3, "river": 3},
    )
    times["river"] *= len(X) / some
    yield faster(
        work,
        times,
        "river",
        len(X) * BUDGET,
        floor=100.0,
        note=f"{len(X) / times['mercer']:,.0f} samples a second; river's RBFSampler({COMPONENTS}) "
        f"with LogisticRegression makes {len(X) / times['river']:,.0f}, timed on {some}. Both "
        "predict each sample before they learn it",
    )


# ---- errors ------------------------------------------------------------------------------------


def prequential(effort: Effort) -> Iterator[Row]:
    wins = []
    for name, rows in STREAMS.items():
        work = f"prequential error, {name}"
        try:
            X, y = stream(name, effort.size(rows) if rows else None)
            X, y = (X[: effort.size(len(X))], y[: effort.size(len(y))]) if effort.quick else (X, y)
            row, won = _errors(work, X, y)
        except (ImportError, MissingData) as error:
            yield missing(work, error)
            continue
        wins.append(won)
        yield row
    if wins:
        yield Row(
            f"streams of {len(wins)} on which ours has the lowest error",
            float(sum(wins)),
            "",
            floor=3.0,
        )


def _errors(work: str, X: np.ndarray, y: np.ndarray) -> tuple[Row, bool]:
    width = X.shape[1]
    trials = [
        (
            f"ℓ {share}√d, step {step}",
            partial(machine, share * width**0.5, step, budgets.Merge(KEPT)),
        )
        for share, step in product((0.25, 0.5, 1.0, 2.0), (0.3, 1.0, 3.0))
    ]

    def ours(make: Callable[[], OnlineKernelMachine], X: np.ndarray, y: np.ndarray) -> int:
        return learned(make(), X, y).mistakes_

    contenders: dict[str, tuple[Callable[[], Any], Any]] = {
        "mercer": (lambda: trials, ours),
        "river LogisticRegression": (lambda: peers.river_logistic(width), peers.river_mistakes),
        "river RBFSampler": (
            lambda: peers.river_sampler(width, KEPT),
            peers.river_mistakes,
        ),
        "SGDClassifier on RBFSampler": (
            lambda: peers.sgd_sampler(width, KEPT),
            peers.sgd_mistakes,
        ),
    }
    errors, chosen = {}, {}
    for name, (candidates, mistakes) in contenders.items():
        start = X[: min(TUNED, len(X))], y[: min(TUNED, len(X))]
        scores = [mistakes(model, *start) for _, model in candidates()]
        best = int(np.argmin(scores))
        label, model = list(candidates())[best]
        errors[name], chosen[name] = mistakes(model, X, y) / len(X), label
    told = "; ".join(f"{name} {errors[name]:.4f} ({chosen[name]})" for name in errors)
    rival = min(errors[name] for name in errors if name != "mercer")
    row = Row(
        f"{work} ({len(X):,} samples), budget {KEPT}, against the best of three",
        errors["mercer"] / rival,
        "×",
        peer="river, scikit-learn",
        larger_is_better=False,
        goal=1.0,
        note=f"{told}; twelve trials each on the first {TUNED:,}, {KEPT} bumps or features",
    )
    return row, errors["mercer"] < rival


# ---- long streams and budgets ------------------------------------------------------------------


def long_streams(effort: Effort) -> Iterator[Row]:
    """Time per sample late in a stream over that early in it."""
    rng = np.random.default_rng(0)
    block, long = 10_000, 16 * effort.size(62_500)
    X = rng.standard_normal((block, 8))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(block) > 0, 1.0, -1.0)
    model = learned(machine(2.0, 1.0, budgets.Merge(100)), X, y)
    model = machine(2.0, 1.0, budgets.Merge(100))
    taken = []
    for _ in range(long // block):
        start = time.perf_counter()
        learned(model, X, y)
        taken.append(time.perf_counter() - start)
    early, late = min(taken[1:6]), min(taken[-5:])
    yield Row(
        f"time per sample at T = {long:,} over that at T = {block:,}, budget 100, merging",
        late / early,
        "×",
        floor=1.1,
        larger_is_better=False,
        note=f"{1e6 * late / block:.2f} µs a sample at the end; the best of five blocks of "
        f"{block:,} on each side",
    )


def budget_sizes(effort: Effort) -> Iterator[Row]:
    sizes = SIZES[:3] if effort.quick else SIZES
    try:
        found = errors_of_budgets(*stream("keel_phoneme", None), sizes)
    except MissingData as error:
        yield missing("error against budget size", error)
        return
    middle = len(next(iter(found.values()))) // 2
    best = min(found["Merge"][middle], found["Project"][middle])
    told = "; ".join(
        f"{name} {', '.join(f'{e:.3f}' for e in errors)}" for name, errors in found.items()
    )
    yield Row(
        f"error of the better of merging and projection over that of oldest-out, phoneme, budget "
        f"{SIZES[middle]}",
        best / found["Oldest"][middle],
        "×",
        floor=0.95,
        larger_is_better=False,
        note=f"prequential errors at budgets {', '.join(map(str, sizes))}: {told}",
    )


def errors_of_budgets(
    X: np.ndarray, y: np.ndarray, sizes: tuple[int, ...]
) -> dict[str, list[float]]:
    """Prequential errors of each policy at each size."""
    scale = 0.25 * X.shape[1] ** 0.5
    return {
        name: [
            learned(machine(scale, 1.0, getattr(budgets, name)(size)), X, y).mistakes_ / len(X)
            for size in sizes
        ]
        for name in POLICIES
    }


GROUPS: Groups = {
    "numpy": against_numpy,
    "river": against_river,
    "errors": prequential,
    "long": long_streams,
    "budgets": budget_sizes,
}

run = partial(measured, "Online", GROUPS)
