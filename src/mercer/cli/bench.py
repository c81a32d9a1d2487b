"""A few works of mercer against installed peers, timed in turns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.kernel_ridge import KernelRidge as SklearnRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC as SklearnSVC

from mercer.estimators import SVC, KernelRidge
from mercer.kernels import Gaussian
from mercer.workflow.progress import progress_bar

TURNS = 3


def works(rows: int) -> list[tuple[str, str, Callable[[], Any], Callable[[], Any]]]:
    """The comparisons: a title, the peer, our function and theirs, whose numbers must agree."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 10))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(rows)
    labels = np.where(y + 0.3 * rng.standard_normal(rows) > 0, 1, -1)
    kernel, gram = Gaussian(2.0), Gaussian(2.0).gram(X)
    options = {"alpha": 0.1, "kernel": "rbf", "gamma": 0.125}
    return [
        ("K(X, X)v", "rbf_kernel(X) @ v", lambda: gram @ y, lambda: rbf_kernel(X, gamma=0.125) @ y),
        (
            "kernel ridge regression",
            "KernelRidge",
            lambda: KernelRidge(0.1, kernel=kernel).fit(X, y).predict(X[:500]),
            lambda: SklearnRidge(**options).fit(X, y).predict(X[:500]),
        ),
        (
            "support vector machine",
            "SVC",
            lambda: SVC(C=10.0, gamma=0.125, tol=1e-4).fit(X, labels).decision_function(X[:500]),
            lambda: (
                SklearnSVC(C=10.0, gamma=0.125, tol=1e-4).fit(X, labels).decision_function(X[:500])
            ),
        ),
    ]


def bench(options: Any) -> None:
    """Time them in turns and print the table."""
    asked = works(options.rows)
    results: list[dict[str, Any]] = []
    with progress_bar(not (options.quiet or options.json)) as notify:
        for work in asked:
            if notify is not None:
                notify(work[0], len(results) / len(asked))
            results.append(_measured(*work))
    if options.json:
        print(json.dumps(results, indent=1))
        return
    head = f"work, {options.rows:,} rows"
    print(f"{head:<28}{'mercer':>10}{'peer':>10}{'times':>8}  agreement")
    for row in results:
        times = row["peer"] / row["mercer"]
        print(
            f"{row['work']:<28}{row['mercer']:>9.3f}s{row['peer']:>9.3f}s{times:>7.1f}×"
            f"  {row['agreement']:.1e}, scikit-learn's {row['against']}"
        )


def _measured(work: str, against: str, ours: Any, theirs: Any) -> dict[str, Any]:
    answers = [np.asarray(ours()), np.asarray(theirs())]  # code is compiled, memory is touched
    best = [float("inf")] * 2
    for _ in range(TURNS):
        for i, side in enumerate((ours, theirs)):
            start = time.perf_counter()
            side()
            best[i] = min(best[i], time.perf_counter() - start)
    gap = np.linalg.norm(answers[0] - answers[1]) / np.linalg.norm(answers[1])
    return {
        "work": work,
        "against": against,
        "mercer": best[0],
        "peer": best[1],
        "agreement": float(gap),
    }
