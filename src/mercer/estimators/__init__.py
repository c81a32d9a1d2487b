"""Estimators with scikit-learn's contract."""

from mercer.estimators.classifier import KernelClassifier, KernelLogisticRegression
from mercer.estimators.regressor import (
    KernelPoissonRegressor,
    KernelQuantileRegressor,
    KernelRegressor,
)
from mercer.estimators.ridge import KernelRidge, KernelRidgeCV

__all__ = [
    "KernelClassifier",
    "KernelLogisticRegression",
    "KernelPoissonRegressor",
    "KernelQuantileRegressor",
    "KernelRegressor",
    "KernelRidge",
    "KernelRidgeCV",
]
