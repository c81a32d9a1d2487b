"""Support vector machines with scikit-learn's names, arguments and attributes."""

from mercer.estimators.svm.classifier import SVC, NuSVC
from mercer.estimators.svm.novelty import OneClassSVM
from mercer.estimators.svm.regressor import SVR

__all__ = ["SVC", "SVR", "NuSVC", "OneClassSVM"]
