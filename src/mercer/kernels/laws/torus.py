"""Kernels on the circle: their period and their Fourier weights."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

import numpy as np

from mercer.kernels.algebra import Columns, Normalised, Product, Scaled, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.inner_product import Constant
from mercer.kernels.laws.answer import Answer, no, nothing_known, unknown, yes
from mercer.kernels.laws.boundedness import bounded
from mercer.kernels.laws.invariance import stationary
from mercer.kernels.laws.positivity import fades
from mercer.kernels.periodic import (
    CosineSeries,
    FourierSeries,
    PeriodicBernoulli,
    PeriodicExponential,
)

TERMS = 1 << 16  # of a convolution: weights fall at least like m^{−2}, so what is left out like
# TERMS^{−3}, below the rounding of float64


@singledispatch
def fourier_weights(kernel: Any, count: int) -> Answer:
    """Whether k(x, y) = Σ_m e^{2iπm(x−y)/period}/c_m for points of one column.

    The payload is the array of 1/c_m for m = 0, …, count, and c_{−m} = c_m. The space has the norm
    ‖f‖² = Σ_m c_m |f̂_m|². Constants have every period; a sum or product needs one period.

    Examples
    --------
    >>> from mercer.kernels import PeriodicBernoulli, laws
    >>> laws.fourier_weights(3.0 * PeriodicBernoulli(order=1) + 1.0, count=2).payload.tolist()
    [4.0, 3.0, 0.75]
    """
    shifts = stationary(kernel, 1)
    if shifts.no:
        return no(f"it is not stationary: {shifts.because}")
    if isinstance(kernel, Kernel) and fades(kernel):
        return no("it tends to 0 far away, so it does not repeat")
    return nothing_known(kernel)


def period(kernel: Kernel) -> float | None:
    """The period of a kernel on the circle, 0 for constants (which have all), None if not known.

    >>> from mercer.kernels import PeriodicExponential
    >>> period(PeriodicExponential(period=2.0) * PeriodicExponential(period=2.0) + 1.0)
    2.0
    """
    match kernel:
        case PeriodicBernoulli() | PeriodicExponential() | FourierSeries():
            return float(kernel.period)
        case CosineSeries():
            return 2.0 * math.pi
        case Constant():
            return 0.0
        case Scaled() | Normalised() | Columns():
            return period(kernel.kernel)
        case Sum() | Product():
            return _common(period(kernel.left), period(kernel.right))
    return None


def _common(left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return None
    return max(left, right) if left == right or 0.0 in (left, right) else None


# ---- classes -------------------------------------------------------------------------------------


@fourier_weights.register(PeriodicBernoulli)
def _(kernel: PeriodicBernoulli, count: int) -> Answer:
    m = np.maximum(np.arange(count + 1.0), 1.0)
    return yes("1/c_m = |m|^{−2s}, and 1/c_0 = 1", m ** (-2 * int(kernel.order)))


@fourier_weights.register(PeriodicExponential)
def _(kernel: PeriodicExponential, count: int) -> Answer:
    m = np.arange(count + 1.0)
    return yes("1/c_m = 1/(1 + α²m²)", 1.0 / (1.0 + (kernel.alpha * m) ** 2))


@fourier_weights.register(CosineSeries)
def _(kernel: CosineSeries, count: int) -> Answer:
    halves = np.asarray(kernel.coefficients, np.float64) * 0.5
    halves[0] *= 2.0
    return yes("a_n cos(nt) is half of e^{int} and of e^{−int}", _padded(halves, count))


@fourier_weights.register(FourierSeries)
def _(kernel: FourierSeries, count: int) -> Answer:
    inverse = 1.0 / np.asarray(kernel.weights, np.float64)
    return yes("it is given by its weights", _padded(inverse, count))


@fourier_weights.register(Constant)
def _(kernel: Constant, count: int) -> Answer:
    return yes("it is constant", _padded(np.array([float(kernel.value)]), count))


def _padded(values: np.ndarray, count: int) -> np.ndarray:
    out = np.zeros(count + 1)
    out[: len(values)] = values[: count + 1]
    return out


# ---- operations ----------------------------------------------------------------------------------


@fourier_weights.register(Sum)
def _(kernel: Sum, count: int) -> Answer:
    return _combined(kernel, count, 0, "weights 1/c_m add up", lambda left, right: left + right)


@fourier_weights.register(Product)
def _(kernel: Product, count: int) -> Answer:
    return _combined(kernel, count, TERMS, "weights 1/c_m are convolved", _convolved)


def _combined(kernel: Any, count: int, more: int, reason: str, operation: Any) -> Answer:
    left = fourier_weights(kernel.left, count + more)
    right = fourier_weights(kernel.right, count + more)
    if not (left.yes and right.yes):
        return unknown("a part has no known Fourier weights")
    if period(kernel) is None:
        return unknown("its parts have different periods")
    return yes(reason, operation(left.payload, right.payload)[: count + 1])


def _convolved(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Σ_j a_j b_{m−j} over the whole numbers j, as far as TERMS, for m from 0 on."""
    short, long = sorted((left, right), key=lambda values: len(np.trim_zeros(values, "b")))
    short = np.trim_zeros(short, "b")[: TERMS + 1]
    if not len(short):
        return np.zeros(len(left))
    reach = len(short) - 1
    both_signs = np.concatenate([short[:0:-1], short])  # j = −reach, …, reach
    return np.convolve(np.concatenate([long[reach:0:-1], long]), both_signs, mode="valid")


@fourier_weights.register(Scaled)
def _(kernel: Scaled, count: int) -> Answer:
    if kernel.scale == 0:
        return yes("it is zero", np.zeros(count + 1))
    return _multiplied(fourier_weights(kernel.kernel, count), float(kernel.scale))


@fourier_weights.register(Normalised)
def _(kernel: Normalised, count: int) -> Answer:
    inner = fourier_weights(kernel.kernel, count)
    total = bounded(kernel.kernel, 1).payload if inner.yes else None
    return _multiplied(inner, 1.0 / total if total else 0.0)


def _multiplied(inner: Answer, factor: float) -> Answer:
    return yes(inner.because, factor * inner.payload) if inner.yes else inner


@fourier_weights.register(Columns)
def _(kernel: Columns, count: int) -> Answer:
    if len(kernel.columns) == 1:
        return fourier_weights(kernel.kernel, count)
    return unknown("Fourier weights are those of kernels on one column")
