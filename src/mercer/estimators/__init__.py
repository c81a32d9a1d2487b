"""Estimators with scikit-learn's contract."""

from mercer.estimators.classifier import KernelClassifier, KernelLogisticRegression
from mercer.estimators.regressor import (
    KernelPoissonRegressor,
    KernelQuantileRegressor,
    KernelRegressor,
)
from mercer.estimators.ridge import KernelRidge, KernelRidgeCV
from mercer.estimators.ridge_classifier import KernelRidgeClassifier
from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

__all__ = [
    "SVC",
    "SVR",
    "KernelClassifier",
    "KernelLogisticRegression",
    "KernelPoissonRegressor",
    "KernelQuantileRegressor",
    "KernelRegressor",
    "KernelRidge",
    "KernelRidgeCV",
    "KernelRidgeClassifier",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
]
