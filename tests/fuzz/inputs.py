"""Random inputs to every estimator and kernel: the reference's answer, or a refusal in words.

The reference of an estimator is itself on a plain float64 array, with kernel values in extended
precision (`evaluation.reference`); that of a kernel is that oracle, within its rounding bound.
"""

from __future__ import annotations

import traceback
import warnings

import numpy as np
import pandas
import scipy.sparse
from sklearn.base import clone

import mercer
from mercer import features, online
from mercer.evaluation import reference
from mercer.features import additive
from mercer.kernels import (
    AllSubsets,
    ArcCosine,
    BlockKernel,
    Brownian,
    Cauchy,
    ChiSquared,
    Constant,
    Gaussian,
    HistogramIntersection,
    Laplacian,
    Linear,
    Matern,
    PeriodicBernoulli,
    PeriodicExponential,
    Polynomial,
    PolynomialOf,
    RationalQuadratic,
    Spline,
    StretchedExponential,
)
from mercer.losses import Hinge
from mercer.testing.cases import Case

REGRESSORS = [
    mercer.KernelRidge,
    mercer.KernelRegressor,
    mercer.KernelPoissonRegressor,
    mercer.KernelQuantileRegressor,
    mercer.SVR,
    mercer.NuSVR,
]
CLASSIFIERS = [
    mercer.KernelClassifier,
    mercer.KernelLogisticRegression,
    mercer.KernelRidgeClassifier,
    mercer.SVC,
    mercer.NuSVC,
]
SEARCHES = [  # that choose by themselves: their answer has no reference on other values of k
    mercer.KernelRidgeCV,
    mercer.KernelClassifierCV,
    mercer.SVCCV,
    mercer.LearnedKernelRegressor,
    mercer.LearnedKernelClassifier,
    lambda: mercer.ConformalRegressor(mercer.KernelRidge()),
    mercer.ConditionalMeanEmbedding,
]
UNSUPERVISED = [
    mercer.OneClassSVM,
    mercer.KernelPCA,
    mercer.KernelDensity,
    mercer.KernelKMeans,
    mercer.SpectralClustering,
]
MAPS = [
    features.Nystroem,
    features.RBFSampler,
    features.RandomFourierFeatures,
    features.Fastfood,
    features.PolynomialCountSketch,
    features.SkewedChi2Sampler,
    additive.AdditiveChi2Sampler,
]
ONLINE = [
    lambda: online.OnlineKernelMachine(Gaussian(0.5), loss=Hinge()),
    lambda: online.Pegasos(Gaussian(0.5)),
    lambda: online.KernelRecursiveLeastSquares(Gaussian(0.5)),
]
KERNELS = [Gaussian(0.5), Matern(1.5), Laplacian(2.0), Linear(1.0), Polynomial(2)]
NAMES = [None, "rbf", "poly", "linear", "laplacian", "cosine"]
VALUES = [  # kernels whose values are compared
    *KERNELS,
    Matern(2.2),
    Matern(0.3),
    RationalQuadratic(0.7),
    StretchedExponential(0.5),
    Cauchy(1.3),
    AllSubsets(),
    ArcCosine(0),
    ArcCosine(1),
    ArcCosine(2),
    PeriodicBernoulli(1),
    PeriodicExponential(2.0),
    ChiSquared(0.7),
    HistogramIntersection(),
    Brownian(),
    Spline(),
    Constant(2.0),
    2.0 * Gaussian(0.5) + Linear() * Matern(1.5, lengthscale=2.0),
    PolynomialOf(Linear(), [0.5, 0.0, 2.0, 1.0]),
    (0.3 * Linear(1.0)).exp().normalised(),
    Polynomial(2).normalised(),
    (Polynomial(5) + Linear()).normalised(),
    (Linear().exp() + Gaussian()).normalised(),
    Gaussian(0.6).on([0]),
]
REFUSALS = (ValueError, TypeError)
NOT_OURS = (np.linalg.LinAlgError,)  # a ValueError that says nothing to a user
NEAR = 0.15  # of the largest target: solvers stop at a gap of 1e-3, of which the root counts


# ---- what is drawn -------------------------------------------------------------------------------


def numbers(random, shape):
    """Numbers of one temper: plain, huge, tiny, subnormal, with NaN or infinity, all equal."""
    kind = random.integers(10)
    values = random.standard_normal(shape)
    scale = [1.0, 1.0, 1e3, 1e-3, 1e150, 1e-150, 1e-310, 1.0, 1.0, 0.0][kind]
    values = scale * values
    if kind in (7, 8) and values.size:
        values.flat[random.integers(values.size)] = np.nan if kind == 7 else np.inf
    return values


