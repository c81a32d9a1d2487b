"""scikit-learn's own checks, on configurations that take different ways through the code."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import KernelRidge, KernelRidgeCV
from mercer.kernels import BlockKernel, Gaussian, Linear, Matern, PairKernel
from mercer.solvers import Direct


def product_of_rows(x, y):
    return float(x @ y)


def product_of_blocks(X, Y):
    return X @ Y.T


@parametrize_with_checks(
    [
        KernelRidge(),
        KernelRidge(fit_intercept=True),
        KernelRidge(kernel="rbf", gamma=0.1),
        KernelRidge(kernel="poly", degree=2, coef0=1.0),
        KernelRidge(kernel="precomputed"),
        KernelRidge(kernel=Gaussian(2.0) + 0.5 * Linear(), fit_intercept=True),
        KernelRidge(kernel=Matern(1.5), alpha=0.1, solver=Direct(mixed=True)),
        KernelRidge(kernel=product_of_rows),
        KernelRidge(kernel=product_of_blocks),
        KernelRidge(kernel=PairKernel(product_of_rows)),
        KernelRidge(kernel=BlockKernel(product_of_blocks), fit_intercept=True),
        KernelRidgeCV(),
        KernelRidgeCV(alphas=[0.1, 1.0], fit_intercept=True),
        KernelRidgeCV(kernel="linear", lengthscales=None),
        KernelRidgeCV(kernel="precomputed", alphas=[0.1, 1.0]),
        KernelRidgeCV(kernel=Matern(2.5), lengthscales=[0.5, 2.0], alphas=[0.1, 1.0]),
        KernelRidgeCV(kernel=product_of_rows, alphas=[0.1, 1.0]),
    ]
)
def test_it_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)
