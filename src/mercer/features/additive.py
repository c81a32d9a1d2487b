"""Explicit features of kernels on histograms: additive χ², intersection, and skewed χ²."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    check_non_negative,
)

from mercer.checks import check_count, check_positive
from mercer.features.base import FeatureMap, Fill, dense_pairs
from mercer.features.fourier import FourierFeatures
from mercer.features.frequencies import TURN
from mercer.features.inputs import dense
from mercer.kernels.base import Kernel
from mercer.kernels.coordinates import (
    AdditiveChiSquared,
    HistogramIntersection,
    SkewedChiSquared,
)
from mercer.kernels.measures import Seed

INTERVALS = {1: 0.8, 2: 0.5, 3: 0.4}  # L for each number of samples, as in the reference


class _SampledSpectrum(FeatureMap):
    """Maps of homogeneous kernels, whose density κ is sampled at 0, ±L, …, ±nL.

    Subclasses set `kernel_` and `interval_`, L, in `_draw`, and say n by `_count`.
    """

    unbiased = False
    interval_: float
    _count: int

    @property
    def feature_count(self) -> int:
        return self.n_features_in_ * (2 * self._count + 1)

    def _parts(self, values: np.ndarray) -> list[np.ndarray]:
        """The 2n + 1 features of nonnegative numbers, an array like them for each."""
        frequencies = self.interval_ * np.arange(self._count + 1)
        if isinstance(self.kernel_, AdditiveChiSquared):
            density = 1.0 / np.cosh(math.pi * frequencies)
        else:
            density = 2.0 / (math.pi * (1.0 + 4.0 * frequencies**2))
        weights = np.sqrt(self.interval_ * density)
        weights[1:] *= math.sqrt(2.0)
        logs, roots = np.log(np.where(values > 0, values, 1.0)), np.sqrt(values)
        parts = [weights[0] * roots]
        for frequency, weight in zip(frequencies[1:], weights[1:], strict=True):
            parts += [weight * roots * wave(frequency * logs) for wave in (np.cos, np.sin)]
        return parts

    def _filler(self, dtype: np.dtype) -> Fill:
        def fill(X: Any, out: np.ndarray) -> None:
            rows = dense(X)
            self.kernel_.points(rows)  # refuses what is negative
            out[:] = np.concatenate(self._parts(rows), axis=1)

        return fill

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """|⟨φ(x), φ(y)⟩ − k(x, y)| for pairs of rows, exactly: nothing here is random."""
        check_is_fitted(self)
        x, y = dense_pairs(X, Y)
        products = np.einsum("ij,ij->i", self.transform(x), self.transform(y))
        exact = [float(self.kernel_(a, b)) for a, b in zip(x, y, strict=True)]
        return np.abs(products - np.array(exact))

    def _uniform_error(self, radius: float, probability: float) -> float:
        return math.inf


@dataclass(eq=False, repr=False)
class AdditiveFeatures(_SampledSpectrum):
    """2n + 1 features for each column of a histogram, with ⟨φ(x), φ(y)⟩ ≈ Σ_k k(x_k, y_k).

    Both kernels are homogeneous, k(cx, cy) = c·k(x, y), so that
    k(x, y) = √(xy) ∫ κ(λ) cos(λ log(y/x)) dλ; the integral is sampled at 0, ±L, …, ±nL. It is not
    random and not unbiased: the error falls with n. A linear model on these features takes the
    place of a kernel machine on many images.

    Parameters
    ----------
    kernel : AdditiveChiSquared or HistogramIntersection
        k.
    steps : int, default=3
        n.

    Attributes
    ----------
    interval_ : float
        L, which grows with n as in the reference.
    kernel_ : Kernel

    References
    ----------
    Vedaldi, Zisserman, Efficient additive kernels via explicit feature maps, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import AdditiveChiSquared
    >>> X = np.random.default_rng(0).dirichlet(np.ones(20), 30)
    >>> Z = AdditiveFeatures(AdditiveChiSquared(), steps=3).fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - AdditiveChiSquared()(X)).max() < 0.01)
    True
    """

    kernel: Any = field(default_factory=AdditiveChiSquared)
    steps: int = 3

    @property
    def _count(self) -> int:  # type: ignore[override]
        return self.steps

    def _draw(self, X: Any) -> None:
        check_count(self, "steps", self.steps)
        if not isinstance(self.kernel, (AdditiveChiSquared, HistogramIntersection)):
            raise ValueError(
                "AdditiveFeatures are of AdditiveChiSquared() or HistogramIntersection(); got "
                f"{self.kernel!r}."
            )
        if isinstance(self.kernel, AdditiveChiSquared):
            period = 5.86 * math.sqrt(self.steps) + 3.65
        else:
            period = 8.80 * math.sqrt(self.steps + 4.44) - 12.6
        self.kernel.points(dense(X))  # refuses what is negative
        self.interval_ = 2.0 * math.pi / period
        self.kernel_: Kernel = self.kernel


@dataclass(eq=False, repr=False)
class AdditiveChi2Sampler(_SampledSpectrum):
    """`AdditiveFeatures` of the additive χ² kernel under scikit-learn's name, with its arguments.

    There are 2·sample_steps − 1 features for each column. Features of sparse rows are sparse. It
    needs no `fit`.

    Parameters
    ----------
    sample_steps : int, default=2
        n + 1 of `AdditiveFeatures`: how often the density is sampled on one side, 0 included.
    sample_interval : float, optional
        L; by default 0.8, 0.5 and 0.4 for one, two and three steps.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.kernel_approximation import AdditiveChi2Sampler as Theirs
    >>> X = np.array([[0.5, 0.0, 0.5], [0.2, 0.2, 0.6]])
    >>> bool(np.allclose(AdditiveChi2Sampler().fit_transform(X), Theirs().fit_transform(X)))
    True
    """

    _: KW_ONLY
    sample_steps: int = 2
    sample_interval: float | None = None

    @property
    def _count(self) -> int:  # type: ignore[override]
        return self.sample_steps - 1

    def _draw(self, X: Any) -> None:
        check_count(self, "sample_steps", self.sample_steps)
        check_non_negative(X, "X in AdditiveChi2Sampler.fit")
        if self.sample_interval is not None:
            check_positive(self, "sample_interval", self.sample_interval)
        elif self.sample_steps not in INTERVALS:
            raise ValueError(
                "If sample_steps is not in [1, 2, 3], you need to provide sample_interval"
            )
        self.interval_ = float(self.sample_interval or INTERVALS[self.sample_steps])
        self.kernel_: Kernel = AdditiveChiSquared()

    def transform(self, X: Any) -> Any:
        """φ(x) for every row of X; a sparse matrix where X is one."""
        if not self.__sklearn_is_fitted__():
            return clone(self).fit(X).transform(X)
        X = self._admitted(X)
        check_non_negative(X, "X in AdditiveChi2Sampler.transform")
        if not scipy.sparse.issparse(X):
            return super().transform(X)
        parts = [X._with_data(part) for part in self._parts(X.data)]
        return scipy.sparse.hstack(parts, format="csr")

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the features: what was sampled of which column."""
        check_is_fitted(self, "n_features_in_")
        names = _check_feature_names_in(self, input_features, generate_names=True)
        kinds = ["sqrt"] + [f"{wave}{j + 1}" for j in range(self._count) for wave in ("cos", "sin")]
        own = type(self).__name__.lower()
        return np.asarray([f"{own}_{name}_{kind}" for kind in kinds for name in names], object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.positive_only = True
        return tags


@dataclass(eq=False, repr=False)
class SkewedChi2Sampler(FourierFeatures):
    """√(2/S) cos(ω_j·log(x + c) + b_j): features of the skewed χ² kernel, as in scikit-learn.

    In logarithms the kernel is Π_k 1/cosh((t_k − s_k)/2), and its frequencies have the density
    Π_k 1/cosh(πω_k). For an int `random_state` the features are those of scikit-learn.

    Parameters
    ----------
    skewedness : float, default=1.0
        c > 0; entries must be larger than −c.
    n_components : int, default=100
        S.
    random_state : int, RandomState instance or None

    Attributes
    ----------
    random_weights_ : array of shape (columns, n_components)
    random_offset_ : array of shape (n_components,)
    kernel_ : SkewedChiSquared

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.kernel_approximation import SkewedChi2Sampler as Theirs
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> ours, theirs = (kind(random_state=0).fit(X) for kind in (SkewedChi2Sampler, Theirs))
    >>> bool(np.allclose(ours.transform(X), theirs.transform(X)))
    True
    """

    form = "phase"

    _: KW_ONLY
    skewedness: float = 1.0
    n_components: int = 100
    random_state: Seed = None

    def _draw(self, X: Any) -> None:
        kernel = SkewedChiSquared(self.skewedness)
        kernel.points(X)  # refuses what is too small
        count, random = self._frequency_count(), check_random_state(self.random_state)
        uniform = random.uniform(size=(X.shape[1], count))
        weights = np.log(np.tan(0.5 * math.pi * uniform)) / math.pi
        self._set_drawn(X, weights, random.uniform(0.0, TURN, size=count))
        self.kernel_: Kernel = kernel

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _logarithms(self, X: Any) -> np.ndarray:
        rows = dense(X)
        self.kernel_.points(rows)
        return np.log(rows + rows.dtype.type(self.skewedness))

    def _filler(self, dtype: np.dtype) -> Fill:
        write = super()._filler(dtype)
        return lambda rows, out: write(self._logarithms(rows), out)

    def _formula(self, X: Any) -> Any:
        return FeatureMap._formula(self, X)

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """The root mean square of ⟨φ(x_i), φ(y_i)⟩ − k(x_i, y_i) over draws, for pairs of rows."""
        check_is_fitted(self)
        return super().expected_error(*map(self._logarithms, dense_pairs(X, Y)))

    def _profile(self, h: np.ndarray) -> np.ndarray:
        return np.prod(1.0 / np.cosh(0.5 * h), axis=1)

    def _uniform_error(self, radius: float, probability: float) -> float:
        return math.inf  # the ball ‖x‖ ≤ radius holds points where there is no kernel
