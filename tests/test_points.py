"""Points of every kind keep one contract."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import markets
from mercer.points import (
    ALL_COLUMNS,
    DensePoints,
    IndexPoints,
    ObjectPoints,
    PointSet,
    SparsePoints,
    View,
    as_points,
    as_vectors,
    check_finite,
)

MADE = {
    name: lambda folder, name=name: as_vectors(markets.POINTS[name](folder))
    for name in markets.POINTS
}
MADE |= {
    "words": lambda folder: ObjectPoints(list(markets.WORDS)),
    "numbers": lambda folder: IndexPoints(np.arange(10)),
}


def listed(points):
    data = points.data
    return data.toarray().tolist() if scipy.sparse.issparse(data) else list(map(_plain, data))


def _plain(point):
    return point.tolist() if isinstance(point, np.ndarray) else point


@pytest.mark.parametrize("name", MADE)
class TestContract:
    def test_is_a_point_set(self, name, tmp_path):
        assert isinstance(MADE[name](tmp_path), PointSet)

    def test_slice_and_take(self, name, tmp_path):
        points = MADE[name](tmp_path)
        whole = listed(points)
        assert len(points) == len(whole)
        assert listed(points.slice(2, 5)) == whole[2:5]
        assert listed(points.take([4, 0, 4])) == [whole[4], whole[0], whole[4]]
        assert listed(points.take(np.arange(len(points)) < 2)) == whole[:2]
        assert len(points.slice(0, 0)) == 0
        assert type(points.slice(0, 1)) is type(points)

    def test_concatenated(self, name, tmp_path):
        points = MADE[name](tmp_path)
        both = points.slice(0, 2).concatenated(points.slice(5, 6))
        assert listed(both) == listed(points.take([0, 1, 5]))

    def test_precision(self, name, tmp_path):
        single = "float32" in name or name == "wide-memory-map"
        assert MADE[name](tmp_path).dtype == (np.float32 if single else np.float64)


class TestVectors:
    def test_kinds(self, tmp_path):
        assert isinstance(as_vectors([[1, 2]]), DensePoints)
        assert isinstance(as_vectors(scipy.sparse.coo_array(np.eye(2))), SparsePoints)
        assert as_vectors(markets.memory_map(tmp_path, np.eye(2))).mapped
        assert not as_vectors(np.eye(2)).mapped
        points = as_vectors(np.eye(2))
        assert as_vectors(points) is points

    def test_arrays_are_not_copied(self):
        X = np.eye(3)
        assert as_vectors(X).rows is X

    def test_a_view_chooses_and_scales(self):
        X = markets.normal(4)
        view = View((2, 0), (10.0, 0.5))
        for points in (as_vectors(X), as_vectors(scipy.sparse.csr_array(X))):
            seen = points.seen(view, np.float64)
            assert np.array_equal(seen, X[:, [2, 0]] * [10.0, 0.5])
            assert np.allclose(points.squared_norms(view), (seen**2).sum(axis=1))
            assert points.width_of(view) == 2
            assert points.width_of(ALL_COLUMNS) == 3

    def test_what_is_seen_is_fresh(self):
        X = markets.normal(4)
        as_vectors(X).seen(ALL_COLUMNS, np.float64)[:] = 0
        assert X.all()

    def test_centring_comes_before_scaling(self):
        X = markets.normal(4)
        seen = as_vectors(X).seen(View(scales=(2.0, 2.0, 2.0)), np.float64, np.ones(3))
        assert np.allclose(seen, 2 * (X - 1))

    def test_centre_is_the_mean(self):
        X = markets.normal(40)
        assert np.allclose(as_vectors(X).centre(View((1,))), X[:, 1].mean())

    def test_sparse_points_are_not_centred(self):
        with pytest.raises(ValueError, match="sparse points are not centred"):
            as_vectors(markets.sparse(3)).seen(ALL_COLUMNS, np.float64, np.ones(60))

    def test_names_of_a_frame(self):
        frame = markets.Frame({"a": np.ones(2), "b": np.zeros(2)})
        assert as_vectors(frame).names == ("a", "b")
        assert as_vectors(frame, ["b"]).names == ("b",)
        assert as_vectors(frame, ["b"]).width == 1

    def test_no_columns_at_all(self):
        assert as_vectors(np.empty((3, 0))).width == 0


class TestObjects:
    def test_what_becomes_what(self):
        assert isinstance(as_points(["a", "b"]), ObjectPoints)
        assert isinstance(as_points(np.array(["a", "b"])), ObjectPoints)
        assert isinstance(as_points([{1}, {2}]), ObjectPoints)
        assert isinstance(as_points([[1.0, 2.0], [3.0]]), ObjectPoints)
        assert isinstance(as_points([[1.0, 2.0]]), DensePoints)
        assert isinstance(as_points(markets.sparse(3)), SparsePoints)
        points = as_points(["a"])
        assert as_points(points) is points

    def test_iteration(self):
        assert list(as_points(["a", "b"])) == ["a", "b"]


class TestFinite:
    def test_large_numbers_are_finite(self):
        check_finite(np.full(10, 1e308))
        check_finite(np.array([1e308, 1e308, -1e308]))

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_one_in_many(self, bad):
        values = np.ones((200_000, 1))
        values[150_000] = bad
        with pytest.raises(ValueError, match="NaN" if np.isnan(bad) else "infinity"):
            as_vectors(values)


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("power", [-1060, -1020, -600, 600, 1022])
def test_rows_of_any_size_have_a_direction(make, power):
    """Squares vanish or overflow, and so do lengths; below 2^-1022 they lose digits."""
    rows = np.random.default_rng(0).integers(-3, 4, (9, 5)).astype(float)
    exact = as_vectors(rows).seen(View(unit=True), np.float64)
    seen = as_vectors(make(np.ldexp(rows, power))).seen(View(unit=True), np.float64)
    assert np.allclose(seen, exact, rtol=0, atol=1e-15)
    assert np.allclose(np.linalg.norm(seen, axis=1), 1.0, rtol=0, atol=1e-15)
