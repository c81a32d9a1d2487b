"""Named kernels and named sets of points: every contract runs over them.

A new kernel is one line in `KERNELS`, and gains every test that is parametrised with it. Each
distinct structure of an expression compiles once for each precision, so kernels here share
structures where they can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from mercer.kernels import (
    AdditiveChiSquared,
    AllSubsets,
    ArcCosine,
    BlockKernel,
    Brownian,
    Cauchy,
    ChiSquared,
    Composed,
    Constant,
    CosineSeries,
    Exponential,
    FourierSeries,
    Gaussian,
    GroupAverage,
    HistogramIntersection,
    Kernel,
    Laplacian,
    Linear,
    LinearMap,
    Matern,
    PairKernel,
    PeriodicBernoulli,
    PeriodicExponential,
    Polyharmonic,
    Polynomial,
    PolynomialOf,
    Precomputed,
    RationalQuadratic,
    Sigmoid,
    SkewedChiSquared,
    Spectral,
    Spline,
    StretchedExponential,
    ThinPlate,
    Weighted,
    direct_sum,
    tensor_product,
)
from mercer.points import ObjectPoints

WIDE = 100  # columns, more than are computed in registers


# ---- kernels without an expression ---------------------------------------------------------------


def laplace_block(X, Y):
    return np.exp(-np.abs(X[:, None, :] - Y[None, :, :]).sum(axis=-1))


def smallest(x, y):
    """The kernel min(x, y) of Brownian motion, on 1 + |x| so that it is positive, by columns."""
    return float(np.minimum(1 + np.abs(x), 1 + np.abs(y)).sum())


def common_letters(a, b):
    return float(len(set(a) & set(b)))


@dataclass(frozen=True, eq=False, repr=False)
class Bigrams(Kernel):
    """A toy kernel on strings: how many pairs of neighbouring letters two of them share."""

    weight: float = 1.0

    def points(self, data):
        return data if isinstance(data, ObjectPoints) else ObjectPoints(list(data))

    def is_single(self, x):
        return isinstance(x, str)

    def block(self, x, y):
        bags = [{text[i : i + 2] for i in range(len(text) - 1)} for text in y]
        rows = ({text[i : i + 2] for i in range(len(text) - 1)} for text in x)
        values = [[self.weight * len(row & bag) for bag in bags] for row in rows]
        return np.array(values, float).reshape(len(x), len(y))


def lifted(X):
    return np.column_stack([X, (X**2).sum(axis=1)])


def letters(words):
    """How often each of the first letters of the alphabet occurs."""
    counts = [[word.count(letter) for letter in "aeknrs"] for word in words]
    return np.array(counts, float).reshape(-1, 6)


def height(X):
    return 1.0 + np.abs(X[:, 0])


def normal_density(w):
    return np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi)


ROTATIONS = [np.array([[c, -s], [s, c]], float) for c, s in ((1, 0), (0, 1), (-1, 0), (0, -1))]
SHEAR = np.array([[1.0, 0.5], [0.0, 2.0], [-1.0, 1.0]])
WORDS = ["kernel", "kern", "learn", "learning", "hilbert", "space", "", "a", "kernel", "spaces"]
MATRIX = np.cov(np.random.default_rng(5).standard_normal((12, 40)))

COMPOSITE = 2.0 * Gaussian(0.5) + Linear() * Matern(1.5, lengthscale=2.0)

WITH_EXPRESSION: dict[str, Kernel] = {
    "linear": Linear(),
    "linear-bias": Linear(bias=2.0),
    "quadratic": Polynomial(),
    "cubic-without-bias": Polynomial(degree=3, bias=0.0),
    "degree-one": Polynomial(degree=1, bias=0.5),
    "gaussian": Gaussian(0.7),
    "gaussian-short": Gaussian(0.02),
    "matern-1/2": Matern(0.5),
    "matern-3/2": Matern(1.5, lengthscale=0.3),
    "matern-5/2": Matern(2.5, lengthscale=3.0),
    "constant": Constant(2.0),
    "zero": Constant(0.0),
    "scaled": 3.0 * Gaussian(2.0),
    "scaled-zero": 0.0 * Gaussian(),
    "sum": Gaussian() + Linear(),
    "sum-with-number": 1.0 + Gaussian(),
    "product": Gaussian(3.0) * Linear(bias=1.0),
    "composite": COMPOSITE,
    "on-a-column": Matern(0.5).on(0),
    "exponential": Exponential(0.7),
    "matern-0.3": Matern(0.3, lengthscale=0.8),
    "matern-2.2": Matern(2.2),
    "matern-7/2": Matern(3.5, lengthscale=2.0),
    "rational-quadratic": RationalQuadratic(mixture=0.7, lengthscale=0.9),
    "laplacian": Laplacian(0.8),
    "stretched": StretchedExponential(0.5, lengthscale=0.8),
    "stretched-0.6": StretchedExponential(0.6, lengthscale=0.8),
    "stretched-euclidean": StretchedExponential(0.75, lengthscale=0.8, norm=2),
    "cauchy": Cauchy(1.3),
    "all-subsets": AllSubsets(),
    "arc-cosine-0": ArcCosine(0),
    "arc-cosine-1": ArcCosine(1),
    "arc-cosine-2": ArcCosine(2),
    "bernoulli-1": PeriodicBernoulli(1),
    "bernoulli-3": PeriodicBernoulli(3, period=2.5),
    "periodic-exponential": PeriodicExponential(alpha=2.0),
    "exponentiated": Gaussian(0.9).exp(),
    "polynomial-of": PolynomialOf(Linear(), [0.5, 0.0, 2.0, 1.0]),
    "normalised": Polynomial(2).normalised(),
    "normalised-linear": Linear().normalised(),
    "normalised-exponential": (0.3 * Linear(1.0)).exp().normalised(),
}
ON_TWO_COLUMNS: dict[str, Kernel] = {  # and more, where they say so
    "per-column": Gaussian([0.7, 1.9]),
    "per-column-array": Matern(1.5, lengthscale=np.array([0.7, 1.9])),
    "on-columns": Gaussian(0.6).on([1, 0]),
    "on-on": Linear(1.0).on([-1]).on([1, 0]),
    "per-column-on": Gaussian([0.7, 1.9]).on([1, 0]),
    "product-of-columns": Gaussian().on([0]) * Gaussian(2.0).on([1]),
    "tensor-product": tensor_product((Gaussian(), [0]), (Laplacian(0.5), [1])),
    "direct-sum": direct_sum((Matern(1.5), 0), (Linear(), 1)),
    "laplacian-per-column": Laplacian([0.7, 1.9]),
    "linear-map": Gaussian(0.9).after(SHEAR),
    "linear-map-of-coordinates": LinearMap(AllSubsets(), SHEAR),
}
_RANDOM = np.random.default_rng(3)
NONNEGATIVE = np.concatenate([_RANDOM.exponential(size=(14, 2)), np.zeros((1, 2)), np.eye(2)])
HISTOGRAMS = _RANDOM.dirichlet(np.full(4, 0.5), 15) * (_RANDOM.random((15, 4)) < 0.8)
INTEGERS = _RANDOM.integers(0, 4, size=(13, 2))
ON_THEIR_POINTS: dict[str, tuple[Kernel, Any]] = {  # with an expression, but not for all vectors
    "chi-squared": (ChiSquared(gamma=0.7), HISTOGRAMS),
    "chi-squared-counts": (ChiSquared(gamma=0.2), INTEGERS),
    "histogram-intersection": (HistogramIntersection(), HISTOGRAMS),
    "additive-chi-squared": (AdditiveChiSquared(), HISTOGRAMS),
    "skewed-chi-squared": (SkewedChiSquared(0.3), HISTOGRAMS),
    "brownian": (Brownian(), NONNEGATIVE),
    "brownian-integer": (Brownian(), INTEGERS),
    "spline": (Spline(), NONNEGATIVE[:, :1]),
    "spline-two": (Spline(), NONNEGATIVE),
    "exponentiated-linear": ((0.3 * Linear()).exp(), NONNEGATIVE),
}
WITHOUT_EXPRESSION: dict[str, tuple[Kernel, Any]] = {
    "block": (BlockKernel(laplace_block), None),
    "pair": (PairKernel(smallest), None),
    "block-plus-gaussian": (BlockKernel(laplace_block) + Gaussian(), None),
    "block-scaled-on": ((2.0 * BlockKernel(laplace_block)).on([0]), None),
    "pair-on-words": (PairKernel(common_letters), WORDS),
    "words-with-number": (1.0 + PairKernel(common_letters), WORDS),
    "words-product": (PairKernel(common_letters) * Bigrams(), WORDS),
    "bigrams": (Bigrams(0.5), WORDS),
    "cosine-series": (CosineSeries([1.0, 0.5, 0.0, 0.25]), None),
    "fourier-series": (FourierSeries([1.0, 2.0, 8.0], period=3.0), None),
    "spectral": (Spectral(normal_density, limit=10.0, nodes=128), None),
    "group-average": (GroupAverage(Gaussian(), ROTATIONS), _RANDOM.standard_normal((11, 2))),
    "composed": (Composed(Gaussian(2.0), lifted), None),
    "composed-on-words": (Linear(1.0).after(letters), WORDS),
    "weighted": (Weighted(Matern(1.5), height), None),
    "exponentiated-block": ((0.5 * BlockKernel(laplace_block)).exp(), None),
    "normalised-words": (PairKernel(common_letters).normalised(), WORDS),
    "normalised-coordinates": (AllSubsets().normalised(), NONNEGATIVE),
    "normalised-exponential-coordinates": (AllSubsets().exp().normalised(), NONNEGATIVE),
    "polynomial-of-block": (PolynomialOf(BlockKernel(laplace_block), [0.0, 1.0, 2.0]), None),
    "precomputed": (Precomputed(MATRIX), np.arange(12)),
    "functionals": (Gaussian().on_functionals(), None),
    "anchored": (Polyharmonic(1).anchored([[0.0, 0.0]]), None),
    "precomputed-plus-constant": (0.5 * Precomputed(MATRIX) + 1.0, [3, 3, 0, 11]),
}
ALL_EXPRESSIONS = WITH_EXPRESSION | ON_TWO_COLUMNS
KERNELS: dict[str, tuple[Kernel, Any]] = {
    name: (kernel, None) for name, kernel in ALL_EXPRESSIONS.items()
}
KERNELS |= ON_THEIR_POINTS | WITHOUT_EXPRESSION
INDEFINITE: dict[str, Kernel] = {  # functions of two points, but not positive definite
    "sigmoid": Sigmoid(scale=0.5, bias=-0.2),
    "thin-plate": ThinPlate(),  # positive definite off polynomials
    "polyharmonic": Polyharmonic(3),
}


# ---- points --------------------------------------------------------------------------------------


class Frame:
    """As much of a DataFrame as mercer asks for, so that names are tested without pandas."""

    def __init__(self, columns):
        self._columns = dict(columns)

    @property
    def columns(self):
        return list(self._columns)

    @property
    def shape(self):
        return len(next(iter(self._columns.values()))), len(self._columns)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, names):
        return Frame({name: self._columns[name] for name in names})

    def __array__(self, dtype=None, copy=None):
        return np.column_stack(list(self._columns.values()))


def normal(rows, width=3, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((rows, width)).astype(dtype)


def sparse(rows, width=60, seed=0, dtype=np.float64, density=0.1):
    random = np.random.default_rng(seed)
    matrix = scipy.sparse.random_array((rows, width), density=density, rng=random, dtype=np.float64)
    return matrix.tocsr().astype(dtype)


def memory_map(folder, rows):
    path = folder / "points.npy"
    np.save(path, rows)
    return np.load(path, mmap_mode="r")


POINTS: dict[str, Any] = {  # made in a folder of the test
    "float64": lambda folder: normal(19),
    "float32": lambda folder: normal(19, dtype=np.float32),
    "fortran": lambda folder: np.asfortranarray(normal(19)),
    "strided": lambda folder: normal(38, 6)[::2, ::2],
    "list": lambda folder: normal(19).tolist(),
    "integer": lambda folder: np.arange(27).reshape(9, 3) % 5,
    "read-only": lambda folder: _read_only(normal(19)),
    "csr": lambda folder: sparse(19),
    "csr-float32": lambda folder: sparse(19, dtype=np.float32),
    "csr-matrix": lambda folder: scipy.sparse.csr_matrix(sparse(19)),
    "coo": lambda folder: sparse(19).tocoo(),
    "csr-unsorted": lambda folder: _unsorted(sparse(19)),
    "memory-map": lambda folder: memory_map(folder, normal(19)),
    "wide": lambda folder: normal(19, WIDE),
    "wide-float32": lambda folder: normal(19, WIDE, dtype=np.float32),
    "wide-far": lambda folder: normal(19, WIDE) + 1e4,
    "wide-memory-map": lambda folder: memory_map(folder, normal(19, WIDE, dtype=np.float32)),
    "frame": lambda folder: Frame(zip("abc", normal(19).T, strict=True)),
    "pandas": lambda folder: _frame("pandas"),
    "polars": lambda folder: _frame("polars"),
}


def _read_only(rows):
    rows.setflags(write=False)
    return rows


def _unsorted(rows):
    """The same rows with their entries in the opposite order, and the first one cut in two."""
    indices = np.concatenate([rows.indices[:1], rows.indices[::-1]])
    data = np.concatenate([rows.data[:1], rows.data[::-1]])
    indptr = np.concatenate([[0], rows.nnz - rows.indptr[::-1][1:] + 1])
    return scipy.sparse.csr_array((data, indices, indptr), shape=rows.shape)


def _frame(library):
    import pytest

    module = pytest.importorskip(library)
    return module.DataFrame(dict(zip("abc", normal(19).T, strict=True)))
