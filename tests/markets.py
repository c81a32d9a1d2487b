"""Named kernels and named sets of points: every contract runs over them.

A new kernel is one line in `KERNELS`, and gains every test that is parametrised with it. Each
distinct structure of a program compiles once for each precision, so kernels here share structures
where they can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from mercer.kernels import (
    BlockKernel,
    Constant,
    Gaussian,
    Kernel,
    Linear,
    Matern,
    PairKernel,
    Polynomial,
    Precomputed,
)
from mercer.points import ObjectPoints

WIDE = 100  # columns, more than are computed in registers


# ---- kernels without a program -------------------------------------------------------------------


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


WORDS = ["kernel", "kern", "learn", "learning", "hilbert", "space", "", "a", "kernel", "spaces"]
MATRIX = np.cov(np.random.default_rng(5).standard_normal((12, 40)))

COMPOSITE = 2.0 * Gaussian(0.5) + Linear() * Matern(1.5, lengthscale=2.0)

WITH_PROGRAM: dict[str, Kernel] = {
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
}
ON_TWO_COLUMNS: dict[str, Kernel] = {  # and more, where they say so
    "per-column": Gaussian([0.7, 1.9]),
    "per-column-array": Matern(1.5, lengthscale=np.array([0.7, 1.9])),
    "on-columns": Gaussian(0.6).on([1, 0]),
    "on-on": Linear(1.0).on([-1]).on([1, 0]),
    "per-column-on": Gaussian([0.7, 1.9]).on([1, 0]),
    "product-of-columns": Gaussian().on([0]) * Gaussian(2.0).on([1]),
}
WITHOUT_PROGRAM: dict[str, tuple[Kernel, Any]] = {
    "block": (BlockKernel(laplace_block), None),
    "pair": (PairKernel(smallest), None),
    "block-plus-gaussian": (BlockKernel(laplace_block) + Gaussian(), None),
    "block-scaled-on": ((2.0 * BlockKernel(laplace_block)).on([0]), None),
    "pair-on-words": (PairKernel(common_letters), WORDS),
    "words-with-number": (1.0 + PairKernel(common_letters), WORDS),
    "words-product": (PairKernel(common_letters) * Bigrams(), WORDS),
    "bigrams": (Bigrams(0.5), WORDS),
    "precomputed": (Precomputed(MATRIX), np.arange(12)),
    "precomputed-plus-constant": (0.5 * Precomputed(MATRIX) + 1.0, [3, 3, 0, 11]),
}
PROGRAMS = WITH_PROGRAM | ON_TWO_COLUMNS
KERNELS: dict[str, tuple[Kernel, Any]] = {
    name: (kernel, None) for name, kernel in PROGRAMS.items()
} | WITHOUT_PROGRAM


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
