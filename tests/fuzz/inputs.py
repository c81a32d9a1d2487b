"""Random inputs to every estimator and kernel: the reference's answer, or a refusal in words.

The reference of an estimator is itself on a plain float64 array, with kernel values in extended
precision (`evaluation.reference`); that of a kernel is that oracle, within its rounding bound.
"""

from __future__ import annotations

import traceback
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import markets
import mercer
from fuzz import objects
from mercer import features, online, structured
from mercer.evaluation import reference
from mercer.kernels import (
    AllSubsets,
    BlockKernel,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    PeriodicBernoulli,
    Polyharmonic,
    Polynomial,
    ThinPlate,
)
from mercer.losses import Hinge
from mercer.testing.kernels import Case

try:
    import pandas
except ImportError:  # then there are no frames among the forms
    pandas = None

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
    lambda: mercer.KernelRidge(kernel=ThinPlate()),
    lambda: mercer.KernelRidge(kernel=Polyharmonic(3), alpha=0.1),
    lambda: mercer.KernelRidge(kernel="rbf", centres=3, random_state=0),
    lambda: mercer.KernelClassifier("hinge", centres=3, random_state=0),
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
    features.TensorSketch,
    features.SkewedChi2Sampler,
    features.AdditiveChi2Sampler,
    features.AdditiveFeatures,
    features.ReLUFeatures,
    lambda: features.MercerFeatures(Gaussian(2.0), 10),
    lambda: features.MercerFeatures(PeriodicBernoulli(1), 10),
]
ONLINE = [
    lambda: online.OnlineKernelMachine(Gaussian(0.5), loss=Hinge()),
    lambda: online.OnlineKernelMachine(Gaussian(0.5), budget=online.budgets.Merge(3)),
    lambda: online.OnlineKernelMachine(Linear(), budget=online.budgets.Project(3)),
    lambda: online.Pegasos(Gaussian(0.5)),
    lambda: online.NORMA(Gaussian(0.5)),
    lambda: online.Forgetron(Gaussian(0.5), size=3),
    lambda: online.KernelPerceptron(Polynomial(2)),
    lambda: online.PassiveAggressive(Gaussian(0.5)),
    lambda: online.OneClassMachine(Gaussian(0.5)),
    lambda: online.NystroemMachine(Gaussian(0.5), size=5),
    lambda: online.RandomFeatureMachine(Gaussian(0.5), n_components=8),
    lambda: online.DoublyStochasticMachine(Gaussian(0.5)),
    lambda: online.KernelRecursiveLeastSquares(Gaussian(0.5)),
]
KERNELS = [Gaussian(0.5), Matern(1.5), Laplacian(2.0), Linear(1.0), Polynomial(2)]
NAMES = [None, "rbf", "poly", "linear", "laplacian", "cosine"]
VALUES = [  # kernels whose values are compared
    *markets.ALL_EXPRESSIONS.values(),
    *(kernel for kernel, _ in markets.ON_THEIR_POINTS.values()),
    *markets.INDEFINITE.values(),
    (Polynomial(5) + Linear()).normalised(),
    (Linear().exp() + Gaussian()).normalised(),
    (Linear().exp() * Polynomial(3)).normalised(),
    Gaussian() ** 2 + AllSubsets() * Laplacian(),
]
FUNCTIONS = [kernel for kernel, _ in markets.WITHOUT_EXPRESSION.values()]
REFUSALS = (ValueError, TypeError)
NOT_OURS = (np.linalg.LinAlgError,)  # a ValueError that says nothing to a user
SMALLEST = 1e-140  # answers whose squares are no numbers
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
    lambda X: pandas.DataFrame(X, columns=[f"c{k}" for k in range(X.shape[1])]) if pandas else X,
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


@dataclass
class Outcome:
    """What an action returns, the text of an error that is not ours, and how it ended."""

    value: Any = None
    error: str = ""
    refused: bool = False
    unsolved: bool = False  # and said so


def outcome(action):
    with warnings.catch_warnings(record=True) as said, np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            return Outcome(action(), unsolved=bool(said))
        except REFUSALS as refusal:
            ours = not isinstance(refusal, NOT_OURS) and str(refusal).strip()
            return Outcome(error="" if ours else traceback.format_exc(), refused=True)
        except Exception:
            return Outcome(error=traceback.format_exc(), refused=True)


# ---- kernels -------------------------------------------------------------------------------------


