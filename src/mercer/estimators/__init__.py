"""Estimators with scikit-learn's contract."""

from mercer.estimators.cca import KernelCCA
from mercer.estimators.classifier import KernelClassifier, KernelLogisticRegression
from mercer.estimators.classifier_cv import SVCCV, KernelClassifierCV
from mercer.estimators.cluster import KernelKMeans, SpectralClustering
from mercer.estimators.conformal import ConformalRegressor
from mercer.estimators.distributions import ConditionalMeanEmbedding, KernelDensity
from mercer.estimators.hypothesis_tests import TestResult, hsic_test, mmd_test
from mercer.estimators.learned import LearnedKernelClassifier, LearnedKernelRegressor
from mercer.estimators.pca import KernelPCA
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
    "SVCCV",
    "SVR",
    "ConditionalMeanEmbedding",
    "ConformalRegressor",
    "KernelCCA",
    "KernelClassifier",
    "KernelClassifierCV",
    "KernelDensity",
    "KernelKMeans",
    "KernelLogisticRegression",
    "KernelPCA",
    "KernelPoissonRegressor",
    "KernelQuantileRegressor",
    "KernelRegressor",
    "KernelRidge",
    "KernelRidgeCV",
    "KernelRidgeClassifier",
    "LearnedKernelClassifier",
    "LearnedKernelRegressor",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "SpectralClustering",
    "TestResult",
    "hsic_test",
    "mmd_test",
]
