from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from mercer.errors import NotPositiveDefiniteError
from mercer.linalg import Factor, cholesky, eigen, qr, symmetric_solve, triangular_solve
from mercer.linalg.panels import Tuning, clear_small, factor_in_panels
from mercer.linalg.thin import Tuning as ThinTuning
from mercer.linalg.thin import thin_product

UNIT = {"float32": float(np.finfo(np.float32).eps), "float64": float(np.finfo(np.float64).eps)}


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


def host(array):
    """Give any array as NumPy's, in float64, for the oracles."""
    return np.array(np.from_dlpack(array), dtype=np.float64)


def to(xp, array, dtype="float64"):
    return xp.asarray(np.asarray(array, dtype=dtype), dtype=getattr(xp, dtype), copy=True)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def well_conditioned(n, seed=0):
    factor = normal(n, n, seed=seed)
    return factor @ factor.T / n + np.eye(n)


def with_spectrum(values, seed=0):
    vectors = np.linalg.qr(normal(len(values), len(values), seed=seed))[0]
    matrix = vectors * values @ vectors.T
    return (matrix + matrix.T) / 2


def gaussian_gram(n, lengthscale=1.0):
    x = np.linspace(0.0, 1.0, n)
    return np.exp(-((x[:, None] - x) ** 2) / (2 * lengthscale**2))


def factors(matrix, jitter):
    """Tell whether A + jitter·I has a Cholesky factor, through the public interface."""
    try:
        cholesky(matrix, jitter=jitter)
    except NotPositiveDefiniteError:
        return False
    return True


# --- cholesky -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_factor_is_numpys_and_needs_no_jitter(xp, dtype, n):
    matrix = well_conditioned(n)
    factor = cholesky(to(xp, matrix, dtype))
    assert factor.jitter == 0.0
    assert factor.lower.dtype == getattr(xp, dtype)
    np.testing.assert_allclose(
        host(factor.lower), np.linalg.cholesky(matrix), atol=50 * n * UNIT[dtype]
    )
    assert np.all(np.triu(host(factor.lower), 1) == 0)


def test_factor_solves_and_has_the_determinant(xp, dtype):
    matrix, b = well_conditioned(12), normal(12, 3, seed=1)
    factor = cholesky(to(xp, matrix, dtype))
    tolerance = {"rtol": 1e3 * UNIT[dtype], "atol": 1e3 * UNIT[dtype]}
    solution = factor.solve(to(xp, b, dtype))
    assert solution.dtype == getattr(xp, dtype)
    np.testing.assert_allclose(host(solution), np.linalg.solve(matrix, b), **tolerance)
    half = host(factor.half_solve(to(xp, b[:, 0], dtype)))
    assert half.shape == (12,)
    np.testing.assert_allclose(half @ half, b[:, 0] @ np.linalg.solve(matrix, b[:, 0]), **tolerance)
    np.testing.assert_allclose(
        factor.log_determinant(), np.linalg.slogdet(matrix).logabsdet, **tolerance
    )
    assert isinstance(factor.log_determinant(), float)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_jitter_is_the_smallest_of_the_ladder(xp, dtype, scale):
    matrix = to(xp, scale * gaussian_gram(60), dtype)
    factor = cholesky(matrix)
    mean = float(np.mean(np.diag(host(matrix))))
    steps = np.log10(factor.jitter / (UNIT[dtype] * mean))
    assert steps == pytest.approx(round(steps), abs=1e-6)
    assert not factors(matrix, factor.jitter / 10 if round(steps) else 0.0)
    lower = host(factor.lower)
    np.testing.assert_allclose(
        lower @ lower.T, host(matrix) + factor.jitter * np.eye(60), atol=100 * UNIT[dtype] * scale
    )


def test_one_point_many_times_costs_the_first_jitter_only(xp, dtype):
    factor = cholesky(to(xp, np.ones((5, 5)), dtype))
    assert 0 < factor.jitter <= 10 * UNIT[dtype]


def test_the_zero_matrix_is_repaired(xp, dtype):
    factor = cholesky(to(xp, np.zeros((3, 3)), dtype))
    assert factor.jitter == UNIT[dtype]
    np.testing.assert_allclose(
        host(factor.lower), np.sqrt(UNIT[dtype]) * np.eye(3), rtol=10 * UNIT[dtype]
    )


def test_empty_matrices_have_empty_factors(xp):
    factor = cholesky(to(xp, np.zeros((0, 0))))
    assert tuple(factor.lower.shape) == (0, 0)
    assert factor.log_determinant() == 0.0
    assert tuple(factor.solve(to(xp, np.zeros((0,)))).shape) == (0,)


