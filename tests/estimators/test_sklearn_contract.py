"""scikit-learn's own checks, on configurations that take different ways through the code."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import KernelRidge, KernelRidgeClassifier, KernelRidgeCV
from mercer.kernels import Gaussian, Linear, Matern, PairKernel
from mercer.solvers import Direct


def product_of_rows(x, y):
    return float(x @ y)


@pytest.mark.filterwarnings("default::mercer.errors.IndefiniteKernelWarning")
@parametrize_with_checks(
    [
        KernelRidge(),
        KernelRidge(kernel="precomputed"),
        KernelRidge(kernel=Gaussian(2.0) + Linear(), fit_intercept=True),
        KernelRidge(kernel=Matern(1.5), alpha=0.1, solver=Direct(mixed=True)),
        KernelRidge(kernel=PairKernel(product_of_rows)),
        KernelRidgeCV(),
        KernelRidgeCV(kernel="precomputed", alphas=[0.1, 1.0]),
        KernelRidgeCV(kernel=Matern(2.5), lengthscales=[0.5, 2.0], alphas=[0.1, 1.0]),
        KernelRidgeClassifier(0.1),
    ]
)
def test_it_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)
