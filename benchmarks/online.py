"""The figures of the online machines: speed against NumPy and river, errors, budgets.

The tables lie in the folder MERCER_DATA; river is a peer here only (pip install river).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks import online_peers as peers
from benchmarks.data import table
from benchmarks.measure import Effort, Groups, Row
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


def machine(
    lengthscale: float, step: Any, budget: Any, ridge: float = RIDGE
) -> OnlineKernelMachine:
    return OnlineKernelMachine(
        Gaussian(lengthscale),
        loss=Hinge(),
        regularization=ridge,
        step=schedules.Constant(step) if isinstance(step, float) else step,
        budget=budget,
        random_state=0,
    )


def learned(model: OnlineKernelMachine, X: np.ndarray, y: np.ndarray) -> OnlineKernelMachine:
    """By `partial_fit` in blocks of 1,000."""
    for start in range(0, len(X), 1000):
        part = slice(start, start + 1000)
        model.partial_fit(X[part], y[part], classes=[-1.0, 1.0])
    return model


# ---- against NumPy -----------------------------------------------------------------------------


def against_numpy(effort: Effort) -> Iterator[Row]:
    size, scale, ridge = 200, 0.5, 1e-4
    X, y = table("elec2_stream", effort.size(45_312))
    y = np.where(y > 0, 1.0, -1.0)
    for name, budget, floor in (
        ("merging", budgets.Merge(size), 20.0),
        ("oldest out", budgets.Oldest(size), 10.0),
    ):
        kept: dict[str, Any] = {}

        def ours(budget: Any = budget, kept: dict[str, Any] = kept) -> None:
            step = schedules.InverseSqrt(1.0)
            kept["mercer"] = learned(machine(scale, step, budget, ridge), X, y)

        def plain(merge: bool = name == "merging", kept: dict[str, Any] = kept) -> None:
            kept["NumPy"] = model = peers.PlainMachine(scale, ridge, size, merge)
            for start in range(0, len(X), 1000):
                model.learn(X[start : start + 1000], y[start : start + 1000])

        times = measure.interleaved({"mercer": ours, "NumPy": plain}, 3)
        answers = kept["mercer"].decision_function(X[:500]), kept["NumPy"].decision(X[:500])
        yield measure.faster(
            f"budget {size}, {name}, hinge loss, elec2 ({len(X):,} samples), blocks of 1,000",
            times,
            "NumPy",
            len(X) * size,
            floor=floor,
            error=measure.relative_error(*answers),
            note=f"Gaussian(0.5), λ = {ridge}, η = 1/√t; "
            f"{1e6 * times['mercer'] / len(X):.2f} µs a sample; mistakes: ours "
            f"{kept['mercer'].mistakes_:,}, NumPy's {kept['NumPy'].mistakes:,}",
        )


# ---- against river -----------------------------------------------------------------------------


def against_river(effort: Effort) -> Iterator[Row]:
    X, y = stream("ijcnn1", effort.size(20_000))
    scale, some = X.shape[1] ** 0.5, effort.size(400)
    (_, pipeline), *_ = peers.river_sampler(X.shape[1], COMPONENTS)
    times = measure.interleaved(
        {
            "mercer": lambda: learned(machine(scale, 1.0, budgets.Merge(BUDGET)), X, y),
            "river": lambda: peers.river_mistakes(pipeline, X[:some], y[:some]),
        },
        {"mercer": 3, "river": 3},
    )
    times["river"] *= len(X) / some
    yield measure.faster(
        f"samples a second, ijcnn1, budget {BUDGET}, merging",
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
        X, y = stream(name, rows)
        n = effort.size(len(X))
        row = _errors(f"prequential error, {name}", X[:n], y[:n])
        wins.append(row.measured < 1.0)
        yield row
    work = f"streams of {len(wins)} on which ours has the lowest error"
    yield Row(work, float(sum(wins)), "", floor=3.0)


def _errors(work: str, X: np.ndarray, y: np.ndarray) -> Row:
    width = X.shape[1]

    def ours() -> Iterator[tuple[str, OnlineKernelMachine]]:
        for share, step in product((0.25, 0.5, 1.0, 2.0), (0.3, 1.0, 3.0)):
            model = machine(share * width**0.5, step, budgets.Merge(KEPT))
            yield f"ℓ {share}√d, step {step}", model

    def mistakes(model: OnlineKernelMachine, X: np.ndarray, y: np.ndarray) -> int:
        return learned(model, X, y).mistakes_

    contenders: dict[str, tuple[Callable[[], Any], Any]] = {
        "mercer": (ours, mistakes),
        "river LogisticRegression": (partial(peers.river_logistic, width), peers.river_mistakes),
        "river RBFSampler": (partial(peers.river_sampler, width, KEPT), peers.river_mistakes),
        "SGDClassifier on RBFSampler": (
            partial(peers.sgd_sampler, width, KEPT),
            peers.sgd_mistakes,
        ),
    }
    errors, chosen = {}, {}
    for name, (candidates, count) in contenders.items():
        scores = [count(model, X[:TUNED], y[:TUNED]) for _, model in candidates()]
        label, model = list(candidates())[int(np.argmin(scores))]  # which has seen nothing
        errors[name], chosen[name] = count(model, X, y) / len(X), label
    told = "; ".join(f"{name} {errors[name]:.4f} ({chosen[name]})" for name in errors)
    rival = min(errors[name] for name in errors if name != "mercer")
    return measure.smaller(
        f"{work} ({len(X):,} samples), budget {KEPT}, against the best of three",
        errors["mercer"] / rival,
        "×",
        peer="river, scikit-learn",
        goal=1.0,
        note=f"{told}; twelve trials each on the first {TUNED:,}, {KEPT} bumps or features",
    )


# ---- long streams and budgets ------------------------------------------------------------------


def long_streams(effort: Effort) -> Iterator[Row]:
    """Time per sample late in a stream over that early in it."""
    rng = np.random.default_rng(0)
    block, long = 10_000, 16 * effort.size(62_500)
    X = rng.standard_normal((block, 8))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(block) > 0, 1.0, -1.0)
    learned(machine(2.0, 1.0, budgets.Merge(100)), X, y)  # code is loaded
    model = machine(2.0, 1.0, budgets.Merge(100))
    seconds = [measure.timed(lambda: learned(model, X, y))[1] for _ in range(long // block)]
    early, late = min(seconds[1:6]), min(seconds[-5:])
    yield measure.smaller(
        f"time per sample at T = {long:,} over that at T = {block:,}, budget 100, merging",
        late / early,
        "×",
        floor=1.1,
        note=f"{1e6 * late / block:.2f} µs a sample at the end; the best of five blocks of "
        f"{block:,} on each side",
    )


def budget_sizes(effort: Effort) -> Iterator[Row]:
    sizes = SIZES[:3] if effort.quick else SIZES
    found = errors_of_budgets(*stream("keel_phoneme", None), sizes)
    middle = len(next(iter(found.values()))) // 2
    best = min(found["Merge"][middle], found["Project"][middle])
    told = "; ".join(
        f"{name} {', '.join(f'{e:.3f}' for e in errors)}" for name, errors in found.items()
    )
    yield measure.smaller(
        f"error of the better of merging and projection over that of oldest-out, phoneme, budget "
        f"{SIZES[middle]}",
        best / found["Oldest"][middle],
        "×",
        floor=0.95,
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

run = partial(measure.measured, "Online", GROUPS)
