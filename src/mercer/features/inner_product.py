"""Random features of functions of ⟨x, y⟩: a random layer of neurons, and tensor sketch."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_count, check_nonnegative, check_positive
from mercer.features.base import FeatureMap, Fill, dense_pairs
from mercer.features.inputs import dense
from mercer.kernels.base import Kernel
from mercer.kernels.inner_product import ArcCosine, Polynomial
from mercer.kernels.measures import Seed, generator


@dataclass(frozen=True)
class Appended:
    """x to (x, b)."""

    bias: float

    def __call__(self, X: Any) -> Any:
        rows = dense(X)
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


@dataclass(eq=False, repr=False)
class TensorSketch(FeatureMap):
    """A sketch of all monomials: unbiased for (γ⟨x, y⟩ + c)^r, in O(r(nnz + S log S)) for a point.

    It replaces scikit-learn's `PolynomialCountSketch`: the same arguments, and for an int
    `random_state` the same features, in the precision of X.

    Parameters
    ----------
    gamma : float, default=1.0
        γ.
    degree : int, default=2
        r.
    coef0 : float, default=0
        c ≥ 0.
    n_components : int, default=100
        S.
    random_state : int, RandomState instance or None

    Attributes
    ----------
    indexHash_, bitHash_ : arrays of shape (degree, columns)
        Where a column goes, and with which sign, in each of the r count sketches.

    References
    ----------
    Pham and Pagh, Fast and scalable polynomial kernels via explicit feature maps, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> Z = TensorSketch(degree=2, n_components=20_000, random_state=0).fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - (X @ X.T) ** 2).max() < 2.0)
    True
    """

    _: KW_ONLY
    gamma: float = 1.0
    degree: int = 2
    coef0: float = 0
    n_components: int = 100
    random_state: Seed = None

    def _draw(self, X: Any) -> None:
        check_count(self, "n_components", self.n_components)
        check_count(self, "degree", self.degree)
        check_positive(self, "gamma", self.gamma)
        check_nonnegative(self, "coef0", self.coef0)
        random = check_random_state(self.random_state)
        shape = self.degree, X.shape[1] + bool(self.coef0)
        self.indexHash_ = random.randint(0, high=self.n_components, size=shape)
        self.bitHash_ = random.choice(a=[-1, 1], size=shape)
        inner = Polynomial(self.degree, self.coef0 / self.gamma)
        self.kernel_: Kernel = self.gamma**self.degree * inner if self.gamma != 1.0 else inner

    @property
    def feature_count(self) -> int:
        return int(self.n_components)

    def _filler(self, dtype: np.dtype) -> Fill:
        width, count = self.indexHash_.shape[1] - bool(self.coef0), self.feature_count
        root = math.sqrt(self.gamma)
        sketches, constants = [], []
        for places, signs in zip(self.indexHash_, self.bitHash_, strict=True):
            cells = np.arange(width), places[:width]
            values = (root * signs[:width]).astype(dtype)
            sketches.append(scipy.sparse.csr_array((values, cells), shape=(width, count)))
            constant = np.zeros(count, dtype)
            if self.coef0:
                constant[places[width]] = math.sqrt(self.coef0) * signs[width]
            constants.append(constant)

        def fill(rows: Any, out: np.ndarray) -> None:
            spectrum: Any = None
            for sketch, constant in zip(sketches, constants, strict=True):
                counted = rows @ sketch
                transformed = scipy.fft.rfft(dense(counted) + constant, axis=1)
                spectrum = transformed if spectrum is None else spectrum * transformed
            out[:] = scipy.fft.irfft(spectrum, count, axis=1)

        return fill

    def expected_error(self, X: Any, Y: Any) -> np.ndarray:
        """√((2 + 3^r)/S) k(x, x)^½ k(y, y)^½: an upper bound of the root mean square error."""
        check_is_fitted(self)
        sizes = [self.kernel_.gram(part).diagonal().astype(np.float64) for part in (X, Y)]
        return np.sqrt((2.0 + 3.0**self.degree) / self.feature_count * sizes[0] * sizes[1])

    def _uniform_error(self, radius: float, probability: float) -> float:
        """By the norm of a bilinear form.

        k̂ − k is a bilinear form of the monomials, of which there are m = C(d + r − 1, r), so that
        its norm is at most √((2 + 3^r)/S)·m in the root mean square; then Markov's inequality.
        """
        columns = self.indexHash_.shape[1]
        monomials = math.comb(columns + self.degree - 1, self.degree)
        largest = (self.gamma * radius**2 + self.coef0) ** self.degree
        spread = math.sqrt((2.0 + 3.0**self.degree) / self.feature_count) * monomials
        return largest * spread / math.sqrt(1.0 - probability)


class PolynomialCountSketch(TensorSketch):
    """`TensorSketch` under the name it has in scikit-learn.

    >>> PolynomialCountSketch(degree=3).degree
    3
    """
