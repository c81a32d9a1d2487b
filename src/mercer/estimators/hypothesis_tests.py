"""Tests of whether two samples have one distribution, and whether two variables are independent.

The tests by permutation have the level they state, for every sample size: p = (1 + #)/(1 + B),
where # counts permutations whose statistic is at least that of the data. The kernel's lengthscale
does not look at what is permuted: it comes from the pooled sample, or from each variable by itself.
Other nulls are gamma distributions, normal ones, or for many points weighted sums of squared normal
variables: n·HSIC tends to Σ_ij λ_i μ_j z_ij² where two variables are independent, with the
eigenvalues of the covariances of their features, and mn/(m + n)·MMD² to Σ_i λ_i z_i² where two
samples have one distribution. Eigenvalues are estimated by those of HKH/n, the sums are drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import gamma, norm

from mercer import linalg
from mercer.checks import check_count
from mercer.features.base import FeatureMap
from mercer.features.centres import Greedy
from mercer.features.inputs import length
from mercer.kernels.base import Kernel
from mercer.kernels.conversion import median_distance
from mercer.kernels.inner_product import Linear
from mercer.kernels.measures import generator
from mercer.kernels.radial import Gaussian
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.budget import in_words, memory_budget, require_room
from mercer.runtime.threads import run, spans, thread_count

METHODS = ("permutation", "gamma", "asymptotic", "linear")
BANDWIDTHS = (None, "median", "aggregate", "power")


@dataclass(frozen=True)
class Tuning:
    """Which lengthscales are tried, and how permutations are treated."""

    factors: tuple[float, ...] = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of the median distance
    pair_factors: tuple[float, ...] = (0.25, 1.0, 4.0)  # of both variables of an independence test
    pilot: int = 100  # permutations on the held-out part, which scale a statistic
    ties: float = 1e-12  # by which equal statistics may differ, relative to the largest
    moved_bytes: int = 1 << 28  # of groups that are multiplied together
    moved_arrays: int = 30  # of their size: groups, products with them, and 16 partial sums
    batch_bytes: int = 1 << 22  # of rows in new orders: they stay near the cache
    stored: int = 200  # points up to which Gram matrices are stored without a look at their rank
    lost: float = 1e-9  # of the trace of a Gram matrix whose factor stands for it
    eigenvalues: int = 50  # of a covariance that are drawn for; the others enter by their sum
    vectors: int = 45  # times those that computing them takes: a Krylov space and its images
    products: int = 500  # of two such, likewise
    pair_rows: int = 128  # of a block of pairs, or of a stored part of a Gram matrix


TUNING = Tuning()


@dataclass(frozen=True)
class TestResult:
    """The result of a permutation test.

    Attributes
    ----------
    statistic : float
        The statistic of the data, for the kernel below.
    pvalue : float
    null_distribution : array or None
        The statistics of all permutations, for that kernel.
    kernels : tuple of Kernel
        The kernel that was used; for "aggregate" the one with the most extreme statistic, for an
        independence test one for each variable.
    method : str

    Examples
    --------
    >>> from mercer import mmd_test
    >>> X = np.arange(40.0)[:, None]
    >>> mmd_test(X[:20], X[20:], permutations=99, random_state=0).pvalue
    0.01
    """

    __test__ = False  # for pytest: not a test itself

    statistic: float
    pvalue: float
    null_distribution: np.ndarray | None
    kernels: tuple[Kernel, ...]
    method: str


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
    check_method(method, bandwidth)
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
    random.permuted(groups[1:], axis=1, out=groups[1:])
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
    room = min(TUNING.moved_bytes, memory_budget() // TUNING.moved_arrays)
    width = max(1, room // (8 * size))
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
    """The mean over disjoint pairs of both samples, over its standard error."""
    pairs = min(len(x), len(y)) // 2
    if pairs < 2:
        raise ValueError("the linear statistic needs four points or more in each sample.")
    even, odd = np.arange(0, 2 * pairs, 2), np.arange(1, 2 * pairs, 2)
    values = contrasts(kernel, [x.take(even), x.take(odd), y.take(odd), y.take(even)])
    return normal_test(values, (kernel,))


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
    spectrum = centred_spectrum(gram)
    return drawn_test(statistic, m * n / (m + n), spectrum, (kernel,), draws, random)


def _gamma_mmd(kernel: Kernel, pooled: PointSet, sizes: tuple[int, int]) -> TestResult:
    """As the independence of points and labels: HSIC with the kernel of labels is MMD², scaled."""
    m, n = sizes
    labels = Linear().gram(np.repeat([1.0, 0.0], sizes)[:, None])
    hsic, pvalue = gamma_test(Gram(kernel, pooled), labels)
    return TestResult(hsic * (m + n) ** 4 / (m * n) ** 2, pvalue, None, (kernel,), "gamma")


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
    check_method(method, bandwidth)
    random, n = generator(random_state), length(X)
    if length(Y) != n or n < 6:
        raise ValueError(
            f"hsic_test needs six pairs or more, a row of Y for each of X; got {n} and {length(Y)}."
        )
    if features is not None:
        check_features([kernel, kernel_y], method, bandwidth)
        F, G = (_centred_features(phi, part) for phi, part in zip(features, (X, Y), strict=True))
        table = _by_factors(F, G, _orders(n, permutations, random))[None, :]
        return decision(table, [tuple(phi.kernel_ for phi in features)])
    few = TUNING.pair_factors
    sides = [candidates(k, [part], bandwidth, few) for k, part in ((kernel, X), (kernel_y, Y))]
    x, y = (side[0].points(part) for side, part in zip(sides, (X, Y), strict=True))
    if bandwidth == "power":
        tested, held = np.array_split(random.permutation(n), 2)
        pilot = _orders(len(held), TUNING.pilot, random)
        scores = _hsic_table(sides, x.take(held), y.take(held), pilot)
        best = list(itertools.product(*sides))[int(np.argmax(signal(scores)[:, 0]))]
        sides, x, y = [[k] for k in best], x.take(tested), y.take(tested)
    pair = sides[0][0], sides[1][0]
    if method == "gamma":
        statistic, pvalue = gamma_test(Gram(pair[0], x), Gram(pair[1], y))
        return TestResult(statistic, pvalue, None, pair, "gamma")
    if method == "asymptotic":
        return _asymptotic_hsic(pair, x, y, permutations, random)
    if method == "linear":
        return _linear_hsic(pair, x, y)
    table = _hsic_table(sides, x, y, _orders(len(x), permutations, random))
    return decision(table, list(itertools.product(*sides)))


def _asymptotic_hsic(
    kernels: tuple[Kernel, Kernel],
    x: PointSet,
    y: PointSet,
    draws: int,
    random: np.random.Generator,
) -> TestResult:
    n, sides = len(x), list(zip(kernels, (x, y), strict=True))
    x_side, y_side = (_Centred(k, points) for k, points in sides)
    statistic = float(_hsic(x_side, y_side, np.arange(n)[None, :])[0])
    first, second = (centred_spectrum(Gram(k, points)) for k, points in sides)
    products = np.sort(np.outer(first[:-1], second[:-1]), axis=None)[::-1][: TUNING.products]
    rest = max(float(first.sum() * second.sum() - products.sum()), 0.0)
    return drawn_test(statistic, n, np.append(products, rest), kernels, draws, random)


def _linear_hsic(kernels: tuple[Kernel, Kernel], x: PointSet, y: PointSet) -> TestResult:
    """The mean over quadruples of h = (k₁₂ + k₃₄ − k₁₃ − k₂₄)(l₁₂ + l₃₄ − l₁₃ − l₂₄)/4.

    E h is HSIC: four of the sixteen products have both indices in common, four none, eight one.
    """
    count = len(x) // 4
    if count < 2:
        raise ValueError("the linear statistic needs eight pairs or more.")
    values = np.full(count, 0.25)
    for k, points in zip(kernels, (x, y), strict=True):
        values *= contrasts(k, [points.take(np.arange(i, 4 * count, 4)) for i in range(4)])
    return normal_test(values, kernels)


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


# ---- what both have in common --------------------------------------------------------------------


def check_method(method: str, bandwidth: str | None) -> None:
    """Refuse unknown methods and lengthscales, and what they cannot be together."""
    for name, value, known in (("method", method, METHODS), ("bandwidth", bandwidth, BANDWIDTHS)):
        if value not in known:
            raise ValueError(f"{name} must be one of {list(known)}; got {value!r}.")
    if bandwidth == "aggregate" and method != "permutation":
        raise ValueError(
            'bandwidth="aggregate" compares several statistics by permutations: write '
            f'method="permutation", or bandwidth="median" with method={method!r}.'
        )


def check_features(kernels: Sequence[Kernel | None], method: str, bandwidth: str | None) -> None:
    """Refuse what a test on features would not use."""
    unused = all(kernel is None for kernel in kernels)
    if unused and method == "permutation" and bandwidth is None:
        return
    raise ValueError(
        "features bring their kernel and are tested by permutations: leave out kernel, bandwidth "
        "and method, or features."
    )


def candidates(
    kernel: Kernel | None,
    samples: list[Any],
    bandwidth: str | None,
    factors: Sequence[float] = TUNING.factors,
) -> list[Kernel]:
    """The kernels to try on a sample, or on two that are pooled."""
    if not isinstance(kernel, Kernel | None):
        raise ValueError(f"kernel must be a Kernel, as Gaussian(lengthscale=1.0); got {kernel!r}.")
    widths = {sample.shape[1:] for sample in samples if hasattr(sample, "shape")}
    if len(widths) > 1:
        shapes = " and ".join(str(tuple(sample.shape)) for sample in samples)
        raise ValueError(f"both samples must have the same columns; got shapes {shapes}.")
    if kernel is not None and bandwidth is None:
        if all(isinstance(sample, list) for sample in samples):
            return [kernel.fitted([point for sample in samples for point in sample])]
        arrays = all(isinstance(sample, np.ndarray) for sample in samples)
        return [kernel.fitted(np.concatenate(samples) if arrays else samples[0])]
    base = Gaussian() if kernel is None else kernel
    if np.ndim(base.get_params(deep=False).get("lengthscale", [])) != 0:
        raise ValueError(
            f"{base!r} has no single lengthscale to choose: write bandwidth=None to take it as it "
            "is."
        )
    try:
        rows = np.concatenate([np.asarray(sample, np.float64) for sample in samples])
    except (TypeError, ValueError) as error:
        raise ValueError(
            "a median distance needs dense rows of numbers: pass a kernel for other points, as "
            "Gaussian(lengthscale=1.0) for a sparse matrix."
        ) from error
    if rows.ndim != 2:
        raise ValueError(
            f"samples are arrays with a row for each point; got shape {rows.shape}: write "
            "x[:, None] for one column."
        )
    median = median_distance(np.unique(rows, axis=0))  # in an order that forgets who is who
    scales = [median * f for f in factors] if bandwidth in ("aggregate", "power") else [median]
    return [base.with_(lengthscale=scale) for scale in scales]


def signal(table: np.ndarray) -> np.ndarray:
    """How many deviations of its row each statistic lies above the mean of its row."""
    gaps = table - table.mean(axis=1, keepdims=True)
    deviations = gaps.std(axis=1, keepdims=True)
    return np.where(deviations > 0, gaps / np.where(deviations > 0, deviations, 1.0), -np.inf)


def decision(table: np.ndarray, kernels: Sequence[tuple[Kernel, ...]]) -> TestResult:
    """From statistics, a row for each kernel, column 0 the data: the p-value.

    Of several kernels the largest statistic in units of its deviation counts. Mean and deviation
    are over all columns, the data among them, so that the level holds for any number of kernels.
    """
    signals = signal(table)
    combined = table[0] if len(table) == 1 else signals.max(axis=0)
    slack = TUNING.ties * float(np.abs(combined[np.isfinite(combined)]).max(initial=0.0))
    best = int(np.argmax(signals[:, 0]))
    return TestResult(
        float(table[best, 0]),
        float(np.mean(combined >= combined[0] - slack)),
        table[best, 1:],
        kernels[best],
        "permutation",
    )


def gamma_test(first: Gram, second: Gram) -> tuple[float, float]:
    """HSIC and its p-value by a gamma distribution with the mean and variance under independence.

    Rows of both matrices are computed in blocks; neither is stored.
    """
    n, sides = first.shape[0], [gram.astype(np.float64) for gram in (first, second)]
    means = [np.asarray(gram @ np.ones(n)) / n for gram in sides]
    statistic, squares, mean = 0.0, 0.0, 1.0 / n
    for gram, mean_values in zip(sides, means, strict=True):
        trace = float(np.sum(gram.diagonal()))
        mean *= trace / n - (n * mean_values.sum() - trace) / (n * (n - 1))
    for rows in (slice(*span) for span in spans(n, TUNING.pair_rows)):
        product = np.ones((1, 1))
        for gram, m in zip(sides, means, strict=True):
            product = product * (gram[rows, :].dense() - m - m[rows, None] + m.mean())
        statistic += float(product.sum()) / n**2
        squares += float((product**2).sum() - (np.diagonal(product[:, rows]) ** 2).sum())
    variance = squares / (n * (n - 1)) * 2.0 * (n - 4) * (n - 5) / (n * (n - 1) * (n - 2) * (n - 3))
    if not (mean > 0 and variance > 0):
        return statistic, 1.0
    return statistic, float(gamma.sf(statistic, mean**2 / variance, scale=variance / mean))


def normal_test(values: np.ndarray, kernels: tuple[Kernel, ...]) -> TestResult:
    """Whether the mean of independent values is above 0, by the normal distribution."""
    deviation = float(values.std(ddof=1)) / len(values) ** 0.5
    ratio = float(values.mean()) / deviation if deviation > 0 else 0.0
    return TestResult(float(values.mean()), float(norm.sf(ratio)), None, kernels, "linear")


def drawn_test(
    statistic: float,
    scale: float,
    spectrum: np.ndarray,
    kernels: tuple[Kernel, ...],
    draws: int,
    random: np.random.Generator,
) -> TestResult:
    """(1 + #)/(1 + B) for B draws of Σ λ_i z_i², which is the limit of `scale` times the statistic.

    The last λ, the sum of all others, enters by its mean.
    """
    null = random.chisquare(1.0, (draws, len(spectrum) - 1)) @ spectrum[:-1] + spectrum[-1]
    pvalue = float((1 + np.count_nonzero(null >= scale * statistic)) / (1 + draws))
    return TestResult(statistic, pvalue, null / scale, kernels, "asymptotic")


def centred_spectrum(gram: Gram) -> np.ndarray:
    """The leading eigenvalues of HKH/n, and the sum of the others as the last entry."""
    n = gram.shape[0]
    count = min(n, TUNING.eigenvalues)
    needed = 8.0 * TUNING.vectors * n * count
    require_room("the spectrum of the limit", needed, 'Write method="gamma" or "linear"')
    sums = np.asarray(gram @ np.ones(n, gram.dtype), np.float64)
    trace = float(np.sum(gram.diagonal(), dtype=np.float64)) - float(sums.mean())

    def multiply(block: np.ndarray) -> np.ndarray:
        centred = (block - block.mean(axis=0)).astype(gram.dtype)
        image = np.asarray(gram @ centred, np.float64)
        return image - image.mean(axis=0)

    pairs = linalg.leading_eigenpairs(  # an eigenvalue is as good as the square of its residual
        multiply, n, count, tolerance=1e-4, random_state=0
    )
    values = np.maximum(pairs.values, 0.0)
    return np.append(values, max(trace - float(values.sum()), 0.0)) / n


def contrasts(kernel: Kernel, samples: Sequence[PointSet]) -> np.ndarray:
    """k(a, b) + k(c, d) − k(a, c) − k(b, d) for each row of four samples."""
    a, b, c, d = samples
    values = np.zeros(len(a))
    for sign, left, right in ((1.0, a, b), (1.0, c, d), (-1.0, a, c), (-1.0, b, d)):
        for start, stop in spans(len(a), TUNING.pair_rows):
            block = Gram(kernel, left.slice(start, stop), right.slice(start, stop)).dense()
            values[start:stop] += sign * np.diagonal(block)
    return values
