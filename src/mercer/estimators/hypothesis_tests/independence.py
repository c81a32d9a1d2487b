"""A test of whether two variables are independent: the Hilbert–Schmidt criterion."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mercer.checks import check_count
from mercer.estimators.hypothesis_tests.permutations import (
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
