"""Kernels that learn their metric: sixteen tables, synthetic checks, and the time of learning."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks import learned_peers as peers
from benchmarks import measure
from benchmarks.data import table
from benchmarks.measure import Effort, Groups, Row
from mercer import KernelRidge, LearnedKernelRegressor
from mercer.kernels import Exponential, Gaussian
from mercer.learning import GradientRounds, MarginalLikelihood, Metric
from mercer.learning.metric import average_outer_product

OURS = peers.OURS


def tables(effort: Effort) -> Iterator[Row]:
    """Ranks by results that `benchmarks.learned_peers` stored, without tuned methods and with them.

    Of the largest number of rows that ours were run with, on the splits that all methods have which
    were run on all of our tables.
    """
    everything = {int(rows): found for rows, found in peers.stored().items()}
    ran = [rows for rows, found in everything.items() if any(of.get(OURS) for of in found.values())]
    if not ran:
        yield Row("mean rank", None, "", note="run python -m benchmarks.learned_peers")
        return
    rows = max(ran)
    stored = {table: of for table, of in everything[rows].items() if of.get(OURS)}
    complete = [name for name in peers.METHODS if all(of.get(name) for of in stored.values())]
    untuned = [name for name in complete if name not in peers.TUNED]
    for name, of in stored.items():
        means = mean_errors(of, untuned)
        best = min(mean for name, mean in means.items() if name != OURS)
        yield measure.smaller(
            f"{name}, {rows:,} rows: error over that of the best of the others",
            means[OURS] / best,
            "×",
            note=", ".join(f"{name} {mean:.4g}" for name, mean in means.items())
            + LEAKS.get(name, ""),
        )
    longest = max(seconds for of in stored.values() for _, seconds in of[OURS])
    for names, whose in ((untuned, "untuned"), (complete, "tuned or untuned")):
        if names == untuned and whose != "untuned":
            return
        ranks = mean_ranks([mean_errors(of, names) for of in stored.values()])
        splits = min(len(of[name]) for of in stored.values() for name in names)
        partly = [name for name in peers.METHODS if name not in complete]
        note = ", ".join(f"{name} {rank:.2f}" for name, rank in sorted(ranks.items()))
        if partly:
            note += f"; not run on all tables: {', '.join(partly)}"
        yield measure.smaller(
            f"mean rank on {len(stored)} tables, less that of the best {whose} other",
            ranks[OURS] - min(rank for name, rank in ranks.items() if name != OURS),
            note=f"{note}; {splits} split{'s' if splits > 1 else ''} of at most {rows:,} rows; the "
            f"longest of our fits took {longest:.0f} s of {peers.SECONDS:.0f}",
            **{"floor": 0.0} if whose == "untuned" else {"goal": 0.0},
        )


def mean_errors(results: dict[str, Any], names: list[str]) -> dict[str, float]:
    """The error of each method on one table, over the splits that all of them were run on."""
    splits = min(len(results[name]) for name in names)
    return {name: float(np.mean([e for e, _ in results[name][:splits]])) for name in names}


def mean_ranks(tables: list[dict[str, float]]) -> dict[str, float]:
    """From 1, the least error; equal ones share their ranks."""
    errors = np.array([list(means.values()) for means in tables])
    return dict(zip(tables[0], rankdata(errors, axis=1).mean(axis=0).tolist(), strict=True))


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
    learned, own = measure.timed(lambda: MarginalLikelihood().learn(Gaussian(tuple(start)), X, y))
    model = GaussianProcessRegressor(RBF(start, (1e-5, 1e6)) + WhiteKernel(0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, peer = measure.timed(lambda: model.fit(X, y))
    value = float(theirs.log_marginal_likelihood_value_)
    yield measure.faster(
        f"{d} lengthscales and noise by marginal likelihood, n = {n:,}",
        {"mercer": own, "GaussianProcessRegressor": peer},
        "GaussianProcessRegressor",
        floor=5.0,
        error=abs(value + learned.value) / abs(value),
        note="error: of the likelihood that was reached, relative to theirs",
    )


def one_round(effort: Effort) -> Iterator[Row]:
    """A fit, its average gradient outer product, and a fit in that metric; ours on centres.

    xRFM solves for all its rows at once, which for 50,000 takes 10 GB twice and tens of minutes: it
    gets so many of them that its error is about ours, which has seen all.
    """
    import torch
    from xrfm.rfm_src.recursive_feature_machine import RFM

    n, count, fewer = map(effort.size, (50_000, 5_000, 20_000))
    d, ridge, kernel = 90, 1.0, Exponential(10.0)
    random = np.random.default_rng(0)
    X = random.standard_normal((n + 5000, d)).astype(np.float32)
    clean = np.sin(X[:, 0]) + X[:, 1]
    y = (clean + 0.5 * random.standard_normal(len(X))).astype(np.float32)[:n]
    X, new, truth = X[:n], X[n:], clean[n:]

    def own(rows: int, centres: int) -> Any:
        same: Any = {"centres": centres, "random_state": 0}
        f = KernelRidge(ridge, kernel=kernel, **same).fit(X[:rows], y[:rows]).function_
        points = kernel.points(X[:rows])
        product = average_outer_product(kernel, points, f.points, f.coefficients, np.ones(d))
        after = Metric(product / product.max()).applied(kernel)
        return KernelRidge(ridge, kernel=after, **same).fit(X[:rows], y[:rows])

    def peer(rows: int) -> Any:
        data = torch.as_tensor(X[:rows]), torch.as_tensor(y[:rows])[:, None]
        model = RFM("l2", bandwidth=10.0, device=torch.device("cpu"), verbose=False)
        some = data[0][:100], data[1][:100]  # it wants a validation set, and uses none here
        model.fit(data, some, iters=1, reg=ridge, return_best_params=False)
        return model

    own(5000, 500)  # code is loaded
    peer(500)
    ours, seconds = measure.timed(lambda: own(n, count))
    theirs, theirs_seconds = measure.timed(lambda: peer(fewer))
    times = {"mercer": seconds, "xRFM's RFM": theirs_seconds}
    values = ours.predict(new), theirs.predict(torch.as_tensor(new)).numpy()
    errors = [float(np.sqrt(np.mean((v.ravel() - truth) ** 2))) for v in values]
    yield measure.faster(
        f"a round of learning, n = {n:,}, d = {d}, M = {count:,}: fit, outer product at all rows, "
        f"fit; theirs on {fewer:,} of the rows",
        times,
        "xRFM's RFM",
        n * count,
        floor=3.0,
        note=f"RMSE against the function without noise, which has 0.5: ours {errors[0]:.4f}, "
        f"theirs {errors[1]:.4f}; both with ridge {ridge:g} and lengthscale 10",
    )


def in_leaves(effort: Effort) -> Iterator[Row]:
    """Household power without column 7 on the host: leaves of a tree against centres."""
    X, y = (part.astype(np.float32) for part in table("household_power"))
    X = np.delete(X, 7, axis=1)
    order = np.random.default_rng(0).permutation(len(X))
    test, train = order[:20_000], order[20_000 : 20_000 + effort.size(len(X))]
    errors, times = [], []
    for local in ("auto", False):
        model = LearnedKernelRegressor(time_limit=LOCAL_SECONDS, local=local)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            times.append(measure.timed(partial(model.fit, X[train], y[train]))[1])
        errors.append(float(np.std(model.predict(X[test]) - y[test]) / np.std(y[test])))
    yield measure.smaller(
        f"household power without a column, {len(train):,} rows, {LOCAL_SECONDS:.0f} s: error in "
        "leaves of a tree over that on centres",
        errors[0] / errors[1],
        "×",
        goal=1.0,
        note=f"errors {errors[0]:.4f} in {times[0]:.0f} s and {errors[1]:.4f} in {times[1]:.0f} s",
    )


LOCAL_SECONDS = 180.0
LEAKS = {
    "uci_parkinsons": "; the scores of a patient, whose number is column 0, were interpolated in "
    "time, column 3: so are those of the test rows between training rows, to 2.5e-5, and no other "
    "patient would be predicted like this"
}

GROUPS: Groups = {
    "tables": tables,
    "synthetic": synthetic,
    "ard": automatic_relevance,
    "round": one_round,
    "leaves": in_leaves,
}

run = partial(measure.measured, "Learned kernels", GROUPS)
