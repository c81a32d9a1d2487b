"""Models that ship without their training rows: fewer centres, or random features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.features.base import FeatureMap
from mercer.features.centres import Centres, Choice, Given
from mercer.features.inputs import from_tensor
from mercer.functions import FeatureFunction, RKHSFunction


@dataclass(frozen=True)
class Compressed:
    """A smaller function, and how far it is from the original.

    Attributes
    ----------
    function : RKHSFunction or FeatureFunction
        What to ship: `function(X)` predicts.
    value_error : float
        The root mean square of f(x) − g(x) over the points it was measured on.
    relative_error : float
        The same over the root mean square of f(x).
    distance : float or None
        ‖f − g‖ in the space of the kernel, where g lies in it: |f(x) − g(x)| ≤ ‖f − g‖ √k(x, x).

    Examples
    --------
    >>> from mercer.features import compress
    >>> from mercer.features.centres import Uniform
    >>> from mercer.kernels import Gaussian
    >>> f = Gaussian().function(np.linspace(0, 1, 30)[:, None], np.ones(30))
    >>> small = compress(f, Uniform(10, 0))
    >>> len(small.function), small.relative_error < 1e-3
    (10, True)
    """

    function: RKHSFunction | FeatureFunction
    value_error: float
    relative_error: float
    distance: float | None = None

    def __call__(self, x: Any) -> np.ndarray:
        """g(x)."""
        return self.function(x)


def compress(f: RKHSFunction, centres: Any, at: Any = None) -> Compressed:
    """The nearest function with few centres: the orthogonal projection of f on their span.

    Parameters
    ----------
    f : RKHSFunction
    centres : choice of `mercer.features.centres`, `Centres`, or points
        Chosen among the centres of f; with points of your own no training row is in the result.
    at : points, optional
        Where values are compared; at the centres of f by default.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features import compress
    >>> from mercer.features.centres import Greedy
    >>> from mercer.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> f = Gaussian(2.0).function(X, np.ones(300))
    >>> small = compress(f, Greedy(40))
    >>> len(small.function), small.relative_error < 1e-3
    (40, True)
    """
    kernel: Any = f.kernel
    if isinstance(centres, (Choice, Given)):
        centres = centres.choose(kernel, f.points)
    points = centres.points if isinstance(centres, Centres) else centres
    g = f.project(points)
    return Compressed(g, *_value_errors(f, g, f.points if at is None else at), f.distance(g))


def to_features(f: RKHSFunction, features: FeatureMap, at: Any = None) -> Compressed:
    """f as a function of features: its weights hold no training row.

    With f = Σ α_i k(x_i, ·) the weights are Σ α_i φ(x_i), so that g(x) = Σ α_i k̂(x_i, x): unbiased
    where the features are. Where points `at` are given the weights are those of least squares on
    f's values there, which are nearer to f.

    Parameters
    ----------
    f : RKHSFunction
    features : FeatureMap
        Fitted; of the kernel of f, or there is no reason why g should be near f.
    at : points, optional
        Where values are fitted and compared; compared at the centres of f by default.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features import RandomFourierFeatures, to_features
    >>> from mercer.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> f = Gaussian(2.0).function(X, np.ones(300))
    >>> phi = RandomFourierFeatures(Gaussian(2.0), 2000, random_state=0).fit(X)
    >>> to_features(f, phi).relative_error < 0.05, to_features(f, phi, at=X).relative_error < 1e-5
    (True, True)
    """
    if features.kernel_ != f.kernel:
        raise ValueError(
            f"the features approximate {features.kernel_!r}, the function has the kernel "
            f"{f.kernel!r}: fit a map of that kernel."
        )
    if at is None:
        weights = from_tensor(features.weighted_sum(f.centres, f.coefficients))
        g = features.function(np.conj(weights))
        return Compressed(g, *_value_errors(f, g, f.centres))
    values = f(at)
    equations = features.normal_equations(at, values)
    scale = float(np.trace(equations.gram)) / (equations.total * len(equations.gram))
    g = equations.ridge(10.0 * len(equations.gram) * float(np.finfo(np.float64).eps) * scale)
    return Compressed(g, *_value_errors(f, g, at))


def _value_errors(f: Any, g: Any, at: Any) -> tuple[float, float]:
    values = np.asarray(f(at), np.float64)
    gap = np.asarray(g(at), np.float64) - values
    error = float(np.sqrt(np.mean(gap**2)))
    size = float(np.sqrt(np.mean(values**2)))
    return error, error / size if size else error
