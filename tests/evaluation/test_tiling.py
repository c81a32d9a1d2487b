"""Tiled products, on a matrix that is known."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer.evaluation.execution import Affine
from mercer.evaluation.tiling import Tiled, tournament
from mercer.runtime.threads import spans, thread_count


class KnownTiles(Tiled):
    """A stored matrix in small tiles: counts how often each entry is asked for."""

    column_bytes = row_bytes = 8

    def __init__(self, matrix, used_threads=1, symmetric=False, **sizes):
        super().__init__(None, range(matrix.shape[0]), range(matrix.shape[1]), matrix.dtype)
        self.matrix, self.symmetric, self.used_threads = matrix, symmetric, used_threads
        self.stripe, self.tile = sizes.pop("stripe", 4), sizes.pop("tile", 3)
        self.__dict__.update(sizes)
        self.used = np.zeros(matrix.shape, int)

    def threads(self, shared, each, work=None):
        return self.used_threads

    def rows(self, start, stop):
        return slice(start, stop)

    columns = rows

    def _block(self, rows, columns):
        assert rows.stop - rows.start <= self.stripe
        assert columns.stop - columns.start <= self.tile
        self.used[rows, columns] += 1
        return self.matrix[rows, columns]

    def fill(self, rows, columns, out, row, column):
        block = self._block(rows, columns)
        out[row : row + block.shape[0], column : column + block.shape[1]] = block

    def reduce(self, rows, columns, v, out):
        out += self._block(rows, columns) @ v

    def reduce_both(self, rows, columns, v, w, out, out_columns):
        block = self._block(rows, columns)
        out += block @ v
        out_columns += block.T @ w


sizes = st.integers(1, 30)


def matrix(n, m):
    return np.random.default_rng(n + 100 * m).standard_normal((n, m))


class TestSpans:
    @given(stop=st.integers(0, 50), step=st.integers(1, 20), start=st.integers(0, 20))
    def test_cover_once(self, stop, step, start):
        pieces = spans(stop, step, start)
        assert [i for a, b in pieces for i in range(a, b)] == list(range(start, stop))
        assert all(b - a == step for a, b in pieces[:-1])


class TestTournament:
    @given(players=st.integers(1, 40))
    def test_every_pair_meets_once(self, players):
        meetings = Counter(frozenset(pair) for pairs in tournament(players) for pair in pairs)
        assert set(meetings.values()) == {1}
        assert len(meetings) == players * (players + 1) // 2

    @given(players=st.integers(1, 40))
    def test_no_two_meetings_of_a_round_share_a_side(self, players):
        for pairs in tournament(players):
            assert len({i for i, _ in pairs}) == len(pairs) == len({j for _, j in pairs})


class TestProducts:
    @given(n=sizes, m=sizes, columns=st.integers(1, 3), threads=st.integers(1, 3))
    def test_matmul(self, n, m, columns, threads):
        K, V = matrix(n, m), matrix(m, columns)
        tiles = KnownTiles(K, threads)
        assert np.allclose(tiles.product(V), K @ V)
        assert (tiles.used == 1).all()

    @given(n=sizes, columns=st.integers(1, 3), threads=st.integers(1, 3))
    def test_symmetric_matmul(self, n, columns, threads):
        K = matrix(n, n)
        K, V = K + K.T, matrix(n, columns)
        tiles = KnownTiles(K, threads, symmetric=True)
        assert np.allclose(tiles.product(V), K @ V)
        if n > 8:  # three stripes and more: each pair once, on one side or the other
            assert (np.maximum(tiles.used, tiles.used.T) == 1).all()
            assert tiles.used.sum() < n * n

    @given(n=sizes, m=sizes, columns=st.integers(1, 3), threads=st.integers(1, 3))
    def test_normal_matmul(self, n, m, columns, threads):
        K, V, W = matrix(n, m), matrix(m, columns), matrix(n, columns)
        tiles = KnownTiles(K, threads)
        found = tiles.row_pass(V, Affine(np.ones((1, 1)), W))
        assert np.allclose(found.product, K.T @ (K @ V + W))
        assert (tiles.used == 1).all()

    @given(n=sizes, m=sizes, threads=st.integers(1, 3))
    def test_dense(self, n, m, threads):
        K = matrix(n, m)
        assert np.array_equal(KnownTiles(K, threads).block(), K)

    @given(n=sizes, threads=st.integers(1, 3))
    def test_symmetric_dense_is_mirrored(self, n, threads):
        K = matrix(n, n)
        K = K + K.T
        tiles = KnownTiles(K, threads, symmetric=True, tile=4)
        assert np.array_equal(tiles.block(), K)
        assert tiles.used.max() == 1
        assert n <= 4 or tiles.used.sum() < n * n

    def test_cheap_values_are_not_mirrored(self):
        K = matrix(9, 9)
        tiles = KnownTiles(K + K.T, symmetric=True, costly=False)
        assert np.array_equal(tiles.block(), K + K.T)
        assert (tiles.used == 1).all()

    def test_small_work_and_sequential_kernels_take_one_thread(self):
        most = thread_count()
        for size, more, expected in ((10, {}, 1), (1000, {}, most), (1000, {"parallel": False}, 1)):
            tiles = KnownTiles(np.zeros((size, size)), **more)
            assert Tiled.threads(tiles, 0, 8) == expected

    def test_an_error_in_a_tile_is_raised(self):
        class Failing(KnownTiles):
            def reduce(self, *a):
                raise RuntimeError("in a tile")

        with pytest.raises(RuntimeError, match="in a tile"):
            Failing(matrix(20, 20), 2).product(matrix(20, 1))
