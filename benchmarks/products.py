"""The figures of products: against peers, digits kept, dense and sparse matrices, memory, start-up.

Each group returns rows with the floor and the goal that were set before the code was written.
Timings include everything a user's line does: `kernel.gram(X, Y) @ v` packs its points, too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks import data, measure, precision
from benchmarks.measure import Effort, Groups, Row
from mercer import KernelRidge
from mercer.kernels import Gaussian, Linear, Matern

CHECKED = 64  # rows whose answer is compared with float64
BLOCK = 256  # rows of a block in torch; 64 to 2048 were tried, and 256 was the fastest
SKLEARN = "rbf_kernel(X, Y) @ v"
TORCH, FOLDED = "torch in blocks", "torch in blocks, norms folded in"


@dataclass(frozen=True)
class Problem:
    """K(X, Y)v for a Gaussian whose gamma is scikit-learn's default, 1/d."""

    X: np.ndarray
    Y: np.ndarray
    v: np.ndarray

    @classmethod
    def normal(cls, n: int, m: int, d: int) -> Problem:
        rng = np.random.default_rng(0)
        X, Y = (rng.standard_normal((size, d), dtype=np.float32) for size in (n, m))
        return cls(X, Y, rng.standard_normal(m, dtype=np.float32))

    @property
    def gamma(self) -> float:
        return 1.0 / self.X.shape[1]

    @property
    def lengthscale(self) -> float:
        return (0.5 / self.gamma) ** 0.5

    @property
    def entries(self) -> int:
        return len(self.X) * len(self.Y)

    @property
    def name(self) -> str:
        n, m, d = len(self.X), len(self.Y), self.X.shape[1]
        return f"K(X, Y)v, Gaussian, {self.X.dtype}, n = {n:,}, m = {m:,}, d = {d}"

    def ours(self) -> np.ndarray:
        return Gaussian(self.lengthscale).gram(self.X, self.Y) @ self.v

    def sklearn(self) -> np.ndarray:
        return rbf_kernel(self.X, self.Y, gamma=self.gamma) @ self.v

    def shifted(self, shift: float) -> Problem:
        return Problem(self.X + np.float32(shift), self.Y + np.float32(shift), self.v)

    def error(self, answer: Any = None) -> float:
        """Of our answer, or of another one, on some rows."""
        answer = self.ours() if answer is None else np.asarray(answer)
        rows = np.linspace(0, len(self.X) - 1, CHECKED).astype(int)
        kernel = Gaussian(self.lengthscale)
        reference = precision.product(kernel, self.X[rows], self.Y, self.v, np.float64)
        return measure.relative_error(answer[rows], reference)


# ---- products ------------------------------------------------------------------------------------


def torch_in_blocks(problem: Problem) -> dict[str, Callable[[], Any]]:
    """Two ways of a careful torch user; the second is the faster one and loses digits."""
    import torch

    X, Y, v = (torch.from_numpy(a) for a in (problem.X, problem.Y, problem.v))
    gamma, n, m = problem.gamma, len(X), len(Y)

    def expanded() -> Any:
        y = (2.0 * gamma * Y).T.contiguous()
        x_norms, y_norms = (-gamma * (points * points).sum(1) for points in (X, Y))
        out = torch.empty(n)
        for i in range(0, n, BLOCK):
            exponents = torch.addmm(y_norms, X[i : i + BLOCK], y)
            exponents += x_norms[i : i + BLOCK, None]
            torch.mv(exponents.exp_(), v, out=out[i : i + BLOCK])
        return out

    def folded() -> Any:
        x_norms, y_norms = ((points * points).sum(1, keepdim=True) for points in (X, Y))
        x = torch.cat([X, x_norms, torch.ones(n, 1)], 1)
        y = torch.cat([2.0 * gamma * Y, torch.full((m, 1), -gamma), -gamma * y_norms], 1)
        y, out, kept = y.T.contiguous(), torch.empty(n), torch.empty(BLOCK, m)
        for i in range(0, n, BLOCK):
            exponents = kept[: min(BLOCK, n - i)]
            torch.mm(x[i : i + BLOCK], y, out=exponents)
            torch.mv(exponents.exp_(), v, out=out[i : i + BLOCK])
        return out

    return {TORCH: expanded, FOLDED: folded}


def narrow_products(effort: Effort) -> Iterator[Row]:
    problem = Problem.normal(effort.size(20480), effort.size(10240), 10)
    works: dict[str, Callable[[], Any]] = {"mercer": problem.ours, SKLEARN: problem.sklearn}
    repeats = {"mercer": effort.repeats(20), SKLEARN: effort.repeats(4)}
    try:
        torch_works = torch_in_blocks(problem)
    except ImportError:
        torch_works = {}
    works |= torch_works
    times = measure.interleaved(works, repeats | dict.fromkeys(torch_works, effort.repeats(12)))
    error = problem.error()
    yield measure.faster(
        problem.name, times, SKLEARN, problem.entries, floor=14.0, goal=25.0, error=error
    )
    marks = {"floor": 1.5, "goal": 2.5}
    if not torch_works:
        yield Row("the same", None, "", TORCH, **marks, note="torch not installed")
        return
    shifted = problem.shifted(100.0)
    theirs = torch_in_blocks(shifted)
    for peer in (TORCH, FOLDED):
        note = f"shifted by 100, {peer} has the error {shifted.error(theirs[peer]()):.1e}, "
        note += f"mercer {shifted.error():.1e}"
        row = measure.faster("the same", times, peer, problem.entries, error=error, note=note)
        yield replace(row, **marks) if peer == TORCH else row


