"""The figures of kernel logistic regression: ten classes of images, and two classes against a peer.

The peer for two classes is scikit-learn's `GaussianProcessClassifier(optimizer=None)`, whose
posterior mode minimises the same objective; the error says how far our scores are from its mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF

from benchmarks import data, measure
from benchmarks.measure import Effort, Groups, Row
from mercer import KernelLogisticRegression
from mercer.kernels import Gaussian
from mercer.losses import Multinomial
from mercer.solvers import Newton, Problem, certified_gap, regularization_path

IMAGES, CLASSES, LENGTHSCALE, C, GAP = 10_000, 10, 5.0, 10.0, 1e-4
WIDTH, RADIUS = 8, 2.0
RIDGES = np.geomspace(1e-1, 1e-4, 10)


def ten_classes(effort: Effort) -> Iterator[Row]:
    n = effort.size(IMAGES)
    X, y, new, truth = data.mnist(n)
    kernel = Gaussian(LENGTHSCALE)
    kernel.gram(X[:64]) @ np.ones(64)  # code is loaded
    model = KernelLogisticRegression(C, kernel=kernel, tol=GAP)
    _, seconds = measure.timed(lambda: model.fit(X, y))
    problem = Problem(
        kernel.gram(X), y.astype(float), Multinomial(), 1.0 / (C * len(y)), fit_intercept=True
    )
    gap = certified_gap(problem, model.dual_coef_, model.intercept_)
    yield measure.taken(
        f"KernelLogisticRegression, {CLASSES} classes, {n:,} MNIST images, gap {GAP:g}",
        seconds,
        entry_ns=1e9 * seconds / len(y) ** 2,
        goal=60.0,
        error=gap.relative,
        note=f"one fit of X / 255 in float64, C = {C:g}, ℓ = {LENGTHSCALE:g}, with an intercept; "
        f"the error is the relative duality gap, computed again; {model.solution_.status}",
    )
    wrong = 100.0 * float(np.mean(model.predict(new) != truth))
    yield measure.smaller(
        f"the same: test error on {len(truth):,} images",
        wrong,
        " %",
        note="C and ℓ were not searched for",
    )


def two_classes(effort: Effort) -> Iterator[Row]:
    n = effort.size(1_000)
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((n, WIDTH)), rng.standard_normal((n, WIDTH))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * rng.standard_normal(n) > 0
    ours = KernelLogisticRegression(1.0, kernel=Gaussian(RADIUS), fit_intercept=False)
    theirs = GaussianProcessClassifier(RBF(RADIUS), optimizer=None)
    times = measure.interleaved(
        {
            "mercer": lambda: ours.fit(X, y),
            "GaussianProcessClassifier": lambda: theirs.fit(X, y),
        },
        effort.repeats(5),
    )
    mode, _ = theirs.latent_mean_and_variance(new)
    yield measure.faster(
        f"KernelLogisticRegression, two classes, n = {n:,}, d = {WIDTH}, C = 1, no intercept",
        times,
        "GaussianProcessClassifier",
        n * n,
        floor=2.0,
        goal=5.0,
        error=measure.relative_error(ours.decision_function(new), mode),
        note="optimizer=None, the same kernel; the error compares scores at new points with its "
        f"posterior mode; {ours.solution_.status}",
    )


def many_classes(effort: Effort) -> Iterator[Row]:
    """Centres against all points, where all points are still few enough."""
    n = effort.size(6_000)
    X, y = data.letters(n)
    count = min(1000, n // 6)
    exact = KernelLogisticRegression()
    few = KernelLogisticRegression(centres=count, random_state=0)
    times = measure.interleaved(
        {"mercer": lambda: few.fit(X, y), "all points": lambda: exact.fit(X, y)},
        effort.repeats(3),
    )
    yield measure.faster(
        f"KernelLogisticRegression(centres={count}), 26 classes, n = {n:,}, d = 16",
        times,
        "all points",
        n * count,
        floor=1.0,
        error=few.solution_.gap / few.solution_.objective,
        note="against the same on all points; the error is the relative duality gap of centres; "
        f"{few.solution_.status}",
    )


def path(effort: Effort) -> Iterator[Row]:
    n = effort.size(4_000)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, WIDTH))
    labels = np.digitize(
        np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * rng.standard_normal(n), [-0.7, 0.7]
    )
    gram = Gaussian(RADIUS).gram(X)
    solver, found = Newton(GAP), {}

    def warm() -> None:
        points = regularization_path(_task(gram, labels, 1.0), RIDGES, solver)
        found["warm"] = [point.solution for point in points]

    def cold() -> None:
        found["cold"] = [solver.solve(_task(gram, labels, float(ridge))) for ridge in RIDGES]

    times = measure.interleaved({"mercer": warm, "one by one": cold}, effort.repeats(1))
    objectives = [np.array([s.objective for s in found[name]]) for name in ("warm", "cold")]
    yield measure.faster(
        f"Newton.path, {len(RIDGES)} values of λ, three classes, n = {n:,}, d = {WIDTH}",
        times,
        "one by one",
        n * n,
        error=measure.relative_error(*objectives),
        note=f"against Newton({GAP:g}).solve for each λ; the error compares objectives",
    )


def _task(gram: object, labels: np.ndarray, ridge: float) -> Problem:
    return Problem(gram, labels.astype(float), Multinomial(), ridge, fit_intercept=True)  # type: ignore[arg-type]


GROUPS: Groups = {
    "ten": ten_classes,
    "two": two_classes,
    "many": many_classes,
    "path": path,
}

run = partial(measure.measured, "Logistic regression", GROUPS)
