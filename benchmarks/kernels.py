"""Every kernel with a program: K(X, Y)v over the Gaussian's time, two peers, and gradients.

Timings include everything a user's line does: `kernel.gram(X, Y) @ v` packs its points, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from benchmarks import measure
from benchmarks.measure import Effort, Groups, Row
from mercer.evaluation import reference
from mercer.kernels import (
    AllSubsets,
    ArcCosine,
    Brownian,
    Cauchy,
    ChiSquared,
    Exponential,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    PeriodicBernoulli,
    PeriodicExponential,
    Polynomial,
    PolynomialOf,
    RationalQuadratic,
    Sigmoid,
    Spline,
    direct_sum,
    tensor_product,
)

WIDTH = 10
SCALE = (WIDTH / 2) ** 0.5  # scikit-learn's default gamma, 1/d
CHECKED = 16  # rows whose answer is compared with float64
BLOCK = 8  # rows of a block in NumPy; 2 to 1024 were tried, and 8 was the fastest
SKLEARN, NUMPY = "laplacian_kernel(X, Y) @ v", "K *= 1 + X[:, k] Y[:, k]ᵀ in blocks, then K @ v"
MAP = np.random.default_rng(7).standard_normal((WIDTH, WIDTH)) / WIDTH

FLOOR, GENERAL = 3.0, 8.0  # times the Gaussian; for a smoothness without a closed form
KERNELS: dict[str, Kernel] = {
    "Gaussian([ℓ₁, …, ℓ₁₀])": Gaussian(np.linspace(1.0, 3.0, WIDTH)),
    "Linear()": Linear(),
    "Polynomial(3)": Polynomial(3),
    "Sigmoid()": Sigmoid(0.1),
    "Exponential()": Exponential(SCALE),
    "Matern(1.5)": Matern(1.5, SCALE),
    "Matern(2.5)": Matern(2.5, SCALE),
    "Matern(3.5)": Matern(3.5, SCALE),
    "Matern(4.5)": Matern(4.5, SCALE),
    "Matern(0.3)": Matern(0.3, SCALE),
    "Matern(2.2)": Matern(2.2, SCALE),
    "Matern(20.0)": Matern(20.0, SCALE),
    "RationalQuadratic()": RationalQuadratic(1.5, SCALE),
    "Laplacian()": Laplacian(WIDTH),
    "Laplacian([ℓ₁, …, ℓ₁₀])": Laplacian(np.linspace(5.0, 15.0, WIDTH)),
    "Cauchy()": Cauchy(SCALE),
    "AllSubsets()": AllSubsets(),
    "ChiSquared()": ChiSquared(),
    "Brownian()": Brownian(),
    "Spline()": Spline(),
    "ArcCosine(0)": ArcCosine(0),
    "ArcCosine(1)": ArcCosine(1),
    "ArcCosine(2)": ArcCosine(2),
    "PeriodicBernoulli(1)": PeriodicBernoulli(1),
    "PeriodicBernoulli(2)": PeriodicBernoulli(2),
    "PeriodicBernoulli(4)": PeriodicBernoulli(4),
    "PeriodicExponential()": PeriodicExponential(),
    "Gaussian().exp()": Gaussian(SCALE).exp(),
    "PolynomialOf(Linear(), [1, 2, 3])": PolynomialOf(0.1 * Linear(), [1.0, 2.0, 3.0]),
    "Polynomial(2).normalised()": Polynomial(2).normalised(),
    "Gaussian().after(A)": Gaussian(SCALE).after(MAP),
    "Gaussian().on(5 columns)": Gaussian(SCALE).on(range(5)),
    "Gaussian() + Linear()": Gaussian(SCALE) + Linear(),
    "Gaussian() * Linear()": Gaussian(SCALE) * Linear(),
    "tensor_product of two Gaussians": tensor_product(
        (Gaussian(SCALE), range(5)), (Gaussian(1.0), range(5, WIDTH))
    ),
    "direct_sum of two Gaussians": direct_sum(
        (Gaussian(SCALE), range(5)), (Gaussian(1.0), range(5, WIDTH))
    ),
}


def points(n: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, Y in the unit cube, where all kernels are defined, and v; float32."""
    rng = np.random.default_rng(0)
    X, Y = (rng.random((size, WIDTH), dtype=np.float32) for size in (n, m))
    return X, Y, rng.standard_normal(m, dtype=np.float32)


def error(kernel: Kernel, X: np.ndarray, Y: np.ndarray, v: np.ndarray, answer: Any) -> float:
    """Of an answer on some rows, relative to the program in plain NumPy and float64."""
    rows = np.linspace(0, len(X) - 1, CHECKED).astype(int)
    program = kernel.expression()
    assert program is not None
    exact = reference.block(program, kernel.points(X[rows]), kernel.points(Y))  # type: ignore[arg-type]
    return measure.relative_error(np.asarray(answer)[rows], exact @ v.astype(np.float64))