def test_float32_gram_matrices_of_a_thousand_close_points_are_repaired():
    gram = gaussian_gram(1200).astype(np.float32)
    factor = cholesky(gram)
    assert 0 < factor.jitter <= 10 * 1200 * UNIT["float32"]
    assert np.abs(factor.lower @ factor.lower.T - gram).max() <= 2 * factor.jitter


def test_what_counts_as_rounding_grows_with_the_order():
    def nearly_the_identity(n):
        return np.diag(np.append(np.ones(n - 1), -5e-4)).astype(np.float32)

    assert cholesky(nearly_the_identity(1001)).jitter > 5e-4
    with pytest.raises(NotPositiveDefiniteError):
        cholesky(nearly_the_identity(100))
    with pytest.raises(NotPositiveDefiniteError):
        cholesky(nearly_the_identity(1001).astype(np.float64))


@pytest.mark.parametrize("depth", [1e-6, 1e-2, 10.0])
def test_indefinite_matrices_are_refused_with_a_witness(xp, depth):
    spectrum = np.linspace(1.0, 2.0, 20)
    spectrum[7] = -depth
    matrix = with_spectrum(spectrum)
    with pytest.raises(NotPositiveDefiniteError, match="got one of order 20 that has no") as caught:
        cholesky(to(xp, matrix))
    witness = host(caught.value.witness)
    assert witness.shape == (20,)
    assert np.linalg.norm(witness) == pytest.approx(1.0)
    assert -depth * (1 + 1e-9) <= witness @ matrix @ witness < 0


def test_the_witness_of_float32_matrices_holds_in_float64(xp):
    spectrum = np.linspace(0.0, 1.0, 30)
    spectrum[0] = -1e-2
    matrix = to(xp, with_spectrum(spectrum), "float32")
    with pytest.raises(NotPositiveDefiniteError) as caught:
        cholesky(matrix)
    witness = host(caught.value.witness)
    assert witness @ host(matrix) @ witness < 0


@pytest.mark.parametrize(
    "matrix",
    [
        [[-1.0]],
        [[0.0, 1.0], [1.0, 0.0]],
        [[0.0, 1e-12], [1e-12, 0.0]],
        [[1.0, 0.0], [0.0, -1.0]],
        [[-1e-30, 0.0], [0.0, -1e-30]],
    ],
)
def test_small_indefinite_matrices_are_refused(xp, matrix):
    with pytest.raises(NotPositiveDefiniteError) as caught:
        cholesky(to(xp, matrix))
    witness = host(caught.value.witness)
    assert witness @ np.asarray(matrix) @ witness < 0


