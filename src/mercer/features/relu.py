"""Random ReLU features: the hidden layer of a random network."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_count, check_nonnegative
from mercer.features.base import FeatureMap, Fill, dense_pairs
from mercer.kernels.arc_cosine import ArcCosine
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed, generator


@dataclass(frozen=True)
class Appended:
    """x to (x, b)."""

    bias: float

    def __call__(self, X: Any) -> Any:
        rows = X.toarray() if scipy.sparse.issparse(X) else np.asarray(X)
        return np.column_stack([rows, np.full(len(rows), self.bias, rows.dtype)])


@dataclass(eq=False, repr=False)
class ReLUFeatures(FeatureMap):
    """φ_j(x) = √(2/S) Θ_n(w_j·x) with w_j ~ N(0, I): unbiased for the arc-cosine kernel.

    Θ_0 is a step, Θ_1 a ramp (ReLU), Θ_2 a squared ramp.

    Parameters
    ----------
    n_components : int, default=100
        S.
    order : {0, 1, 2}, default=1
        n.
    bias : float, default=0.0
        With b > 0 points are (x, b): neurons then have a threshold.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    weights_ : array of shape (n_components, columns)
    kernel_ : ArcCosine, after appending b where there is one

    References
    ----------
    Cho and Saul, Kernel methods for deep learning, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import ArcCosine
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> Z = ReLUFeatures(50_000, random_state=0).fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - ArcCosine(1)(X)).max() < 0.5)
    True
    """

    n_components: int = 100
    _: KW_ONLY
    order: int = 1
    bias: float = 0.0
    random_state: Seed = None

    def _draw(self, X: Any) -> None:
        check_count(self, "n_components", self.n_components)
        check_nonnegative(self, "bias", self.bias)
        kernel: Kernel = ArcCosine(self.order)
        width = X.shape[1] + bool(self.bias)
        random = generator(self.random_state)
        self.weights_ = random.standard_normal((self.n_components, width))
        self.kernel_ = kernel.after(Appended(float(self.bias))) if self.bias else kernel

    @property
    def feature_count(self) -> int:
        return len(self.weights_)

    def _filler(self, dtype: np.dtype) -> Fill:
        width = self.weights_.shape[1] - bool(self.bias)
        matrix = np.ascontiguousarray(self.weights_[:, :width].T, dtype)
        threshold = (self.bias * self.weights_[:, width]).astype(dtype) if self.bias else None
        scale = dtype.type(math.sqrt(2.0 / self.feature_count))

        def fill(rows: Any, out: np.ndarray) -> None:
            out[:] = rows @ matrix
            if threshold is not None:
                out += threshold
            if self.order == 0:
                np.heaviside(out, dtype.type(0.5), out=out)
            else:
                np.maximum(out, dtype.type(0.0), out=out)
            if self.order == 2:
                np.multiply(out, out, out=out)
            out *= scale

        return fill

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """The root mean square error for pairs of rows, exactly.

        With θ the angle between x and y, E Θ_n(w·x)² Θ_n(w·y)² is an integral over the plane of x
        and y: ‖x‖^{2n} ‖y‖^{2n} E r^{4n} (1/2π) ∫ cos^{2n}(a) cos^{2n}(a − θ) da, over the angles
        where both are positive.
        """
        check_is_fitted(self)
        x, y = dense_pairs(X, Y)
        if self.bias:
            x, y = (Appended(float(self.bias))(part) for part in (x, y))
        sizes = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
        cosine = np.einsum("ij,ij->i", x, y) / np.where(sizes > 0, sizes, 1.0)
        angle = np.where(sizes > 0, np.arccos(np.clip(cosine, -1.0, 1.0)), 0.5 * math.pi)
        second = self._second_moment(angle) * sizes ** (2 * self.order)
        pairs = [float(ArcCosine(self.order)(a, b)) for a, b in zip(x, y, strict=True)]
        variance = 4.0 * second - np.square(pairs)
        return np.sqrt(np.maximum(variance, 0.0) / self.feature_count)

    def _second_moment(self, angle: np.ndarray) -> np.ndarray:
        nodes, weights = np.polynomial.legendre.leggauss(64)  # exact to rounding: powers of cosines
        half = 0.5 * (math.pi - angle)[:, None]  # both are positive for a in (θ − π/2, π/2)
        middle = 0.5 * angle[:, None]
        a = middle + half * nodes
        values = (np.cos(a) * np.cos(a - angle[:, None])) ** (2 * self.order)
        integral = (half * values * weights).sum(axis=1)
        radial = 2.0 ** (2 * self.order) * math.factorial(2 * self.order)  # E r^{4n} in the plane
        return integral * radial / (2.0 * math.pi)

    def _uniform_error(self, radius: float, probability: float) -> float:
        """A bound on the mean of the largest error, then Markov's inequality.

        By symmetrisation, the contraction inequality for (s, t) ↦ Θ(s)Θ(t) and Markov's inequality
        for orders 1 and 2, and by counting the cells that S pairs of half-spaces cut for order 0.
        """
        count, width = self.weights_.shape
        reach = math.hypot(radius, self.bias)
        if self.order == 0:
            cells = 2.0 * width * math.log(math.e * max(count, width) / width) + math.log(2.0)
            expected = 4.0 * math.sqrt(2.0 * cells / count)
        elif self.order == 1:
            fourth = width * (width + 2)  # E‖w‖⁴
            expected = 16.0 * math.sqrt(2.0) * reach**2 * math.sqrt(fourth / count)
        else:
            eighth = width * (width + 2) * (width + 4) * (width + 6)  # E‖w‖⁸
            expected = 32.0 * math.sqrt(2.0) * reach**4 * math.sqrt(eighth / count)
        return expected / (1.0 - probability)
