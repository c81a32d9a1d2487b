"""The figures of statistics in the space: components, densities, tests, posteriors, intervals.

Peers are scikit-learn's `KernelPCA`, `KernelDensity` and `GaussianProcessRegressor`, and hyppo's
`MMD` where it is installed. Tables come from the folder MERCER_DATA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack
from scipy.stats import binomtest
from sklearn.decomposition import KernelPCA as TheirPCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.neighbors import KernelDensity as TheirDensity

from benchmarks import data, measure
from benchmarks.measure import Effort, Groups, Row
from mercer import (
    ConformalRegressor,
    KernelDensity,
    KernelPCA,
    KernelRidge,
    KernelRidgeCV,
    hsic_test,
    mmd_test,
)
from mercer.features import RandomFourierFeatures
from mercer.kernels import Gaussian
from mercer.kernels.conversion import median_distance


def points(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Four clouds of points, so that there is something to see."""
    rng = np.random.default_rng(seed)
    middles = 2.0 * np.random.default_rng(42).standard_normal((4, d))
    return middles[rng.integers(4, size=n)] + rng.standard_normal((n, d))


# ---- components ----------------------------------------------------------------------------------


def components(effort: Effort) -> Iterator[Row]:
    n, d, count = effort.size(6000), 10, 10
    X = points(n, d)
    params = {"kernel": "rbf", "gamma": 0.05}
    models: dict[str, Any] = {
        "mercer": KernelPCA(count, **params, random_state=0),
        "arpack": TheirPCA(count, **params, eigen_solver="arpack", random_state=0),
        "randomized": TheirPCA(count, **params, eigen_solver="randomized", random_state=0),
    }
    works = {name: partial(model.fit, X) for name, model in models.items()}
    times = measure.interleaved(works, effort.repeats(15))
    for peer in ("arpack", "randomized"):
        yield measure.faster(
            f"KernelPCA, {count} components, n = {n:,}, d = {d}, Gaussian, against {peer}",
            {"mercer": times["mercer"], f"KernelPCA, {peer}": times[peer]},
            f"KernelPCA, {peer}",
            n * n,
            floor=4.0,
            error=angle(models["mercer"].eigenvectors_, models[peer].eigenvectors_),
            note=NOTE_ON_PRODUCTS,
        )


NOTE_ON_PRODUCTS = (
    "the error is the sine of the largest angle between the two subspaces; ours takes nine "
    "products of one stored triangle and 16 columns, theirs about eighty of a stored matrix and "
    "one, or a fixed number of them"
)


def angle(first: np.ndarray, second: np.ndarray) -> float:
    """The sine of the largest angle between two subspaces with orthonormal bases."""
    rest = first - second @ (second.T @ first)
    return float(np.linalg.norm(rest, 2))


def many_components(effort: Effort) -> Iterator[Row]:
    n, d, count, centres = effort.size(200_000), 10, 10, effort.size(1000)
    seconds, extra, share, left = measure.in_a_process(nystroem_pca, n, d, count, centres)
    note = (
        f"{centres:,} centres; the components explain {100 * share:.2f} % of the variance, and "
        f"{100 * left:.2f} % lie outside the span of the centres; float32"
    )
    yield measure.taken(
        f"KernelPCA by Nyström, {count} components, n = {n:,}, d = {d}",
        seconds,
        floor=60.0,
        note=note,
    )
    yield measure.memory("the same: memory beyond the data", extra, 500.0)