def test_the_refusal_says_how_much_jitter_it_would_take(xp):
    matrix = to(xp, [[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match=r"vᵀAv = -0\.6 .*jitter=\.\.\.\) with more than 0\.6\."):
        cholesky(matrix)
    assert cholesky(matrix, jitter=1.5).jitter == 1.5


def test_the_refusal_survives_pickling():
    with pytest.raises(NotPositiveDefiniteError) as caught:
        cholesky(np.diag([1.0, -1.0]))
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert np.array_equal(again.witness, caught.value.witness)


def test_a_given_jitter_is_added_exactly(xp, dtype):
    matrix = well_conditioned(6)
    factor = cholesky(to(xp, matrix, dtype), jitter=0.5)
    assert factor.jitter == 0.5
    np.testing.assert_allclose(
        host(factor.lower), np.linalg.cholesky(matrix + 0.5 * np.eye(6)), atol=100 * UNIT[dtype]
    )


def test_jitter_zero_takes_the_matrix_as_it_is_or_refuses(xp):
    assert cholesky(to(xp, well_conditioned(4)), jitter=0.0).jitter == 0.0
    with pytest.raises(NotPositiveDefiniteError, match="no Cholesky factor with jitter 0:"):
        cholesky(to(xp, np.ones((4, 4))), jitter=0.0)


@pytest.mark.parametrize("jitter", [-1e-9, float("nan"), float("inf")])
def test_a_jitter_that_is_none_is_refused(jitter):
    with pytest.raises(ValueError, match=rf"at least 0, got {jitter}: write jitter=None"):
        cholesky(np.eye(2), jitter=jitter)


@pytest.mark.parametrize(
    "matrix", [well_conditioned(9), gaussian_gram(30), np.diag([1.0, 1.0, -1.0])]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_inputs_are_left_as_they_are(xp, matrix, order):
    given_matrix = to(xp, matrix) if xp is not np else np.array(matrix, order=order)
    b = to(xp, np.ones(len(matrix)))
    try:
        cholesky(given_matrix).solve(b)
    except NotPositiveDefiniteError:
        assert matrix[-1, -1] < 0
    assert np.array_equal(host(given_matrix), matrix)
    assert np.array_equal(host(b), np.ones(len(matrix)))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("make", [well_conditioned, gaussian_gram])
def test_overwriting_uses_the_memory_of_the_input(make, order):
    matrix = np.array(make(30), order=order)
    expected = cholesky(matrix)
    factor = cholesky(matrix, overwrite=True)
    assert np.shares_memory(factor.lower, matrix)
    assert factor.jitter == expected.jitter
    assert np.array_equal(factor.lower, expected.lower)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_refused_matrix_is_put_back(order):
    spectrum = np.linspace(-1.0, 1.0, 11)
    matrix = np.array(with_spectrum(spectrum), order=order)
    before = matrix.copy()
    with pytest.raises(NotPositiveDefiniteError):
        cholesky(matrix, overwrite=True)
    assert np.array_equal(matrix, before)


def test_overwriting_strided_and_read_only_arrays_gives_the_same_factor():
    matrix = gaussian_gram(24)
    expected = cholesky(matrix)
    strided = np.zeros((48, 48))[::2, ::2]
    strided[:] = matrix
    assert np.array_equal(cholesky(strided, overwrite=True).lower, expected.lower)
    frozen = matrix.copy()
    frozen.flags.writeable = False
    assert np.array_equal(cholesky(frozen, overwrite=True).lower, expected.lower)
    assert np.array_equal(frozen, matrix)


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 10_000))
def test_every_matrix_of_the_form_rrt_has_a_factor(n, rank, seed):
    root = normal(n, rank, seed=seed)
    matrix = root @ root.T
    factor = cholesky(matrix)
    assert factor.jitter <= 1e-10 * max(np.trace(matrix) / n, 1.0)
    np.testing.assert_allclose(
        factor.lower @ factor.lower.T, matrix, atol=1e-9 * max(np.trace(matrix), 1e-6)
    )


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=8), st.integers(0, 10_000))
def test_factor_or_witness_never_neither(spectrum, seed):
    assume(max(abs(value) for value in spectrum) > 1e-3)
    matrix = with_spectrum(np.asarray(spectrum), seed=seed)
    smallest = min(spectrum)
    assume(abs(smallest) > 1e-6)
    if smallest > 0:
        assert cholesky(matrix).jitter == 0.0
        return
    with pytest.raises(NotPositiveDefiniteError) as caught:
        cholesky(matrix)
    assert caught.value.witness @ matrix @ caught.value.witness < 0


# --- triangular_solve -----------------------------------------------------------------------------


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("shape", [(8,), (8, 1), (8, 3), (8, 0)])
def test_triangular_solve_reads_its_triangle_only(xp, dtype, lower, transposed, shape):
    matrix = well_conditioned(8) + np.triu(normal(8, 8))
    triangle = np.tril(matrix) if lower else np.triu(matrix)
    b = normal(*shape, seed=3)
    x = triangular_solve(
        to(xp, matrix, dtype), to(xp, b, dtype), lower=lower, transposed=transposed
    )
    assert x.dtype == getattr(xp, dtype)
    assert tuple(x.shape) == shape
    expected = np.linalg.solve(triangle.T if transposed else triangle, b)
    np.testing.assert_allclose(host(x), expected, rtol=1e3 * UNIT[dtype], atol=1e3 * UNIT[dtype])


@pytest.mark.parametrize("types", [("float32", "float64"), ("float64", "float32")])
def test_mixed_precision_goes_to_the_wider_one(xp, types):
    lower = to(xp, np.linalg.cholesky(well_conditioned(5)), types[0])
    b = to(xp, normal(5), types[1])
    x = triangular_solve(lower, b)
    assert x.dtype == xp.float64
    np.testing.assert_allclose(host(x), np.linalg.solve(host(lower), host(b)), rtol=1e-12)


def test_singular_triangles_are_refused(xp):
    with pytest.raises(ValueError, match=r"got one in row 1: write symmetric_solve"):
        triangular_solve(to(xp, np.diag([1.0, 0.0, 2.0])), to(xp, np.ones(3)))


