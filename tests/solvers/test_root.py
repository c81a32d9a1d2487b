"""Square roots of Gram matrices."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.errors import NotPositiveDefiniteError
from mercer.kernels import Gaussian, Linear, Polynomial, Precomputed
from mercer.solvers import Cholesky, Eigen, Features, PivotedCholesky, Root
from regularised import KERNEL, LABELS, K, N, X

SPREAD = np.linspace(-3.0, 3.0, 20)[:, None]
METHODS = {"cholesky": Cholesky(), "pivoted": PivotedCholesky(0.0), "eigen": Eigen()}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_root_squares_to_the_matrix_and_takes_weights_back(method, dtype):
    gram = Gaussian(0.3).gram(SPREAD.astype(dtype))
    root, close = method.of(gram), 1e-5 if dtype == np.float32 else 1e-12
    assert root.features.dtype == dtype
    assert np.allclose(root.features @ root.features.T, gram.dense(), atol=close)
    assert abs(root.missing) < close
    beta = np.random.default_rng(0).standard_normal((root.rank, 2)).astype(dtype)
    alpha = root.coefficients(beta)
    assert np.allclose(gram @ alpha, root.features @ beta, atol=20 * close)
    assert np.allclose((alpha * (gram @ alpha)).sum(axis=0), (beta**2).sum(axis=0), rtol=1e-3)
    assert np.allclose(root.multiply(alpha), gram @ alpha, atol=20 * close)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6])
def test_a_tolerance_bounds_what_is_left_out(tolerance):
    gram = KERNEL.gram(X)
    root = PivotedCholesky(tolerance).of(gram)
    rest = K - root.features @ root.features.T
    assert root.missing == pytest.approx(np.trace(rest) / np.trace(K), abs=1e-12)
    assert root.missing <= tolerance
    assert np.linalg.eigvalsh(rest).min() > -1e-10
    assert root.rank < N
    shorter = PivotedCholesky(tolerance, rank=root.rank - 1).of(gram)
    assert shorter.rank == root.rank - 1
    assert shorter.missing > tolerance
    cut = Eigen(tolerance).of(gram)
    values = np.linalg.eigvalsh(K)
    assert cut.rank == (values > tolerance * values[-1]).sum()
    assert cut.missing == pytest.approx(values[: N - cut.rank].sum() / values.sum())


def test_repeated_points_and_finite_features():
    twice = KERNEL.gram(np.repeat(X[:10], 3, axis=0))
    assert PivotedCholesky(0.0).of(twice).rank == 10
    assert Eigen().of(twice).rank == 10
    root = Features().of(Polynomial(degree=2).gram(X))
    assert np.allclose(root.features @ root.features.T, Polynomial(degree=2).gram(X).dense())
    with pytest.raises(ValueError, match="no finite list of features"):
        Features().of(KERNEL.gram(X))
    assert isinstance(Cholesky(jitter=0.5).of(Linear().gram(X[:2])), Root)
    assert Cholesky(jitter=0.5).of(twice).missing == pytest.approx(-0.5)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_indefinite_matrices_have_no_root(method):
    gram = Precomputed(K - 0.5 * np.outer(LABELS, LABELS)).gram(np.arange(N))
    with pytest.raises(NotPositiveDefiniteError, match="Expected a positive definite"):
        method.of(gram)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: PivotedCholesky(tolerance=-1.0),
        lambda: PivotedCholesky(rank=0),
        lambda: Eigen(tolerance=-1.0),
    ],
)
def test_knobs_are_checked(bad):
    with pytest.raises(ValueError, match=r"needs a finite (tolerance|rank)"):
        bad()
