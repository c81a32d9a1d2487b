"""Distributions as functions: kernel density estimation, and the conditional mean embedding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_count, check_positive
from mercer.estimators.inputs import KernelParameters, admit_points, as_column
from mercer.estimators.ridge import KernelRidge
from mercer.features.centres import AnyChoice
from mercer.features.inputs import KernelInput, dense, length
from mercer.functions import RKHSFunction
from mercer.kernels import laws
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed, generator
from mercer.kernels.radial import Exponential, Gaussian
from mercer.operators import Gram
from mercer.runtime.threads import spans

NAMED = {"gaussian": Gaussian, "exponential": Exponential}
RULES: dict[str, Callable[[int, int], float]] = {
    "scott": lambda n, d: n ** (-1.0 / (d + 4)),
    "silverman": lambda n, d: (n * (d + 2) / 4.0) ** (-1.0 / (d + 4)),
}
FAR_ROWS = 256  # points far from all others, whose logarithms are computed together


@dataclass(eq=False, repr=False)
class KernelDensity(KernelInput, BaseEstimator):
    """The density Σ_i w_i k((x − x_i)/h)/(Σw · hᵈ ∫k), computed with the Gram matrix's products.

    `bandwidth`, `kernel` and the methods are those of scikit-learn's estimator of that name. The
    sum is exact up to rounding, in all dimensions: nothing is pruned, so that there is no tree and
    no tolerance to choose. Where it underflows, the logarithm is computed from distances.

    Parameters
    ----------
    bandwidth : float, "scott" or "silverman", default=1.0
        h. The rules are those of scikit-learn: n^(−1/(d + 4)), and (n(d + 2)/4)^(−1/(d + 4)).
    kernel : "gaussian", "exponential" or Kernel, default="gaussian"
        A kernel of mercer whose spectral density is known is normalised by it: ∫k = (2π)ᵈp(0). It
        has its own lengthscale, and `bandwidth` is not used.

    Attributes
    ----------
    kernel_ : Kernel
        With its lengthscale.
    bandwidth_ : float or None
    log_normalizer_ : float
        log ∫k.
    X_fit_ : the points.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> model = KernelDensity(bandwidth=0.5).fit([[0.0], [2.0]])
    >>> expected = 0.5 * norm(0, 0.5).pdf(1.0) + 0.5 * norm(2, 0.5).pdf(1.0)
    >>> bool(np.isclose(np.exp(model.score_samples([[1.0]])[0]), expected))
    True
    """

    _: KW_ONLY
    bandwidth: float | str = 1.0
    kernel: Any = "gaussian"

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Keep the points, and their weights. y is not used."""
        X, weights = admit_points(self, X, sample_weight)
        n, width = X.shape
        if isinstance(self.kernel, Kernel):
            kernel, bandwidth = self.kernel.fitted(X), None
        elif self.kernel in NAMED:
            bandwidth = self._bandwidth(n, width)
            kernel = NAMED[self.kernel](bandwidth)
        else:
            raise ValueError(
                f"kernel must be one of {list(NAMED)} or a Kernel of mercer; got {self.kernel!r}: "
                "kernels that vanish beyond a distance are in scikit-learn's KernelDensity."
            )
        self.__dict__.update(
            kernel_=kernel,
            bandwidth_=bandwidth,
            log_normalizer_=_log_integral(kernel, width),
            X_fit_=X,
            _shares=np.full(n, 1.0 / n) if weights is None else weights / weights.sum(),
            _points=kernel.points(X),
        )
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "kernel_")

    def score_samples(self, X: Any) -> np.ndarray:
        """The logarithm of the density at every row of X."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        gram = Gram(self.kernel_, self.kernel_.points(X), self._points)
        sums = np.asarray(gram @ self._shares.astype(gram.dtype), np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms = np.log(sums)
        least = float(np.finfo(gram.dtype).tiny) / float(np.finfo(gram.dtype).eps)
        far = np.flatnonzero(~(sums > least))
        if len(far) and self.bandwidth_ is not None:
            # From distances, where the sum itself underflows; points without weight have none.
            weighted = np.flatnonzero(self._shares)
            points, shares = dense(self.X_fit_[weighted]), self._shares[weighted]
            for start, stop in spans(len(far), FAR_ROWS):
                rows = far[start:stop]
                ratios = cdist(dense(X[rows]), points) / self.bandwidth_
                exponents = -0.5 * ratios**2 if self.kernel == "gaussian" else -ratios
                logarithms[rows] = logsumexp(exponents, axis=1, b=shares)
        return logarithms - self.log_normalizer_

    def score(self, X: Any, y: Any = None) -> float:
        """The log-likelihood of X, a sum over rows."""
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Points drawn from the density; for the Gaussian kernel."""
        check_is_fitted(self)
        check_count(self, "n_samples", n_samples)
        if not isinstance(self.kernel_, Gaussian):
            raise NotImplementedError(
                "points are drawn from densities of the Gaussian kernel only."
            )
        random = generator(random_state)
        rows = random.choice(len(self._shares), n_samples, p=self._shares)
        noise = random.standard_normal((n_samples, self.X_fit_.shape[1]))
        return dense(self.X_fit_[rows]) + noise * np.asarray(self.kernel_.lengthscale)

    def _bandwidth(self, n: int, width: int) -> float:
        if not isinstance(self.bandwidth, str):
            check_positive(self, "bandwidth", self.bandwidth)
            return float(self.bandwidth)
        if self.bandwidth not in RULES:
            raise ValueError(
                f"bandwidth must be positive or one of {list(RULES)}; got {self.bandwidth!r}."
            )
        return RULES[self.bandwidth](n, width)


