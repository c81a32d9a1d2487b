"""Checks of estimators on objects that are not vectors, which scikit-learn's checks skip."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import Pipeline

from mercer.testing.kernels import same_data

Check = Callable[[Any, list[Any], Any], None]
STRUCTURED_CONTRACTS: dict[str, Check] = {}


def check_structured_estimator(estimator: Any, X: Any, y: Any) -> None:
    """Run every contract of `STRUCTURED_CONTRACTS`; an `AssertionError` says which one fails.

    Parameters
    ----------
    estimator : estimator
        With a kernel on objects, not fitted.
    X : list of objects
        At least ten.
    y : array of shape (n,)
        Targets or labels.

    Examples
    --------
    >>> from mercer import KernelRidge
    >>> from mercer.structured import Spectrum
    >>> words = ["kernel", "kern", "learn", "lean", "clean", "space", "pace", "ace", "nerd", "a"]
    >>> check_structured_estimator(KernelRidge(kernel=Spectrum(1)), words, [len(w) for w in words])
    """
    for check in STRUCTURED_CONTRACTS.values():
        check(estimator, list(X), np.asarray(y))


def contract(check: Check) -> Check:
    """Run a function on every estimator."""
    STRUCTURED_CONTRACTS[check.__name__] = check
    return check


def _refuse(estimator: Any, sentence: str) -> None:
    raise AssertionError(f"{estimator!r}: {sentence}.")


def _agree(estimator: Any, left: Any, right: Any, what: str) -> None:
    left, right = np.asarray(left), np.asarray(right)
    exact = left.dtype.kind not in "fc"
    near = left.shape == right.shape and (
        (left == right).all() if exact else np.allclose(left, right, rtol=1e-6, atol=1e-9)
    )
    if not near:
        _refuse(estimator, f"{what} differ: {left[:3]} and {right[:3]} come first")


@contract
def fit_returns_the_estimator(estimator: Any, X: list[Any], y: Any) -> None:
    """`fit` returns self, and leaves parameters and points as they were."""
    model, before, given = clone(estimator), copy.deepcopy(X), estimator.get_params(deep=False)
    if model.fit(X, y) is not model:
        _refuse(estimator, "fit does not return the estimator")
    if not same_data(before, X):
        _refuse(estimator, "fit changed the objects it was given")
    if any(model.get_params(deep=False)[name] != value for name, value in given.items()):
        _refuse(estimator, "fit changed a parameter")
    if hasattr(model, "feature_names_in_"):
        _refuse(estimator, "objects have no columns, but feature_names_in_ is set")


@contract
def predictions_are_of_single_objects(estimator: Any, X: list[Any], y: Any) -> None:
    """Each object has its prediction, whatever else is predicted with it, and in any order."""
    model = clone(estimator).fit(X, y)
    whole = model.predict(X)
    if len(whole) != len(X):
        _refuse(estimator, f"{len(whole)} predictions were made for {len(X)} objects")
    _agree(estimator, model.predict(X[::-1]), whole[::-1], "predictions in another order")
    _agree(estimator, model.predict(X[:1]), whole[:1], "predictions of one object and of all")


@contract
def fitting_twice(estimator: Any, X: list[Any], y: Any) -> None:
    """A second fit forgets the first."""
    model = clone(estimator).fit(X[::2], y[::2])
    again = clone(estimator).fit(X, y)
    _agree(estimator, model.fit(X, y).predict(X), again.predict(X), "predictions of a second fit")


@contract
def pickling(estimator: Any, X: list[Any], y: Any) -> None:
    """A fitted estimator survives pickling and deep copies."""
    model = clone(estimator).fit(X, y)
    for way, again in {
        "pickle": pickle.loads(pickle.dumps(model)),
        "deepcopy": copy.deepcopy(model),
    }.items():
        _agree(estimator, again.predict(X), model.predict(X), f"predictions after {way}")


@contract
def pipelines_and_folds(estimator: Any, X: list[Any], y: Any) -> None:
    """Cross-validation, alone and as the end of a pipeline, predicts as a loop over folds does."""
    parts = [np.arange(len(X))[i::2] for i in range(2)]
    folds = [(parts[0], parts[1]), (parts[1], parts[0])]
    by_hand = np.empty(len(X), dtype=object)
    for train, test in folds:
        model = clone(estimator).fit([X[i] for i in train], y[train])
        by_hand[test] = list(model.predict([X[i] for i in test]))
    for whole in (estimator, Pipeline([("model", estimator)])):
        folded = cross_val_predict(whole, X, y, cv=folds)
        _agree(estimator, folded, by_hand.astype(folded.dtype), "predictions by folds")


@contract
def bad_input(estimator: Any, X: list[Any], y: Any) -> None:
    """No objects, too few targets, and prediction before fit are refused."""
    for what, objects, targets in (("no objects", [], y[:0]), ("a target too few", X, y[:-1])):
        try:
            clone(estimator).fit(objects, targets)
        except ValueError:
            continue
        _refuse(estimator, f"it was fitted with {what}")
    try:
        clone(estimator).predict(X)
    except NotFittedError:
        return
    _refuse(estimator, "it predicts before it is fitted")
