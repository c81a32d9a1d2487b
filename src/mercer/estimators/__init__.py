"""Estimators with scikit-learn's contract."""

from mercer.estimators.ridge import KernelRidge, KernelRidgeCV

__all__ = ["KernelRidge", "KernelRidgeCV"]
