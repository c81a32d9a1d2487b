"""Tests of whether two samples have one distribution, and whether two variables are independent.

The tests by permutation have the level they state, for every sample size: p = (1 + #)/(1 + B),
where # counts permutations whose statistic is at least that of the data. The kernel's lengthscale
does not look at what is permuted: it comes from the pooled sample, or from each variable by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mercer.checks import check_count
from mercer.estimators.null_distributions import (
    TUNING,
    TestResult,
    candidates,
    centred_spectrum,
    check_features,
    check_method,
    decision,
    drawn_pvalue,
    gamma_test,
    normal_test,
    paired_values,
    products,
    signal,
)
from mercer.features.base import FeatureMap
from mercer.features.centres import Greedy
from mercer.features.inputs import length
from mercer.kernels.base import Kernel
from mercer.kernels.measures import generator
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.budget import in_words, memory_budget
from mercer.runtime.threads import run, spans, thread_count


def mmd_test(
    X: Any,
    Y: Any,
    kernel: Kernel | None = None,
    *,
    bandwidth: str | None = None,
    method: str = "permutation",
    permutations: int = 999,
    features: FeatureMap | None = None,
    random_state: Any = None,
) -> TestResult:
    """Test whether two samples have the same distribution, by the maximum mean discrepancy.

    The statistic is the unbiased estimate of MMD² = ‖μ_P − μ_Q‖²; all permutations of the pooled
    sample are one product of its Gram matrix, which is never stored.

    Parameters
    ----------
    X, Y : array-like or list of objects
        Two independent samples.
    kernel : Kernel, optional
        By default Gaussian, with the median distance of the pooled sample.
    bandwidth : {None, "median", "aggregate", "power"}
        Which lengthscale. None takes `kernel` as it is; "median" gives it the median distance;
        "aggregate" tries seven around that, and takes the largest statistic in units of its
        deviation, for the data and for every permutation; "power" chooses one on half of the data,
        that with the largest statistic in units of its deviation, and tests on the other half. All
        of them keep the level.
    method : {"permutation", "gamma", "asymptotic", "linear"}
        The others are approximate: "gamma" fits a gamma distribution to two moments of the null;
        "asymptotic" draws from its limit Σ λ_i z_i², with the eigenvalues of the centred Gram
        matrix; "linear" takes the mean over pairs (x₂ᵢ₋₁, y₂ᵢ₋₁, x₂ᵢ, y₂ᵢ), which is
        asymptotically normal, in linear time.
    permutations : int, default=999
        B; for "asymptotic" the number of draws.
    features : feature map, optional
        Fitted or not: the statistic is ‖mean φ(x) − mean φ(y)‖² for its features, with all
        permutations in time linear in the number of points.
    random_state : int, Generator, RandomState or None

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf, Smola, A kernel two-sample test, 2012;
    Gretton, Fukumizu, Harchaoui, Sriperumbudur, A fast, consistent kernel two-sample test, 2009;
    Schrab, Kim, Albert, Laurent, Guedj, Gretton, MMD aggregated two-sample test, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((60, 2)), rng.standard_normal((60, 2)) + 1.0
    >>> mmd_test(X, Y, random_state=0).pvalue
    0.001
    >>> bool(mmd_test(X, Y - 1.0, random_state=0).pvalue > 0.05)
    True
    """
    check_count("mmd_test", "permutations", permutations)
    check_method(method, ("permutation", "gamma", "asymptotic", "linear"), bandwidth)
    random = generator(random_state)
    if min(length(X), length(Y)) < 2:
        raise ValueError(
            f"mmd_test needs two points or more in each sample; got {length(X)} and {length(Y)}."
        )
    if features is not None:
        check_features([kernel], method, bandwidth)
        return _mmd_by_features(X, Y, features, permutations, random)
    kernels = candidates(kernel, [X, Y], bandwidth)
    x, y = (kernels[0].points(part) for part in (X, Y))
    if bandwidth == "power":
        (x, held_x), (y, held_y) = _halves(x, random), _halves(y, random)
        pilot = _groups(len(held_x), len(held_y), TUNING.pilot, random)
        table = _mmd_table(kernels, held_x, held_y, pilot)
        kernels = [kernels[int(np.argmax(signal(table)[:, 0]))]]
    if method == "linear":
        return _linear_mmd(kernels[0], x, y)
    pooled, sizes = x.concatenated(y), (len(x), len(y))
    if method == "gamma":
        return _gamma_mmd(kernels[0], pooled, sizes)
    if method == "asymptotic":
        return _asymptotic_mmd(kernels[0], pooled, sizes, permutations, random)
    groups = _groups(*sizes, permutations, random)
    return decision(_mmd_table(kernels, x, y, groups), [(k,) for k in kernels])


def _groups(m: int, n: int, count: int, random: np.random.Generator) -> np.ndarray:
    """Who belongs to the first sample: in the data (column 0), and after each permutation."""
    groups = np.zeros((count + 1, m + n), bool)
    groups[:, :m] = True
    groups[1:] = random.permuted(groups[1:], axis=1)
    return groups.T


def _mmd_table(kernels: list[Kernel], x: PointSet, y: PointSet, groups: np.ndarray) -> np.ndarray:
    """The statistics of each kernel, in a row."""
    pooled = x.concatenated(y)
    return np.stack([_mmd_statistics(Gram(k, pooled), len(x), groups) for k in kernels])


def _mmd_statistics(gram: Gram, m: int, groups: np.ndarray) -> np.ndarray:
    """The unbiased MMD² for each way to divide the pooled sample."""
    size = groups.shape[0]
    n = size - m
    diagonal = np.asarray(gram.diagonal(), np.float64)
    width = max(1, TUNING.moved_bytes // (8 * size))
    all_sums: Any = None
    inner, across, own = [], [], []
    for start, stop in spans(groups.shape[1], width):
        part = groups[:, start:stop].astype(gram.dtype)
        if all_sums is None:
            part = np.hstack([part, np.ones((size, 1), gram.dtype)])
        image = np.asarray(gram @ part, np.float64)
        if all_sums is None:
            image, all_sums, part = image[:, :-1], image[:, -1], part[:, :-1]
        inner.append(np.einsum("ij,ij->j", part, image))
        across.append(all_sums @ part)
        own.append(diagonal @ part)
    xx, x_all, x_own = (np.concatenate(parts) for parts in (inner, across, own))
    yy, y_own = all_sums.sum() - 2.0 * x_all + xx, diagonal.sum() - x_own
    same = (xx - x_own) / (m * (m - 1)) + (yy - y_own) / (n * (n - 1))
    return same - 2.0 * (x_all - xx) / (m * n)


def _mmd_by_features(
    X: Any, Y: Any, features: FeatureMap, permutations: int, random: np.random.Generator
) -> TestResult:
    pooled = np.concatenate([np.asarray(X), np.asarray(Y)])
    if not hasattr(features, "kernel_"):
        features = features.fit(pooled)
    m, n = len(X), len(Y)
    groups = _groups(m, n, permutations, random)
    signs = np.where(groups, 1.0 / m, -1.0 / n)
    gaps = np.asarray(features.weighted_sum(pooled, signs))
    statistics = np.einsum("ij,ij->j", gaps, gaps)
    return decision(statistics[None, :], [(features.kernel_,)])


def _linear_mmd(kernel: Kernel, x: PointSet, y: PointSet) -> TestResult:
    """The mean of h over disjoint pairs over its standard error."""
    pairs = min(len(x), len(y)) // 2
    if pairs < 2:
        raise ValueError("the linear statistic needs four points or more in each sample.")
    even, odd = np.arange(0, 2 * pairs, 2), np.arange(1, 2 * pairs, 2)
    a, b, c, d = x.take(even), x.take(odd), y.take(even), y.take(odd)
    terms = ((1.0, a, b), (1.0, c, d), (-1.0, a, d), (-1.0, b, c))
    values = sum(sign * paired_values(kernel, left, right) for sign, left, right in terms)
    return normal_test(np.asarray(values), (kernel,))


def _asymptotic_mmd(
    kernel: Kernel,
    pooled: PointSet,
    sizes: tuple[int, int],
    draws: int,
    random: np.random.Generator,
) -> TestResult:
    gram, (m, n) = Gram(kernel, pooled), sizes
    signs = np.repeat([1.0 / m, -1.0 / n], sizes)
    statistic = float(signs @ np.asarray(gram @ signs.astype(gram.dtype), np.float64))
    scale = m * n / (m + n)
    pvalue, null = drawn_pvalue(scale * statistic, centred_spectrum(gram), draws, random)
    return TestResult(statistic, pvalue, null / scale, (kernel,), "asymptotic")


def _gamma_mmd(kernel: Kernel, pooled: PointSet, sizes: tuple[int, int]) -> TestResult:
    """As the independence of points and labels: HSIC with the kernel of labels is MMD², scaled."""
    m, n = sizes
    size = m + n
    labels = np.repeat([1.0, 0.0], sizes)[:, None]
    hsic, pvalue = gamma_test(Gram(kernel, pooled), lambda a, b: labels[a] @ labels[b].T)
    return TestResult(hsic * size**4 / (m * n) ** 2, pvalue, None, (kernel,), "gamma")


def _halves(points: PointSet, random: np.random.Generator) -> tuple[PointSet, PointSet]:
    first, second = np.array_split(random.permutation(len(points)), 2)
    if len(second) < 2:
        raise ValueError('bandwidth="power" halves the data, and needs four points or more.')
    return points.take(first), points.take(second)


# ---- independence --------------------------------------------------------------------------------


def hsic_test(
    X: Any,
    Y: Any,
    kernel: Kernel | None = None,
    kernel_y: Kernel | None = None,
    *,
    bandwidth: str | None = None,
    method: str = "permutation",
    permutations: int = 999,
    features: tuple[FeatureMap, FeatureMap] | None = None,
    random_state: Any = None,
) -> TestResult:
    """Test whether two variables are independent, by the Hilbert–Schmidt independence criterion.

    The statistic is HSIC = tr(KHLH)/n², for pairs (x_i, y_i). It is computed from factors of both
    Gram matrices where these have low rank, in time linear in n, and else from stored matrices.

    Parameters
    ----------
    X, Y : array-like or list of objects
        As many rows each: row i of both is one observation.
    kernel, kernel_y : Kernel, optional
        Of X and of Y; by default Gaussian, with the median distance.
    bandwidth : {None, "median", "aggregate", "power"}
        As for `mmd_test`; "aggregate" and "power" try nine pairs of lengthscales.
    method : {"permutation", "gamma", "asymptotic", "linear"}
        The others are approximate: "gamma" fits a gamma distribution to two moments of the null;
        "asymptotic" draws from its limit Σ λ_i μ_j z_ij², with the eigenvalues of both centred Gram
        matrices; "linear" takes the mean over disjoint quadruples of pairs, which is asymptotically
        normal, in linear time.
    permutations : int, default=999
        B; for "asymptotic" the number of draws.
    features : pair of feature maps, optional
        Fitted or not: HSIC of their features, ‖Σ_i φ(x_i)ψ(y_i)ᵀ/n‖² for centred features, in
        time linear in n.
    random_state : int, Generator, RandomState or None

    References
    ----------
    Gretton, Fukumizu, Teo, Song, Schölkopf, Smola, A kernel statistical test of independence, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((80, 1))
    >>> hsic_test(x, x**2 + 0.1 * rng.standard_normal((80, 1)), random_state=0).pvalue
    0.001
    >>> bool(hsic_test(x, rng.standard_normal((80, 1)), random_state=0).pvalue > 0.05)
    True
    """
    check_count("hsic_test", "permutations", permutations)
    check_method(method, ("permutation", "gamma", "asymptotic", "linear"), bandwidth)
    random, n = generator(random_state), length(X)
    if length(Y) != n or n < 6:
        raise ValueError(
            f"hsic_test needs six pairs or more, a row of Y for each of X; got {n} and {length(Y)}."
        )
    orders = _orders(n, permutations, random)
    if features is not None:
        check_features([kernel, kernel_y], method, bandwidth)
        F, G = (_centred_features(phi, part) for phi, part in zip(features, (X, Y), strict=True))
        used = tuple(phi.kernel_ for phi in features)
        return decision(_by_factors(F, G, orders)[None, :], [used])
    few = TUNING.pair_factors
    sides = [candidates(k, [part], bandwidth, few) for k, part in ((kernel, X), (kernel_y, Y))]
    x, y = (side[0].points(part) for side, part in zip(sides, (X, Y), strict=True))
    if bandwidth == "power":
        tested, held = np.array_split(random.permutation(n), 2)
        pilot = _orders(len(held), TUNING.pilot, random)
        scores = _hsic_table(sides, x.take(held), y.take(held), pilot)
        best = list(itertools.product(*sides))[int(np.argmax(signal(scores)[:, 0]))]
        sides, x, y = [[k] for k in best], x.take(tested), y.take(tested)
        orders = _orders(len(tested), permutations, random)
    if method == "gamma":
        second = Gram(sides[1][0], y)
        block = lambda a, b: np.asarray(second[a, b].dense(), np.float64)  # noqa: E731
        statistic, pvalue = gamma_test(Gram(sides[0][0], x), block)
        return TestResult(statistic, pvalue, None, (sides[0][0], sides[1][0]), "gamma")
    if method == "asymptotic":
        return _asymptotic_hsic(sides[0][0], sides[1][0], x, y, permutations, random)
    if method == "linear":
        return _linear_hsic(sides[0][0], sides[1][0], x, y)
    table = _hsic_table(sides, x, y, orders)
    return decision(table, list(itertools.product(*sides)))


def _asymptotic_hsic(
    kernel: Kernel,
    other: Kernel,
    x: PointSet,
    y: PointSet,
    draws: int,
    random: np.random.Generator,
) -> TestResult:
    n = len(x)
    identity = np.arange(n)[None, :]
    statistic = float(_hsic(_Centred(kernel, x), _Centred(other, y), identity)[0])
    spectra = [centred_spectrum(Gram(k, points)) for k, points in ((kernel, x), (other, y))]
    pvalue, null = drawn_pvalue(n * statistic, products(*spectra), draws, random)
    return TestResult(statistic, pvalue, null / n, (kernel, other), "asymptotic")


def _linear_hsic(kernel: Kernel, other: Kernel, x: PointSet, y: PointSet) -> TestResult:
    """The mean over quadruples of h = (k₁₂ + k₃₄ − k₁₃ − k₂₄)(l₁₂ + l₃₄ − l₁₃ − l₂₄)/4.

    E h is HSIC: four of the sixteen products have both indices in common, four none, eight one.
    """
    count = len(x) // 4
    if count < 2:
        raise ValueError("the linear statistic needs eight pairs or more.")
    values = np.full(count, 0.25)
    for k, points in ((kernel, x), (other, y)):
        a, b, c, d = (points.take(np.arange(i, 4 * count, 4)) for i in range(4))
        terms = ((1.0, a, b), (1.0, c, d), (-1.0, a, c), (-1.0, b, d))
        values *= sum(sign * paired_values(k, left, right) for sign, left, right in terms)
    return normal_test(values, (kernel, other))


def _orders(n: int, count: int, random: np.random.Generator) -> np.ndarray:
    """The order of Y in the data (row 0) and after each permutation."""
    orders = np.tile(np.arange(n), (count + 1, 1))
    orders[1:] = random.permuted(orders[1:], axis=1)
    return orders


def _hsic_table(
    sides: Sequence[Sequence[Kernel]], x: PointSet, y: PointSet, orders: np.ndarray
) -> np.ndarray:
    """HSIC for every pair of kernels and every order."""
    known = [
        [_Centred(k, points) for k in side] for side, points in zip(sides, (x, y), strict=True)
    ]
    return np.stack([_hsic(a, b, orders) for a, b in itertools.product(*known)])


def _hsic(first: _Centred, second: _Centred, orders: np.ndarray) -> np.ndarray:
    n = len(first.points)
    if first.factor is not None and second.factor is not None:
        return _by_factors(first.factor, second.factor, orders)
    K, L = first.matrix, second.matrix
    batches = spans(len(orders), max(1, TUNING.batch_bytes // (8 * n * n)))
    values = np.empty(len(orders))

    def add(span: tuple[int, int]) -> None:
        part = orders[slice(*span)]
        moved = L[part[:, :, None], part[:, None, :]]
        values[slice(*span)] = np.einsum("ij,kij->k", K, moved)

    run(add, batches, thread_count())
    return values / n**2


def _by_factors(F: np.ndarray, G: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """‖FᵀPG‖²/n² for centred factors: tr(HKH PLPᵀ)/n² with K = FFᵀ and L = GGᵀ."""
    left, many = np.ascontiguousarray(F.T), max(1, TUNING.batch_bytes // (8 * G.size))
    parts = []
    for start, stop in spans(len(orders), many):
        products = left @ G[orders[start:stop]]
        parts.append(np.einsum("ijk,ijk->i", products, products))
    return np.concatenate(parts) / len(F) ** 2


class _Centred:
    """HKH of a kernel on points: a factor where one of low rank exists, else the stored matrix."""

    def __init__(self, kernel: Kernel, points: PointSet) -> None:
        self.kernel, self.points = kernel, points

    @cached_property
    def factor(self) -> np.ndarray | None:
        """F with FFᵀ = HKH up to 10⁻⁹ of its trace, if it has few columns for its rows."""
        if len(self.points) <= TUNING.stored:
            return None
        most = int(2 * len(self.points) ** 0.5)
        for factor in Greedy(most, slack=0.5).growing(self.kernel, self.points, np.float64):
            if factor.residual.sum() <= TUNING.lost * factor.trace:
                columns = np.asarray(factor.columns[:, : factor.rank], np.float64)
                return columns - columns.mean(axis=0)
        return None

    @cached_property
    def matrix(self) -> np.ndarray:
        n = len(self.points)
        if 24 * n * n > 4 * memory_budget():
            raise ValueError(
                f"{n:,} points of a Gram matrix of high rank take {in_words(24 * n * n)}: "
                "pass features, as RandomFourierFeatures(n_components=200), for each variable."
            )
        K = np.asarray(Gram(self.kernel, self.points).dense(), np.float64)
        K = K - K.mean(axis=0)
        return K - K.mean(axis=1)[:, None]


def _centred_features(phi: FeatureMap, X: Any) -> np.ndarray:
    """Centred features of all points."""
    if not hasattr(phi, "kernel_"):
        phi.fit(X)
    rows = np.asarray(phi.transform(X), np.float64)
    return rows - rows.mean(axis=0)
