"""Tensor sketch: features of polynomial kernels by fast Fourier transforms."""

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
from mercer.features.base import FeatureMap, Fill
from mercer.kernels.base import Kernel
from mercer.kernels.inner_product import Polynomial
from mercer.kernels.measures import Seed


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
                dense = counted.toarray() if scipy.sparse.issparse(counted) else counted
                transformed = scipy.fft.rfft(dense + constant, axis=1)
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