@pytest.mark.parametrize("shape", [(4,), (2, 3), (3, 1, 1), ()])
def test_right_hand_sides_of_another_length_are_refused(xp, shape):
    b = to(xp, np.ones(shape))
    text = r"right-hand side of 3 rows.*got shape \(" + ", ".join(map(str, shape))
    with pytest.raises(ValueError, match=text):
        triangular_solve(to(xp, np.eye(3)), b)
    with pytest.raises(ValueError, match=text):
        symmetric_solve(to(xp, np.eye(3)), b)
    with pytest.raises(ValueError, match=text):
        Factor(to(xp, np.eye(3)), 0.0).solve(b)


# --- eigen, qr, symmetric_solve -------------------------------------------------------------------


def test_eigen_is_ascending_orthonormal_and_complete(xp, dtype):
    spectrum = np.asarray([3.0, -2.0, 0.5, 0.0, 7.0])
    matrix = with_spectrum(spectrum)
    values, vectors = eigen(to(xp, matrix, dtype))
    assert values.dtype == vectors.dtype == getattr(xp, dtype)
    tolerance = 100 * UNIT[dtype]
    np.testing.assert_allclose(host(values), np.sort(spectrum), atol=tolerance)
    V = host(vectors)
    np.testing.assert_allclose(V.T @ V, np.eye(5), atol=tolerance)
    np.testing.assert_allclose(V * host(values) @ V.T, matrix, atol=tolerance)


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4)])
def test_qr_is_a_factorisation(xp, dtype, shape):
    matrix = normal(*shape)
    Q, R = qr(to(xp, matrix, dtype))
    assert Q.dtype == R.dtype == getattr(xp, dtype)
    assert tuple(Q.shape) == (shape[0], min(shape))
    tolerance = 100 * UNIT[dtype]
    np.testing.assert_allclose(host(Q) @ host(R), matrix, atol=tolerance)
    np.testing.assert_allclose(host(Q).T @ host(Q), np.eye(min(shape)), atol=tolerance)
    assert np.all(np.tril(host(R), -1) == 0)


@pytest.mark.parametrize("columns", [(), (1,), (4,)])
@pytest.mark.parametrize("rank", [0, 1, 5, 9])
def test_symmetric_solve_is_the_pseudo_inverse(xp, dtype, rank, columns):
    root = normal(9, rank)
    matrix, b = root @ root.T, normal(9, *columns, seed=5)
    given_matrix = to(xp, matrix, dtype)
    x, found = symmetric_solve(given_matrix, to(xp, b, dtype))
    assert found == rank
    assert x.dtype == getattr(xp, dtype)
    expected = np.linalg.pinv(matrix, rcond=1e-6, hermitian=True) @ b
    np.testing.assert_allclose(host(x), expected, rtol=1e5 * UNIT[dtype], atol=1e5 * UNIT[dtype])


def test_symmetric_solve_keeps_negative_eigenvalues(xp):
    matrix = with_spectrum(np.asarray([-2.0, 0.0, 3.0]))
    b = normal(3)
    x, rank = symmetric_solve(to(xp, matrix), to(xp, b))
    assert rank == 2
    np.testing.assert_allclose(host(x), np.linalg.pinv(matrix, rcond=1e-10) @ b, rtol=1e-10)


def test_the_cutoff_is_relative_to_the_largest_eigenvalue(xp):
    matrix = to(xp, 1e-20 * np.diag([1.0, 1e-3, 1e-6]))
    b = to(xp, np.ones(3))
    assert [symmetric_solve(matrix, b, cutoff=c)[1] for c in (1e-8, 1e-4, 1e-2)] == [3, 2, 1]
    assert symmetric_solve(matrix, b)[1] == 3


@given(st.integers(1, 8), st.integers(0, 8), st.integers(0, 10_000))
def test_symmetric_solve_obeys_the_laws_of_penrose(n, rank, seed):
    root = normal(n, rank, seed=seed)
    matrix = root @ root.T
    inverse, found = symmetric_solve(matrix, np.eye(n), cutoff=1e-9)
    condition = np.linalg.norm(matrix) * np.linalg.norm(inverse)
    tolerance = 1e-13 * n * max(condition, 1.0)
    assert found <= min(n, rank)
    np.testing.assert_allclose(
        matrix @ inverse @ matrix, matrix, atol=(tolerance + 1e-8) * np.linalg.norm(matrix)
    )
    np.testing.assert_allclose(
        inverse @ matrix @ inverse, inverse, atol=tolerance * np.linalg.norm(inverse)
    )
    np.testing.assert_allclose(inverse, inverse.T, atol=tolerance * np.linalg.norm(inverse))


# --- refusals that all share ----------------------------------------------------------------------


def solve_against_ones(matrix):
    return symmetric_solve(matrix, matrix[:, 0])


def triangular_against_ones(matrix):
    return triangular_solve(matrix, matrix[:, 0])


