"""Estimators with scikit-learn's contract."""

from mercer.estimators.classifier import KernelClassifier, KernelLogisticRegression
from mercer.estimators.classifier_cv import SVCCV, KernelClassifierCV
from mercer.estimators.regressor import (
    KernelPoissonRegressor,
    KernelQuantileRegressor,
    KernelRegressor,
)
from mercer.estimators.ridge import KernelRidge, KernelRidgeCV
from mercer.estimators.svm import SVC, SVR, NuSVC, OneClassSVM

__all__ = [
    "SVC",
    "SVCCV",
    "SVR",
    "KernelClassifier",
    "KernelClassifierCV",
    "KernelLogisticRegression",
    "KernelPoissonRegressor",
    "KernelQuantileRegressor",
    "KernelRegressor",
    "KernelRidge",
    "KernelRidgeCV",
    "NuSVC",
    "OneClassSVM",
]