def _log_integral(kernel: Kernel, width: int) -> float:
    """log ∫k over ℝᵈ, from the spectral density at frequency 0."""
    answer = laws.spectral_density(kernel, width)
    if not answer.yes:
        raise ValueError(
            f"the integral of {kernel!r} is not known, as its spectral density is not: "
            f"{answer.because}. Use Gaussian or Matern."
        )
    origin = float(answer.payload.density(np.zeros((1, width)))[0])
    if not (math.isfinite(origin) and origin > 0):
        raise ValueError(f"{kernel!r} has no finite integral, and makes no density.")
    return width * math.log(2.0 * math.pi) + math.log(origin)


@dataclass(eq=False, repr=False)
class ConditionalMeanEmbedding(KernelParameters, BaseEstimator):
    """The distribution of Y given X = x as a function: μ(x) = Σ_i β_i(x) l(y_i, ·).

    β(x) = (K + αI)⁻¹k(X, x) are the weights of kernel ridge regression, so that the expectation of
    any h(Y) given x is Σ_i β_i(x) h(y_i): it is ridge regression of h(y_i), for all h at once.

    Parameters
    ----------
    alpha : float, default=1.0
        As in `KernelRidge`.
    kernel : Kernel, str or callable, default="rbf"
        Of X.
    gamma, degree, coef0, kernel_params :
        Parameters of named and callable kernels of X, as in scikit-learn.
    output_kernel : Kernel, optional
        l, of Y; Gaussian with lengthscale 1 by default.
    centres, random_state :
        As in `KernelRidge`: β from centres, for many rows.

    Attributes
    ----------
    ridge_ : KernelRidge
        The regression whose weights are used.
    Y_fit_ :
        The rows of Y.

    References
    ----------
    Song, Huang, Smola, Fukumizu, Hilbert space embeddings of conditional distributions, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (300, 1))
    >>> Y = X**2 + 0.1 * rng.standard_normal((300, 1))
    >>> model = ConditionalMeanEmbedding(0.1, gamma=5.0).fit(X, Y)
    >>> found = model.expectation([[0.5]], np.cos)
    >>> bool(abs(found[0, 0] - np.cos(0.25)) < 0.05)
    True
    """

    alpha: float = 1.0
    _: KW_ONLY
    output_kernel: Kernel | None = None
    centres: int | AnyChoice | None = None
    random_state: Seed = None

    def fit(self, X: Any, Y: Any) -> Self:
        """Learn the weights of the rows; Y may be numbers, rows of numbers or a list of objects."""
        check_consistent_length(np.empty(length(X)), np.empty(length(Y)))
        params = self.get_params(deep=False)
        params.pop("output_kernel")
        ridge = KernelRidge(**params).fit(
            X, np.zeros(length(Y))
        )  # weights do not depend on targets
        kernel = Gaussian() if self.output_kernel is None else self.output_kernel
        outputs = kernel.points(as_column(Y))
        self.__dict__.update(ridge_=ridge, output_kernel_=kernel, Y_fit_=Y, _outputs=outputs)
        return self

    def weights(self, X: Any) -> np.ndarray:
        """β(x), one row for each row of X."""
        check_is_fitted(self)
        return self.ridge_.smoother_weights(X)

    def embedding(self, X: Any) -> RKHSFunction:
        """μ(x) for every row of X: a function with one output for each."""
        weights = self.weights(X)
        return RKHSFunction(self.output_kernel_, self._outputs, weights.T)

    def expectation(self, X: Any, values: Callable[[Any], Any] | Any) -> np.ndarray:
        """E[h(Y) | x] for every row of X; `values` is h, or the array of all h(y_i)."""
        weights = self.weights(X)
        given = np.asarray(values(self.Y_fit_) if callable(values) else values, np.float64)
        if given.shape[:1] != (weights.shape[1],):
            raise ValueError(
                f"values must be one number, or row of numbers, for each of the {weights.shape[1]} "
                f"rows of fit, or a function that gives these; got shape {given.shape}."
            )
        return weights @ given
