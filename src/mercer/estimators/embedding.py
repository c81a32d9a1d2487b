"""Conditional distributions as functions: the conditional mean embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from mercer.estimators.inputs import as_column
from mercer.estimators.ridge import KernelRidge
from mercer.features.centres import AnyChoice
from mercer.features.inputs import KernelInput, KernelLike, length
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.measures import Seed
from mercer.kernels.radial import Gaussian


@dataclass(eq=False, repr=False)
class ConditionalMeanEmbedding(KernelInput, BaseEstimator):
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
    kernel: KernelLike = "rbf"
    gamma: float | str | None = None
    degree: float = 3
    coef0: float = 1
    kernel_params: dict[str, Any] | None = None
    output_kernel: Kernel | None = None
    centres: int | AnyChoice | None = None
    random_state: Seed = None

    def fit(self, X: Any, Y: Any) -> Self:
        """Learn the weights of the rows; Y may be numbers, rows of numbers or a list of objects."""
        check_consistent_length(np.empty(length(X)), np.empty(length(Y)))
        params = {name: getattr(self, name) for name in ("kernel", "gamma", "degree", "coef0")}
        ridge = KernelRidge(
            self.alpha,
            **params,
            kernel_params=self.kernel_params,
            centres=self.centres,
            random_state=self.random_state,
        ).fit(X, np.zeros(length(Y)))  # weights do not depend on targets
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