def nystroem_pca(n: int, d: int, count: int, centres: int) -> tuple[float, int, float, float]:
    X = points(n, d).astype(np.float32)
    params = {"kernel": Gaussian(10.0**0.5), "random_state": 0}
    KernelPCA(count, centres=50, **params).fit(X[:2000])  # code is loaded
    model = KernelPCA(count, centres=centres, **params)
    (_, seconds), extra = measure.growth(lambda: measure.timed(lambda: model.fit(X)))
    rows = X[:: max(1, n // 2000)]
    inside = model._sums.features.transform(rows).astype(np.float64)
    left = 1.0 - float(np.mean(np.sum(inside**2, axis=1)))
    return seconds, extra, float(model.explained_variance_ratio_.sum()), left


# ---- densities -----------------------------------------------------------------------------------


def densities(effort: Effort) -> Iterator[Row]:
    n, d, share = effort.size(50_000), 10, 20
    X, new = points(n, d), points(n, d, seed=1)
    few = new[: n // share]
    ours = KernelDensity(bandwidth=1.0).fit(X)
    theirs = TheirDensity(bandwidth=1.0, rtol=1e-4).fit(X)
    works = {"mercer": lambda: ours.score_samples(new), "theirs": lambda: theirs.score_samples(few)}
    times = measure.interleaved(works, {"mercer": effort.repeats(2), "theirs": 1})
    gap = ours.score_samples(few) - theirs.score_samples(few)
    yield measure.faster(
        f"KernelDensity, {n:,} × {d} on {n:,}, Gaussian, float64",
        {"mercer": times["mercer"], "KernelDensity": share * times["theirs"]},
        "KernelDensity",
        n * n,
        floor=10.0,
        error=float(np.abs(gap).max()),
        note=f"theirs with rtol=1e-4, timed on {len(few):,} of the points, times {share}; "
        "the error is the largest difference of the logarithms, ours sums all terms",
    )


# ---- tests ---------------------------------------------------------------------------------------


def two_samples(effort: Effort) -> Iterator[Row]:
    from hyppo.ksample import MMD

    n, d, permutations = effort.size(2000), 10, 500
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, d)) + 0.05
    gamma, few = 1.0 / (2.0 * median_distance(np.r_[X, Y]) ** 2), 6
    kernel = Gaussian((0.5 / gamma) ** 0.5)
    found: dict[str, Any] = {}

    def ours() -> None:
        found["ours"] = mmd_test(X, Y, kernel, permutations=permutations, random_state=0)

    def theirs(reps: int) -> None:
        found["theirs"] = MMD(gamma=gamma).test(
            X, Y, reps=reps, workers=1, auto=False, random_state=0
        )

    works = {"mercer": ours, "few": partial(theirs, few), "fewer": partial(theirs, 1)}
    times = measure.interleaved(works, {"mercer": effort.repeats(3), "few": 1, "fewer": 1})
    step = (times["few"] - times["fewer"]) / (few - 1)
    whole = times["fewer"] + (permutations - 1) * step
    mu, nu = kernel.mean_embedding(X), kernel.mean_embedding(Y)
    biased = mu.distance(nu) ** 2
    yield measure.faster(
        f"MMD permutation test, 2 × {n:,} points, d = {d}, {permutations} permutations",
        {"mercer": times["mercer"], "hyppo": whole},
        "hyppo",
        (2 * n) ** 2 * permutations,
        floor=20.0,
        note=f"hyppo timed with {few} permutations and with 1, and extended to {permutations}; p = "
        f"{found['ours'].pvalue:.3f}; unbiased MMD² {found['ours'].statistic:.2e}, biased "
        f"{biased:.2e}",
    )


def tests(**options: tuple[str, ...]) -> dict[str, Callable[..., Any]]:
    """Both tests with each value of an option, by name."""
    ((option, values),) = options.items()
    pairs = product({"mmd_test": mmd_test, "hsic_test": hsic_test}.items(), values)
    return {f"{name}, {value}": partial(test, **{option: value}) for (name, test), value in pairs}


LEVELS = tests(bandwidth=("median", "aggregate", "power"))
APPROXIMATE = tests(method=("gamma", "asymptotic", "linear"))


def rejections(test: Callable[..., Any], sets: int, exact: bool) -> float:
    rng = np.random.default_rng(0)
    options = {"permutations": 99} if exact else {}
    rejected = 0
    for seed in range(sets):
        X, Y = rng.standard_normal((2, 40, 2))
        rejected += test(X, Y, random_state=seed, **options).pvalue <= 0.05
    return 100.0 * rejected / sets


def levels(effort: Effort) -> Iterator[Row]:
    sets = effort.size(2000)
    phi = {"features": RandomFourierFeatures(Gaussian(1.5), 50, random_state=0)}
    exact = LEVELS | {
        "mmd_test, random features": partial(mmd_test, **phi),
        "hsic_test, random features": partial(hsic_test, features=(phi["features"],) * 2),
    }
    for name, test in exact.items():
        level = rejections(test, sets, exact=True)
        yield measure.smaller(
            f"level of {name} at 5 %, {sets:,} null data sets of 40 points",
            abs(level - 5.0),
            " % off",
            floor=1.5,
            note=f"it rejects {level:.2f} %; within 3.5–6.5 % is asked; 99 permutations",
        )
    for name, test in APPROXIMATE.items():
        level = rejections(test, sets, exact=False)
        note = "approximate, and reported"
        yield Row(f"level of {name} at 5 %", level, " % rejected", note=note)


# ---- posteriors ----------------------------------------------------------------------------------


def posteriors(effort: Effort) -> Iterator[Row]:
    n, m, d, alpha = effort.size(5000), effort.size(1000), 10, 0.1
    X, new = points(n, d), points(m, d, seed=1)
    y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(2).standard_normal(n)
    scale = 3.0
    found: dict[str, Any] = {}

    def ours() -> None:
        model = KernelRidge(alpha, kernel=Gaussian(scale)).fit(X, y)
        mean, deviation = model.predict(new, return_std=True)
        found["mercer"] = mean, deviation / np.sqrt(model.scale())

    def theirs() -> None:
        model = GaussianProcessRegressor(RBF(scale, "fixed"), alpha=alpha, optimizer=None).fit(X, y)
        found["theirs"] = model.predict(new, return_std=True)

    kernel = Gaussian(scale)
    matrix = np.asfortranarray(kernel(X) + alpha * np.eye(n))
    sides = np.asfortranarray(kernel(X, new))

    def bare() -> None:  # on copies that were made before, as both calls overwrite
        lower, _ = lapack.dpotrf(copies.pop(), lower=1, clean=0, overwrite_a=1)
        blas.dtrsm(1.0, lower, columns.pop(), lower=1, overwrite_b=1)

    repeats, peer = effort.repeats(5), "GaussianProcessRegressor"
    copies = [matrix.copy(order="F") for _ in range(repeats + 1)]
    columns = [sides.copy(order="F") for _ in range(repeats + 1)]
    others = {
        "LAPACK": bare,
        "product": lambda: matrix[:, :m].T @ matrix,
        "values": lambda: (kernel(X), kernel(X, new)),
    }
    times = measure.interleaved({"mercer": ours, peer: theirs, **others}, repeats)
    alone, product, values = (times.pop(name) for name in others)
    work = n**3 / 3 + n * n * m  # multiplications and additions of a factor and of a half solve
    least = work / (2 * n * n * m / product) + values
    errors = [
        measure.relative_error(a, b) for a, b in zip(found["mercer"], found["theirs"], strict=True)
    ]
    yield measure.faster(
        f"posterior mean and deviation, n = {n:,}, {m:,} new points, d = {d}, Gaussian",
        times,
        peer,
        n * n,
        floor=3.0,
        error=max(errors),
        note="fit and predict(return_std=True); the error is the larger one of mean and deviation; "
        "ours takes one factorisation and one triangular solve of LAPACK, theirs two and one. "
        f"Those two calls alone take {1e3 * alone:.0f} ms here, which is {times[peer] / alone:.2f} "
        f"times faster than the peer. Kernel values, {1e3 * values:.0f} ms, and that arithmetic "
        f"at the rate of a matrix product, {2e-9 * n * n * m / product:.0f} GFlop/s, would take "
        f"{1e3 * least:.0f} ms, {times[peer] / least:.2f} times faster: more is not to be had with "
        "a Cholesky factor in float64, and one in float32 loses the six digits where α is small",
    )


# ---- intervals -----------------------------------------------------------------------------------

TABLES = ("airfoil", "bike", "concrete", "elevators", "kin40k", "parkinsons", "protein", "wine")


def intervals(effort: Effort) -> Iterator[Row]:
    for name in TABLES:
        X, y = data.table(f"uci_{name}")
        X = (X - X.mean(0)) / np.maximum(X.std(0), 1e-12)
        y = np.asarray(y, np.float64).ravel()
        y = (y - y.mean()) / y.std()
        rng = np.random.default_rng(0)
        for kind, ends in (("jackknife+", by_jackknife), ("split", by_split)):
            inside, total, widths = 0, 0, []
            while total < effort.size(2400):
                order = rng.permutation(len(y))
                train, test = order[:500], order[500 : 500 + 300]
                low, high = ends(X, y, train, test, order[800:1030])
                inside += int(np.count_nonzero((low <= y[test]) & (y[test] <= high)))
                total += len(test)
                widths.append(float(np.mean(high - low)))
            share = 100.0 * inside / total
            errors = abs(share - 90.0) / (100.0 * np.sqrt(0.09 / total))
            exact = binomtest(inside, total, 0.9).pvalue
            yield measure.smaller(
                f"{kind} intervals at 90 %, {name}, {total:,} test rows pooled over splits",
                errors,
                " standard errors off",
                floor=3.0,
                note=f"they cover {share:.2f} % (p = {exact:.2g}); mean width "
                f"{np.mean(widths):.2f} deviations of y",
            )


def by_jackknife(
    X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, other: np.ndarray
) -> tuple[Any, Any]:
    """α and lengthscale are chosen on other rows, so that the guarantee holds."""
    chosen = KernelRidgeCV(alphas=np.logspace(-3, 1, 9), fit_intercept=True).fit(X[other], y[other])
    model = KernelRidge(chosen.alpha_, kernel=chosen.kernel_, fit_intercept=True)
    return model.fit(X[train], y[train]).predict_interval(X[test], 0.9)


def by_split(
    X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, other: np.ndarray
) -> tuple[Any, Any]:
    inner = KernelRidgeCV(alphas=np.logspace(-3, 1, 9), fit_intercept=True)
    model = ConformalRegressor(inner, 0.9, 0.4, random_state=0).fit(X[train], y[train])
    return model.predict_interval(X[test])


GROUPS: Groups = {
    "components": components,
    "many components": many_components,
    "densities": densities,
    "two samples": two_samples,
    "levels": levels,
    "posteriors": posteriors,
    "intervals": intervals,
}

run = partial(measure.measured, "Statistics: components, densities, tests, uncertainty", GROUPS)
