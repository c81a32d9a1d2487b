"""Functions in a space: Σ α_i k(x_i, ·), the same plus a polynomial, and ⟨φ(·), w⟩."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from numbers import Real
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from mercer import linalg
from mercer.arrays import Array, as_numpy, floating, namespace, to_precision
from mercer.evaluation.program import EvaluableKernel
from mercer.operators import Gram
from mercer.points import PointSet, VectorPoints, View


class Combination:
    """A linear combination of functions: its algebra, and how many outputs it has.

    A subclass has the numbers of the combination, with a column for each output where there are
    several, an inner product, and sums.
    """

    @property
    def _numbers(self) -> Array:
        raise NotImplementedError

    def _with(self, change: Callable[[Array], Array]) -> Self:
        """The same with other numbers."""
        raise NotImplementedError

    def inner(self, other: Any) -> float:
        """⟨f, g⟩, computed in float64."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        """The number of functions that are combined."""
        return len(self._numbers)

    @property
    def outputs(self) -> int:
        """The number of outputs: the length of a value f(x)."""
        return 1 if self._numbers.ndim == 1 else self._numbers.shape[1]

    def norm(self) -> float:
        """‖f‖ = √⟨f, f⟩."""
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def distance(self, other: Any) -> float:
        """‖f − g‖."""
        return (self - other).norm()

    def __radd__(self, other: Any) -> Any:
        """0 + f, so that sum([f, g]) works."""
        return self if isinstance(other, Real) and other == 0 else self + other

    def __mul__(self, factor: float) -> Self:
        if not isinstance(factor, (Real, np.number)):
            return NotImplemented
        return self._with(lambda numbers: float(factor) * numbers)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Self:
        return self * (1.0 / divisor)

    def __neg__(self) -> Self:
        return self * -1.0

    def __sub__(self, other: Any) -> Any:
        return self + -1.0 * other

    def output(self, index: int) -> Self:
        """One output of a function with several, as a function of its own."""
        if self._numbers.ndim == 1:
            raise ValueError("this function has one output, and is that output.")
        return self._with(lambda numbers: namespace(numbers).asarray(numbers[:, index], copy=True))

    def _check_outputs(self, other: Any) -> None:
        if self._numbers.shape[1:] != other._numbers.shape[1:]:
            raise ValueError(
                f"functions must have the same outputs; got {self.outputs} and {other.outputs}."
            )

    def _of_outputs(self) -> str:
        return "" if self._numbers.ndim == 1 else f" with {self.outputs} outputs"


@dataclass(frozen=True, eq=False)
class RKHSFunction(Combination):
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

    @property
    def _numbers(self) -> Array:
        return self.coefficients

    def _with(self, change: Callable[[Array], Array]) -> Self:
        return replace(self, coefficients=change(self.coefficients))

    def _double(self) -> Array:
        return to_precision(self.coefficients, "float64")

    @property
    def centres(self) -> Any:
        """The points x_i, as they were given."""
        return self.points.data

    def __repr__(self) -> str:
        return f"RKHSFunction({self.kernel!r}, {len(self)} centres{self._of_outputs()})"

    def __call__(self, x: Any) -> np.ndarray:
        """f(x) at every point, shape (n,) or (n, outputs)."""
        return Gram(self.kernel, self.kernel.points(x), self.points) @ self.coefficients

    # ---- the space --------------------------------------------------------------------------

    def inner(self, other: RKHSFunction) -> float:
        self._check_same_space(other)
        values = Gram(self.kernel, other.points, self.points) @ self._double()
        return float((values * other._double()).sum())

    def __add__(self, other: Any) -> RKHSFunction:
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
        self._check_outputs(other)


@dataclass(frozen=True)
class Polynomials:
    """All monomials up to a degree, in columns that are shifted and scaled to −1, …, 1.

    Parameters
    ----------
    degree : int
        The largest total degree.
    shift, scale : tuple of floats
        Column j enters as (x_j − shift_j)/scale_j.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> points = Linear().points([[0.0, 1.0], [2.0, 5.0], [4.0, 3.0]])
    >>> Polynomials.around(points, degree=1)(points)
    array([[ 1., -1., -1.],
           [ 1.,  0.,  1.],
           [ 1.,  1.,  0.]])
    """

    degree: int
    shift: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def around(cls, points: PointSet, degree: int) -> Polynomials:
        """The monomials, scaled to the range of some points."""
        rows = _rows(points)
        low, high = rows.min(axis=0), rows.max(axis=0)
        half = 0.5 * (high - low)
        half[half == 0] = 1.0
        return cls(int(degree), tuple((0.5 * (low + high)).tolist()), tuple(half.tolist()))

    @cached_property
    def factors(self) -> list[tuple[int, ...]]:
        """The columns that each monomial multiplies."""
        columns = range(len(self.shift))
        return [
            chosen
            for total in range(self.degree + 1)
            for chosen in combinations_with_replacement(columns, total)
        ]

    def __len__(self) -> int:
        return len(self.factors)

    def __call__(self, points: PointSet) -> np.ndarray:
        """Their values at points, one column for each."""
        unit = self._unit(points)
        return np.stack([unit[:, list(chosen)].prod(axis=1) for chosen in self.factors], axis=1)

    def gradients(self, points: PointSet) -> np.ndarray:
        """∂p_j/∂x as an array (points, monomials, columns)."""
        unit = self._unit(points)
        slopes = np.zeros((len(unit), len(self), unit.shape[1]))
        for j, chosen in enumerate(self.factors):
            for k, column in enumerate(chosen):
                others = list(chosen[:k] + chosen[k + 1 :])
                slopes[:, j, column] += unit[:, others].prod(axis=1) / self.scale[column]
        return slopes

    def _unit(self, points: PointSet) -> np.ndarray:
        return (_rows(points) - np.array(self.shift)) / np.array(self.scale)


def _rows(points: PointSet) -> np.ndarray:
    host: Any = points.host()
    if not isinstance(host, VectorPoints):
        raise ValueError(f"polynomials are functions of vectors; got {type(host).__name__}.")
    return host.seen(View(), np.float64)


@dataclass(frozen=True, eq=False)
class SplineFunction(RKHSFunction):
    """f = Σ_i α_i k(x_i, ·) + p, where Σ_i α_i q(x_i) = 0 for all polynomials q like p.

    `norm()` is the seminorm √(αᵀKα), by which the kernel measures roughness: that of a polynomial
    is 0. Made by `KernelRidge` and `interpolant` for kernels as `ThinPlate()`.

    Parameters
    ----------
    kernel, points, coefficients :
        As in `RKHSFunction`.
    polynomials : Polynomials
        The monomials of p.
    polynomial_coefficients : array of shape (monomials,) or (monomials, outputs)

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import ThinPlate
    >>> from mercer.solvers import interpolant
    >>> X = np.random.default_rng(0).uniform(size=(20, 2))
    >>> f = interpolant(ThinPlate(), X, 3.0 * X[:, 0] - X[:, 1])  # a plane: no roughness
    >>> bool(f.norm() < 1e-6), bool(np.isclose(f([[5.0, 5.0]])[0], 10.0))
    (True, True)
    """

    polynomials: Polynomials
    polynomial_coefficients: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = (len(self.polynomials), *self.coefficients.shape[1:])
        given = floating(as_numpy(self.polynomial_coefficients))
        if given.shape != wanted:
            raise ValueError(
                f"polynomial_coefficients must have the shape {wanted}; got {given.shape}."
            )
        object.__setattr__(self, "polynomial_coefficients", given)

    def __call__(self, x: Any) -> Any:
        values = super().__call__(x)
        trend = self.polynomials(self.kernel.points(x)) @ self.polynomial_coefficients
        return values + to_precision(self.points.vector(trend), values.dtype)

    def gradient(self, x: Any) -> Any:
        slopes = super().gradient(x)
        own = self.polynomials.gradients(self.kernel.points(x))
        trend = np.einsum("njc,j...->n...c", own, self.polynomial_coefficients)
        return slopes + to_precision(self.points.vector(trend), slopes.dtype)

    def project(self, centres: Any) -> RKHSFunction:
        """Refused: the kernel gives no inner product without the polynomials."""
        raise ValueError(
            f"{self.kernel!r} is positive definite off polynomials only, so there is no "
            "projection: fit to fewer points, or use kernel.anchored(points)."
        )

    def _with(self, change: Callable[[Array], Array]) -> Self:
        trend = change(self.polynomial_coefficients)
        return replace(self, coefficients=change(self.coefficients), polynomial_coefficients=trend)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, SplineFunction):
            return NotImplemented
        if self.polynomials != other.polynomials:
            raise ValueError("splines add up where their polynomials have the same shift and scale")
        plain, more = (RKHSFunction(f.kernel, f.points, f.coefficients) for f in (self, other))
        plain = plain + more
        trend = self.polynomial_coefficients + other.polynomial_coefficients
        return replace(
            self,
            points=plain.points,
            coefficients=plain.coefficients,
            polynomial_coefficients=trend,
        )


@runtime_checkable
class Features(Protocol):
    """The interface of a feature map: its values, and whether another map is the same.

    >>> import numpy as np
    >>> from mercer.features import RandomFourierFeatures
    >>> from mercer.kernels import Gaussian
    >>> phi = RandomFourierFeatures(Gaussian(), 10, random_state=0).fit(np.eye(2))
    >>> isinstance(phi, Features), phi.feature_count
    (True, 10)
    """

    def values(self, x: Any, weights: np.ndarray) -> np.ndarray:
        """⟨φ(x), w⟩ for every point and every column of weights."""

    def same_features(self, other: Any) -> bool:
        """Whether another map has the same features."""

    @property
    def feature_count(self) -> int:
        """The number of features."""


@dataclass(frozen=True, eq=False)
class FeatureFunction(Combination):
    """f = ⟨φ(·), w⟩, with a column of w for each output where there are several.

    Made by `map.function(weights)`. It is an element of the space of k̂(x, y) = ⟨φ(x), φ(y)⟩, with
    the norm ‖w‖ where the features are linearly independent (in general ‖f‖ ≤ ‖w‖). That space is
    not the one of the kernel which k̂ approximates: a sinusoid is not in the space of a Gaussian
    kernel. So functions of the two do not mix.

    Parameters
    ----------
    features : feature map
        φ, fitted.
    weights : array of shape (features,) or (features, outputs)
        w; f is the real part where features or weights are complex.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features import Nystroem
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> phi = Nystroem(n_components=3).fit(X)
    >>> f = phi.function(np.ones(3))
    >>> bool(np.allclose(f(X), phi.transform(X).sum(axis=1))), bool(np.isclose(f.norm() ** 2, 3))
    (True, True)
    """

    features: Features
    weights: np.ndarray

    def __post_init__(self) -> None:
        weights = as_numpy(self.weights)
        if weights.dtype.kind not in "fc":
            weights = weights.astype(np.float64)
        count = self.features.feature_count
        if weights.ndim not in (1, 2) or len(weights) != count:
            raise ValueError(
                f"weights must be one number (or one row) for each of the {count} features; got "
                f"shape {weights.shape}."
            )
        if not np.isfinite(weights).all():
            raise ValueError("weights must be finite; they contain NaN or infinity.")
        object.__setattr__(self, "weights", weights)

    @property
    def _numbers(self) -> Array:
        return self.weights

    def _with(self, change: Callable[[Array], Array]) -> Self:
        return replace(self, weights=change(self.weights))

    def __repr__(self) -> str:
        return f"FeatureFunction({self.features!r}, {len(self)} features{self._of_outputs()})"

    def __call__(self, x: Any) -> np.ndarray:
        """f(x) at every point, shape (n,) or (n, outputs); the features are not stored.

        At a tensor it is a tensor, computed on its device.
        """
        columns = self.weights.reshape(len(self), -1)
        values = self.features.values(x, columns)
        return values[:, 0] if self.weights.ndim == 1 else values

    # ---- the space --------------------------------------------------------------------------

    def inner(self, other: FeatureFunction) -> float:
        """⟨f, g⟩ = ⟨w, v⟩, in float64."""
        self._check_same_space(other)
        wide = np.result_type(self.weights, other.weights, np.float64)
        return float(np.vdot(self.weights.astype(wide), other.weights.astype(wide)).real)

    def __add__(self, other: Any) -> FeatureFunction:
        self._check_same_space(other)
        return replace(self, weights=self.weights + other.weights)

    def _check_same_space(self, other: Any) -> None:
        if not isinstance(other, FeatureFunction):
            raise ValueError(
                "a function of features lies in the space of ⟨φ(x), φ(y)⟩, not in that of the "
                f"kernel it approximates, and does not mix with {type(other).__name__}: write "
                "mercer.features.to_features(g, map) first."
            )
        if not self.features.same_features(other.features):
            raise ValueError(
                "functions of different features do not mix: they were drawn anew, or belong to "
                "another map. Write mercer.features.to_features(g, map) first."
            )
        self._check_outputs(other)
