"""Conformal intervals: the jackknife+ of a ridge fit, and split conformal for every regressor."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import _safe_indexing, check_array, get_tags, indexable
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array, as_numpy
from mercer.checks import check_between, check_weights
from mercer.kernels.measures import Seed, generator
from mercer.solvers.posterior import Posterior
from mercer.theory.certificate import Assumption, Certificate, Statement


def check_coverage(owner: object, coverage: Any) -> float:
    """A coverage strictly between 0 and 1."""
    check_between(owner, "coverage", coverage, 0.0, 1.0)
    return float(coverage)


def upper_rank(count: int, coverage: float) -> int:
    """⌈coverage·(n + 1)⌉: the rank of the order statistic that a new value is below.

    Rounding of the product is not counted: 0.9·10 is 9.

    >>> upper_rank(9, 0.9), upper_rank(8, 0.9)
    (9, 9)
    """
    return math.ceil(coverage * (count + 1) - 1e-9)


def jackknife_plus(
    known: Posterior, points: Any, values: Array, output: int, coverage: float
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the jackknife+ intervals of one output at new points, where it predicts `values`.

    The upper end is the ⌈coverage·(n + 1)⌉-th smallest f₋ᵢ(x) + |ℓ_i|, the lower end the same of
    the negatives; infinite where there are fewer rows.
    """
    residuals = as_numpy(known.leave_one_out_residuals[:, output][known.counted])
    sizes, rank = np.abs(residuals), upper_rank(len(residuals), coverage)
    if rank > len(sizes):
        infinite = np.full(len(values), math.inf)
        return -infinite, infinite
    lower, upper = [], []
    for part in known.leave_one_out_values(points, values, output):
        left_out = as_numpy(part)
        upper.append(np.partition(left_out + sizes, rank - 1, axis=1)[:, rank - 1])
        lower.append(-np.partition(sizes - left_out, rank - 1, axis=1)[:, rank - 1])
    return np.concatenate(lower), np.concatenate(upper)


@dataclass(eq=False, repr=False)
class ConformalRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):
    """Split conformal intervals around any regressor, also one that chose its own parameters.

    Some rows are set aside; the regressor is fitted on the others, and the interval at x is
    f(x) ± q, where q is the ⌈coverage·(m + 1)⌉-th smallest |y − f(x)| of the m rows set aside. A
    new target lies in it with probability at least `coverage` if rows are exchangeable, whatever
    the regressor did with its own rows: choose a regularisation or a lengthscale, draw features.
    Where it did none of that, `KernelRidge.predict_interval` needs no rows set aside.

    Parameters
    ----------
    estimator : regressor
    coverage : float, default=0.9
    calibration : float, default=0.25
        The share of rows that is set aside.
    scaled : bool, default=False
        Whether q is a multiple of the deviation from `estimator.predict(X, return_std=True,
        include_noise=True)`, so that intervals are wider where the model is less sure.
    random_state : int, Generator, RandomState or None
        Draws the rows set aside.

    Attributes
    ----------
    estimator_ : the fitted regressor.
    scores_ : array of shape (m,) or (m, outputs)
        |y − f(x)| on the rows set aside, over the deviation where `scaled`; ascending.
    calibration_indices_ : array
        Those rows.

    References
    ----------
    Lei, G'Sell, Rinaldo, Tibshirani, Wasserman, Distribution-free predictive inference for
    regression, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.estimators import KernelRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(200)
    >>> model = ConformalRegressor(KernelRidgeCV(), random_state=0).fit(X[:100], y[:100])
    >>> lower, upper = model.predict_interval(X[100:])
    >>> bool(np.mean((lower <= y[100:]) & (y[100:] <= upper)) > 0.8)
    True
    """

    estimator: BaseEstimator
    coverage: float = 0.9
    calibration: float = 0.25
    scaled: bool = False
    random_state: Seed = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the regressor on some rows, and measure its errors on the others."""
        check_coverage(self, self.coverage)
        check_between(self, "calibration", self.calibration, 0.0, 1.0)
        self._check_deviations()
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None: pass targets.")
        y = check_array(as_numpy(y), ensure_2d=False, dtype=None, input_name="y")
        X, y = indexable(X, y)
        n = len(y)
        aside = max(1, round(self.calibration * n))
        if aside >= n:
            raise ValueError(
                f"calibration={self.calibration!r} sets all rows aside and leaves none to fit; "
                f"got n_samples = {n}."
            )
        order = generator(self.random_state).permutation(n)
        held, own = np.sort(order[:aside]), np.sort(order[aside:])
        weights = {}
        if sample_weight is not None:
            given = np.asarray(sample_weight, np.float64)
            check_weights(given, n, "sample_weight")
            weights["sample_weight"] = given[own]
        model = clone(self.estimator).fit(_safe_indexing(X, own), y[own], **weights)
        values, deviations = self._values(model, _safe_indexing(X, held))
        names = ("n_features_in_", "feature_names_in_")
        self.__dict__.update(
            {name: getattr(model, name) for name in names if hasattr(model, name)},
            estimator_=model,
            calibration_indices_=held,
            scores_=np.sort(np.abs(y[held] - values) / deviations, axis=0),
        )
        return self

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        return tags

    def _check_deviations(self) -> None:
        """Refuse to scale by deviations that the regressor does not have."""
        known = inspect.signature(self.estimator.predict).parameters.values()
        able = any(part.name == "include_noise" or part.kind is part.VAR_KEYWORD for part in known)
        if self.scaled and not able:
            raise ValueError(
                "scaled=True needs a regressor with predict(X, return_std=True, include_noise=True)"
                f", as KernelRidge; {type(self.estimator).__name__} has none: write scaled=False."
            )

    def _values(self, model: Any, X: Any) -> tuple[np.ndarray, Any]:
        """Predictions, and what errors are measured by."""
        if not self.scaled:
            return as_numpy(model.predict(X)), 1.0
        values, deviations = model.predict(X, return_std=True, include_noise=True)
        return as_numpy(values), as_numpy(deviations)

    def predict(self, X: Any) -> Any:
        """The predictions of the regressor."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    def certificate(self) -> Certificate:
        """The coverage of intervals, then what is proved of the regressor where it says so."""
        check_is_fitted(self)
        stated = Statement(
            "coverage",
            float(self.coverage),
            "A new target lies in its interval with at least this probability, over the rows set "
            "aside and the new one.",
            (Assumption("the rows set aside and the new one are exchangeable"),),
        )
        own = getattr(self.estimator_, "certificate", None)
        return Certificate((stated,)) if own is None else own().beside(stated)

    def predict_interval(self, X: Any, coverage: float | None = None) -> tuple[Any, Any]:
        """Lower and upper ends, infinite where too few rows were set aside for the coverage."""
        check_is_fitted(self)
        coverage = check_coverage(self, self.coverage if coverage is None else coverage)
        values, deviations = self._values(self.estimator_, X)
        rank = upper_rank(len(self.scores_), coverage)
        far = rank > len(self.scores_)
        quantile = self.scores_[0] * 0.0 + math.inf if far else self.scores_[rank - 1]
        return values - quantile * deviations, values + quantile * deviations
