"""Points that are brought to a device in blocks, against the same points there."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from mercer import KernelRidge  # noqa: E402
from mercer.kernels import Gaussian, Matern  # noqa: E402
from mercer.operators import Affine, Gram  # noqa: E402
from mercer.points import streamed  # noqa: E402
from mercer.points.streamed import StreamedPoints  # noqa: E402
from mercer.points.tensors import TensorPoints  # noqa: E402
from mercer.solvers import BlockCoordinateDescent, ConjugateGradient  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(70, 3))
Y = np.sin(5.0 * X[:, 0]) + X[:, 1]
KERNEL = Gaussian(0.5)


@pytest.fixture
def small_blocks(monkeypatch):
    """Three blocks of these points, and a device on which nothing fits."""
    few = streamed.Tuning(share=0.0, block_bytes=30 * X[0].nbytes)
    monkeypatch.setattr(streamed, "TUNING", few)


def sides(rows):
    return StreamedPoints(rows), TensorPoints(torch.tensor(rows))


@pytest.mark.parametrize("which", ["rows", "columns", "both", "same"])
def test_verbs_are_those_of_points_on_the_device(small_blocks, which):
    (far, near), (far_z, near_z) = sides(X), sides(X[:40] + 0.1)
    x = near if which == "columns" else far
    y = {"rows": near_z, "same": x}.get(which, far_z)
    ours = Gram(KERNEL, x, y)
    true = Gram(KERNEL, near, near if which == "same" else near_z)
    n, m = true.shape
    v, w = torch.tensor(RNG.standard_normal((m, 2))), torch.tensor(RNG.standard_normal((n, 2)))
    weights = Affine(w[:, :1] ** 2, w)
    pairs = [
        (ours @ v, true @ v),
        (ours.T @ w, true.T @ w),
        (ours.dense(), true.dense()),
        (ours.row_pass(v, weights).product, true.row_pass(v, weights).product),
        (ours.gradient(v), true.gradient(v)),
        *zip(
            ours.parameter_gradient(w, v).values(),
            true.parameter_gradient(w, v).values(),
            strict=True,
        ),
        (ours[[3, 1], :] @ v, true[[3, 1], :] @ v),
        (ours[5:60, :] @ v, true[5:60, :] @ v),
    ]
    if which == "same":
        pairs.append((ours.diagonal(), true.diagonal()))
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    assert "most" in str(ours.plan())


def test_no_more_than_a_block_is_brought_at_once(small_blocks, monkeypatch):
    seen, blocks = [], StreamedPoints.blocks

    def watched(self):
        for place, points in blocks(self):
            seen.append(len(points))
            yield place, points

    monkeypatch.setattr(StreamedPoints, "blocks", watched)
    Gram(KERNEL, StreamedPoints(X), TensorPoints(torch.tensor(X[:5]))) @ torch.ones(5).double()
    assert seen == [30, 30, 10]


@pytest.mark.parametrize(
    "given",
    [
        {"solver": BlockCoordinateDescent(1e-7, block_size=70)},
        {"solver": ConjugateGradient(1e-9)},
        {"centres": 20, "random_state": 0},
    ],
    ids=["blocks", "conjugate gradients", "centres"],
)
def test_an_estimator_brings_what_does_not_fit(small_blocks, given, tmp_path, monkeypatch):
    kernel, moved = Matern(1.5), []
    stored = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", shape=X.shape)
    stored[...] = X
    blocks = StreamedPoints.blocks
    monkeypatch.setattr(StreamedPoints, "blocks", lambda p: moved.append(len(p)) or blocks(p))
    model = KernelRidge(0.1, kernel=kernel, device="cpu", **given).fit(stored, Y)
    assert moved
    assert isinstance(model.dual_coef_, torch.Tensor)
    plain = KernelRidge(0.1, kernel=kernel, **given).fit(X, Y)
    values = model.predict(X[:9])
    assert isinstance(values, np.ndarray)
    np.testing.assert_allclose(values, plain.predict(X[:9]), rtol=0, atol=1e-6)


def test_a_row_pass_brings_rows_once(small_blocks, monkeypatch):
    brought, blocks = [], StreamedPoints.blocks
    monkeypatch.setattr(StreamedPoints, "blocks", lambda p: brought.append(len(p)) or blocks(p))
    (far, near), (_, centres) = sides(X), sides(X[:40])
    v, row_map = torch.ones(40, 1).double(), Affine(torch.ones(1, 1), torch.ones(1, 1), True)
    ours, true = (Gram(KERNEL, x, centres).row_pass(v, row_map) for x in (far, near))
    assert brought == [70]
    np.testing.assert_allclose(ours.product, true.product, rtol=1e-12)
    np.testing.assert_allclose(ours.values, true.values, rtol=1e-12)


def test_the_memory_budget_counts_on_a_device(monkeypatch):
    assert streamed.fits(X, "cpu")
    monkeypatch.setenv("MERCER_MEMORY", str(X.nbytes - 1))
    assert not streamed.fits(X, "cpu")


def test_what_fits_is_moved(monkeypatch):
    def never(self):
        raise AssertionError

    monkeypatch.setattr(StreamedPoints, "blocks", never)
    KernelRidge(0.1, kernel=KERNEL, device="cpu").fit(X, Y)
