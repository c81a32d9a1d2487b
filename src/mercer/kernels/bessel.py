"""The Matérn profile for any smoothness: closed forms, and tables where there is none.

With g(r) = 2^{1−ν}/Γ(ν) · r^ν K_ν(r) the profile is g, and h(r) = e^r g(r) varies slowly enough for
a table. h is 1 + O(r^{min(1, 2ν)}) at 0, which decides how far down the table must reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.evaluation.tables import Table


@dataclass(frozen=True)
class Tuning:
    """Where one way to compute the profile ends and another begins."""

    highest: int = 10  # octave of r where the table ends: e^{−1024} is below the least float64
    closed_forms: int = 4  # half-integers up to 9/2; beyond, a table is as fast
    steep: float = 8.0  # ν beyond which r^ν is too steep for the product r^ν K_ν
    series: float = 0.125  # r up to which five terms of the series are right to rounding, ν > 8


TUNING = Tuning()


def half_integer_coefficients(smoothness: float) -> tuple[float, ...] | None:
    """The polynomial factor of the profile for ν = p + ½, lowest degree first; None otherwise.

    >>> half_integer_coefficients(2.5) == (1.0, 1.0, 1 / 3)
    True
    """
    p = smoothness - 0.5
    if p != int(p) or not 0 <= p <= TUNING.closed_forms:
        return None
    p = int(p)
    scale = math.factorial(p) / math.factorial(2 * p)
    return tuple(
        scale * math.factorial(2 * p - k) * 2**k / (math.factorial(p - k) * math.factorial(k))
        for k in range(p + 1)
    )


@lru_cache(maxsize=32)
def bessel_table(smoothness: float, order: int = 0) -> Table:
    """h(r) = e^r g(r) as a table, or its derivative: Σ_j binomial(order, j) e^r g^{(j)}(r)."""
    if order > 1:
        raise NotImplementedError("second derivatives of a general Matérn kernel in r.")
    return Table(
        function=partial(_derivative, smoothness, order),
        derivative=lambda: bessel_table(smoothness, order + 1),
        lowest=_lowest(smoothness),
        highest=TUNING.highest,
    )


def _lowest(smoothness: float) -> int:
    """The octave in which h = 1 to rounding."""
    return max(-int(56 / min(1.0, 2.0 * smoothness)) - 1, -1022)


def _derivative(smoothness: float, order: int, r: Any) -> np.ndarray:
    """h, or its derivative, in which r^ν K_ν becomes −r^ν K_{ν−1}."""
    r = np.atleast_1d(np.asarray(r, np.float64))
    value = _scaled(smoothness, smoothness, r)
    return value - _scaled(smoothness, smoothness - 1.0, r) if order else value


def _scaled(smoothness: float, bessel_order: float, r: np.ndarray) -> np.ndarray:
    """2^{1−ν}/Γ(ν) · r^ν e^r K_μ(r) for μ = ν or ν − 1."""
    if smoothness <= TUNING.steep:
        return _by_bessel(smoothness, bessel_order, r)
    if bessel_order == smoothness:
        return _by_integral(smoothness, r)
    return r / (2.0 * bessel_order) * _by_integral(bessel_order, r)


def _by_integral(smoothness: float, r: np.ndarray) -> np.ndarray:
    """h(r) = ∫ exp(νu − (e^{u/2} − ½r e^{−u/2})²) du / ∫ exp(νu − e^u) du, or its series.

    The trapezoidal rule is right to the last digit, and powers as steep as r^ν, which would lose
    some, do not occur.
    """
    near = r < TUNING.series
    values = np.empty_like(r)
    values[near] = np.exp(r[near]) * _series(smoothness, r[near])
    values[~near] = _integral(smoothness, r[~near]) / _integral(smoothness, np.zeros(1))
    return values


def _integral(smoothness: float, r: np.ndarray) -> np.ndarray:
    """∫ exp(νu − (e^{u/2} − ½r e^{−u/2})²) du around its peak, whose width is (ν² + r²)^{−1/4}."""
    r = r.astype(np.longdouble)[:, None]
    size = np.sqrt(smoothness**2 + r * r)
    width = size**-0.5
    u = np.log(0.5 * (smoothness + size)) + width * np.arange(-18.0, 18.4, 0.4)
    rest = np.exp(0.5 * u) - 0.5 * r * np.exp(-0.5 * u)
    return (width * np.exp(smoothness * u - rest * rest)).sum(axis=1)


def _series(smoothness: float, r: np.ndarray) -> np.ndarray:
    """g(r) = Σ_k (−r²/4)^k / (k! (ν−1)⋯(ν−k)) for small r, up to a power of r that is far below."""
    total = term = np.ones_like(r)
    for k in range(1, 6):
        term = term * (-0.25 * r * r) / (k * (smoothness - k))
        total = total + term
    return total


def _by_bessel(smoothness: float, bessel_order: float, r: np.ndarray) -> np.ndarray:
    """The same from scipy's K_μ, and its limit 1 (μ = ν) or 0 where r is tiny."""
    tiny = np.finfo(np.float64).tiny
    safe = np.maximum(r, tiny)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        powers = np.power(0.5 * safe.astype(np.longdouble), smoothness)
        values = (
            2.0 / scipy.special.gamma(smoothness) * powers * scipy.special.kve(bessel_order, safe)
        ).astype(np.float64)
    overflown = ~np.isfinite(values) & (r > tiny)
    if overflown.any():
        values[overflown] = _small(smoothness, bessel_order, safe[overflown])
    if bessel_order != smoothness:
        return np.where(r <= tiny, 0.0, values)
    return np.where(r < 2.0 ** (_lowest(smoothness) + 1), 1.0, values)


def _small(smoothness: float, bessel_order: float, r: np.ndarray) -> np.ndarray:
    """The first terms at small r, where K_μ itself overflows: r^μ > 1e-308, so r² is tiny."""
    ratio = math.exp(math.lgamma(bessel_order) - math.lgamma(smoothness))
    leading = ratio * (0.5 * r) ** (smoothness - bessel_order)
    return leading * (1.0 - 0.25 * r * r / (bessel_order - 1.0)) * np.exp(r)
