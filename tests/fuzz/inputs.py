"""Random inputs to every estimator: an answer of the right shape, or a refusal in words."""

from __future__ import annotations

import traceback
import warnings

import numpy as np
import pandas
import scipy.sparse

from mercer import (
    SVC,
    SVR,
    KernelClassifier,
    KernelLogisticRegression,
    KernelPoissonRegressor,
    KernelQuantileRegressor,
    KernelRegressor,
    KernelRidge,
    KernelRidgeCV,
    NuSVC,
    OneClassSVM,
)
from mercer.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial

ESTIMATORS = [
    KernelRidge,
    KernelRidgeCV,
    KernelRegressor,
    KernelPoissonRegressor,
    KernelQuantileRegressor,
    KernelClassifier,
    KernelLogisticRegression,
    SVC,
    NuSVC,
    SVR,
    OneClassSVM,
]
KERNELS = [None, "rbf", "poly", Gaussian(0.5), Matern(1.5), Laplacian(2.0), Linear(), Polynomial(2)]
REFUSALS = (ValueError, TypeError)
NOT_OURS = (np.linalg.LinAlgError,)  # a ValueError that says nothing to a user


def numbers(random, shape):
    """Numbers of one temper: plain, huge, tiny, subnormal, with NaN or infinity, all equal."""
    kind = random.integers(9)
    values = random.standard_normal(shape)
    scale = [1.0, 1e3, 1e-3, 1e150, 1e-150, 1e-310, 1.0, 1.0, 0.0][kind]
    values = scale * values
    if kind in (6, 7) and values.size:
        values.flat[random.integers(values.size)] = np.nan if kind == 6 else np.inf
    return values


def rows(random):
    n, d = int(random.choice([0, 1, 2, 3, 8, 25])), int(random.choice([0, 1, 2, 5]))
    X = numbers(random, (n, d))
    kind = random.integers(9)
    with np.errstate(over="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == 1:
            return X.astype(np.float32)
        if kind == 2:
            return scipy.sparse.csr_matrix(X)
        if kind == 3:
            return pandas.DataFrame(X, columns=[f"c{k}" for k in range(d)])
        if kind == 4:
            return X.tolist()
        if kind == 5:
            return np.nan_to_num(np.clip(X, -100, 100)).astype(int)
        if kind == 6:
            return X[:, 0] if d else X
        if kind == 7:
            return X.astype(object)
    return X


def targets(random, n):
    kind = random.integers(6)
    if kind == 0:
        return random.integers(0, 3, n)
    if kind == 1:
        return np.array(["a", "b"])[random.integers(0, 2, n)]
    if kind == 2:
        return numbers(random, (n, 2))
    if kind == 3:
        return random.integers(0, 2, n + int(random.integers(2)))
    if kind == 4:
        return np.abs(random.standard_normal(n))
    return numbers(random, n)


def length(X):
    return X.shape[0] if hasattr(X, "shape") else len(X)


def attempt(seed):
    """Fit and predict one random case; the text of what is wrong, or nothing."""
    random = np.random.default_rng(seed)
    X = rows(random)
    y = targets(random, length(X))
    model = ESTIMATORS[random.integers(len(ESTIMATORS))]()
    kernel = KERNELS[random.integers(len(KERNELS))]
    if kernel is not None:
        model.set_params(kernel=kernel)
    weights = None if random.random() < 0.7 else random.integers(0, 3, length(X)).astype(float)
    case = f"seed {seed}: {model!r}, X {type(X).__name__}, y {np.asarray(y).dtype}"
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y, sample_weight=weights)
            predicted = model.predict(X)
        except REFUSALS as refusal:
            if isinstance(refusal, NOT_OURS) or not str(refusal).strip():
                return f"{case}\n{traceback.format_exc()}"
            return ""
        except Exception:
            return f"{case}\n{traceback.format_exc()}"
    if len(predicted) != length(X):
        return f"{case}: {len(predicted)} predictions for {length(X)} rows"
    numeric = predicted.dtype.kind == "f"
    return f"{case}: predictions are not finite" if numeric and np.isnan(predicted).any() else ""
