"""A test of whether two samples have one distribution: the maximum mean discrepancy."""

from __future__ import annotations

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
    signal,
)
from mercer.features.base import FeatureMap
from mercer.features.inputs import length
from mercer.kernels.base import Kernel
from mercer.kernels.measures import generator
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.threads import spans


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
