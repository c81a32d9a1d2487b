"""The one-class support vector machine: where most of the points are."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin

from mercer.estimators.callbacks import FitTask, told, with_callbacks
from mercer.estimators.svm.base import SupportVectorMachine, _check_number
from mercer.solvers.dual.solver import status_of
from mercer.solvers.dual.terms import Terms

BOUNDARY = {"float32": 1e-5, "float64": 1e-10}  # relative width of the boundary, which is rounding


class OneClassSVM(OutlierMixin, SupportVectorMachine):
    """A function that is large where points are: min ½‖f‖² − νρΣw + Σ_i w_i max(ρ − f(x_i), 0).

    A point belongs to the class where f(x) ≥ ρ. At most a share ν of the weight lies outside, and
    at least that share are support vectors. It replaces scikit-learn's estimator of the same name.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol, shrinking, cache_size, verbose, max_iter :
        As in `SVR`.
    nu : float, default=0.5
        0 < ν ≤ 1.

    Attributes
    ----------
    offset_ : float
        ρ; `decision_function` is f(x) − ρ and `score_samples` is f(x).
    support_, support_vectors_, n_support_, dual_coef_, intercept_, n_iter_, function_, status_ :
        As in `SVR`; the status says how the solver ended.

    References
    ----------
    B. Schölkopf, J. C. Platt, J. Shawe-Taylor, A. J. Smola, R. C. Williamson, Estimating the
    support of a high-dimensional distribution, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((100, 2))
    >>> model = OneClassSVM(nu=0.1).fit(X)
    >>> float((model.predict(X) == -1).mean()) <= 0.1
    True
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: Any = 3,
        gamma: Any = "scale",
        coef0: Any = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float | None = None,
        verbose: bool = False,
        max_iter: int = -1,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit f and ρ; y is not used."""
        _check_number(self, "nu", above=0.0, at_most=1.0)
        self._check_common_parameters()
        X = self._checked_points(X)
        weights = self._checked_weights(sample_weight, X)
        gram = self._gram(X, weights)
        task = FitTask.root(self, X, y, weights, None)

        def fitted(alpha: np.ndarray, level: float) -> dict[str, Any]:
            return {**self._of_one(gram, alpha, -level), "offset_": level}

        solver = told(
            self._solver(len(weights)), task, lambda s: fitted(s.coefficients, -float(s.intercept))
        )
        ascent = solver.ascend(gram, Terms.within(weights, self.nu * weights.sum()))
        attributes = fitted(ascent.alpha, float(ascent.levels[0]))
        self._set({**attributes, "n_iter_": ascent.steps})
        self.status_ = status_of(solver, gram, [ascent])
        self._warn([self.status_])
        task.end(lambda: attributes)
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """f(x) for every row of X, ρ where the difference is only rounding."""
        values = self._values(X)
        offset = values.dtype.type(self.offset_)
        values[np.abs(values - offset) <= BOUNDARY[values.dtype.name] * abs(offset)] = offset
        return values

    def decision_function(self, X: Any) -> np.ndarray:
        """f(x) − ρ for every row of X: negative for outliers."""
        values = self.score_samples(X)
        return values - values.dtype.type(self.offset_)

    def predict(self, X: Any) -> np.ndarray:
        """1 for points of the class and on its boundary, −1 for outliers."""
        return np.where(self.decision_function(X) >= 0, 1, -1)
