"""Attributes of fitted estimators with their types, for editors and type checkers.

They are set by `keep`. They stand in classes that are no dataclasses, so that none is a parameter.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.estimators.smaller import smaller
from mercer.features.centres import AnyChoice
from mercer.features.inputs import KernelInput
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.losses import Loss
from mercer.solvers.automatic import Choice
from mercer.solvers.solution import Solution, Status


class Learned(KernelInput):
    """f = Σ_i α_i k(x_i, ·) + b, and how it was found."""

    function_: RKHSFunction
    kernel_: Kernel
    solution_: Solution
    dual_coef_: Any
    intercept_: Any
    n_features_in_: int
    feature_names_in_: np.ndarray
    compression_error_: float

    def compress(self, centres: int | AnyChoice) -> Self:
        """A copy of this fitted estimator whose function has few centres, to ship or to speed up.

        Parameters
        ----------
        centres : int or choice of `mercer.features.centres`
            How many: means of groups of the present ones, so that no training row is among them,
            or some of them where points have no means. A choice picks some of them.

        Returns
        -------
        estimator
            It predicts as this one does; `compression_error_` says how far its function is from f.
            It does not know training rows by number: `support_` is gone.
        """
        return smaller(self, centres)


class LearnedByLoss(Learned):
    """Fitted attributes of estimators with a loss, of ridge regression and of classifiers."""

    X_fit_: Any
    loss_: Loss
    choice_: Choice | None
    validation_scores_: Any
    classes_: np.ndarray
    order_: np.ndarray


class LearnedSupport(Learned):
    """Fitted attributes of support vector machines."""

    support_: np.ndarray
    support_vectors_: Any
    n_support_: np.ndarray
    n_iter_: Any
    classes_: np.ndarray
    class_weight_: np.ndarray
    statuses_: list[Status]
    solutions_: list[Solution]
    offset_: float
    epsilon_: float
    table_: RKHSFunction  # of many classes: libsvm's table as functions, one for each other class
