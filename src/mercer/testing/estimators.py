"""Contracts of estimators on objects that are no vectors, and of feature maps of your own."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import Pipeline

from mercer.points import VectorPoints
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


def structured_contract(check: Check) -> Check:
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


@structured_contract
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


@structured_contract
def predictions_are_of_single_objects(estimator: Any, X: list[Any], y: Any) -> None:
    """Each object has its prediction, whatever else is predicted with it, and in any order."""
    model = clone(estimator).fit(X, y)
    whole = model.predict(X)
    if len(whole) != len(X):
        _refuse(estimator, f"{len(whole)} predictions were made for {len(X)} objects")
    _agree(estimator, model.predict(X[::-1]), whole[::-1], "predictions in another order")
    _agree(estimator, model.predict(X[:1]), whole[:1], "predictions of one object and of all")


@structured_contract
def fitting_twice(estimator: Any, X: list[Any], y: Any) -> None:
    """A second fit forgets the first."""
    model = clone(estimator).fit(X[::2], y[::2])
    again = clone(estimator).fit(X, y)
    _agree(estimator, model.fit(X, y).predict(X), again.predict(X), "predictions of a second fit")


@structured_contract
def pickling(estimator: Any, X: list[Any], y: Any) -> None:
    """A fitted estimator survives pickling and deep copies."""
    model = clone(estimator).fit(X, y)
    for way, again in {
        "pickle": pickle.loads(pickle.dumps(model)),
        "deepcopy": copy.deepcopy(model),
    }.items():
        _agree(estimator, again.predict(X), model.predict(X), f"predictions after {way}")


@structured_contract
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


@structured_contract
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


# ---- feature maps --------------------------------------------------------------------------------

Contract = Callable[["_Case"], None]
FEATURE_CONTRACTS: list[Contract] = []


def feature_contract(function: Contract) -> Contract:
    """Put a contract on the list."""
    FEATURE_CONTRACTS.append(function)
    return function


def check_feature_map(features: Any, X: Any, *, seeds: int = 40) -> None:
    """Refuse a feature map that breaks its contract on the points X.

    It is fitted anew with `seeds` values of `random_state`. Of a map that says it is `unbiased` the
    mean of ⟨φ(x), φ(y)⟩ over seeds must be k(x, y) and the error must fall like 1/√S; of any other
    it must fall. `expected_error` must be the error that is observed, or more, and `uniform_error`
    must not be exceeded more often than it says.

    Parameters
    ----------
    features : FeatureMap
        With the parameters `n_components` and, if it is random, `random_state`.
    X : points
        Some tens of them.
    seeds : int, default=40

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features import RandomFourierFeatures
    >>> from mercer.testing import check_feature_map
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> check_feature_map(RandomFourierFeatures(n_components=50), X)
    """
    case = _Case(features, X, seeds)
    for check in FEATURE_CONTRACTS:
        check(case)


class _Case:
    """A map, points, and the inner products of its features over many draws."""

    def __init__(self, features: Any, X: Any, seeds: int) -> None:
        self.features, self.X, self.seeds = features, X, seeds
        self.phi = self.drawn(0)
        self.Z = self.phi.transform(X)
        self.K = np.asarray(self.phi.kernel_.gram(X).dense(), np.float64)
        self.random = "random_state" in features.get_params()

    def drawn(self, seed: int, scale: int = 1) -> Any:
        """A fitted copy with another seed, and `scale` times as many features."""
        copy = clone(self.features)
        params = copy.get_params()
        if "random_state" in params:
            copy.set_params(random_state=seed)
        if scale > 1:
            copy.set_params(n_components=scale * params["n_components"])
        return copy.fit(self.X)

    @cached_property
    def products(self) -> np.ndarray:
        """⟨φ(x_i), φ(x_j)⟩ for every seed."""
        return self.estimates()

    def estimates(self, scale: int = 1) -> np.ndarray:
        """The same with `scale` times as many features."""
        draws = [self.drawn(seed, scale).transform(self.X) for seed in range(self.seeds)]
        return np.stack([(Z @ Z.conj().T).astype(np.complex128) for Z in draws])

    def refuse(self, text: str) -> None:
        raise AssertionError(f"{self.features!r}: {text}.")

    def agree(self, first: Any, second: Any, what: str) -> None:
        unit = float(np.finfo(self.Z.real.dtype).eps)
        size = float(np.abs(second).max(initial=0.0)) or 1.0
        gap = float(np.abs(np.asarray(first) - np.asarray(second)).max(initial=0.0))
        if not gap <= 100 * np.sqrt(len(self.Z[0])) * unit * size:
            self.refuse(f"{what} differ by {gap:.2g}")


@feature_contract
def shapes(case: _Case) -> None:
    """One row for each point, `feature_count` columns, as many names, in the precision of X."""
    count = case.phi.feature_count
    if case.Z.shape != (len(case.K), count):
        case.refuse(f"transform gives the shape {case.Z.shape}, expected {(len(case.K), count)}")
    if len(case.phi.get_feature_names_out()) != count:
        case.refuse("get_feature_names_out must give a name for each feature")
    if isinstance(case.X, np.ndarray):
        single = case.drawn(0).fit(case.X.astype(np.float32))
        if single.transform(case.X.astype(np.float32)).real.dtype != np.float32:
            case.refuse("points in float32 must give features in float32")


@feature_contract
def same_seed(case: _Case) -> None:
    """A seed decides, and pickling changes nothing."""
    for twin in (case.drawn(0), pickle.loads(pickle.dumps(case.phi))):
        case.agree(twin.transform(case.X), case.Z, "features of the same seed, or after pickling,")
        if not case.phi.same_features(twin):
            case.refuse("same_features must recognise the same draw")


@feature_contract
def blocks(case: _Case) -> None:
    """Rows do not depend on the rows beside them, and sparse rows have the same features."""
    half = len(case.K) // 2
    parts = [case.phi.transform(case.X[:half]), case.phi.transform(case.X[half:])]
    case.agree(np.concatenate(parts), case.Z, "features of parts and of the whole")
    if isinstance(case.X, np.ndarray) and case.phi.__sklearn_tags__().input_tags.sparse:
        sparse = scipy.sparse.csr_array(case.X)
        case.agree(case.phi.transform(sparse), case.Z, "features of sparse and dense rows")


@feature_contract
def sums(case: _Case) -> None:
    """Values, weighted sums and normal equations are those of the stored features."""
    random = np.random.default_rng(0)
    n, count = case.Z.shape
    w, y = random.standard_normal(count), random.standard_normal(n)
    case.agree(case.phi.function(w)(case.X), (case.Z @ w).real, "f(x) and ⟨φ(x), w⟩")
    case.agree(case.phi.weighted_sum(case.X, y), case.Z.T @ y, "Σ y_i φ(x_i) and Φᵀy")
    if case.Z.dtype.kind == "c":
        return
    weights = random.integers(0, 4, n)
    equations = case.phi.normal_equations(case.X, y, weights)
    repeated = np.repeat(case.Z, weights, axis=0)
    case.agree(equations.gram, repeated.T @ repeated, "normal equations and ΦᵀWΦ")
    moments = repeated.T @ np.repeat(y, weights)
    case.agree(equations.moments[:, 0], moments, "moments and ΦᵀWy")


@feature_contract
def unbiased_with_rate(case: _Case) -> None:
    """The mean over seeds is k, and the error falls like 1/√S; without that claim it falls."""
    few, many = case.products, case.estimates(scale=4)
    errors = [np.sqrt(np.mean(np.abs(some - case.K) ** 2)) for some in (few, many)]
    size = float(np.abs(case.K).max())
    if not case.phi.unbiased:
        if not errors[1] <= errors[0] + 1e-6 * size:
            case.refuse(f"four times the features have the error {errors[1]:.3g} > {errors[0]:.3g}")
        return
    mean, spread = many.mean(axis=0), many.std(axis=0, ddof=1) / np.sqrt(len(many))
    floor = spread + 0.1 * np.sqrt(np.mean(spread**2)) + 1e-5 * size  # heavy tails, rounding
    worst = np.abs(mean - case.K) / floor
    if not (worst.max() < 7.0 and np.sqrt(np.mean(worst**2)) < 2.0):
        case.refuse(
            f"it says it is unbiased, but the mean over {len(many)} draws is up to "
            f"{worst.max():.1f} standard errors away from k"
        )
    if errors[0] > 1e-5 * size and not _quarters(few - case.K, many - case.K):
        case.refuse(
            f"four times the features should halve the error; it went from {errors[0]:.3g} to "
            f"{errors[1]:.3g}"
        )


def _quarters(few: np.ndarray, many: np.ndarray) -> bool:
    """Whether mean squares fall to a quarter or less, as far as so many draws can tell."""
    squares = [np.mean(np.abs(gaps) ** 2, axis=(1, 2)) for gaps in (few, many)]
    noise = sum(np.var(values, ddof=1) / np.mean(values) ** 2 / len(values) for values in squares)
    ratio = np.mean(squares[0]) / np.mean(squares[1])
    return bool(ratio * (1.0 + 3.0 * np.sqrt(noise)) > 3.2)


@feature_contract
def expected_errors(case: _Case) -> None:
    """The error is the expected one, or less where that is a bound."""
    if not isinstance(case.phi.kernel_.points(case.X), VectorPoints):
        return
    half = len(case.K) // 2
    first, second = case.X[:half], case.X[half : 2 * half]
    expected = np.sqrt(np.mean(case.phi.expected_error(first, second) ** 2))
    pairs = case.products[:, np.arange(half), np.arange(half, 2 * half)]
    gaps = np.abs(pairs - case.K[np.arange(half), np.arange(half, 2 * half)])
    observed = np.sqrt(np.mean(gaps**2))
    slack = 1e-6 * float(np.abs(case.K).max())
    if not observed <= 1.4 * expected + slack:
        case.refuse(f"the error is {observed:.3g}, and expected_error says {expected:.3g}")


@feature_contract
def uniform_errors(case: _Case) -> None:
    """No point of the ball has a larger error than stated, in as many draws as stated."""
    if not isinstance(case.X, np.ndarray):
        return
    radius = float(np.linalg.norm(case.X, axis=1).max())
    limit = case.phi.uniform_error(radius, 0.9)
    exceeded = np.abs(case.products - case.K).max(axis=(1, 2)) > limit
    if exceeded.mean() > 0.1 + 3 * np.sqrt(0.09 / case.seeds):
        case.refuse(
            f"uniform_error says {limit:.3g} with probability 0.9, which "
            f"{exceeded.mean():.0%} of the draws exceed"
        )
