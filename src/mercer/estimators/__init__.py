"""Estimators with scikit-learn's contract."""

from mercer.estimators.ridge import KernelRidge, KernelRidgeCV
from mercer.estimators.svm import SVC, SVR, NuSVC, OneClassSVM

__all__ = ["SVC", "SVR", "KernelRidge", "KernelRidgeCV", "NuSVC", "OneClassSVM"]
