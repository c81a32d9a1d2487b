"""The distributions of both statistics for many points: weighted sums of squared normal variables.

n·HSIC tends to Σ_ij λ_i μ_j z_ij² where two variables are independent, with the eigenvalues of the
covariances of their features, and mn/(m + n)·MMD² to Σ_i λ_i z_i² where two samples have one
distribution. The eigenvalues are estimated by those of HKH/n, and the sums are drawn.
"""

from __future__ import annotations

import numpy as np

from mercer import linalg
from mercer.estimators.hypothesis_tests.permutations import PAIR_ROWS, TUNING
from mercer.kernels.base import Kernel
from mercer.operators import Gram
from mercer.points import PointSet
from mercer.runtime.threads import spans


def centred_spectrum(gram: Gram) -> np.ndarray:
    """The leading eigenvalues of HKH/n, and the sum of the others as the last entry."""
    n = gram.shape[0]
    sums = np.asarray(gram @ np.ones(n, gram.dtype), np.float64)
    trace = float(np.sum(gram.diagonal(), dtype=np.float64)) - float(sums.mean())

    def multiply(block: np.ndarray) -> np.ndarray:
        centred = (block - block.mean(axis=0)).astype(gram.dtype)
        image = np.asarray(gram @ centred, np.float64)
        return image - image.mean(axis=0)

    found = linalg.leading_eigenpairs(  # an eigenvalue is as good as the square of its residual
        multiply, n, min(n, TUNING.eigenvalues), tolerance=1e-4, random_state=0
    )
    values = np.maximum(found.values, 0.0)
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
