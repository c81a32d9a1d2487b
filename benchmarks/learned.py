"""Kernels that learn their metric: sixteen tables, synthetic checks, and the time of learning."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import learned_peers as peers
from benchmarks.measure import (
    Effort,
    Groups,
    Row,
    faster,
    interleaved,
    measured,
)
from mercer import LearnedKernelClassifier, LearnedKernelRegressor
from mercer.kernels import Exponential, Gaussian
from mercer.learning import GradientRounds, MarginalLikelihood, Metric
from mercer.learning.fits import RidgeFit, Sample
from mercer.learning.gradients import average_outer_product

OURS = "LearnedKernel"


def ours(classes: bool) -> Any:
    limit = float(os.environ.get("LEARNED_SECONDS", "60"))
    return (LearnedKernelClassifier if classes else LearnedKernelRegressor)(time_limit=limit)


def tables(effort: Effort) -> Iterator[Row]:
    """Ranks among all methods whose results are stored, on the tables and splits that all have."""
    everything = peers.stored()
    rows = max(map(int, everything), default=0)
    stored = everything.get(str(rows), {})
    names = [name for name in peers.METHODS if any(name in of for of in stored.values())]
    ranks: dict[str, list[float]] = {OURS: []} | {name: [] for name in names}
    seconds = 0.0
    for table in list(stored)[: 2 if effort.quick else None]:
        errors = {name: found for name, found in stored[table].items() if found}
        if set(errors) < set(names):
            continue
        splits = min(len(found) for found in errors.values())
        parts = (peers.split_of(table, rows, number) for number in range(splits))
        own = [peers.error_of(ours(split[-1]), split) for split in parts]
        means = {OURS: float(np.mean([error for error, _ in own]))}
        means |= {n: float(np.mean([e for e, _ in found[:splits]])) for n, found in errors.items()}
        seconds = max(seconds, *(taken for _, taken in own))
        for name, mean in means.items():
            others = np.array(list(means.values()))
            ranks[name].append(1 + (others < mean).sum() + 0.5 * ((others == mean).sum() - 1))
        best = min(name_error for name, name_error in means.items() if name != OURS)
        told = ", ".join(f"{name} {mean:.4f}" for name, mean in means.items())
        yield Row(
            f"{table}, {rows:,} rows: error over that of the best of the others",
            means[OURS] / best,
            "×",
            larger_is_better=False,
            note=told,
        )
    if ranks[OURS]:
        mean_ranks = {name: float(np.mean(found)) for name, found in ranks.items() if found}
        untuned = [rank for name, rank in mean_ranks.items() if name not in (OURS, *peers.TUNED)]
        told = ", ".join(f"{name} {rank:.2f}" for name, rank in sorted(mean_ranks.items()))
        yield Row(
            f"mean rank on {len(ranks[OURS])} tables, less that of the best untuned other",
            mean_ranks[OURS] - min(untuned),
            "",
            floor=0.0,
            larger_is_better=False,
            note=f"{told}; the longest of our fits took {seconds:.0f} s",
        )


def synthetic(effort: Effort) -> Iterator[Row]:
    random = np.random.default_rng(0)
    X = random.standard_normal((effort.size(2000), 50))
    y = np.sin(2 * X[:, 3]) + X[:, 7] * X[:, 11]
    found = GradientRounds().learn(Exponential(), X, y).importances
    yield Row(
        "3 of 50 columns, n = 2,000: their part of the metric",
        100 * float(found[[3, 7, 11]].sum()),
        " %",
        floor=95.0,
    )
    direction = np.zeros(50)
    direction[[4, 9]] = np.sqrt(0.5)
    matrix = GradientRounds("full").learn(Exponential(), X, np.sin(2 * X @ direction)).metric.matrix
    yield Row(
        "a rotated pair of 50 columns, n = 2,000: its part of the metric",
        100 * float(direction @ matrix @ direction / np.trace(matrix)),
        " %",
        floor=95.0,
    )


def automatic_relevance(effort: Effort) -> Iterator[Row]:
    """Lengthscales and noise by marginal likelihood, against scikit-learn, from one start."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    n, d = effort.size(2000), 8
    random = np.random.default_rng(0)
    X = random.standard_normal((n, d))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * random.standard_normal(n)
    y = (y - y.mean()) / y.std()
    start = np.full(d, 2.0)
    MarginalLikelihood(iterations=1).learn(Gaussian(tuple(start)), X[:200], y[:200])
    begun = time.perf_counter()
    learned = MarginalLikelihood().learn(Gaussian(tuple(start)), X, y)
    own = time.perf_counter() - begun
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = GaussianProcessRegressor(RBF(start, (1e-5, 1e6)) + WhiteKernel(0.1)).fit(X, y)
    peer = time.perf_counter() - begun
    value = float(theirs.log_marginal_likelihood_value_)
    yield Row(
        f"{d} lengthscales and noise by marginal likelihood, n = {n:,}",
        peer / own,
        "× faster",
        peer="GaussianProcessRegressor",
        ours_ms=1e3 * own,
        peer_ms=1e3 * peer,
        floor=5.0,
        error=abs(value + learned.value) / abs(value),
        note="error: of the likelihood that was reached, relative to theirs",
    )


def one_round(effort: Effort) -> Iterator[Row]:
    """A fit with given lengthscale and ridge, and its full average gradient outer product."""
    n, d = effort.size(int(os.environ.get("LEARNED_ROUND", "8000"))), 90
    random = np.random.default_rng(0)
    X = random.standard_normal((n, d)).astype(np.float32)
    y = (np.sin(X[:, 0]) + X[:, 1]).astype(np.float32)
    kernel, units, found = Exponential(10.0), np.ones(d), {}

    def own() -> None:
        points = kernel.points(X)
        sample = Sample.of(points, y, None)
        c = RidgeFit(kernel, sample).coefficients(1e-3)
        found["ours"] = average_outer_product(kernel, points, points, c, units)
        after = Metric(found["ours"] / found["ours"].max()).applied(kernel)
        RidgeFit(after, sample).coefficients(1e-3)

    try:
        import torch
        from xrfm.rfm_src.recursive_feature_machine import RFM
    except ImportError as missing:
        yield Row("a round of learning", None, "", note=str(missing))
        return
    rows, targets = torch.as_tensor(X), torch.as_tensor(y)[:, None]

    def peer() -> None:
        model = RFM("l2", bandwidth=10.0, device=torch.device("cpu"), verbose=False)
        some = rows[:100], targets[:100]
        model.fit((rows, targets), some, iters=1, reg=1e-3, total_points_to_sample=n)

    times = interleaved({"mercer": own, "xRFM's RFM": peer}, 2)
    part = float(np.trace(found["ours"][:2, :2]) / np.trace(found["ours"]))
    yield faster(
        f"two fits and the outer product at all points between them, n = {n:,}, d = {d}",
        times,
        "xRFM's RFM",
        n * n,
        floor=3.0,
        note=f"the two columns that matter have {part:.3f} of our metric; ours in float64, theirs "
        "in float32",
    )


GROUPS: Groups = {
    "tables": tables,
    "synthetic": synthetic,
    "ard": automatic_relevance,
    "round": one_round,
}

run = partial(measured, "Learned kernels", GROUPS)
