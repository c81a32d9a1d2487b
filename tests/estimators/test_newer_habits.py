"""scikit-learn's newer habits, on every public estimator: routing, weights, array-API dispatch."""

from __future__ import annotations

import inspect
import os

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_array_api_input,
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)

import mercer
from processes import output_of

SETTINGS = {
    "NuSVC": {"nu": 0.3},  # feasible for the weights of the checks
    "KernelClassifierCV": {"Cs": [1.0, 10.0], "lengthscales": [0.5, 1.0, 2.0]},  # fewer, so quicker
    "ConformalRegressor": {"estimator": mercer.KernelRidge(kernel="rbf")},
}
ONE_STEP = "a sample of weight 3 is one step three times as long, not three steps"
OTHERWISE = {  # where a weight is not as many samples, and why
    "ConformalRegressor": "rows are split at random into those of the fit and of the calibration",
    "KernelKMeans": "it starts from rows drawn at random",
    **dict.fromkeys(mercer.online.__all__, ONE_STEP),
}
del OTHERWISE["KernelRecursiveLeastSquares"]  # which solves a least-squares problem
SLOW = ("LearnedKernelClassifier", "LearnedKernelRegressor")  # seconds a fit: see their own tests


def estimators():
    """All that take weights, most of them with their defaults."""
    homes = (mercer.estimators, mercer.online)
    kinds = [vars(home)[name] for home in homes for name in home.__all__ if name not in SLOW]
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, BaseEstimator):
            parameters = inspect.signature(kind.fit).parameters
            if "sample_weight" in parameters and kind is not mercer.online.OnlineMachine:
                estimator = kind(**SETTINGS.get(kind.__name__, {}))
                if "random_state" in estimator.get_params():
                    estimator.set_params(random_state=0)
                yield estimator


ALL = pytest.mark.parametrize("estimator", list(estimators()), ids=lambda e: type(e).__name__)


def data(estimator):
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((40, 3)), rng.integers(1, 4, 40).astype(float)
    return X, (X[:, 0] > 0).astype(int) if is_classifier(estimator) else np.abs(X[:, 0]), weights


@ALL
@pytest.mark.filterwarnings("ignore::mercer.errors.GridEdgeWarning")
def test_weights_are_routed_through_pipelines_and_cross_validation(estimator):
    X, y, weights = data(estimator)
    method = "predict" if hasattr(estimator, "predict") else "score_samples"
    with config_context(enable_metadata_routing=True):
        last = clone(estimator).set_fit_request(sample_weight=True)
        if "sample_weight" in inspect.signature(getattr(last, "score", len)).parameters:
            last.set_score_request(sample_weight=True)
        model = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), last)
        routed = clone(model).fit(X, y, sample_weight=weights)
        direct = clone(estimator).fit(StandardScaler().fit_transform(X), y, sample_weight=weights)
        found = getattr(routed, method)(X)
        assert np.array_equal(found, getattr(direct, method)(routed[0].transform(X)))
        if hasattr(last, "set_score_request"):
            options = {"params": {"sample_weight": weights}, "cv": 2, "error_score": "raise"}
            assert np.isfinite(cross_validate(model, X, y, **options)["test_score"]).all()


@ALL
def test_a_weight_is_as_many_samples(estimator, request):
    name = type(estimator).__name__
    if name in OTHERWISE:
        request.applymarker(pytest.mark.xfail(reason=OTHERWISE[name], strict=True))
    check_sample_weight_equivalence_on_dense_data(name, estimator)
    if estimator.__sklearn_tags__().input_tags.sparse:
        check_sample_weight_equivalence_on_sparse_data(name, estimator)


def check_dispatch():
    """Of arrays of NumPy with scikit-learn's array-API dispatch switched on, one by one."""
    for estimator in estimators():
        name = type(estimator).__name__
        check_array_api_input(
            name, estimator, array_namespace="numpy", expect_only_array_outputs=False
        )
        print(name)


def test_array_api_dispatch_changes_nothing():
    """SciPy looks at the variable when it is imported: hence a process of its own."""
    folder = os.path.dirname(__file__)
    code = f"import sys; sys.path[:0] = [{folder!r}, {os.path.dirname(folder)!r}]; "
    code += "import warnings; warnings.simplefilter('ignore'); "
    code += "import test_newer_habits; test_newer_habits.check_dispatch()"
    out = output_of(code, SCIPY_ARRAY_API="1")
    assert out.split() == [type(estimator).__name__ for estimator in estimators()]