SQUARE = [cholesky, eigen, solve_against_ones, triangular_against_ones]


@pytest.mark.parametrize("operation", SQUARE)
def test_rectangles_are_refused(xp, operation):
    with pytest.raises(ValueError, match=r"square matrix, got shape \(2, 3\): write kernel\.gram"):
        operation(to(xp, np.ones((2, 3))))


@pytest.mark.parametrize("operation", [cholesky, eigen, qr])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2)])
def test_what_is_no_matrix_is_refused(xp, operation, shape):
    with pytest.raises(ValueError, match=r"rows and columns, got an array of shape \("):
        operation(to(xp, np.ones(shape)))


@pytest.mark.parametrize("operation", [cholesky, eigen, qr, solve_against_ones])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(xp, operation, bad):
    matrix = np.eye(3)
    matrix[0, 1] = matrix[1, 0] = bad
    with pytest.raises(ValueError, match=r"got 2 NaN or infinite entries.*\(3, 3\)\. Where"):
        operation(to(xp, matrix))


@pytest.mark.parametrize("operation", [*SQUARE, qr])
def test_integers_are_refused(xp, operation):
    with pytest.raises(ValueError, match=r"float32 or float64, got .*int64: write xp\.astype"):
        operation(xp.eye(3, dtype=xp.int64))


@pytest.mark.filterwarnings("error")
def test_large_entries_are_finite(xp):
    largest = float(np.finfo(np.float64).max)
    values, _ = eigen(to(xp, np.diag([largest, largest, largest])))
    np.testing.assert_allclose(host(values), largest)


def test_lists_are_refused():
    with pytest.raises(TypeError, match=r"write numpy\.asarray"):
        cholesky([[1.0]])


class TestPanels:
    @pytest.mark.parametrize("panel", [1, 3, 4, 10, 20])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_it_is_the_factor_and_the_upper_triangle_stays(self, panel, dtype):
        B = np.random.default_rng(0).standard_normal((10, 12))
        A = np.asfortranarray(B @ B.T, dtype)
        columns = A.copy(order="F")
        assert factor_in_panels(columns, panel) == 0
        error = np.abs(np.tril(columns) - np.linalg.cholesky(A.astype(np.float64))).max()
        assert error <= 100 * np.finfo(dtype).eps
        assert (np.triu(columns, 1) == np.triu(A, 1)).all()

    @pytest.mark.parametrize("order", [1, 4, 5, 9])
    def test_the_first_minor_that_fails(self, order):
        A = np.eye(9, order="F") + 0.1
        A[order - 1, order - 1] = -1.0
        assert factor_in_panels(A, 3) == order

    def test_large_matrices_take_this_way(self):
        tuning = Tuning(panel=3, large=5)
        A = np.eye(9) + 0.1
        factor = cholesky(A, tuning=tuning)
        assert np.abs(factor.lower @ factor.lower.T - A).max() <= 1e-15
        A[6, 6] = -1.0
        with pytest.raises(NotPositiveDefiniteError, match="no Cholesky factor"):
            cholesky(A, jitter=0.0, tuning=tuning)


# --- products with few columns --------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 2, 7, 16, 48, 49])
@pytest.mark.parametrize("order", ["rows", "columns", "strided"])
def test_thin_products_are_those_of_numpy(columns, order, dtype):
    pieces = ThinTuning(multiplications=4096, rows=8, longest=32)
    A = normal(45, 70).astype(dtype)
    A = {"rows": A, "columns": np.asfortranarray(A), "strided": np.repeat(A, 2, axis=1)[:, ::2]}[
        order
    ]
    V = normal(70, columns, seed=1).astype(dtype)
    found = thin_product(A, V, pieces)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, A.astype(float) @ V, atol=200 * UNIT[dtype])


def test_bits_of_thin_products_do_not_depend_on_threads():
    A, V = normal(300, 500), normal(500, 16, seed=1)
    with threadpool_limits(1):
        alone = thin_product(A, V)
    assert np.array_equal(thin_product(A, V), alone)


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_small_numbers_are_cleared_without_a_copy(order):
    array = np.random.default_rng(0).standard_normal((1_000, 800)).astype(np.float32)
    array[::7] *= 1e-25
    wanted = np.where(np.abs(array) >= 2.0**-60, array, 0)
    if order == "strided":
        array = np.repeat(array, 2, axis=1)[:, ::2]
    array = np.asfortranarray(array) if order == "F" else array
    tracemalloc.start()
    clear_small(array)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * array.nbytes
    np.testing.assert_array_equal(array, wanted)