def attempt_kernel(random, seed):
    kernel, X = VALUES[random.integers(len(VALUES))], rows(random)
    name = f"seed {seed}: {kernel!r} on {type(X).__name__} {np.shape(X)}"
    found = outcome(lambda: kernel.gram(X).dense())
    if found.error or found.refused:
        return f"{name}\n{found.error}" if found.error else ""
    case, values = Case(kernel, X, "random points"), found.value
    with np.errstate(all="ignore"):
        exact = reference.block(kernel.expression(), case.x, case.x)
        # subnormal numbers are taken for zero, in two factors of a term, and may be multiplied by a
        # logarithm, as in thin plates
        slack = 2.0 * case.bound(case.x, case.x) + 4e3 * np.finfo(case.dtype).tiny
        # beyond the range of the points' precision an infinity is the rounded value
        exact = np.where(abs(exact) > np.finfo(case.dtype).max, np.sign(exact) * np.inf, exact)
        off = ~((values == exact) | (abs(values - exact) <= slack))
        if np.abs(plain(X)).max(initial=0.0) > 1e100:
            off &= np.isfinite(values)  # an overflow on the way shows
        if off.any():  # a row of subnormal numbers may be one of zeros, which has no direction
            tiny = abs(plain(X)) < np.finfo(case.dtype).tiny
            zeros = kernel.points(np.where(tiny, 0.0, plain(X)).astype(case.dtype))
            off &= ~(abs(values - reference.block(kernel.expression(), zeros, zeros)) <= slack)
    off &= ~(np.isnan(exact) | np.isnan(slack))  # what the reference cannot tell
    if not off.any():
        return ""
    i, j = np.argwhere(off)[0]
    return f"{name}: {values[i, j]!r} at {i}, {j}, the reference {exact[i, j]!r} ± {slack[i, j]!r}"


def attempt_function(random, seed):
    """Kernels without a formula: products with the matrix are those with its values."""
    kernel, X = FUNCTIONS[random.integers(len(FUNCTIONS))], rows(random)
    name = f"seed {seed}: {kernel!r} on {type(X).__name__} {np.shape(X)}"
    found = outcome(lambda: (kernel.gram(X).dense(), kernel.gram(X) @ np.ones(length(X))))
    if found.error or found.refused:
        users = not found.error or markets.__file__ in found.error  # the function's own traceback
        return "" if users else f"{name}\n{found.error}"
    dense, product = (np.asarray(part, np.float64) for part in found.value)
    with np.errstate(all="ignore"):
        if not np.isfinite(dense).all():
            return ""  # what the user's function returned
        size = np.abs(dense).sum(axis=1)
        unit = np.finfo(np.asarray(found.value[0]).dtype).eps
        same = np.abs(product - dense.sum(axis=1)) <= 100 * unit * size + 1e-300
    return "" if same.all() else f"{name}: products are not those of the values"


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

    mixed = isinstance(getattr(model, "budget", None), online.budgets.Merge)
    if mixed and scipy.sparse.issparse(X):  # sparse rows are projected: another machine
        return compared(name, lambda: answer(model, X), None, X, None)
    # of rows that are equal and labels that are not, coefficients 1/λ cancel up to rounding
    zero = 1e-12 if make in ONLINE else 0.0
    return compared(name, lambda: answer(model, X), lambda: answer(twin, plain(X)), X, None, zero)


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

    if make is mercer.SVC:  # votes of classes that are equal turn on rounding
        model.set_params(decision_function_shape="ovo")
        twin.set_params(decision_function_shape="ovo")

    if searching or make is mercer.NuSVC:  # whose f is 0, and b anything, where classes overlap
        return compared(name, lambda: answer(model, X), None, X, y)
    zero = rounding_of_zero(X, y)
    return compared(name, lambda: answer(model, X), lambda: answer(twin, plain(X)), X, y, zero)


def rounding_of_zero(X, y):
    """What Kα is off by where all targets are 0, and f with them."""
    if np.asarray(y).dtype.kind not in "fi" or np.any(y):
        return 0.0
    with np.errstate(all="ignore"):
        return 1e-14 * max(1.0, 5.0 * np.square(plain(X)).max(initial=0.0))


def by_reference(kernel):
    """The kernel by its oracle, in plain NumPy."""

    def values(X, Y):
        return reference.block(kernel.expression(), kernel.points(X), kernel.points(Y))

    return BlockKernel(values, positive_definite=True)


