"""The Matérn profile for any smoothness: closed forms, and tables where there is none.

With g(r) = 2^{1−ν}/Γ(ν) · r^ν K_ν(r) the profile is g, and h(r) = e^r g(r) varies slowly enough for
a table. h is 1 + O(r^{min(1, 2ν)}) at 0, which decides how far down the table must reach.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer.evaluation.tables import Table

HIGHEST = 10  # e^{−1024} is below the smallest float64
CLOSED_FORMS = 4  # half-integers up to 9/2; beyond, a table is as fast


def half_integer_coefficients(smoothness: float) -> tuple[float, ...] | None:
    """The polynomial factor of the profile for ν = p + ½, lowest degree first; None otherwise.

    >>> half_integer_coefficients(2.5) == (1.0, 1.0, 1 / 3)
    True
    """
    p = smoothness - 0.5
    if p != int(p) or not 0 <= p <= CLOSED_FORMS:
        return None
    p = int(p)
    scale = math.factorial(p) / math.factorial(2 * p)
    return tuple(
        scale * math.factorial(2 * p - k) * 2**k / (math.factorial(p - k) * math.factorial(k))
        for k in range(p + 1)
    )


@lru_cache(maxsize=32)
def bessel_table(smoothness: float) -> Table:
    """h(r) = e^r g(r) as a table; its derivatives are tables too."""
    return _table(smoothness, 0)


def _table(smoothness: float, order: int) -> Table:
    """The derivative of h of the given order: Σ_j binomial(order, j) e^r g^{(j)}(r)."""
    lowest = -int(56 / min(1.0, 2.0 * smoothness)) - 1  # below, h = 1 to rounding
    return Table(
        function=_Derivative(smoothness, order),
        derivative=lambda: _table(smoothness, order + 1),
        lowest=max(lowest, -1022),
        highest=HIGHEST,
    )


class _Derivative:
    """e^r Σ_j binomial(order, j) g^{(j)}(r), with r^ν K_ν differentiated as −r^ν K_{ν−1}."""

    def __init__(self, smoothness: float, order: int) -> None:
        if order > 1:
            raise NotImplementedError("second derivatives of a general Matérn kernel in r.")
        self.smoothness, self.order = smoothness, order

    def __call__(self, r: Any) -> Any:
        r = np.atleast_1d(np.asarray(r, np.float64))
        value = _scaled(self.smoothness, self.smoothness, r)
        if self.order == 1:
            value = value - _scaled(self.smoothness, self.smoothness - 1.0, r)
        return value


def _scaled(smoothness: float, bessel_order: float, r: np.ndarray) -> np.ndarray:
    """2^{1−ν}/Γ(ν) · r^ν e^r K_μ(r), and its limit 1 (μ = ν) or 0 where r is tiny."""
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
    at_zero = 1.0 if bessel_order == smoothness else 0.0
    return np.where(r <= tiny, at_zero, values)


def _small(smoothness: float, bessel_order: float, r: np.ndarray) -> np.ndarray:
    """The first terms at small r, where K_μ itself overflows: r^μ > 1e-308, so r² is tiny."""
    ratio = math.exp(math.lgamma(bessel_order) - math.lgamma(smoothness)) * 2.0 ** (
        bessel_order - smoothness
    )
    leading = ratio * r ** (smoothness - bessel_order)
    square = 0.25 * r * r
    series = 1.0 - square / (bessel_order - 1.0)
    return leading * series * np.exp(r)
