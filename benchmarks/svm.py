"""The figures of support vector machines: SVC with two and ten classes, SVR.

The peer is scikit-learn's estimator of the same name, with the same parameters on the same float64
arrays. The error of a row is the relative difference of the dual objectives, the note says how many
predictions for new points agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from sklearn import svm as theirs
from sklearn.datasets import load_digits, make_blobs
from threadpoolctl import threadpool_limits

from benchmarks import measure
from benchmarks.data import letters, table
from benchmarks.measure import Effort, Groups, Row
from mercer import SVC, SVR
from mercer.kernels import Gaussian

CHECKED = 10_000  # new points whose predictions are compared


def half_norm(kernel: Any, model: Any) -> float:
    """½‖f‖² of a machine with one output."""
    f = kernel.function(model.support_vectors_, model.dual_coef_[0])
    return 0.5 * f.norm() ** 2


def classes_of_two(effort: Effort) -> Iterator[Row]:
    X, y = table("ijcnn1")
    n = effort.size(20_000)
    X, new, y = X[:n], X[n : n + CHECKED], y[:n]
    options: dict[str, Any] = {"C": 10.0, "gamma": 1.0}
    ours, peer = SVC(**options), theirs.SVC(**options)
    times = timed(ours, peer, X, y, effort)
    kernel = Gaussian(0.5**0.5)

    def dual(model: Any) -> float:
        return float(np.abs(model.dual_coef_).sum()) - half_norm(kernel, model)

    yield row(
        f"SVC, ijcnn1, {n:,} rows, d = 22, C = 10, γ = 1",
        times,
        n,
        goal=4.65,  # twice as fast as scikit-learn-intelex, which took 0.43 of libsvm's time
        error=abs(dual(ours) / dual(peer) - 1),
        note=f"{agreement(ours, peer, new)}; {ours.statuses_[0]}",
    )


def classes_of_ten(effort: Effort) -> Iterator[Row]:
    X, y = table("mnist")
    n = effort.size(10_000)
    X = X[: n + CHECKED].reshape(-1, 784) / 255.0
    work = f"MNIST, {n:,} images, 10 classes in 45 pairs"
    yield in_pairs(work, X[:n], y[:n], X[n : n + CHECKED // 5], effort, floor=2.5, goal=5.0)


def in_pairs(
    work: str, X: np.ndarray, y: np.ndarray, new: np.ndarray, effort: Effort, **marks: float
) -> Row:
    """A machine for each pair of classes, with the parameters that nobody set."""
    ours, peer = SVC(), theirs.SVC()
    times = timed(ours, peer, X, y, effort)
    duals = [duals_of_pairs(ours.kernel_, model) for model in (ours, peer)]
    worst = max(solution.gap / solution.objective for solution in ours.solutions_)
    return measure.faster(
        f"SVC, {work}, C = 1, γ = 'scale'",
        times,
        "sklearn SVC",
        len(X) ** 2,
        error=float(np.abs(duals[0] / duals[1] - 1).max()),
        note=f"{agreement(ours, peer, new)}; the error is the largest of all pairs; the largest "
        f"relative duality gap of ours is {worst:.1e}",
        **marks,
    )


def duals_of_pairs(kernel: Any, model: Any) -> np.ndarray:
    """Σ|α| − ½‖f‖² of each pair of classes, from the table of coefficients."""
    ends = np.cumsum(model.n_support_)
    starts, duals = ends - model.n_support_, []
    K = kernel(model.support_vectors_)
    for i, j in combinations(range(len(ends)), 2):
        places = np.r_[starts[i] : ends[i], starts[j] : ends[j]]
        alpha = np.r_[
            model.dual_coef_[j - 1, starts[i] : ends[i]], model.dual_coef_[i, starts[j] : ends[j]]
        ]
        duals.append(np.abs(alpha).sum() - 0.5 * alpha @ K[np.ix_(places, places)] @ alpha)
    return np.array(duals)


def regression(effort: Effort) -> Iterator[Row]:
    X, y = table("uci_kin40k")
    n = effort.size(15_000)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = ((y - y.mean()) / y.std()).ravel()
    X, new, y = X[:n], X[n : n + CHECKED], y[:n]
    ours, peer = SVR(), theirs.SVR()
    times = timed(ours, peer, X, y, effort)
    kernel = ours.kernel_

    def dual(model: Any) -> float:
        alpha = model.dual_coef_[0]
        linear = float(y[model.support_] @ alpha) - 0.1 * float(np.abs(alpha).sum())
        return linear - half_norm(kernel, model)

    left, right = ours.predict(new), peer.predict(new)
    close = float((np.abs(left - right) <= 0.01 * y.std()).mean())
    yield row(
        f"SVR, kin40k, {n:,} rows, d = 8, C = 1, ε = 0.1, γ = 'scale'",
        times,
        n,
        goal=5.0,
        error=abs(dual(ours) / dual(peer) - 1),
        note=f"`{ours!r}.fit(X, y)`; {100 * close:.2f}% of {len(new):,} predictions within "
        f"0.01 of a deviation of y; {ours.solution_.status}",
    )


def timed(ours: Any, peer: Any, X: np.ndarray, y: np.ndarray, effort: Effort) -> dict[str, float]:
    name = f"sklearn {type(peer).__name__}"
    works = {"mercer": lambda: ours.fit(X, y), name: lambda: peer.fit(X, y)}
    return measure.interleaved(works, {"mercer": effort.repeats(3), name: effort.repeats(2)})


def agreement(ours: Any, peer: Any, new: np.ndarray) -> str:
    same = float((ours.predict(new) == peer.predict(new)).mean())
    return f"`{ours!r}.fit(X, y)`; {100 * same:.2f}% of {len(new):,} predictions agree"


def row(work: str, times: dict[str, float], n: int, **more: Any) -> Row:
    peer = next(name for name in times if name != "mercer")
    return measure.faster(work, times, peer, n * n, floor=2.5, **more)


def small(effort: Effort) -> Iterator[Row]:
    """What a first look takes: a thousand digits, ten classes; each of ours solved to rounding."""
    X, y = load_digits(return_X_y=True)
    n = 1250
    work = f"digits, {n:,} images of 8 × 8, 10 classes in 45 pairs"
    yield in_pairs(work, X[:n], y[:n], X[n:], effort, floor=1.0)


MANY = {  # d, classes: rows of each kind
    "drawn letters": ((16, 11, 5_000), (16, 26, 18_000), (16, 200, 4_000)),
    "classes around centres": ((16, 11, 5_000), (16, 26, 18_000), (2, 11, 5_000), (16, 100, 3_000)),
}


def many(effort: Effort) -> Iterator[Row]:
    """Many small classes: what a pair costs beside its arithmetic decides; in two threads and one.

    scikit-learn's SVC has one thread.
    """
    for kind, sizes in MANY.items():
        for d, classes, rows in sizes:
            n, checked = effort.size(rows), CHECKED // 5
            draw = letters if kind == "drawn letters" else partial(clusters, d=d)
            X, y = draw(n + checked, classes)
            for threads in (2, 1):
                work = f"{kind}, {n:,} rows, d = {d}, {classes} classes"
                with threadpool_limits(threads):
                    row = in_pairs(work, X[:n], y[:n], X[n:], effort, floor=1.0)
                row.work += ", one thread" if threads == 1 else f", {threads} threads"
                yield row


def clusters(rows: int, classes: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal clouds around centres in a box; in a plane some of them overlap."""
    return make_blobs(rows, d, centers=classes, random_state=0)


GROUPS: Groups = {
    "ijcnn1": classes_of_two,
    "mnist": classes_of_ten,
    "kin40k": regression,
    "digits": small,
    "many": many,
}


run = partial(measure.measured, "Support vector machines", GROUPS)