def compared(name, answer, reference_answer, X, y, zero=0.0):
    """What is wrong with an answer, where numbers up to `zero` are zeros."""
    found = outcome(answer)
    if found.error:
        return f"{name}\n{found.error}"
    if found.refused:
        return ""
    values = found.value
    values = np.asarray(values.toarray() if scipy.sparse.issparse(values) else values)
    if len(values) != length(X):
        return f"{name}: {len(values)} answers for {length(X)} rows"
    if values.dtype.kind == "f" and np.isnan(values).any():
        return f"{name}: an answer is NaN"
    if reference_answer is None or values.dtype.kind != "f" or found.unsolved:
        return ""
    return f"{name}{wrong}" if (wrong := far_from(values, reference_answer, y, zero)) else ""


def far_from(found, reference_answer, y, zero):
    right = outcome(reference_answer)
    if right.error:
        return f", plain\n{right.error}"
    if right.refused:
        return ": the reference refuses what was taken"
    if right.unsolved:
        return ""
    exact = right.value
    with np.errstate(all="ignore"):
        size = max(np.abs(exact).max(initial=0.0), zero)
        if y is not None and np.asarray(y).dtype.kind in "fi":
            size = max(size, float(np.abs(np.asarray(y, float)).max(initial=0.0)))
        elif y is not None:
            size = max(size, 1.0)  # labels are ±1
        off = np.abs(found - exact).max(initial=0.0, where=found != exact)
    near = off <= NEAR * size + SMALLEST or not np.isfinite(size)
    return "" if near else f": {off:.3g} from the reference, whose size is {size:.3g}"


# ---- two samples, and views of the same objects --------------------------------------------------


def attempt_pair(random, seed):
    """Tests and canonical correlations: a p-value, a correlation, or a refusal."""
    X = rows(random)
    Y = rows(random) if random.random() < 0.3 else numbers(random, (length(X), 2))
    what = random.integers(3)
    name = f"seed {seed}: {['mmd_test', 'hsic_test', 'KernelCCA'][what]} of {np.shape(X)} and Y"
    if what == 2:
        found = outcome(lambda: mercer.KernelCCA(1, random_state=0).fit(X, Y).correlations_)
    else:
        test = [mercer.mmd_test, mercer.hsic_test][what]
        options = {} if random.random() < 0.5 else {"bandwidth": "aggregate"}
        found = outcome(lambda: [test(X, Y, permutations=19, random_state=0, **options).pvalue])
    if found.error or found.refused:
        return f"{name}\n{found.error}" if found.error else ""
    inside = np.asarray(found.value)
    inside = (inside >= 0.0) & (inside <= 1.0 + 1e-12)
    return "" if inside.all() else f"{name}: {found.value} is not between 0 and 1"


def attempt_table(random, seed):
    """A small table with texts, missing values and a constant, to `mercer.fit` and estimators."""
    if pandas is None:
        return ""
    n = int(random.choice([0, 1, 5, 12, 30]))
    columns = {
        "number": numbers(random, n),
        "town": np.array(["Bonn", "Rome", None], object)[random.integers(0, 3, n)],
        "same": np.ones(n),
        "y": targets(random, n)[:n],
    }
    if columns["y"].ndim > 1:
        columns["y"] = columns["y"][:, 0]
    table = pandas.DataFrame(columns)
    name = f"seed {seed}: a table of {n} rows, y {columns['y'].dtype}"
    rest = table.drop(columns="y")

    def answer():
        if random.random() < 0.1:
            return mercer.fit(table, "y", time_limit=2.0).predict(table)
        model = [mercer.KernelRidge, mercer.SVC][random.integers(2)]
        return model(kernel=structured.table_kernel(rest)).fit(rest, columns["y"]).predict(rest)

    found = outcome(answer)
    if found.error:
        return f"{name}\n{found.error}"
    return "" if found.refused or len(found.value) == n else f"{name}: {len(found.value)} answers"


def left_out():
    """What could not be tried here, in words."""
    return "" if pandas else "; no frames and tables, for which pandas is not installed"


def attempt(seed):
    """One random case; the text of what is wrong, or nothing."""
    random = np.random.default_rng(seed)
    share = random.random()
    kinds = (
        (attempt_kernel, 0.35),
        (attempt_function, 0.40),
        (objects.attempt, 0.47),
        (attempt_pair, 0.50),
        (attempt_table, 0.51),
        (attempt_transformer, 0.65),
    )
    kind = next((kind for kind, end in kinds if share < end), attempt_predictor)
    return kind(random, seed)
