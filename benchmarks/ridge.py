"""The figures of ridge regression: fit, predict, the path of λ, the choice of two parameters.

The peer is scikit-learn's `KernelRidge`, with the same α and kernel, and `GridSearchCV` around it.
Each row carries, as its error, how far our answer is from theirs, or from refits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_ridge import KernelRidge as Theirs
from sklearn.model_selection import GridSearchCV

from benchmarks import measure
from benchmarks.measure import Effort, Groups, Row
from mercer import KernelRidge, KernelRidgeCV
from mercer.kernels import Gaussian
from mercer.solvers import SpectralPath

WIDTH, GAMMA, ALPHA = 8, 0.125, 0.1
LENGTHSCALE = (0.5 / GAMMA) ** 0.5
ALPHAS = np.geomspace(1e-4, 1e1, 30)
SCALES = LENGTHSCALE * np.geomspace(0.25, 4.0, 10)
FOLDS = 5
CHECKED = 1000  # new points whose predictions are compared
REFITS = 3  # points that are really left out


def points(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, WIDTH))


def values(X: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(1).standard_normal(len(X))
    return np.sin(X[:, 0]) * X[:, 1] + 0.1 * noise


# ---- one model -----------------------------------------------------------------------------------


def fit_and_predict(effort: Effort) -> Iterator[Row]:
    X = points(effort.size(10_000))
    y, new = values(X), points(effort.size(50_000), seed=2)
    ours = KernelRidge(ALPHA, kernel="rbf", gamma=GAMMA)
    theirs = Theirs(alpha=ALPHA, kernel="rbf", gamma=GAMMA)
    fits = {"mercer": lambda: ours.fit(X, y), "KernelRidge": lambda: theirs.fit(X, y)}
    times = measure.interleaved(fits, effort.repeats(2))
    error = measure.relative_error(ours.predict(new[:CHECKED]), theirs.predict(new[:CHECKED]))
    yield measure.faster(
        f"fit, Gaussian, float64, n = {len(X):,}, d = {WIDTH}, α = {ALPHA}",
        times,
        "KernelRidge",
        len(X) ** 2,
        floor=1.9,
        goal=3.0,
        error=error,
        note=f"predictions of both at {CHECKED:,} new points are compared; {ours.solution_.status}",
    )
    predictions = {"mercer": lambda: ours.predict(new), "KernelRidge": lambda: theirs.predict(new)}
    times = measure.interleaved(predictions, effort.repeats(3))
    yield measure.faster(
        f"predict {len(new):,} rows with that model",
        times,
        "KernelRidge",
        len(X) * len(new),
        floor=10.0,
        goal=15.0,
        error=measure.relative_error(ours.predict(new), theirs.predict(new)),
        note=f"scikit-learn stores the {len(X) * len(new) * 8 / 1e9:.1f} GB of the matrix",
    )
    yield measure.memory(
        f"the same, {len(new):,} rows: memory beyond input and output",
        measure.in_a_process(peak_of_prediction, len(X), len(new)),
        64.0,
        note="peak of the process less its size before the call",
    )


def peak_of_prediction(n: int, rows: int) -> int:
    """Bytes that one prediction adds to the peak of this process, its output not counted."""
    X, new = points(n), points(rows, seed=2)
    function = Gaussian(LENGTHSCALE).function(X, np.ones(n))
    function(new[:10])  # code is loaded
    output, extra = measure.growth(lambda: function(new))
    return extra - output.nbytes


# ---- the path ------------------------------------------------------------------------------------


def path_of_regularisations(effort: Effort) -> Iterator[Row]:
    n = effort.size(4_000)
    X = points(n)
    y = values(X)
    gram = Gaussian(LENGTHSCALE).gram(X)
    some = ALPHAS[:: len(ALPHAS) // 3][:3]
    search = GridSearchCV(Theirs(kernel="rbf", gamma=GAMMA), {"alpha": some}, cv=FOLDS, refit=False)
    errors: list[np.ndarray] = []

    def ours() -> None:
        errors[:] = [SpectralPath.of(gram, y).leave_one_out_errors((ALPHAS / n).tolist())]

    times = measure.interleaved(
        {"mercer": ours, "GridSearchCV": lambda: search.fit(X, y)},
        {"mercer": effort.repeats(2), "GridSearchCV": effort.repeats(2)},
    )
    times["GridSearchCV"] *= len(ALPHAS) / len(some)
    yield measure.faster(
        f"{len(ALPHAS)} values of λ with exact leave-one-out, n = {n:,}, d = {WIDTH}",
        times,
        "GridSearchCV",
        n * n,
        floor=10.0,
        goal=15.0,
        error=_error_of_left_out(gram, X, y),
        note=f"GridSearchCV(KernelRidge, cv={FOLDS}, refit=False) was timed on {len(some)} of the "
        f"{len(ALPHAS)} values and its time scaled up, which is fair, since it fits each of them "
        f"anew; the error is that of the predictions of {REFITS} points against refits without "
        "them",
    )


def _error_of_left_out(gram: Any, X: np.ndarray, y: np.ndarray) -> float:
    predictions = SpectralPath.of(gram, y).leave_one_out(ALPHA / len(y))
    refits = []
    for i in range(REFITS):
        model = Theirs(alpha=ALPHA, kernel="rbf", gamma=GAMMA)
        model.fit(np.delete(X, i, axis=0), np.delete(y, i))
        refits.append(model.predict(X[i : i + 1])[0])
    return measure.relative_error(predictions[:REFITS], np.array(refits))


# ---- two parameters ------------------------------------------------------------------------------


def choice_of_two(effort: Effort) -> Iterator[Row]:
    n = effort.size(2_000)
    X = points(n)
    y, new = values(X), points(CHECKED, seed=2)
    chosen = KernelRidgeCV(ALPHAS, lengthscales=SCALES)
    scales, alphas = SCALES[[2, 7]], ALPHAS[[3, 13, 23]]
    search = GridSearchCV(
        Theirs(kernel="rbf"),
        {"gamma": 0.5 / scales**2, "alpha": alphas},
        cv=FOLDS,
        refit=False,
    )
    times = measure.interleaved(
        {"mercer": lambda: chosen.fit(X, y), "GridSearchCV": lambda: search.fit(X, y)},
        {"mercer": effort.repeats(2), "GridSearchCV": effort.repeats(2)},
    )
    share = len(scales) * len(alphas) / (len(SCALES) * len(ALPHAS))
    times["GridSearchCV"] /= share
    gamma = 0.5 / chosen.kernel_.lengthscale**2
    theirs = Theirs(alpha=chosen.alpha_, kernel="rbf", gamma=gamma).fit(X, y)
    yield measure.faster(
        f"{len(SCALES)} lengthscales × {len(ALPHAS)} λ, n = {n:,}, d = {WIDTH}, KernelRidgeCV",
        times,
        "GridSearchCV",
        n * n,
        floor=8.0,
        error=measure.relative_error(chosen.predict(new), theirs.predict(new)),
        note=f"GridSearchCV(KernelRidge, cv={FOLDS}, refit=False) was timed on {len(scales)} × "
        f"{len(alphas)} of the pairs and its time scaled up; the error compares predictions with "
        f"scikit-learn's at our choice (α = {chosen.alpha_:.2g}, ℓ = "
        f"{chosen.kernel_.lengthscale:.2g})",
    )


GROUPS: Groups = {
    "fit": fit_and_predict,
    "path": path_of_regularisations,
    "choice": choice_of_two,
}

run = partial(measure.measured, "Ridge", GROUPS)
