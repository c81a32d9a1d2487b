"""Criteria for a kernel's parameters: leave-one-out error and likelihood, with their gradients.

With A = SKS + ρI, S = diag(√w), G = A⁻¹ and c = G S y, both are functions of K and ρ, and
dJ = Σ_ij P_ij dK_ij + (tr P')dρ for a matrix of weights P = S P' S:

- leave-one-out misses e_i = c_i/G_ii, and J = Σ e_i²/Σw has
  P' = G diag(v) G − ½(c uᵀG + G u cᵀ), u = 2e/(Σw·G_ii), v = 2e²/(Σw·G_ii);
- minus the log marginal likelihood, J = ½cᵀSy + ½ log det A + ½n log 2π, has P' = ½(G − c cᵀ).

A point of weight w is one whose noise has variance ρ/w. Several outputs are added up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from mercer import linalg
from mercer.arrays import Array, namespace, to_precision
from mercer.kernels.base import Kernel
from mercer.learning.fits import Sample
from mercer.linalg.matrices import diagonal
from mercer.operators import Gram
from mercer.runtime.threads import single_threaded_blas, spans

STRIP = 64  # rows of a matrix that stay in a cache while they are changed

Criterion = Callable[[Array, Array, Array, float, float], tuple[float, Array]]


@dataclass(frozen=True, eq=False)
class Slopes:
    """The value of a criterion, and its derivatives in ρ and in every parameter of the kernel."""

    value: float
    ridge: float
    parameters: dict[str, Any]


def leave_one_out(G: Array, c: Array, y: Array, logdet: float, total: float) -> tuple[float, Array]:
    """The mean square of what is missed by the fit on all other points, and P'."""
    xp = namespace(G)
    own = diagonal(G)[:, None]
    missed = c / own
    u, v = 2.0 * missed / (total * own), 2.0 * xp.sum(missed**2, axis=1) / (total * own[:, 0])
    across = c @ (G @ u).T
    weights = (G * v) @ G - 0.5 * (across + across.T)
    return float(xp.sum(missed**2)) / total, weights


def negative_log_likelihood(
    G: Array, c: Array, y: Array, logdet: float, total: float
) -> tuple[float, Array]:
    """−log p(y) of a Gaussian process with noise of variance ρ, and P' in place of G."""
    outputs = y.shape[1]
    value = float(namespace(y).sum(c * y)) + outputs * (logdet + len(y) * math.log(2.0 * math.pi))
    for start, stop in spans(len(y), STRIP):  # without BLAS, whose threads would still wait
        part = G[start:stop, :]
        part *= 0.5 * outputs
        for k in range(outputs):
            part -= 0.5 * c[start:stop, k, None] * c[:, k]
    return 0.5 * value, G


def slopes(
    criterion: Criterion,
    kernel: Kernel,
    sample: Sample,
    ridge: float,
    names: Collection[str] | None = None,
) -> Slopes:
    """A criterion of a kernel and a ridge on a sample, with its derivatives.

    They are those in all real parameters of the kernel, or in those with some `names`.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> X = np.linspace(0.0, 1.0, 8)[:, None]
    >>> sample = Sample.of(Gaussian().points(X), np.sin(6 * X[:, 0]), None)
    >>> at = [slopes(leave_one_out, Gaussian(0.3 + h), sample, 0.1).value for h in (-1e-6, 1e-6)]
    >>> slope = slopes(leave_one_out, Gaussian(0.3), sample, 0.1).parameters["lengthscale"]
    >>> bool(np.isclose(slope, (at[1] - at[0]) / 2e-6, rtol=1e-6))
    True
    """
    found, gram = _computed(criterion, kernel, sample, ridge)
    value, weights = found
    trace = float(namespace(weights).sum(diagonal(weights)))
    if sample.weights is not None:
        roots = namespace(weights).sqrt(sample.weights)
        weights = roots[:, None] * weights * roots
    return Slopes(value, trace, gram.parameter_gradient(weights, names=names))


def value(criterion: Criterion, kernel: Kernel, sample: Sample, ridge: float) -> float:
    """The criterion alone."""
    return _computed(criterion, kernel, sample, ridge)[0][0]


def _computed(
    criterion: Criterion, kernel: Kernel, sample: Sample, ridge: float
) -> tuple[tuple[float, Array], Gram]:
    """The value with P', and the Gram matrix."""
    gram = Gram(kernel, sample.points).astype("float64")
    matrix, y = to_precision(gram.dense(), "float64"), sample.targets
    xp, total = namespace(matrix), float(len(sample))
    if sample.weights is not None:
        roots, total = xp.sqrt(sample.weights), float(xp.sum(sample.weights))
        matrix, y = roots[:, None] * matrix * roots, roots[:, None] * y
    factor = linalg.cholesky(linalg.shift_diagonal(matrix, ridge), overwrite=True)
    logdet = factor.log_determinant()
    inverse = factor.inverse(overwrite=True)
    with single_threaded_blas():  # that of NumPy, while SciPy's has just ended
        c = inverse @ y
    return criterion(inverse, c, y, logdet, total), gram
