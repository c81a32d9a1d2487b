"""Arrays whose rows lie on workers do what NumPy does with the same rows here."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.arrays import beside, inner, namespace, to_precision
from mercer.distributed import Rows, is_scattered
from mercer.distributed.admission import admitted
from mercer.distributed.placement import token

da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")

N, CHUNK = 103, 20  # the last block is shorter


@pytest.fixture(scope="module")
def data(cluster):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((N, 3)), rng.standard_normal(N)
    rows = admitted(da.from_array(X, chunks=(CHUNK, 2)))
    return X, y, rows, admitted(da.from_array(y, chunks=CHUNK), beside=rows)


EACH_ROW = {
    "arithmetic": lambda xp, X, y: 2.0 * X - y[:, None] / 3.0 + X**2,
    "where": lambda xp, X, y: xp.where(y > 0, xp.exp(y), xp.clip(y, -0.5, 0.0)),
    "columns": lambda xp, X, y: xp.concat([X[:, 1:], y[:, None]], axis=1),
    "last axis": lambda xp, X, y: xp.sum(X * X, axis=1) + xp.max(X, axis=-1),
    "comparison": lambda xp, X, y: xp.astype((X > 0) & (X < 1), xp.float32),
    "matrix": lambda xp, X, y: X @ np.arange(6.0).reshape(3, 2),
    "with numbers here": lambda xp, X, y: X * np.arange(N, dtype=float)[:, None] + np.ones(3),
    "shape": lambda xp, X, y: xp.reshape(y, (N, -1)) + xp.reshape(X, (N, 3)),
    "broadcast": lambda xp, X, y: xp.broadcast_arrays(y[:, None], X)[0],
    "some columns": lambda xp, X, y: xp.take(X, np.array([2, 0]), axis=1),
    "best column": lambda xp, X, y: X.argmax(axis=1),
}
OVER_ROWS = {
    "sum": lambda xp, X, y: xp.sum(X, axis=0),
    "sum of all": lambda xp, X, y: xp.sum(X * y[:, None]),
    "kept": lambda xp, X, y: xp.sum(X, axis=0, keepdims=True),
    "mean": lambda xp, X, y: xp.mean(X, axis=0),
    "deviation": lambda xp, X, y: xp.std(X),
    "extremes": lambda xp, X, y: xp.max(X, axis=0) - xp.min(y),
    "logic": lambda xp, X, y: np.array([bool(xp.any(y > 2)), bool(xp.all(y > -9))]),
    "norm": lambda xp, X, y: xp.linalg.vector_norm(X, axis=0),
    "contraction": lambda xp, X, y: X.T @ X,
    "vector": lambda xp, X, y: y @ X,
    "inner": lambda xp, X, y: inner(y, y),
    "some rows": lambda xp, X, y: X[np.array([102, 0, 41, 41])],
    "taken": lambda xp, X, y: xp.take(X, np.array([7, 101]), axis=0),
    "a row": lambda xp, X, y: X[0, ...] + y[-1],
    "masked": lambda xp, X, y: xp.sum(X[y > 0.5], axis=0),
    "numbers": lambda xp, X, y: xp.nonzero(y > 0.5)[0],
    "all numbers": lambda xp, X, y: xp.nonzero(y < 99.0)[0],
    "values": lambda xp, X, y: np.unique(np.round(y)),
    "counts": lambda xp, X, y: np.bincount((y > 0).astype(int), minlength=3),
}


@pytest.mark.parametrize("name", EACH_ROW)
def test_what_is_computed_for_each_row_stays_there(data, name):
    X, y, rows, targets = data
    there = EACH_ROW[name](namespace(rows), rows, targets)
    assert isinstance(there, Rows)
    here = EACH_ROW[name](np, X, y)
    assert there.dtype == here.dtype
    assert there.shape == here.shape
    np.testing.assert_allclose(np.asarray(there), here, rtol=1e-15)


@pytest.mark.parametrize("name", OVER_ROWS)
def test_what_is_computed_over_rows_comes_here(data, name):
    X, y, rows, targets = data
    found = OVER_ROWS[name](namespace(rows), rows, targets)
    assert not is_scattered(found)
    np.testing.assert_allclose(found, OVER_ROWS[name](np, X, y), rtol=1e-13, atol=1e-13)


def test_sums_have_the_same_bits_every_time(data):
    rows = data[2]
    assert len({float((rows**3).sum()).hex() for _ in range(5)}) == 1


def test_what_is_asked_for_again_is_stored_where_its_rows_are(data):
    X, _, rows, _ = data
    inner = rows**2
    made = inner + 1.0
    assert float(made.sum()) == pytest.approx(float((X**2 + 1.0).sum()))
    assert not made.is_stored  # a sum alone needs no copy
    np.testing.assert_allclose((made * 2.0).max(axis=0), 2.0 * (X**2 + 1.0).max(axis=0))
    assert made.is_stored
    assert made.call is None  # what it was made of may go
    assert not inner.is_stored  # nobody asked for it


@pytest.mark.parametrize("name", ["row-pass", "decision_function", "diagonal", "bincount", "take"])
def test_the_dashboard_shows_all_words_of_a_task(name):
    from dask.utils import key_split

    assert key_split(f"{token(name)}-7").lower() == f"mercer-{name.replace('_', '-')}"


def test_small_arrays_stay_here(data):
    rows = data[3]
    xp = namespace(rows, np.zeros(3))
    assert xp is namespace(rows)
    assert isinstance(xp.zeros((2, 2), dtype=xp.float64, device=rows.device), np.ndarray)
    assert isinstance(beside([1.0, 2.0], rows), np.ndarray)
    assert to_precision(rows, "float32").dtype == np.float32


def test_what_cannot_be_done_is_refused(data):
    rows = data[3]
    with pytest.raises(NotImplementedError, match="goes across all rows"):
        np.sort(rows)
    with pytest.raises(TypeError, match="one by one"):
        iter(rows)
    with pytest.raises(ValueError, match="stay rows"):
        rows.reshape(1, N)
    with pytest.raises(IndexError, match="there are 103 rows"):
        rows[np.array([200])]


def test_targets_must_have_the_blocks_of_X(data):
    rows = data[2]
    with pytest.raises(ValueError, match="same blocks of rows"):
        admitted(da.zeros(50, chunks=10), beside=rows, what="y")
    with pytest.raises(ValueError, match="must have one row"):
        admitted(np.zeros(50), beside=rows, what="y")
    other = admitted(da.ones(N, chunks=7), beside=rows, what="y")  # is rechunked
    assert other.placement.lengths == rows.placement.lengths


def test_what_is_not_finite_is_refused_on_the_workers(cluster):
    bad = np.ones((40, 2))
    bad[33, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        admitted(da.from_array(bad, chunks=10))


def test_without_a_cluster_it_says_how_to_start_one(monkeypatch):
    import distributed
    from mercer.distributed.admission import cluster_client

    def none():
        raise ValueError("No global client found")

    monkeypatch.setattr(distributed, "get_client", none)
    with pytest.raises(ValueError, match=r"distributed\.Client\(\) first"):
        cluster_client()
