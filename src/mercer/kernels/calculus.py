"""Calculus in the space of a kernel: functionals J(f) with their gradients, which are functions.

The (Fréchet) gradient of J at f is the function ∇J(f) of the space with

    J(f + th) = J(f) + t⟨∇J(f), h⟩ + o(t)   for every h.

Sums, multiples and smooth functions of functionals follow the rules of calculus.

>>> import numpy as np
>>> from mercer.kernels import Gaussian
>>> from mercer.losses import Squared
>>> X, y = np.array([[0.0], [1.0]]), np.array([1.0, -1.0])
>>> J = (
...     Risk(Squared(), X, y) + 0.05 * SquaredNorm()
... )  # (1/n) Σ ½(f(x_i) − y_i)² + (λ/2)‖f‖², λ = 0.1
>>> f = Gaussian().function(X, np.linalg.solve(Gaussian()(X) + 0.2 * np.eye(2), y))
>>> bool(J.gradient(f).norm() < 1e-12)  # ridge regression is where it vanishes
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import as_numpy
from mercer.checks import check_finite, check_object, check_weights
from mercer.functions import RKHSFunction
from mercer.losses import Loss, one_hot

__all__ = ["Differentiable", "InnerProduct", "Risk", "SquaredNorm"]


def on_functionals(f: RKHSFunction) -> RKHSFunction:
    """The same function, with its centres as evaluation functionals."""
    kernel: Any = f.kernel
    space = kernel.on_functionals()
    return RKHSFunction(space, space.points(f.points), f.coefficients)


class Differentiable:
    """A functional J of f, with J(f) and `gradient(f)`; functionals add up and take factors.

    >>> from mercer.kernels import Gaussian
    >>> f = Gaussian().function([[0.0]], [2.0])
    >>> J = 3.0 * SquaredNorm() - InnerProduct(f)
    >>> J(f), float(J.gradient(f).coefficients.sum())  # 3·4 − 4; 6f − f = 5f
    (8.0, 10.0)
    """

    def __call__(self, f: RKHSFunction) -> float:
        """J(f)."""
        raise NotImplementedError

    def gradient(self, f: RKHSFunction) -> RKHSFunction:
        """∇J(f), a function of the space of f."""
        raise NotImplementedError

    def then(self, outer: Callable[[float], float], slope: Callable[[float], float]) -> Chained:
        """φ(J(f)) for a function φ with the derivative φ′: its gradient is φ′(J(f)) ∇J(f).

        >>> from mercer.kernels import Gaussian
        >>> cubed = SquaredNorm().then(lambda q: q**3, lambda q: 3 * q**2)
        >>> f = Gaussian().function([[0.0]], [2.0])  # ‖f‖² = 4: ∇(‖f‖²)³ = 3(‖f‖²)²·2f
        >>> cubed(f), float(cubed.gradient(f).coefficients[0])
        (64.0, 192.0)
        """
        return Chained(self, outer, slope)

    def __add__(self, other: Differentiable) -> Differentiable:
        return Total((self, other)) if isinstance(other, Differentiable) else NotImplemented

    def __mul__(self, factor: float) -> Differentiable:
        check_finite("a functional", "factor", factor)
        return Multiple(float(factor), self)

    __rmul__ = __mul__

    def __neg__(self) -> Differentiable:
        return self * -1.0

    def __sub__(self, other: Differentiable) -> Differentiable:
        return self + (-other) if isinstance(other, Differentiable) else NotImplemented


@dataclass(frozen=True)
class Total(Differentiable):
    """A sum of functionals."""

    parts: tuple[Differentiable, ...]

    def __call__(self, f: RKHSFunction) -> float:
        return sum(part(f) for part in self.parts)

    def gradient(self, f: RKHSFunction) -> RKHSFunction:
        gradients = [part.gradient(f) for part in self.parts]
        if any(g.kernel != f.kernel for g in gradients):  # representers of derivatives or integrals
            gradients = [on_functionals(g) for g in gradients]
        return sum(gradients[1:], start=gradients[0])


@dataclass(frozen=True)
class Multiple(Differentiable):
    """c·J."""

    factor: float
    inner: Differentiable

    def __call__(self, f: RKHSFunction) -> float:
        return self.factor * self.inner(f)

    def gradient(self, f: RKHSFunction) -> RKHSFunction:
        return self.factor * self.inner.gradient(f)


@dataclass(frozen=True)
class Chained(Differentiable):
    """φ(J)."""

    inner: Differentiable
    outer: Callable[[float], float]
    slope: Callable[[float], float]

    def __call__(self, f: RKHSFunction) -> float:
        return float(self.outer(self.inner(f)))

    def gradient(self, f: RKHSFunction) -> RKHSFunction:
        return float(self.slope(self.inner(f))) * self.inner.gradient(f)


@dataclass(frozen=True)
class SquaredNorm(Differentiable):
    """‖f‖², with the gradient 2f.

    >>> from mercer.kernels import Gaussian
    >>> f = Gaussian().function([[0.0]], [3.0])
    >>> SquaredNorm()(f), SquaredNorm().gradient(f).coefficients.tolist()
    (9.0, [6.0])
    """

    def __call__(self, f: RKHSFunction) -> float:
        return f.inner(f)

    def gradient(self, f: RKHSFunction) -> RKHSFunction:
        return 2.0 * f


@dataclass(frozen=True)
class InnerProduct(Differentiable):
    """⟨f, g⟩, with the gradient g.

    >>> from mercer.kernels import Gaussian
    >>> g = Gaussian().function([[0.0]], [1.0])
    >>> InnerProduct(g)(2.0 * g), InnerProduct(g).gradient(2.0 * g) is g
    (2.0, True)
    """

    other: RKHSFunction

    def __call__(self, f: RKHSFunction) -> float:
        return f.inner(self.other)

    def gradient(self, f: RKHSFunction) -> RKHSFunction:
        return self.other


@dataclass(frozen=True)
class Risk(Differentiable):
    """(1/Σw) Σ_i w_i ℓ(y_i, f(x_i)), with the gradient (1/Σw) Σ_i w_i ℓ′(y_i, f(x_i)) k(x_i, ·).

    The derivative of a loss at a value, times the representer of evaluation: the chain rule. At a
    kink of the loss it is a subgradient.

    Parameters
    ----------
    loss : Loss
        ℓ, any loss of `mercer.losses`.
    points : points of the kernel of f
    targets : array of shape (n,) or (n, outputs)
        y; classes 0, 1, … for a loss of several classes.
    weights : array of shape (n,), optional
        w ≥ 0.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> f = Gaussian().function([[0.0]], [1.0])
    >>> J = Risk(Squared(), [[0.0]], [3.0])  # ½(f(0) − 3)²
    >>> J(f), J.gradient(f).coefficients.tolist()  # (f(0) − 3) k(0, ·)
    (2.0, [-2.0])
    """

    loss: Loss
    points: Any
    targets: Any
    weights: Any = None

    def __post_init__(self) -> None:
        check_object("Risk", "loss", self.loss)
        y = np.asarray(as_numpy(self.targets), np.float64)
        self.loss.check_targets(y)
        if self.loss.is_multiclass and y.ndim == 1:
            y = np.asarray(one_hot(y, int(y.max()) + 1), np.float64)
        w = np.ones(len(y)) if self.weights is None else np.asarray(self.weights, np.float64)
        check_weights(w, len(y))
        object.__setattr__(self, "targets", y)
        object.__setattr__(self, "weights", w)

    def __call__(self, f: RKHSFunction) -> float:
        return float(self.loss.risk(self.targets, self._values(f), self.weights))

    def gradient(self, f: RKHSFunction) -> RKHSFunction:
        slopes = np.asarray(self.loss.slope(self.targets, self._values(f)))
        shares = self.weights / self.weights.sum()
        slopes = slopes * (shares if slopes.ndim == 1 else shares[:, None])
        kernel: Any = f.kernel
        points = kernel.points(self.points)
        return RKHSFunction(kernel, points, slopes)

    def _values(self, f: RKHSFunction) -> np.ndarray:
        values = np.asarray(as_numpy(f(self.points)), np.float64)
        if values.shape != self.targets.shape:
            raise ValueError(
                f"the targets have the shape {self.targets.shape}, and f has values of the shape "
                f"{values.shape} at the points."
            )
        return values
