"""Estimators with scikit-learn's contract."""

from mercer.estimators.classifier import KernelClassifier, KernelLogisticRegression
from mercer.estimators.learned import LearnedKernelClassifier, LearnedKernelRegressor
from mercer.estimators.regressor import (
    KernelPoissonRegressor,
    KernelQuantileRegressor,
    KernelRegressor,
)
from mercer.estimators.ridge import KernelRidge, KernelRidgeCV
from mercer.estimators.svm import SVC, SVR, NuSVC, OneClassSVM

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
    "LearnedKernelClassifier",
    "LearnedKernelRegressor",
    "NuSVC",
    "OneClassSVM",
]