def over_the_gaussian(effort: Effort) -> Iterator[Row]:
    X, Y, v = points(effort.size(20480), effort.size(10240))
    kernels: dict[str, Kernel] = {"mercer": Gaussian(SCALE)} | KERNELS
    works = {
        name: lambda kernel=kernel: kernel.gram(X, Y) @ v  # type: ignore[misc]
        for name, kernel in kernels.items()
    }
    times = measure.interleaved(works, effort.repeats(12))
    entries = len(X) * len(Y)
    size = f"float32, n = {len(X):,}, m = {len(Y):,}, d = {WIDTH}"
    yield measure.smaller(
        f"K(X, Y)v, Gaussian(), {size}",
        1.0,
        "× the time",
        ours_ms=1e3 * times["mercer"],
        entry_ns=1e9 * times["mercer"] / entries,
        error=error(kernels["mercer"], X, Y, v, works["mercer"]()),
    )
    for name, kernel in KERNELS.items():
        yield measure.smaller(
            f"K(X, Y)v, {name}",
            times[name] / times["mercer"],
            "× the time",
            peer="mercer's Gaussian",
            ours_ms=1e3 * times[name],
            entry_ns=1e9 * times[name] / entries,
            peer_ms=1e3 * times["mercer"],
            floor=GENERAL if _general(kernel) else FLOOR,
            error=error(kernel, X, Y, v, works[name]()),
        )


def _general(kernel: Kernel) -> bool:
    """Whether the kernel runs through a table."""
    return isinstance(kernel, Matern) and 2 * kernel.smoothness % 2 != 1


def all_subsets(X: np.ndarray, Y: np.ndarray, v: np.ndarray) -> np.ndarray:
    """What a careful NumPy user writes: in blocks that stay in the cache, a column at a time."""
    K = np.empty((BLOCK, len(Y)), X.dtype)
    term, columns, out = np.empty_like(K), np.ascontiguousarray(Y.T), np.empty(len(X), X.dtype)
    for i in range(0, len(X), BLOCK):
        rows = X[i : i + BLOCK]
        block, factor = K[: len(rows)], term[: len(rows)]
        block[:] = 1
        for k, column in enumerate(columns):
            np.multiply(rows[:, k : k + 1], column, out=factor)
            factor += 1
            block *= factor
        np.matmul(block, v, out=out[i : i + BLOCK])
    return out


def peers(effort: Effort) -> Iterator[Row]:
    X, Y, v = points(effort.size(8192), effort.size(10240))
    for kernel, peer, theirs, floor in (
        (Laplacian(WIDTH), SKLEARN, lambda: laplacian_kernel(X, Y, gamma=1 / WIDTH) @ v, 5.0),
        (AllSubsets(), NUMPY, lambda: all_subsets(X, Y, v), 10.0),
    ):
        works: dict[str, Callable[[], Any]] = {
            "mercer": lambda kernel=kernel: kernel.gram(X, Y) @ v,  # type: ignore[misc]
            peer: theirs,
        }
        times = measure.interleaved(works, {"mercer": effort.repeats(12), peer: effort.repeats(4)})
        ours, other = works["mercer"](), theirs()
        gap = measure.relative_error(ours, other.astype(float))
        yield measure.faster(
            f"K(X, Y)v, {kernel!r}, float32, n = {len(X):,}, m = {len(Y):,}, d = {WIDTH}",
            times,
            peer,
            len(X) * len(Y),
            floor=floor,
            error=error(kernel, X, Y, v, ours),
            note=f"the two answers differ by {gap:.1e}",
        )


def gradients(effort: Effort) -> Iterator[Row]:
    """Against what one writes in NumPy: a strip of K, weighed, times the centres."""
    n, m, peer = effort.size(2000), effort.size(10_000), "rbf_kernel in strips"
    for d in (10, 100):
        rng = np.random.default_rng(0)
        X, Y, v = (rng.standard_normal(shape) for shape in ((n, d), (m, d), m))
        f = Gaussian(lengthscale=(d / 2) ** 0.5).function(Y, v)
        works = {"mercer": partial(f.gradient, X), peer: partial(_in_strips, X, Y, v)}
        gaps = X[:CHECKED, None].astype(np.longdouble) - Y
        weights = np.exp(-(gaps**2).sum(axis=-1) / d) * v
        yield measure.faster(
            f"∇f, Gaussian, float64, {n:,} points, {m:,} centres, d = {d}",
            measure.interleaved(works, effort.repeats(6)),
            peer,
            n * m,
            error=measure.relative_error(
                f.gradient(X[:CHECKED]), -2 / d * (weights[:, :, None] * gaps).sum(axis=1)
            ),
        )


def _in_strips(X: np.ndarray, Y: np.ndarray, v: np.ndarray, rows: int = 256) -> np.ndarray:
    """∇ Σ_j v_j exp(−‖x−y_j‖²/d) at every x_i."""
    d, parts = X.shape[1], []
    for x in np.array_split(X, -(-len(X) // rows)):
        weights = rbf_kernel(x, Y, gamma=1 / d) * v
        parts.append(-2 / d * (weights.sum(axis=1)[:, None] * x - weights @ Y))
    return np.concatenate(parts)


GROUPS: Groups = {
    "gaussian": over_the_gaussian,
    "peers": peers,
    "gradients": gradients,
}

run = partial(measure.measured, "Kernels", GROUPS)
