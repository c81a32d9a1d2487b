"""scikit-learn's own checks on the estimators with a loss."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import (
    KernelClassifier,
    KernelLogisticRegression,
    KernelPoissonRegressor,
    KernelQuantileRegressor,
    KernelRegressor,
)
from mercer.kernels import Gaussian, Linear
from mercer.solvers import Newton


def refusals(estimator):
    """One check passes 75 × 4 numbers as a precomputed kernel, which no estimator could take."""
    if estimator.kernel != "precomputed":
        return {}
    return {"check_decision_proba_consistency": "the check passes a matrix that is not square"}


@pytest.mark.filterwarnings("ignore::mercer.errors.IndefiniteKernelWarning")
@parametrize_with_checks(
    [
        KernelClassifier(tol=1e-12),
        KernelClassifier("squared_hinge", multi_class="ovo", solver=Newton(1e-13)),
        KernelClassifier("multinomial", kernel=Gaussian(2.0) + Linear(), tol=1e-13),
        KernelLogisticRegression(kernel="precomputed"),  # else it is the first of these
        KernelRegressor(),
        KernelPoissonRegressor(tol=1e-13),
        KernelClassifier("hinge"),
        KernelQuantileRegressor(),
    ],
    expected_failed_checks=refusals,
    xfail_strict=True,
)
def test_it_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)
