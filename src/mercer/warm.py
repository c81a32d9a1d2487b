"""Compile ahead what common kernels and estimators need: `python -m mercer.warm`.

Code is compiled on first use, once for each machine and version; this does it when nobody waits, as
in the building of a container. Loops and solvers take seconds, another kernel some tenths of one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from mercer.estimators import (
    SVC,
    SVR,
    KernelLogisticRegression,
    KernelQuantileRegressor,
    KernelRidge,
)
from mercer.kernels import Gaussian, Kernel, Laplacian, Linear, Matern, Polynomial

KERNELS: tuple[Kernel, ...] = (
    Gaussian(1.0),
    Matern(0.5),
    Matern(1.5),
    Matern(2.5),
    Laplacian(1.0),
    Linear(),
    Polynomial(3, 1.0),
)
WARM_ROWS = 1100  # more than are stored whole, so that rows are computed on the way


def works(kernels: tuple[Kernel, ...] = KERNELS) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The functions to run, with names: each kernel in both precisions, then the solvers."""
    random = np.random.default_rng(0)
    X = random.standard_normal((WARM_ROWS, 3))
    y = np.sin(X[:, 0]) + 0.1 * random.standard_normal(WARM_ROWS)
    for kernel in kernels:
        for dtype in (np.float64, np.float32):
            points = X.astype(dtype)
            yield f"{kernel!r} in {np.dtype(dtype)}", partial(_products, kernel, points)
    for model, targets in (
        (KernelRidge(kernel="rbf"), y),
        (KernelRidge(kernel="rbf", centres=50, random_state=0), y),
        (SVC(), np.sign(y)),
        (SVC(), np.digitize(y, [-0.5, 0.5])),
        (SVR(), y),
        (KernelLogisticRegression(), np.sign(y)),
        (KernelQuantileRegressor(), y),
    ):
        yield type(model).__name__, partial(_fitted, model, X, targets)


def _products(kernel: Kernel, X: np.ndarray) -> None:
    """A product, blocks, a pass over rows and a gradient."""
    gram, few = kernel.gram(X), kernel.gram(X[:300], X[:40])
    gram @ np.ones(len(X), X.dtype)
    few.dense()
    few.normal_matmul(np.ones(40, X.dtype))
    few.gradient(np.ones(40, X.dtype))


def _fitted(model: Any, X: np.ndarray, y: np.ndarray) -> None:
    model.fit(X, y).predict(X[:5])


def warm(kernels: tuple[Kernel, ...] = KERNELS, report: Callable[[str], Any] = print) -> None:
    """Run all of it, and say what took how long."""
    start = time.perf_counter()
    for name, work in works(kernels):
        before = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work()
        report(f"{name}: {time.perf_counter() - before:.1f} s")
    report(f"All is compiled after {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    warm()
