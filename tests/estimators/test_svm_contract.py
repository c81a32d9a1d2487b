"""scikit-learn's own checks of support vector machines."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.kernels import Gaussian


def infeasible(estimator):
    """Class weights of 1000 to 0.0001 leave no ν that is feasible: refused, as by scikit-learn.

    scikit-learn's own NuSVC is excused from that check, too: it ignores class_weight.
    """
    if isinstance(estimator, NuSVC):
        return {"check_class_weight_classifiers": "its class weights make every nu infeasible"}
    return {}


@pytest.mark.filterwarnings("ignore::mercer.errors.IndefiniteKernelWarning")
@parametrize_with_checks(
    [
        SVC(),
        SVC(kernel=Gaussian(2.0), class_weight="balanced"),
        SVC(kernel="precomputed"),
        SVR(),
        NuSVC(nu=0.3),  # feasible for the weights of the checks
        NuSVR(),
        OneClassSVM(),
    ],
    expected_failed_checks=infeasible,
    xfail_strict=True,
)
def test_it_passes_every_check_of_scikit_learn(estimator, check):
    check(estimator)
