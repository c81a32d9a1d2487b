"""Spectral filters: ways to invert the eigenvalues of K/n without blowing up the small ones.

A filter g replaces 1/σ; the fit is f = Σ_i g(σ_i) ⟨v_i, y⟩ … in the eigenvectors v_i of K/n. Ridge
regression is one of them, gradient descent with early stopping another.

References
----------
Engl, Hanke and Neubauer, Regularization of Inverse Problems, 1996, chapters 4 to 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mercer.arrays import Array, namespace
from mercer.checks import check_count, check_positive


class Filter(Protocol):
    """g(σ) for eigenvalues σ ≥ 0 of K/n: near 1/σ where σ is large, bounded where it is small."""

    def values(self, eigenvalues: Array) -> Array:
        """g at each eigenvalue."""


@dataclass(frozen=True)
class Tikhonov:
    """Ridge regression, g(σ) = 1/(σ + λ).

    >>> import numpy as np
    >>> float(Tikhonov(0.5).values(np.array([0.5]))[0])
    1.0
    """

    regularization: float

    def __post_init__(self) -> None:
        check_positive(self, "regularization", self.regularization)

    def values(self, eigenvalues: Array) -> Array:
        return 1.0 / (eigenvalues + self.regularization)


@dataclass(frozen=True)
class CutOff:
    """Principal components, g(σ) = 1/σ for σ ≥ λ and 0 below.

    >>> import numpy as np
    >>> CutOff(0.5).values(np.array([0.25, 2.0])).tolist()
    [0.0, 0.5]
    """

    regularization: float

    def __post_init__(self) -> None:
        check_positive(self, "regularization", self.regularization)

    def values(self, eigenvalues: Array) -> Array:
        xp, large = namespace(eigenvalues), eigenvalues >= self.regularization
        return xp.where(large, 1.0 / xp.where(large, eigenvalues, 1.0), 0.0)


@dataclass(frozen=True)
class IteratedTikhonov:
    """Ridge regression of the residual, again and again: g(σ) = (1 − (λ/(σ + λ))^m)/σ.

    >>> import numpy as np
    >>> bool(np.isclose(IteratedTikhonov(0.5, 1).values(np.array([0.5]))[0], 1.0))
    True
    """

    regularization: float
    times: int = 2

    def __post_init__(self) -> None:
        check_positive(self, "regularization", self.regularization)
        check_count(self, "times", self.times)

    def values(self, eigenvalues: Array) -> Array:
        share = self.regularization / (eigenvalues + self.regularization)
        total = power = namespace(share).ones_like(share)
        for _ in range(1, self.times):
            power = power * share
            total = total + power
        return total / (eigenvalues + self.regularization)


@dataclass(frozen=True)
class Landweber:
    """t steps of gradient descent from 0, g(σ) = η Σ_{j<t} (1 − ησ)^j; stable for η < 2/σ_max.

    >>> import numpy as np
    >>> bool(np.isclose(Landweber(200, 1.0).values(np.array([0.5]))[0], 2.0))
    True
    """

    steps: int
    step: float

    def __post_init__(self) -> None:
        check_count(self, "steps", self.steps)
        check_positive(self, "step", self.step)

    def values(self, eigenvalues: Array) -> Array:
        xp, largest = namespace(eigenvalues), _largest(eigenvalues)
        if self.step * largest >= 2.0:
            raise ValueError(
                f"a step of {self.step:g} is too long: gradient descent is stable below "
                f"2/σ_max = {2.0 / largest:.3g}."
            )
        scaled = self.step * eigenvalues
        small = scaled < 1.0
        decayed = -xp.expm1(self.steps * xp.log1p(-xp.where(small, scaled, 0.0)))
        alternating = 1.0 - (1.0 - scaled) ** self.steps
        positive = eigenvalues > 0
        values = xp.where(small, decayed, alternating) / xp.where(positive, eigenvalues, 1.0)
        return xp.where(positive, values, self.steps * self.step)


@dataclass(frozen=True)
class NuMethod:
    """t steps of the ν-method: gradient descent with momentum, as good after √t as plain after t.

    Its residual polynomials are Jacobi polynomials on [0, σ_max].

    >>> import numpy as np
    >>> bool(np.isclose(NuMethod(400).values(np.array([0.5, 1.0]))[0], 2.0))
    True
    """

    steps: int
    nu: float = 1.0

    def __post_init__(self) -> None:
        check_count(self, "steps", self.steps)
        check_positive(self, "nu", self.nu)

    def values(self, eigenvalues: Array) -> Array:
        largest = _largest(eigenvalues) or 1.0
        scaled, nu = eigenvalues / largest, self.nu
        before = now = namespace(scaled).zeros_like(scaled)
        for k in range(1, self.steps + 1):
            momentum, pull = _nu_weights(k, nu)
            before, now = now, now + momentum * (now - before) + pull * (1.0 - scaled * now)
        return now / largest


def _largest(eigenvalues: Array) -> float:
    return float(namespace(eigenvalues).max(eigenvalues)) if eigenvalues.shape[0] else 0.0


def _nu_weights(k: int, nu: float) -> tuple[float, float]:
    """The momentum and the step of the ν-method in its k-th step."""
    if k == 1:
        return 0.0, (4 * nu + 2) / (4 * nu + 1)
    momentum = (k - 1) * (2 * k - 3) * (2 * k + 2 * nu - 1)
    momentum /= (k + 2 * nu - 1) * (2 * k + 4 * nu - 1) * (2 * k + 2 * nu - 3)
    pull = 4 * (2 * k + 2 * nu - 1) * (k + nu - 1) / ((k + 2 * nu - 1) * (2 * k + 4 * nu - 1))
    return momentum, pull
