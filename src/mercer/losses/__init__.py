"""Losses: how bad a prediction f is when the answer is y.

One convention for the whole library: mercer minimises

    (1/Σw) Σ_i w_i ℓ(y_i, f(x_i)) + (λ/2) ‖f‖²,

with ℓ = ½(y − f)² for the square loss, so that ridge regression is (K + nλI)α = y.

A loss is convex in f. It has a value, slope, curvature, Fenchel conjugate and proximal map, entry
by entry, for arrays of NumPy, torch and every array-API library, in the precision of f.
`mercer.testing.check_loss` tests these properties of any loss, also of your own.

>>> import numpy as np
>>> from mercer.losses import Hinge, Quantile
>>> Hinge().value(np.array([1.0, -1.0]), np.array([0.25, -3.0]))
array([0.75, 0.  ])
>>> Quantile(level=0.5).with_(level=0.9)
Quantile(level=0.9)
"""

from mercer.losses.base import Loss, MarginLoss, QuadraticConjugate, ResidualLoss
from mercer.losses.multinomial import Multinomial, one_hot
from mercer.losses.named import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Perceptron,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)

__all__ = [
    "Absolute",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "MarginLoss",
    "Multinomial",
    "Perceptron",
    "Poisson",
    "QuadraticConjugate",
    "Quantile",
    "ResidualLoss",
    "Squared",
    "SquaredHinge",
    "one_hot",
]
