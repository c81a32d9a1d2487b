"""Support vector regression."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array
from sklearn.utils.validation import column_or_1d

from mercer.estimators.callbacks import FitTask, told, with_callbacks
from mercer.estimators.svm.base import SupportVectorMachine, _check_number
from mercer.losses import EpsilonInsensitive
from mercer.solvers.problem import Problem


class SVR(RegressorMixin, SupportVectorMachine):
    """Support vector regression: min C Σ_i w_i max(|y_i − f(x_i) − b| − ε, 0) + ½‖f‖² over f and b.

    It replaces scikit-learn's estimator of the same name. mercer's λ is 1/(CΣw).

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel of mercer, a name of scikit-learn's, "precomputed", or a function of two points or
        two blocks. One that is not positive definite, as "sigmoid", gets a stationary point, as in
        libsvm, and an `IndefiniteKernelWarning`.
    degree, gamma, coef0 :
        Parameters of named kernels, as in scikit-learn; with weights, gamma="scale" takes the
        variance of weighted points.
    tol : float, default=1e-3
        The solver stops at a relative duality gap of tol/10, about as exact as libsvm at tol.
    C, epsilon : float, default=1.0 and 0.1
        C > 0 and ε ≥ 0.
    shrinking : bool, default=True
        Whether coefficients that rest at a bound may be left alone for a while, where that pays;
        the gap counts all.
    verbose :
        Taken and not used.
    cache_size : float or None, default=None
        Megabytes for rows of the kernel; None for the memory budget.
    max_iter : int, default=-1
        How many steps to take at most; −1 for 100,000 + 1,000 for each point, at most
        ten million. A fit that ends there warns, and says what to do.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, n_iter_ :
        As in scikit-learn.
    function_ : RKHSFunction
        f, without the intercept.
    solution_ : Solution
        How the solver ended, with the true duality gap.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = SVR(C=100.0, epsilon=0.01).fit(X, X[:, 0] ** 2)
    >>> bool(np.abs(model.predict(X) - X[:, 0] ** 2).max() < 0.011)
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
        C: float = 1.0,
        epsilon: float = 0.1,
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
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit f and b to real targets y."""
        _check_number(self, "C", above=0.0)
        self._check_common_parameters()
        X, y = self._checked_points(X, y)
        y = column_or_1d(y, warn=True)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        weights = self._checked_weights(sample_weight, X)
        gram = self._gram(X, weights)
        loss = EpsilonInsensitive(float(self.epsilon))
        problem = Problem(gram, y, loss, 1.0 / (self.C * weights.sum()), weights, True)
        task = FitTask.root(self, X, y, weights, None)
        heard = told(
            self._solver(len(y)), task, lambda s: self._of_one(gram, s.coefficients, s.intercept)
        )
        solution = heard.solve(problem)
        fitted = self._of_one(gram, solution.coefficients, solution.intercept)
        self._set({**fitted, "n_iter_": solution.history["steps"][0], "solution_": solution})
        self._warn([solution.status])
        task.end(lambda: fitted)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """f(x) + b for every row of X."""
        values = self._values(X)
        return values + values.dtype.type(self.intercept_[0])