def wide_products(effort: Effort) -> Iterator[Row]:
    yield from _wide(effort, 90, effort.repeats(6), {"floor": 6.0, "goal": 10.0})
    yield from _wide(effort, 784, effort.repeats(2), {"floor": 2.4})


def _wide(effort: Effort, d: int, repeats: int, marks: dict[str, float]) -> Iterator[Row]:
    problem = Problem.normal(effort.size(20480), effort.size(10240), d)
    product = np.empty((len(problem.X), len(problem.Y)), np.float32)
    works = {
        "mercer": problem.ours,
        SKLEARN: problem.sklearn,
        "X @ Y.T": lambda: np.matmul(problem.X, problem.Y.T, out=product),
    }
    times = measure.interleaved(
        works, {"mercer": 2 * repeats, SKLEARN: repeats, "X @ Y.T": repeats}
    )
    error = problem.error()
    yield measure.faster(problem.name, times, SKLEARN, problem.entries, error=error, **marks)
    yield Row(
        work="the same, time of the matrix product alone over ours",
        measured=100.0 * times["X @ Y.T"] / times["mercer"],
        unit=" %",
        peer="X @ Y.T into a given array",
        ours_ms=1e3 * times["mercer"],
        entry_ns=1e9 * times["mercer"] / problem.entries,
        peer_ms=1e3 * times["X @ Y.T"],
        goal=90.0 if d == 784 else None,
    )


def other_kernels(effort: Effort) -> Iterator[Row]:
    problem = Problem.normal(effort.size(20480), effort.size(10240), 10)
    matern = Matern(1.5, lengthscale=problem.lengthscale)
    composite = 2.0 * Gaussian(lengthscale=0.5) + Linear() * Matern(1.5, lengthscale=2.0)
    kernels = {"mercer": Gaussian(problem.lengthscale), "matern": matern, "composite": composite}
    times = measure.interleaved(
        {
            name: lambda kernel=kernel: kernel.gram(problem.X, problem.Y) @ problem.v
            for name, kernel in kernels.items()
        },
        effort.repeats(15),
    )
    rows = np.arange(CHECKED)
    for name, formula, floor, goal in (
        ("matern", "Matern(1.5)", 1.5, 1.2),
        ("composite", "2.0 * Gaussian(0.5) + Linear() * Matern(1.5, 2.0)", 3.0, 2.0),
    ):
        kernel = kernels[name]
        reference = precision.product(kernel, problem.X[rows], problem.Y, problem.v, np.float64)
        answer = (kernel.gram(problem.X, problem.Y) @ problem.v)[rows]
        yield measure.smaller(
            f"K(X, Y)v of the same size, float32, d = 10, with {formula}",
            times[name] / times["mercer"],
            "× the time",
            peer="mercer's Gaussian",
            ours_ms=1e3 * times[name],
            entry_ns=1e9 * times[name] / problem.entries,
            peer_ms=1e3 * times["mercer"],
            floor=floor,
            goal=goal,
            error=measure.relative_error(answer, reference),
        )


# ---- digits --------------------------------------------------------------------------------------


def digits_kept(effort: Effort) -> Iterator[Row]:
    for dtype, floor in ((np.float32, 1e-6), (np.float64, 1e-13)):
        for smoothness in (None, 0.5):
            cases = precision.errors(dtype, smoothness, effort.size(4096))
            worst = max(cases, key=cases.__getitem__)
            kernel = "Gaussian" if smoothness is None else "Matérn ½"
            yield measure.smaller(
                f"relative error of the product, {kernel}, {np.dtype(dtype)}",
                cases[worst],
                peer=precision.REFERENCE[np.dtype(dtype).name],
                floor=floor,
                note=f"worst of {len(cases)}: "
                + "; ".join(f"{case} {error:.1e}" for case, error in cases.items()),
            )


# ---- matrices ------------------------------------------------------------------------------------


def dense_matrix(effort: Effort) -> Iterator[Row]:
    n = effort.size(8192)
    X = np.random.default_rng(0).standard_normal((n, 10))
    kernel = Gaussian(lengthscale=5.0**0.5)
    works = {
        "mercer": lambda: kernel.gram(X).dense(),
        "rbf_kernel(X)": lambda: rbf_kernel(X, gamma=0.1),
    }
    times = measure.interleaved(works, effort.repeats(6))
    yield measure.faster(
        f"dense Gram matrix, Gaussian, float64, {n:,} × {n:,}, d = 10",
        times,
        "rbf_kernel(X)",
        n * n,
        floor=4.5,
        goal=6.0,
        error=measure.relative_error(
            kernel.gram(X).dense()[:CHECKED],
            precision.matrix(kernel, X[:CHECKED], X, np.longdouble),
        ),
    )


