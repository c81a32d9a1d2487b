"""f = Σ α_i k(x_i, ·): a function in the space of k, by its centres and coefficients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, floating, namespace, to_precision
from mercer.evaluation.program import EvaluableKernel
from mercer.operators import Gram
from mercer.points import PointSet


@dataclass(frozen=True, eq=False)
class RKHSFunction:
    """f = Σ_i α_i k(x_i, ·), with values in R or, with a column of α for each output, in R^t.

    Made by `kernel.function(centres, coefficients)`. The space has the inner product
    ⟨f, g⟩ = Σ_ij α_i β_j k(x_i, y_j), summed over outputs, in which evaluation is an inner product
    too: f(x) = ⟨f, k(x, ·)⟩.

    Parameters
    ----------
    kernel : Kernel
        k.
    points : PointSet
        The centres x_i as the kernel's points.
    coefficients : array of shape (n,) or (n, outputs)
        α.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> k = Gaussian()
    >>> f = k.function([[0.0], [1.0]], [1.0, -1.0])
    >>> f([[0.5]])  # a value
    array([0.])
    >>> bool(np.isclose(f.norm() ** 2, 2 - 2 * k([0.0], [1.0])))
    True
    >>> bool(np.isclose(f.inner(k.function([[0.3]], [1.0])), f([[0.3]])[0]))  # ⟨f, k(x, ·)⟩ = f(x)
    True
    """

    kernel: EvaluableKernel
    points: PointSet
    coefficients: Array

    def __post_init__(self) -> None:
        coefficients = floating(self.points.vector(self.coefficients))
        if coefficients.ndim not in (1, 2) or len(coefficients) != len(self.points):
            raise ValueError(
                f"coefficients must be one number (or one row) for each of the "
                f"{len(self.points)} centres; got shape {tuple(coefficients.shape)}."
            )
        if not bool(namespace(coefficients).isfinite(coefficients).all()):
            raise ValueError(
                "coefficients must be finite; they contain NaN or infinity. Where they were fitted "
                "to finite data, numbers overflowed: scale X or y."
            )
        object.__setattr__(self, "coefficients", coefficients)

    def _double(self) -> Array:
        return to_precision(self.coefficients, "float64")

    @property
    def centres(self) -> Any:
        """The points x_i, as they were given."""
        return self.points.data

    @property
    def outputs(self) -> int:
        """The number of outputs: the length of a value f(x)."""
        return 1 if self.coefficients.ndim == 1 else self.coefficients.shape[1]

    def __len__(self) -> int:
        """The number of centres."""
        return len(self.points)

    def __repr__(self) -> str:
        outputs = "" if self.coefficients.ndim == 1 else f" with {self.outputs} outputs"
        return f"RKHSFunction({self.kernel!r}, {len(self)} centres{outputs})"

    def __call__(self, x: Any) -> np.ndarray:
        """f(x) at every point, shape (n,) or (n, outputs)."""
        return Gram(self.kernel, self.kernel.points(x), self.points) @ self.coefficients

    # ---- the space --------------------------------------------------------------------------

    def inner(self, other: RKHSFunction) -> float:
        """⟨f, g⟩, computed in float64."""
        self._check_same_space(other)
        values = Gram(self.kernel, other.points, self.points) @ self._double()
        return float((values * other._double()).sum())

    def norm(self) -> float:
        """‖f‖ = √⟨f, f⟩."""
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def distance(self, other: RKHSFunction) -> float:
        """‖f − g‖."""
        return (self - other).norm()

    def __add__(self, other: RKHSFunction) -> RKHSFunction:
        if not isinstance(other, RKHSFunction):
            return NotImplemented
        self._check_same_space(other)
        if self.points is other.points:
            return replace(self, coefficients=self.coefficients + other.coefficients)
        return RKHSFunction(
            self.kernel,
            self.points.concatenated(other.points),
            namespace(self.coefficients).concat([self.coefficients, other.coefficients]),
        )

    def __radd__(self, other: Any) -> RKHSFunction:
        """0 + f, so that sum([f, g]) works."""
        return self if isinstance(other, Real) and other == 0 else NotImplemented

    def __mul__(self, factor: float) -> RKHSFunction:
        if not isinstance(factor, (Real, np.number)):
            return NotImplemented
        return replace(self, coefficients=float(factor) * self.coefficients)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> RKHSFunction:
        return self * (1.0 / divisor)

    def __neg__(self) -> RKHSFunction:
        return self * -1.0

    def __sub__(self, other: RKHSFunction) -> RKHSFunction:
        return self + (-other) if isinstance(other, RKHSFunction) else NotImplemented

    def output(self, index: int) -> RKHSFunction:
        """One output of a function with several, as a function of its own."""
        if self.coefficients.ndim == 1:
            raise ValueError("this function has one output, and is that output.")
        chosen = self.coefficients[:, index]
        return replace(self, coefficients=namespace(chosen).asarray(chosen, copy=True))

    # ---- calculus and projection --------------------------------------------------------------

    def gradient(self, x: Any) -> np.ndarray:
        """∇f at every point, shape (n, columns) or (n, outputs, columns).

        At a kink of the kernel (a centre of a Matérn kernel with smoothness ½) the term of that
        centre counts as 0, the mean of the slopes around it.

        >>> import numpy as np
        >>> from mercer.kernels import Polynomial
        >>> f = Polynomial(degree=2, bias=0.0).function([[1.0]], [1.0])  # f(x) = x²
        >>> f.gradient([[3.0]])
        array([[6.]])
        """
        return Gram(self.kernel, self.kernel.points(x), self.points).gradient(self.coefficients)

    def project(self, centres: Any) -> RKHSFunction:
        """The nearest function with the given centres: the orthogonal projection on their span.

        Solves K_YY β = K_YX α, by eigendecomposition, so that repeated centres do no harm; takes
        memory for the square of the number of new centres.

        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> f = Gaussian().function([[0.0], [0.1], [2.0]], [1.0, 1.0, -1.0])
        >>> g = f.project([[0.0], [2.0]])
        >>> bool(np.isclose((f - g).inner(g), 0.0))  # what is left is orthogonal
        True
        """
        points = self.kernel.points(centres)
        values = Gram(self.kernel, points, self.points) @ self._double()
        matrix = to_precision(Gram(self.kernel, points).dense(), "float64")
        coefficients, _ = linalg.symmetric_solve(matrix, values)
        xp = namespace(coefficients)
        return RKHSFunction(self.kernel, points, xp.astype(coefficients, self.coefficients.dtype))

    def _check_same_space(self, other: Any) -> None:
        if not isinstance(other, RKHSFunction):
            raise ValueError(
                f"a function of the kernel {self.kernel!r} does not mix with "
                f"{type(other).__name__}, which lies in another space."
            )
        if self.kernel != other.kernel:
            raise ValueError(
                f"functions of different spaces do not mix: one has the kernel {self.kernel!r}, "
                f"the other {other.kernel!r}. Project one onto centres of the other's space first."
            )
        if self.coefficients.shape[1:] != other.coefficients.shape[1:]:
            raise ValueError(
                f"functions must have the same outputs; got {self.outputs} and {other.outputs}."
            )
