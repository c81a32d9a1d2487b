"""Shared by both tests: lengthscales, and the distributions of statistics under the null.

They come from permutations, from gamma distributions, or for many points from weighted sums of
squared normal variables: n·HSIC tends to Σ_ij λ_i μ_j z_ij² where two variables are independent,
with the eigenvalues of the covariances of their features, and mn/(m + n)·MMD² to Σ_i λ_i z_i² where
two samples have one distribution. Eigenvalues are estimated by those of HKH/n, the sums are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import gamma, norm

from mercer import linalg
from mercer.kernels.base import Kernel
from mercer.kernels.conversion import median_distance
from mercer.kernels.radial import Gaussian
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.threads import spans

BANDWIDTHS = (None, "median", "aggregate", "power")
PAIR_ROWS = 128  # of a block of pairs, or of a stored part of a Gram matrix


@dataclass(frozen=True)
class Tuning:
    """Which lengthscales are tried, and how permutations are treated."""

    factors: tuple[float, ...] = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of the median distance
    pair_factors: tuple[float, ...] = (0.25, 1.0, 4.0)  # of both variables of an independence test
    pilot: int = 100  # permutations on the held-out part, which scale a statistic
    ties: float = 1e-12  # by which equal statistics may differ, relative to the largest
    moved_bytes: int = 1 << 28  # of groups that are multiplied together
    batch_bytes: int = 1 << 22  # of rows in new orders: they stay near the cache
    stored: int = 200  # points up to which Gram matrices are stored without a look at their rank
    lost: float = 1e-9  # of the trace of a Gram matrix whose factor stands for it
    eigenvalues: int = 50  # of a covariance that are drawn for; the others enter by their sum
    products: int = 500  # of two such, likewise


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


def gamma_test(gram: Gram, second: Callable[[slice, slice], np.ndarray]) -> tuple[float, float]:
    """HSIC and its p-value by a gamma distribution with the mean and variance under independence.

    Rows of both matrices are read in blocks, twice; neither is stored.
    """
    n = gram.shape[0]
    everything = slice(0, n)
    blocks = [slice(*span) for span in spans(n, PAIR_ROWS)]

    def read(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(gram[rows, :].dense(), np.float64), second(rows, everything)

    sums = [[part.sum(axis=1) for part in read(rows)] for rows in blocks]
    means = [np.concatenate([pair[k] for pair in sums]) / n for k in (0, 1)]
    traces, off, value, squares = np.zeros(2), np.zeros(2), 0.0, 0.0
    for rows in blocks:
        centred = []
        for k, part in enumerate(read(rows)):
            own = np.diagonal(part[:, rows])
            traces[k] += own.sum()
            off[k] += part.sum() - own.sum()
            centred.append(part - means[k] - means[k][rows, None] + means[k].mean())
        product = centred[0] * centred[1]
        value += product.sum()
        product = product**2
        squares += product.sum() - np.diagonal(product[:, rows]).sum()
    own, pairs = traces / n, off / (n * (n - 1))
    mean = (own[0] - pairs[0]) * (own[1] - pairs[1]) / n
    variance = squares / (n * (n - 1)) * 2.0 * (n - 4) * (n - 5) / (n * (n - 1) * (n - 2) * (n - 3))
    statistic = value / n**2
    if not (mean > 0 and variance > 0):
        return float(statistic), 1.0
    shape, scale = mean**2 / variance, variance / mean
    return float(statistic), float(gamma.sf(statistic, shape, scale=scale))


# ---- lengthscales and decisions -------------------------------------------------------------


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


def normal_test(values: np.ndarray, kernels: tuple[Kernel, ...]) -> TestResult:
    """Whether the mean of independent values is above 0, by the normal distribution."""
    deviation = float(values.std(ddof=1)) / len(values) ** 0.5
    ratio = float(values.mean()) / deviation if deviation > 0 else 0.0
    return TestResult(float(values.mean()), float(norm.sf(ratio)), None, kernels, "linear")


def check_method(method: str, known: Sequence[str], bandwidth: str | None) -> None:
    """Refuse unknown methods and lengthscales, and what they cannot be together."""
    check_choice("method", method, known)
    check_choice("bandwidth", bandwidth, BANDWIDTHS)
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


def check_choice(name: str, value: Any, known: Sequence[Any]) -> None:
    """Refuse what is not among the known values of a parameter."""
    if value not in known:
        raise ValueError(f"{name} must be one of {list(known)}; got {value!r}.")


def centred_spectrum(gram: Gram) -> np.ndarray:
    """The leading eigenvalues of HKH/n, and the sum of the others as the last entry."""
    n = gram.shape[0]
    sums = np.asarray(gram @ np.ones(n, gram.dtype), np.float64)
    trace = float(np.sum(gram.diagonal(), dtype=np.float64)) - float(sums.mean())

    def multiply(block: np.ndarray) -> np.ndarray:
        centred = (block - block.mean(axis=0)).astype(gram.dtype)
        image = np.asarray(gram @ centred, np.float64)
        return image - image.mean(axis=0)

    pairs = linalg.leading_eigenpairs(  # an eigenvalue is as good as the square of its residual
        multiply, n, min(n, TUNING.eigenvalues), tolerance=1e-4, random_state=0
    )
    values = np.maximum(pairs.values, 0.0)
    return np.append(values, max(trace - float(values.sum()), 0.0)) / n


def products(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The largest λ_i μ_j of two spectra, and the sum of the others as the last entry."""
    pairs = np.sort(np.outer(first[:-1], second[:-1]), axis=None)[::-1][: TUNING.products]
    rest = float(first.sum() * second.sum() - pairs.sum())
    return np.append(pairs, max(rest, 0.0))


def drawn_pvalue(
    statistic: float, spectrum: np.ndarray, draws: int, random: np.random.Generator
) -> tuple[float, np.ndarray]:
    """(1 + #)/(1 + B) for B draws of Σ λ_i z_i², and these; the last λ enters by its mean."""
    null = random.chisquare(1.0, (draws, len(spectrum) - 1)) @ spectrum[:-1] + spectrum[-1]
    return float((1 + np.count_nonzero(null >= statistic)) / (1 + draws)), null


def paired_values(kernel: Kernel, left: PointSet, right: PointSet) -> np.ndarray:
    """k(x_i, y_i) for all i."""
    parts = [
        np.diagonal(Gram(kernel, left.slice(a, b), right.slice(a, b)).dense()).astype(np.float64)
        for a, b in spans(len(left), PAIR_ROWS)
    ]
    return np.concatenate(parts)