def rows(random):
    n, d = int(random.choice([0, 1, 2, 3, 8, 25])), int(random.choice([0, 1, 2, 5]))
    X = numbers(random, (n, d))
    if random.random() < 0.2:
        X = abs(X)  # what kernels of histograms take
    with np.errstate(over="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FORMS[random.integers(len(FORMS))](X)


FORMS = [  # in which users hold numbers
    lambda X: X,
    lambda X: X,
    lambda X: X.astype(np.float32),
    scipy.sparse.csr_matrix,
    lambda X: pandas.DataFrame(X, columns=[f"c{k}" for k in range(X.shape[1])]),
    lambda X: X.tolist(),
    lambda X: np.nan_to_num(np.clip(X, -100, 100)).astype(int),
    lambda X: X[:, 0] if X.shape[1] else X,
    lambda X: X.astype(object),
]


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


def plain(X):
    """The same numbers as a float64 array."""
    return np.asarray(X.toarray() if scipy.sparse.issparse(X) else X, np.float64)


def outcome(action):
    """What an action returns, the text of an error that is not ours, and whether it refused."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return action(), "", False
        except REFUSALS as refusal:
            ours = not isinstance(refusal, NOT_OURS) and str(refusal).strip()
            return None, "" if ours else traceback.format_exc(), True
        except Exception:
            return None, traceback.format_exc(), True


# ---- kernels -------------------------------------------------------------------------------------


def attempt_kernel(random, seed):
    kernel, X = VALUES[random.integers(len(VALUES))], rows(random)
    name = f"seed {seed}: {kernel!r} on {type(X).__name__} {np.shape(X)}"
    values, error, refused = outcome(lambda: kernel.gram(X).dense())
    if error or refused:
        return f"{name}\n{error}" if error else ""
    case = Case(kernel, X, "random points")
    with np.errstate(all="ignore"):
        exact = reference.block(kernel.expression(), case.x, case.x)
        slack = 2.0 * case.bound(case.x, case.x)
        # beyond the range of the points' precision an infinity is the rounded value
        exact = np.where(abs(exact) > np.finfo(case.dtype).max, np.sign(exact) * np.inf, exact)
        off = ~((values == exact) | (abs(values - exact) <= slack))
        if np.abs(plain(X)).max(initial=0.0) > 1e100:
            off &= np.isfinite(values)  # an overflow on the way shows
    if not off.any() or np.isnan(exact[off]).all():
        return ""
    i, j = np.argwhere(off)[0]
    return f"{name}: {values[i, j]!r} at {i}, {j}, the reference {exact[i, j]!r} ± {slack[i, j]!r}"


# ---- estimators ----------------------------------------------------------------------------------


def attempt_transformer(random, seed):
    make = [*UNSUPERVISED, *MAPS, *ONLINE][random.integers(len(UNSUPERVISED + MAPS + ONLINE))]
    model, X = make(), rows(random)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    y = targets(random, length(X)) if make in ONLINE else None
    name = f"seed {seed}: {model!r}, X {type(X).__name__} {np.shape(X)}"
    twin = clone(model)

    def answer(model, X):
        fitted = model.fit(X) if y is None else model.fit(X, y)
        for method in ("decision_function", "transform", "score_samples", "predict"):
            if hasattr(fitted, method):
                return getattr(fitted, method)(X)
        return fitted.labels_

    return compared(name, lambda: answer(model, X), lambda: answer(twin, plain(X)), X, None)


def attempt_predictor(random, seed):
    X = rows(random)
    y = targets(random, length(X))
    choices = [*REGRESSORS, *CLASSIFIERS]
    searching = random.random() < 0.05
    if searching:
        choices = SEARCHES
    make = choices[random.integers(len(choices))]
    model = make()
    named = searching or random.random() < 0.4
    kernel = NAMES[random.integers(len(NAMES))] if named else KERNELS[random.integers(5)]
    if kernel is not None and "kernel" in model.get_params():
        model.set_params(kernel=kernel)
    weights = None if random.random() < 0.7 else random.integers(0, 3, length(X)).astype(float)
    name = f"seed {seed}: {model!r}, X {type(X).__name__} {np.shape(X)}, y {np.asarray(y).dtype}"
    twin = clone(model)
    if not named:
        twin.set_params(kernel=by_reference(kernel))

    def answer(model, X):
        model.fit(X, y) if weights is None else model.fit(X, y, sample_weight=weights)
        if not hasattr(model, "predict"):  # an embedding of distributions
            return model.weights(X)
        return model.decision_function(X) if make in CLASSIFIERS else model.predict(X)

    if searching or make is mercer.NuSVC:  # whose f is 0, and b anything, where classes overlap
        return compared(name, lambda: answer(model, X), None, X, y)
    return compared(name, lambda: answer(model, X), lambda: answer(twin, plain(X)), X, y)


def by_reference(kernel):
    """The kernel by its oracle, in plain NumPy."""

    def values(X, Y):
        return reference.block(kernel.expression(), kernel.points(X), kernel.points(Y))

    return BlockKernel(values, positive_definite=True)


def compared(name, answer, reference_answer, X, y):
    found, error, refused = outcome(answer)
    if error:
        return f"{name}\n{error}"
    if refused:
        return ""
    found = np.asarray(found.toarray() if scipy.sparse.issparse(found) else found)
    if len(found) != length(X):
        return f"{name}: {len(found)} answers for {length(X)} rows"
    if found.dtype.kind == "f" and np.isnan(found).any():
        return f"{name}: an answer is NaN"
    if reference_answer is None or found.dtype.kind != "f":
        return ""
    return f"{name}{wrong}" if (wrong := far_from(found, reference_answer, y)) else ""


def far_from(found, reference_answer, y):
    exact, error, refused = outcome(reference_answer)
    if error:
        return f", plain\n{error}"
    if refused:
        return ": the reference refuses what was taken"
    with np.errstate(all="ignore"):
        size = np.abs(exact).max(initial=0.0)
        if y is not None and np.asarray(y).dtype.kind in "fi":
            size = max(size, float(np.abs(np.asarray(y, float)).max(initial=0.0)))
        off = np.abs(found - exact).max(initial=0.0)
    near = off <= NEAR * size + 1e-300 or not np.isfinite(size)
    return "" if near else f": {off:.3g} from the reference, whose size is {size:.3g}"


def attempt(seed):
    """One random case; the text of what is wrong, or nothing."""
    random = np.random.default_rng(seed)
    share = random.random()
    if share < 0.4:
        return attempt_kernel(random, seed)
    if share < 0.55:
        return attempt_transformer(random, seed)
    return attempt_predictor(random, seed)
