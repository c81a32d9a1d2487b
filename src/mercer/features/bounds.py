"""Errors that hold for all points of a ball at once, by a net of points and slopes between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar


@dataclass(frozen=True)
class Net:
    """A mean of independent functions of mean 0 on a ball, and what is known of it.

    Attributes
    ----------
    dimension, radius :
        Of the ball.
    slope : float
        A bound on E L², L being the largest slope of the mean.
    size : float
        Their values lie in an interval of length 2·size.
    count : float
        How many of them the mean is worth.
    """

    dimension: int
    radius: float
    slope: float
    size: float
    count: float

    def exceeds(self, error: float) -> float:
        """A bound on the probability that sup |f| ≥ error.

        (1 + 2R/r)^d balls of radius r cover the ball. At their centres |f| ≥ ε/2 has probability at
        most 2 exp(−count·ε²/(8 size²)) each (Hoeffding), and L ≥ ε/(2r) at most slope·(2r/ε)²
        (Markov).
        """
        tail = math.log(2.0) - self.count * error**2 / (8.0 * self.size**2)

        def chance(logarithm: float) -> float:
            r = math.exp(logarithm)
            points = self.dimension * math.log1p(2.0 * self.radius / r)
            return math.exp(min(points + tail, 700.0)) + self.slope * (2.0 * r / error) ** 2

        widest = math.log(error / (2.0 * math.sqrt(self.slope) + 1e-300) + 1e-300)
        found = minimize_scalar(chance, bounds=(widest - 40.0, widest + 1.0), method="bounded")
        return float(found.fun)


def least_error(net: Net, probability: float) -> float:
    """The smallest ε for which sup |f| < ε holds with the given probability, by bisection.

    >>> few, many = (least_error(Net(2, 1.0, 1.0, 1.0, count), 0.9) for count in (1e3, 1e5))
    >>> 0 < many < few
    True
    """
    check_probability(probability)
    if net.slope == 0:
        return 0.0
    low, high = 1e-12, 4.0 * net.size
    while net.exceeds(high) > 1.0 - probability:
        high *= 2.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        if net.exceeds(middle) > 1.0 - probability:
            low = middle
        else:
            high = middle
    return high


def check_probability(probability: float) -> None:
    """Refuse what is no probability below 1."""
    if not (np.isfinite(probability) and 0 < probability < 1):
        raise ValueError(f"probability must lie between 0 and 1; got {probability!r}.")
