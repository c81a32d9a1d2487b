"""Kernels of the distance: k(x, y) = g(‖x − y‖²/ℓ²)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.evaluation.expression import Expression, decay, sqrt, squared_distance
from mercer.kernels.base import Kernel
from mercer.kernels.checks import check_lengthscale
from mercer.points import View

Lengthscale = float | Sequence[float] | np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Radial(Kernel):
    """A kernel g(s) of the scaled squared distance s = Σ_k (x_k − y_k)²/ℓ_k².

    A subclass owes `profile`, and has a field `lengthscale`: one ℓ for all columns, or one for
    each.
    """

    def profile(self, s: Expression) -> Expression:
        """g(s), s being the scaled squared distance."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        check_lengthscale(self, self._lengthscale)

    @property
    def _lengthscale(self) -> Any:
        return self.lengthscale  # type: ignore[attr-defined]

    def program(self) -> Expression:
        if np.ndim(self._lengthscale) == 0:
            return self.profile(float(self._lengthscale) ** -2 * squared_distance())
        scales = tuple(1.0 / float(scale) for scale in self._lengthscale)
        return self.profile(1.0 * squared_distance(View(scales=scales)))


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Radial):
    """The Gaussian kernel, exp(−‖x − y‖²/(2ℓ²)).

    scikit-learn's `gamma` is 1/(2ℓ²).

    Parameters
    ----------
    lengthscale : float or sequence of floats, default=1.0
        ℓ, or one ℓ for each column.

    Examples
    --------
    >>> import math
    >>> Gaussian(lengthscale=2.0)([0.0], [2.0]) == math.exp(-0.5)
    True
    """

    lengthscale: Lengthscale = 1.0

    def profile(self, s: Expression) -> Expression:
        return decay(0.5 * s)


@dataclass(frozen=True, eq=False, repr=False)
class Matern(Radial):
    """The Matérn kernel of smoothness ν, a polynomial in r = √(2ν)·‖x − y‖/ℓ times e^{−r}.

    ν = ½: e^{−r};  ν = 3/2: (1 + r) e^{−r};  ν = 5/2: (1 + r + r²/3) e^{−r}.

    Its functions have ν + d/2 square-integrable derivatives. The distance is always Euclidean: on
    the L1 distance the kernels with ν = 3/2 and 5/2 are not positive definite beyond one column.

    Parameters
    ----------
    smoothness : {0.5, 1.5, 2.5}, default=1.5
        ν.
    lengthscale : float or sequence of floats, default=1.0
        ℓ, or one ℓ for each column.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 4.2.

    Examples
    --------
    >>> import math
    >>> math.isclose(Matern(0.5, lengthscale=2.0)([0.0], [3.0]), math.exp(-1.5))
    True
    """

    smoothness: float = 1.5
    lengthscale: Lengthscale = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smoothness not in (0.5, 1.5, 2.5):
            raise ValueError(
                f"Matern has smoothness 0.5, 1.5 or 2.5; got {self.smoothness!r}. For a very "
                "smooth kernel write Gaussian()."
            )

    def profile(self, s: Expression) -> Expression:
        square = 2.0 * self.smoothness * s
        r = sqrt(square)
        polynomial = {0.5: None, 1.5: 1.0 + r, 2.5: 1.0 + r + (1.0 / 3.0) * square}
        factor = polynomial[self.smoothness]
        return decay(r) if factor is None else factor * decay(r)
