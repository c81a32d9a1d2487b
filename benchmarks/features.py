"""The figures of feature maps: transforms, features to ridge, Fastfood, choices of centres.

Peers are scikit-learn's `RBFSampler` and `Ridge`, our own dense random Fourier features, and a
plain NumPy version of randomly pivoted Cholesky. Each row carries an error of our answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler as Theirs
from sklearn.linear_model import Ridge

from benchmarks import measure
from benchmarks.measure import Effort, Groups, Row
from mercer.features import Fastfood, RandomFourierFeatures, RBFSampler
from mercer.features.centres import RandomlyPivoted, Uniform
from mercer.kernels import Gaussian

WIDTH = 90
GAMMA = 1.0 / WIDTH
ALPHA = 1.0


def points(n: int, d: int = WIDTH, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


# ---- the transform -------------------------------------------------------------------------------


def transforms(effort: Effort) -> Iterator[Row]:
    n, count = effort.size(50_000), effort.size(4096)
    X = points(n)
    theirs = Theirs(gamma=GAMMA, n_components=count, random_state=0).fit(X)
    phase = RBFSampler(gamma=GAMMA, n_components=count, random_state=0).fit(X)
    pairs = RandomFourierFeatures(gamma=GAMMA, n_components=count, random_state=0).fit(X)
    times = measure.interleaved(
        {
            "phase": lambda: phase.transform(X),
            "pairs": lambda: pairs.transform(X),
            "RBFSampler": lambda: theirs.transform(X),
        },
        effort.repeats(7),
    )
    few = X[:2000]
    exact = np.sqrt(2.0 / count) * np.cos(
        few.astype(np.float64) @ phase.frequencies_.T + phase.phases_
    )
    peers_error = measure.relative_error(theirs.transform(few), exact)
    shape = f"float32, d = {WIDTH}, {count:,} features, {n:,} rows"
    yield measure.faster(
        f"random Fourier features, {shape}, with phases",
        {"mercer": times["phase"], "RBFSampler": times["RBFSampler"]},
        "RBFSampler",
        n * count,
        floor=2.0,
        error=measure.relative_error(phase.transform(few), exact),
        note="the draws are those of scikit-learn; the error is that of the features against "
        f"float64, where scikit-learn's is {peers_error:.1g}; both write the same "
        f"{n * count * 4 / 1e6:.0f} MB",
    )
    angles = few.astype(np.float64) @ pairs.frequencies_.T
    exact = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) * np.sqrt(2.0 / count)
    yield measure.faster(
        f"the same, as {count // 2:,} pairs of cos and sin",
        {"mercer": times["pairs"], "RBFSampler": times["RBFSampler"]},
        "RBFSampler",
        n * count,
        floor=2.8,
        error=measure.relative_error(pairs.transform(few), exact),
    )


# ---- features to a ridge solution ----------------------------------------------------------------


def targets(X: np.ndarray, seed: int = 1) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(len(X), dtype=np.float32)
    return np.sin(X[:, 0]) * X[:, 1] + X[:, 2] + 0.1 * noise


def ridge(effort: Effort) -> Iterator[Row]:
    n, count = effort.size(200_000), effort.size(2048)
    X, new = points(n), points(5000, seed=2)
    y, exact = targets(X), targets(new)
    answers: dict[str, np.ndarray] = {}

    def ours() -> None:
        phi = RandomFourierFeatures(gamma=GAMMA, n_components=count, random_state=0).fit(X)
        f, intercept = phi.normal_equations(X, y).ridge_with_intercept(ALPHA / n)
        answers["mercer"] = f(new) + intercept

    def theirs() -> None:
        phi = Theirs(gamma=GAMMA, n_components=count, random_state=0).fit(X)
        model = Ridge(alpha=ALPHA).fit(phi.transform(X), y)
        answers["theirs"] = model.predict(phi.transform(new))

    name = "RBFSampler + Ridge"
    times = measure.interleaved({"mercer": ours, name: theirs}, effort.repeats(2))
    errors = {key: float(np.sqrt(np.mean((v - exact) ** 2))) for key, v in answers.items()}
    yield measure.faster(
        f"RFF to ridge, {n:,} rows, d = {WIDTH}, {count:,} features, with intercept",
        times,
        name,
        n * count,
        floor=1.9,
        goal=2.2,
        error=errors["mercer"] / errors["theirs"] - 1.0,
        note=f"root mean square error on new rows: ours {errors['mercer']:.4f}, theirs "
        f"{errors['theirs']:.4f}; the column holds the relative difference of the two (negative: "
        "ours is smaller)",
    )
    extra = measure.in_a_process(peak_of_ridge, n, count)
    yield measure.memory(
        "the same: memory beyond the data",
        extra,
        200.0,
        note=f"the features alone would take {n * count * 4 / 1e6:,.0f} MB",
    )


def peak_of_ridge(n: int, count: int) -> int:
    X = points(n)
    y = targets(X)
    phi = RandomFourierFeatures(gamma=GAMMA, n_components=count, random_state=0).fit(X)
    phi.normal_equations(X[:600], y[:600]).ridge(ALPHA)  # code is loaded
    return measure.growth(lambda: phi.normal_equations(X, y).ridge_with_intercept(ALPHA / n))[1]


# ---- Fastfood ------------------------------------------------------------------------------------


def fastfood(effort: Effort) -> Iterator[Row]:
    d, count, n = effort.size(1024), effort.size(16_384), effort.size(4000)
    X, few = points(n, d), points(200, d, seed=3)
    kernel = Gaussian((d / 2.0) ** 0.5)  # gamma = 1/d, scikit-learn's "scale"
    K = kernel(few.astype(np.float64))
    upper = np.triu_indices(len(few), 1)

    def error(kind: Any, seed: int) -> float:
        Z = kind(kernel, count, random_state=seed).fit(few).transform(few)
        return float(np.mean((Z @ Z.T - K)[upper] ** 2))

    seeds = range(2 if effort.quick else 6)
    ours, dense = (
        np.sqrt(np.mean([error(kind, s) for s in seeds]))
        for kind in (Fastfood, RandomFourierFeatures)
    )
    quick = Fastfood(kernel, count, random_state=0).fit(X)
    slow = RandomFourierFeatures(kernel, count, random_state=0).fit(X)
    block, w = X[: n // 10], np.ones((count, 1), np.float32)
    peer = "RandomFourierFeatures"
    works = {
        f"transform, blocks of {len(block):,} rows": lambda phi: phi.transform(block),
        f"transform, {n:,} rows at once": lambda phi: phi.transform(X),
        f"f(x) = ⟨φ(x), w⟩, {n:,} rows, features not stored": lambda phi: phi.values(X, w),
    }
    notes = [
        "",
        f"both write {n * count * 4 / 1e6:.0f} MB of new memory, which takes both the same time",
        "",
    ]
    for (name, work), note in zip(works.items(), notes, strict=True):
        times = measure.interleaved(
            {"mercer": lambda work=work: work(quick), peer: lambda work=work: work(slow)},
            effort.repeats(6),
        )
        rows = len(block) if "blocks" in name else n
        yield measure.faster(
            f"Fastfood, float32, d = {d:,}, {count:,} features: {name}",
            times,
            peer,
            rows * count,
            floor=5.0,
            goal=8.0,
            note=note,
        )
    yield measure.smaller(
        "the same: root mean square kernel error over that of the dense features",
        ours / dense,
        "× the error",
        floor=1.3,
        error=float(ours),
        note=f"mean over {len(seeds)} draws and {len(upper[0]):,} pairs, kernel values about "
        f"{float(K[upper].mean()):.2f} (gamma = 1/d); dense {dense:.2g}; near points have up to "
        "√2 times the error, in theory and in experiment",
    )


# ---- centres -------------------------------------------------------------------------------------


class Plain:
    """Randomly pivoted Cholesky as one writes it with NumPy, one pivot at a time."""

    def __init__(self, kernel: Gaussian, X: np.ndarray, count: int) -> None:
        self.kernel, self.X, self.random = kernel, X, np.random.default_rng(0)
        self.F = np.zeros((len(X), count))
        self.left = np.ones(len(X))
        self.norms = np.einsum("ij,ij->i", X, X)

    def step(self, j: int) -> None:
        F, X, left = self.F, self.X, self.left
        i = self.random.choice(len(X), p=left / left.sum())
        squares = np.maximum(self.norms + self.norms[i] - 2.0 * (X @ X[i]), 0.0)
        column = np.exp(-0.5 * squares / self.kernel.lengthscale**2) - F[:, :j] @ F[i, :j]
        F[:, j] = column / np.sqrt(column[i])
        self.left = np.maximum(left - F[:, j] ** 2, 0.0)

    def time(self, steps: int = 12) -> float:
        """Of all steps, from some at both ends: a step takes a + b·j, reading j columns of F."""
        means = []
        for first in (0, self.F.shape[1] - steps):
            start = time.perf_counter()
            for j in range(first, first + steps):
                self.step(j)
            means.append((time.perf_counter() - start) / steps)
        return self.F.shape[1] * float(np.mean(means))


def lump_and_outliers(n: int, seed: int = 0) -> np.ndarray:
    """A dense lump that few centres capture, and 3 % of the points far from all others."""
    random = np.random.default_rng(seed)
    X = 0.5 * random.standard_normal((n, 10))
    X[random.random(n) < 0.03] *= 30.0
    return X


def centres(effort: Effort) -> Iterator[Row]:
    n, count = effort.size(50_000), effort.size(2000)
    X, kernel = lump_and_outliers(n), Gaussian(3.0)
    found: dict[str, float] = {}

    def ours() -> None:
        found["ours"] = RandomlyPivoted(count, random_state=0).choose(kernel, X).trace_error

    times = measure.interleaved({"mercer": ours}, effort.repeats(2))
    plain = Plain(kernel, X, count)
    plain.F.fill(1e-9)  # memory is touched
    times["plain NumPy"] = min(plain.time() for _ in range(effort.repeats(2)))
    del plain
    uniform = Uniform(count, random_state=0).choose(kernel, X).trace_error
    yield measure.faster(
        f"randomly pivoted Cholesky, {n:,} rows, d = 10, {count:,} centres, float64",
        times,
        "plain NumPy",
        n * count,
        floor=5.0,
        error=found["ours"],
        note=f"the error is the trace error, trace(K − K̂)/trace(K): ours {found['ours']:.3g}, "
        f"uniform centres {uniform:.3g}; of the plain version the first and the last 12 steps were "
        "timed, and scaled up: its steps take a + b·j",
    )
    yield Row(
        "the same: trace error of uniform centres over ours",
        uniform / found["ours"],
        "× the error",
        peer="Uniform",
        note="a dense lump and 3 % outliers; on a normal cloud uniform centres are as good",
    )


GROUPS: Groups = {
    "transform": transforms,
    "ridge": ridge,
    "fastfood": fastfood,
    "centres": centres,
}


run = partial(measure.measured, "Feature maps and centres", GROUPS)
