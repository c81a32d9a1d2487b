"""f(x) = ⟨φ(x), w⟩: a function in the space of an approximate kernel, by its features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mercer.arrays import as_numpy


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
class FeatureFunction:
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
    def outputs(self) -> int:
        """The number of outputs: the length of a value f(x)."""
        return 1 if self.weights.ndim == 1 else self.weights.shape[1]

    def __len__(self) -> int:
        """The number of features."""
        return len(self.weights)

    def __repr__(self) -> str:
        outputs = "" if self.weights.ndim == 1 else f" with {self.outputs} outputs"
        return f"FeatureFunction({self.features!r}, {len(self)} features{outputs})"

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

    def norm(self) -> float:
        """‖w‖."""
        return float(np.sqrt(self.inner(self)))

    def distance(self, other: FeatureFunction) -> float:
        """‖f − g‖."""
        return (self - other).norm()

    def __add__(self, other: Any) -> FeatureFunction:
        self._check_same_space(other)
        return replace(self, weights=self.weights + other.weights)

    def __radd__(self, other: Any) -> FeatureFunction:
        """0 + f, so that sum([f, g]) works."""
        if isinstance(other, Real) and other == 0:
            return self
        return self + other

    def __mul__(self, factor: float) -> FeatureFunction:
        if not isinstance(factor, (Real, np.number)):
            return NotImplemented
        return replace(self, weights=self.weights.dtype.type(factor) * self.weights)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> FeatureFunction:
        return self * (1.0 / divisor)

    def __neg__(self) -> FeatureFunction:
        return self * -1.0

    def __sub__(self, other: Any) -> FeatureFunction:
        self._check_same_space(other)
        return self + (-other)

    def __rsub__(self, other: Any) -> FeatureFunction:
        return -self + other

    def output(self, index: int) -> FeatureFunction:
        """One output of a function with several, as a function of its own."""
        if self.weights.ndim == 1:
            raise ValueError("this function has one output, and is that output.")
        return replace(self, weights=np.ascontiguousarray(self.weights[:, index]))

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
        if self.weights.shape[1:] != other.weights.shape[1:]:
            raise ValueError(
                f"functions must have the same outputs; got {self.outputs} and {other.outputs}."
            )