def sparse_products(effort: Effort) -> Iterator[Row]:
    work = "CSR: K(X, X)v, TF-IDF of rt_polarity, Gaussian, float64"
    X = data.tfidf("rt_polarity")
    X = X[: effort.size(X.shape[0])]
    n = X.shape[0]
    v = np.random.default_rng(0).standard_normal(n)
    kernel = Gaussian(lengthscale=1.0)
    works = {
        "mercer": lambda: kernel.gram(X) @ v,
        "rbf_kernel(X) @ v": lambda: rbf_kernel(X, gamma=0.5) @ v,
    }
    times = measure.interleaved(
        works, {"mercer": effort.repeats(8), "rbf_kernel(X) @ v": effort.repeats(3)}
    )
    products = (X[:CHECKED] @ X.T).toarray()  # rows of length 1: ‖x−y‖² = 2 − 2⟨x,y⟩
    reference = np.exp(products - 1.0) @ v
    yield measure.faster(
        f"{work}, {n:,} texts, {X.shape[1]:,} columns",
        times,
        "rbf_kernel(X) @ v",
        n * n,
        floor=5.0,
        error=measure.relative_error((kernel.gram(X) @ v)[:CHECKED], reference),
    )
    extra = measure.fresh_process("sparse_memory")["extra"]
    yield measure.memory("the same: memory beyond input and output", extra, 64.0)


# ---- processes -----------------------------------------------------------------------------------


def peak_memory(effort: Effort) -> Iterator[Row]:
    for d in (10, 784):
        work = f"K(X, Y)v, Gaussian, float32, d = {d}: memory beyond input and output"
        yield measure.memory(work, measure.fresh_process("product_memory", str(d))["extra"], 64.0)


def quick_calls(effort: Effort) -> Iterator[Row]:
    """What Python takes around little arithmetic: a small product, and one row predicted.

    Calls are timed by the hundred: the first after a pause finds cold caches, ours and Python's.
    """
    rng = np.random.default_rng(0)
    X, v = rng.standard_normal((40, 3)), rng.standard_normal(40)
    gram = Gaussian().gram(X)
    many = rng.standard_normal((2000, 10))
    model = KernelRidge(0.1, kernel=Gaussian(2.0)).fit(many, many[:, 0])
    row = rng.standard_normal((1, 10))
    works = {
        "product": lambda: [gram @ v for _ in range(100)],
        "predict": lambda: [model.predict(row) for _ in range(100)],
    }
    times = measure.interleaved(works, effort.repeats(20))
    exact = np.exp(-0.5 * ((row - many) ** 2).sum(axis=1) / 4.0) @ model.dual_coef_
    yield measure.smaller(
        "gram @ v of 40 points",
        1e4 * times["product"],
        " µs",
        floor=50.0,
        error=measure.relative_error(gram @ v, rbf_kernel(X, gamma=0.5) @ v),
    )
    yield measure.smaller(
        "KernelRidge.predict of one row, fitted to 2,000 rows of 10 columns",
        10.0 * times["predict"],
        " ms",
        floor=0.15,
        error=measure.relative_error(model.predict(row), [exact]),
    )


def start_up(effort: Effort) -> Iterator[Row]:
    runs = [measure.fresh_process("imports") for _ in range(effort.repeats(5))]
    loaded = [name for name in ("numba", "torch") if any(run[name] for run in runs)]
    what = f"{' and '.join(loaded)} loaded" if loaded else "numba not loaded"
    best = {key: min(run[key] for run in runs) for key in ("base", "package", "kernels")}
    yield measure.taken(
        "import mercer and mercer.kernels, beyond import sklearn.base",
        best["kernels"] if not loaded else float("inf"),
        floor=0.2,
        note=f"{what}; import mercer alone {best['package']:.3f} s; import sklearn.base "
        f"{best['base']:.2f} s",
    )
    with tempfile.TemporaryDirectory() as cache:
        first = measure.fresh_process("first_product", MERCER_CACHE=cache)
        count = measure.fresh_process("first_product", "record", MERCER_CACHE=cache)["compilations"]
        later = [
            measure.fresh_process("first_product", MERCER_CACHE=cache)
            for _ in range(effort.repeats(4))
        ]
    fastest = {key: min(run[key] for run in later) for key in ("wall", "imports", "call")}
    yield measure.taken(
        "second process, from the start of Python to the first product of a known kernel",
        fastest["wall"] if not count else float("inf"),
        floor=1.0,
        note=f"{count} functions compiled; imports of numpy and mercer {fastest['imports']:.2f} s, "
        f"the call with the import of numba {fastest['call']:.2f} s; in the first process, which "
        f"compiles, the call took {first['call']:.1f} s",
    )


GROUPS: Groups = {
    "narrow": narrow_products,
    "wide": wide_products,
    "digits": digits_kept,
    "kernels": other_kernels,
    "dense": dense_matrix,
    "sparse": sparse_products,
    "memory": peak_memory,
    "quick": quick_calls,
    "start": start_up,
}

run = partial(measure.measured, "Products", GROUPS)
