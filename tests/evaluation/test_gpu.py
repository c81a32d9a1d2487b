"""The Triton code on the CPU, through Triton's interpreter, against the reference."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from markets import (  # noqa: E402
    ALL_EXPRESSIONS,
    COMPOSITE,
    ON_THEIR_POINTS,
    ON_TWO_COLUMNS,
    WITH_EXPRESSION,
    WITHOUT_EXPRESSION,
)
from mercer.estimators import KernelClassifier  # noqa: E402
from mercer.evaluation import reference  # noqa: E402
from mercer.evaluation.execution import MappedRows  # noqa: E402
from mercer.kernels import (  # noqa: E402
    ArcCosine,
    BlockKernel,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    PeriodicExponential,
    RationalQuadratic,
)

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1",
    reason="the interpreter must be chosen before Triton is imported: TRITON_INTERPRET=1",
)
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-13}


def exact(kernel, X, Y):
    x, y = (kernel.points(np.asarray(side, np.float64)) for side in (X, Y))
    return np.asarray(reference.block(kernel.expression(), x, y))


def error(answer, matrix, values):
    """The largest error, in units of what rounding of every term may do."""
    scale = np.abs(matrix) @ np.abs(values) + np.abs(matrix).max() * np.abs(values).max()
    gap = np.abs(np.asarray(answer, np.float64) - matrix @ values)
    return float((gap / np.maximum(scale, np.finfo(float).tiny)).max())


def points(rows, width, dtype, seed):
    return np.random.default_rng(seed).standard_normal((rows, width)).astype(dtype)


def check(kernel, X, Y, columns=1, **options):
    Y = np.concatenate([Y, X[:3]])  # so that kernels that decay fast are not zero everywhere
    V = points(len(Y), columns, X.dtype, 7)
    gram = kernel.gram(torch.tensor(X), torch.tensor(Y), **options)
    answer = gram @ torch.tensor(V)
    assert answer.dtype == (torch.float32 if X.dtype == np.float32 else torch.float64)
    matrix = exact(kernel, X, Y)
    assert error(answer, matrix, V.astype(np.float64)) < TOLERANCE[X.dtype.type]
    return gram, matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ALL_EXPRESSIONS)
def test_every_program_against_the_reference(name, dtype):
    width = 2 if name in ON_TWO_COLUMNS else 6
    check(ALL_EXPRESSIONS[name], points(19, width, dtype, 0), points(37, width, dtype, 1))


@pytest.mark.parametrize("name", ON_THEIR_POINTS)
def test_programs_on_their_own_points(name):
    kernel, data = ON_THEIR_POINTS[name]
    X = np.asarray(data, np.float32)
    check(kernel, X, X[::-1].copy())


@pytest.mark.parametrize("name", ["gaussian", "matern-1/2", "linear", "composite"])
@pytest.mark.parametrize("width", [1, 12, 40, 140])
def test_any_number_of_columns(name, width):
    check(WITH_EXPRESSION[name], points(33, width, np.float32, 0), points(70, width, np.float32, 1))


@pytest.mark.parametrize(
    ("kernel", "width"),
    [
        (Laplacian(3.0), 5),
        (Laplacian(3.0), 15),
        (Laplacian([1.0 + k for k in range(5)]), 5),
        (PeriodicExponential(), 15),
        (PeriodicExponential() + Laplacian(2.0), 5),
        (Matern(0.5, 2.0), 15),
        (ArcCosine(1), 5),
    ],
    ids=str,
)
def test_points_of_several_blocks(kernel, width):
    """Coordinates lie in blocks of 256 points, and functions of one with them."""
    X, Y = (points(n, width, np.float32, n) for n in (300, 570))
    Y[300:340] = X[260:] + np.float32(1e-4)  # close pairs across blocks
    check(kernel, X, Y)


def symmetric_product(kernel, X, **limits):
    """K(X, X) whose pairs are computed once, in strips of few rows."""
    from mercer.evaluation.gpu.product import FusedProduct, Tuning

    rows = kernel.points(torch.tensor(X))
    tuning = Tuning(**({"pairs_once": 1, "pairs_bytes": 1 << 13} | limits))
    dtype = torch.tensor(X).dtype
    return FusedProduct(kernel.expression(), rows, rows, dtype, "float32", tuning, symmetric=True)


@pytest.mark.parametrize("n", [1, 64, 300, 570])
@pytest.mark.parametrize(
    ("kernel", "width", "dtype"),
    [
        (Gaussian(2.0), 6, np.float32),
        (Gaussian(0.5), 10, np.float32),
        (Matern(0.5, 2.0), 10, np.float32),
        (Matern(2.2, 2.0), 12, np.float32),
        (COMPOSITE, 10, np.float32),
        (ArcCosine(1), 40, np.float32),
        (Gaussian(9.0), 140, np.float32),
        (Gaussian(2.0), 6, np.float64),
        (Matern(2.5, 3.0), 40, np.float64),
    ],
)
def test_pairs_of_a_symmetric_matrix_are_computed_once(kernel, width, dtype, n):
    X, v = points(n, width, dtype, 3), points(n, 1, dtype, 4)
    X[n // 2 : n // 2 + 20] = X[: len(X[n // 2 : n // 2 + 20])]  # pairs that are equal
    product, matrix = symmetric_product(kernel, X), exact(kernel, X, X)
    answer = product.matmul(torch.tensor(v))
    assert error(answer, matrix, v.astype(np.float64)) < TOLERANCE[dtype]
    assert product.prepared()[-1].launch.takes_pairs_once(columns=1)
    assert torch.equal(product.matmul(torch.tensor(v)), answer)


@pytest.mark.parametrize("columns", [1, 2, 12])
def test_near_points_of_a_symmetric_matrix_are_a_part_of_their_own(columns):
    X, V = points(400, 6, np.float32, 3), points(400, columns, np.float32, 4)
    X[[7, 150, 399]] *= np.float32(30.0)  # so far out that close pairs there are subtracted
    X[150] = X[7] + np.float32(0.5)
    kernel = Gaussian(2.0)
    product = symmetric_product(kernel, X)
    answer, matrix = product.matmul(torch.tensor(V)), exact(kernel, X, X)
    assert error(answer, matrix, V.astype(np.float64)) < TOLERANCE[np.float32]
    parts = product.prepared()
    assert [len(part.columns) for part in parts] == [3, 397, 397]
    assert [part.launch.symmetric for part in parts] == [False, False, True]


def test_a_plan_says_whether_pairs_are_computed_once():
    X = points(300, 6, np.float32, 3)
    assert symmetric_product(Gaussian(2.0), X).describe(1)[2]
    assert not symmetric_product(Gaussian(2.0), X).describe(2)[2]
    assert not symmetric_product(Gaussian(2.0), X, pairs_once=301).describe(1)[2]
    assert not symmetric_product(Laplacian(3.0), X).describe(1)[2]
    assert not Gaussian(2.0).gram(torch.tensor(X)).plan().symmetric  # they are few


@pytest.mark.parametrize("columns", [2, 3, 9, 70])
def test_any_number_of_right_hand_sides(columns):
    X, Y = points(33, 6, np.float32, 0), points(300, 6, np.float32, 1)
    check(COMPOSITE, X, Y, columns)


@pytest.mark.parametrize("name", ["gaussian", "gaussian-short", "matern-1/2", "composite"])
@pytest.mark.parametrize("width", [3, 12, 40])
@pytest.mark.parametrize("case", ["far", "outliers", "nearly equal", "tiny"])
def test_distances_keep_their_digits(name, width, case):
    X, Y = points(40, width, np.float32, 0), points(60, width, np.float32, 1)
    Y[:20] = X[:20]
    if case == "far":
        X, Y = X + np.float32(1e4), Y + np.float32(1e4)
    elif case == "outliers":
        X[::7] *= 50
        Y[::9] *= 50
    elif case == "nearly equal":
        Y[::2] = X[:30] + np.float32(1e-4) * points(30, width, np.float32, 2)
    else:
        X, Y = X * np.float32(1e-6), Y * np.float32(1e-6)
    check(WITH_EXPRESSION[name], X, Y)


@pytest.mark.parametrize(("rows", "others"), [(1, 1), (31, 33), (65, 300)])
@pytest.mark.parametrize("middle", [0.0, 3.0])
def test_a_product_beside_a_distance_of_one_short_matrix_product(rows, others, middle):
    from mercer.evaluation.gpu.product import FusedProduct, tile_for

    kernel = 2.0 * Gaussian(2.0) + 0.7 * Linear() * Matern(1.5, lengthscale=2.5)
    X, Y = (points(n, 10, np.float32, n) + np.float32(middle) for n in (rows, others))
    gram, matrix = check(kernel, X, Y)
    Y = np.concatenate([Y, X[:3]])
    np.testing.assert_allclose(gram.dense().numpy(), matrix, rtol=0, atol=2e-6 * matrix.max())
    product = FusedProduct(
        kernel.expression(),
        *(kernel.points(torch.tensor(side)) for side in (X, Y)),
        torch.float32,
        "float32",
    )
    ((_, _, launch),) = product.prepared()
    code = launch.operands.code
    assert [plan.parts for plan in code.plans] == [1]
    assert [tile_for(code, columns).by_elements for columns in (1, 2)] == [True, False]
    shifted = "XS0" in launch.operands.arrays
    assert shifted == (middle != 0.0 or rows == 1)  # one point is its own middle


@pytest.mark.parametrize("width", [5, 10, 14])
@pytest.mark.parametrize(("rows", "others"), [(1, 1), (31, 33), (65, 300)])
@pytest.mark.parametrize(
    "kernel",
    [
        Matern(1.5, 2.0),
        3.0 * Matern(1.5, 2.0),
        Matern(2.5, 2.0),
        Matern(2.2, 2.0),
        RationalQuadratic(1.5, 2.0),
        Matern(1.5, 2.0) + RationalQuadratic(1.0, 3.0),
    ],
    ids=str,
)
def test_distances_of_few_columns_are_summed_by_elements(kernel, rows, others, width):
    X, Y = (points(n, width, np.float32, n) for n in (rows, others))
    check(kernel, X, Y)
    check(kernel, X, X)


@pytest.mark.parametrize("mixture", [0.5, 4.0, 4.5, 300.0, 1e5])
def test_powers_of_any_size_keep_their_digits(mixture):
    X, Y = (points(n, 10, np.float32, n) for n in (40, 70))
    check(RationalQuadratic(mixture, 2.0), X, Y)


@pytest.mark.parametrize("size", [1e-4, 1.0, 30.0])
def test_products_keep_their_digits_where_a_distance_sets_the_scale(size):
    kernel = Linear() * Matern(1.5, lengthscale=2.0)
    X, Y = (np.float32(size) * points(n, 10, np.float32, n) for n in (40, 70))
    check(kernel, X, Y)


def test_rows_of_very_different_lengths_keep_their_digits():
    X = points(40, 12, np.float32, 0) * np.logspace(-12, 6, 40, dtype=np.float32)[:, None]
    V = points(40, 1, np.float32, 1)
    answer = (Linear().gram(torch.tensor(X)) @ torch.tensor(V)).numpy()
    matrix = exact(Linear(), X, X)
    scale = np.linalg.norm(X, axis=1)[:, None] * (np.linalg.norm(X, axis=1) @ np.abs(V))
    assert (np.abs(answer - matrix @ V) / scale).max() < 2e-6


def test_tf32_by_choice_has_three_digits():
    X, V = points(50, 12, np.float32, 0), points(50, 1, np.float32, 1)
    kernel = Gaussian(3.0)
    rough = kernel.gram(torch.tensor(X), precision="tf32") @ torch.tensor(V)
    assert 1e-6 < error(rough, exact(kernel, X, X), V) < 2e-3


def test_float64_by_choice():
    X, V = points(50, 12, np.float32, 0), points(50, 1, np.float32, 1)
    gram = Gaussian(3.0).gram(torch.tensor(X), precision="float64")
    answer = gram @ torch.tensor(V)
    assert answer.dtype == torch.float64
    assert error(answer, exact(Gaussian(3.0), X, X), V.astype(np.float64)) < 1e-13


@pytest.mark.parametrize(
    ("kernel", "far", "width", "way"),
    [
        (Gaussian(3.0), 1e3, 12, "centred products"),
        (Gaussian(12.0), 0.0, 140, "centred products"),
        (Gaussian(0.02), 0.0, 12, "differences"),  # too steep: digits would be lost
        (Matern(0.5, 3.0), 0.0, 12, "differences"),  # a kink at 0
    ],
    ids=["far", "wide", "steep", "kink"],
)
def test_distances_in_float64_are_products_where_that_keeps_the_digits(kernel, far, width, way):
    X, Y = points(40, width, np.float64, 0) + far, points(60, width, np.float64, 1) + far
    Y[:20] = X[:20] + 1e-9
    gram, _ = check(kernel, X, Y, columns=2)
    assert gram.plan().distances == way


def test_the_fused_product_and_the_transpose():
    X, Y = points(33, 6, np.float32, 0), points(20, 6, np.float32, 1)
    gram, matrix = check(Matern(1.5), X, Y)
    v, w = points(23, 2, np.float32, 3), points(33, 1, np.float32, 4)
    fused = gram.normal_matmul(torch.tensor(v), torch.tensor(w)).numpy()
    np.testing.assert_allclose(fused, matrix.T @ (matrix @ v + w), rtol=1e-5, atol=1e-5)
    assert error(gram.T @ torch.tensor(w), matrix.T, w.astype(np.float64)) < 2e-6


@pytest.mark.parametrize("kernel", [Gaussian(0.7), COMPOSITE, Laplacian()])
def test_matrix_diagonal_and_columns(kernel):
    X, Y = points(33, 3, np.float32, 0), points(70, 3, np.float32, 1)
    gram, matrix = check(kernel, X, Y)
    np.testing.assert_allclose(gram.dense().numpy(), matrix, rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(
        gram.columns([3, 1]).numpy(), matrix[:, [3, 1]], rtol=1e-5, atol=2e-6
    )
    diagonal = kernel.gram(torch.tensor(X)).diagonal().numpy()
    np.testing.assert_allclose(diagonal, np.diag(exact(kernel, X, X)), rtol=1e-6)
    assert "Triton" in str(gram.plan())


@pytest.mark.parametrize("name", WITHOUT_EXPRESSION)
def test_kernels_without_a_program_run_in_blocks(name):
    kernel, data = WITHOUT_EXPRESSION[name]
    if data is not None and not isinstance(data, np.ndarray):
        pytest.skip("points that are not vectors are not tensors")
    if name.startswith(("precomputed", "functionals")):
        pytest.skip("points known by number, and functionals, are not tensors")
    X = points(11, 2, np.float64, 0) if data is None else np.asarray(data, np.float64)
    if "block" in name:
        kernel = BlockKernel(lambda x, y: torch.exp(-torch.cdist(x, y, p=1)))
        expected = np.exp(-np.abs(X[:, None] - X[None]).sum(-1))
    else:
        expected = kernel.gram(X).dense()
    gram = kernel.gram(torch.tensor(X))
    np.testing.assert_allclose(gram.dense().numpy(), expected, rtol=1e-10, atol=1e-12)
    v = points(len(X), 1, np.float64, 1)
    np.testing.assert_allclose(
        (gram @ torch.tensor(v)).numpy(), expected @ v, rtol=1e-9, atol=1e-10
    )


def test_blocks_in_torch_agree_where_triton_is_missing(monkeypatch):
    from mercer.evaluation.gpu import execution

    monkeypatch.setattr(execution, "triton_is_there", lambda: False)
    for name in (
        "composite",
        "laplacian",
        "arc-cosine-2",
        "matern-2.2",
        "bernoulli-1",
        "normalised",
    ):
        gram, _ = check(
            WITH_EXPRESSION[name], points(9, 3, np.float64, 0), points(7, 3, np.float64, 1)
        )
        assert "torch" in str(gram.plan())


def test_a_smaller_tile_is_tried_where_the_card_has_too_little(monkeypatch):
    from mercer.evaluation.gpu import product

    tried = []
    call = product.Launch._call

    def too_small(self, name, columns, grid, tile, tiles, given):
        tried.append(tile)
        if len(tried) < 4:
            raise triton.runtime.errors.OutOfResources(1, 0, "shared memory")
        call(self, name, columns, grid, tile, tiles, given)

    monkeypatch.setattr(product.Launch, "_call", too_small)
    check(Gaussian(), points(9, 6, np.float32, 0), points(30, 6, np.float32, 1))
    assert tried[-1].rows * tried[-1].columns < tried[0].rows * tried[0].columns


@pytest.mark.parametrize("columns", [1, 9])
@pytest.mark.parametrize(("n", "m"), [(1100, 40), (40, 1100)])
def test_half_of_the_points_at_a_time_where_memory_is_short(monkeypatch, n, m, columns):
    from mercer.evaluation.gpu import product

    sizes = []
    prepare = product.Launch.__init__

    def short(self, whole, x, y, strict=False):
        sizes.append((len(x), len(y)))
        if max(sizes[-1]) > 1050:
            raise torch.OutOfMemoryError("fake")
        prepare(self, whole, x, y, strict)

    monkeypatch.setattr(product.Launch, "__init__", short)
    check(Gaussian(), points(n, 3, np.float32, 0), points(m, 3, np.float32, 1), columns)
    assert len(sizes) == 3


def test_a_device_without_memory_says_what_to_do(monkeypatch):
    from mercer.evaluation.gpu import blocks, product

    def nothing(*arguments, **options):
        raise torch.OutOfMemoryError("fake")

    X = torch.tensor(points(2000, 3, np.float32, 0))
    monkeypatch.setattr(product.Launch, "__init__", nothing)
    with pytest.raises(MemoryError, match=r"no memory left for a product with .*X\.cpu\(\)"):
        Gaussian().gram(X) @ torch.ones(2000)
    plain = blocks.BlockProduct(nothing, Gaussian().points(X), Gaussian().points(X), torch.float32)
    with pytest.raises(MemoryError, match="no memory left"):
        plain.matmul(torch.ones((2000, 1)))


def test_blocks_in_torch_become_smaller_where_memory_is_short():
    from mercer.evaluation.gpu import blocks

    sizes = []

    def block(x, y):
        sizes.append(len(x))
        if len(x) > 200:
            raise torch.OutOfMemoryError("fake")
        return x.rows @ y.rows.T

    X = points(500, 3, np.float64, 0)
    x = Linear().points(torch.tensor(X))
    product = blocks.BlockProduct(block, x, x, torch.float64)
    np.testing.assert_allclose(product.dense().numpy(), X @ X.T)
    np.testing.assert_allclose(product.matmul(torch.tensor(X)).numpy(), X @ (X.T @ X))
    assert sizes[:2] == [500, 250]


def test_an_old_card_runs_in_torch(monkeypatch):
    from types import SimpleNamespace

    from mercer.evaluation.gpu import execution

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (6, 1))
    assert execution.too_old(SimpleNamespace(type="cuda"))
    assert not execution.too_old(SimpleNamespace(type="cpu"))
    monkeypatch.setattr(execution, "too_old", lambda device: True)
    gram, _ = check(Matern(1.5), points(9, 3, np.float32, 0), points(7, 3, np.float32, 1))
    assert "torch" in str(gram.plan())


FUNCTIONS = {  # numbers, and the largest relative error in units of float32
    "exp2": (np.linspace(-120.0, 10.0, 4096), 2.0),
    "sqrt": (np.geomspace(1e-37, 1e37, 4096), 1.0),
    "exp": (np.linspace(-80.0, 80.0, 4096), 4.0),
    "log": (np.geomspace(1e-30, 1e30, 4096), 4.0),
    "log1p": (np.geomspace(1e-30, 1e30, 4096), 4.0),
    "arcsin": (np.linspace(1e-3, 0.7, 4096), 4.0),
    "ramp_angle": (np.linspace(1e-3, 0.7, 4096), 6.0),
    "square_angle": (np.linspace(1e-3, 0.7, 4096), 6.0),
    "reciprocal_root": (np.linspace(0.0, 9.0, 4096), 2.0),
    "nearest": (np.linspace(-9.0, 9.0, 4096), 0.0),
    "step": (np.linspace(-1.0, 1.0, 4095).repeat(2)[:4096], 0.0),
}
APPLIED = """

@triton.jit
def applied(X, OUT, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(OUT + i, {name}(tl.load(X + i)))
"""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_the_card(name):
    from mercer.evaluation.gpu.elementary import needed
    from mercer.evaluation.gpu.source import TRITON_HEADER
    from mercer.evaluation.operations import OPERATIONS
    from mercer.runtime.cache import load

    numbers, units = FUNCTIONS[name]
    x = torch.tensor(numbers, dtype=torch.float32)
    out = torch.empty_like(x)
    text = TRITON_HEADER + needed([name], "float32", card=False) + APPLIED.format(name=name)
    load(text).applied[(1,)](x, out, B=len(x))
    right = OPERATIONS[name].oracle(x.numpy().astype(np.float64))
    gap = np.abs(out.numpy() - right)
    assert (gap <= units * np.finfo(np.float32).eps * np.abs(right)).all()


def test_roots_of_what_rounding_made_negative():
    from mercer.evaluation.gpu.elementary import needed
    from mercer.evaluation.gpu.source import TRITON_HEADER
    from mercer.runtime.cache import load

    x = -torch.tensor([0.0, 1e-37, 1e-20, 1e-8, 1e-5, 1e-2, 0.2, 0.3])
    out = torch.empty_like(x)
    text = TRITON_HEADER + needed(["sqrt"], "float32", card=False) + APPLIED.format(name="sqrt")
    load(text).applied[(1,)](x, out, B=len(x))
    assert (out.abs() <= 1.001 * (-x).sqrt()).all()


def test_nothing_of_size_n_times_m_is_allocated(monkeypatch):
    largest = []
    for name in ("empty", "zeros"):
        original = getattr(torch, name)

        def counted(*shape, _original=original, **options):
            made = _original(*shape, **options)
            largest.append(made.numel())
            return made

        monkeypatch.setattr(torch, name, counted)
    n = 1500
    gram = Gaussian().gram(torch.tensor(points(n, 3, np.float32, 0)))
    gram @ torch.ones(n)
    assert max(largest) < n * n // 8


def test_empty_sets_of_points():
    gram = Gaussian().gram(torch.zeros((0, 3)), torch.zeros((4, 3)))
    assert (gram @ torch.zeros(4)).shape == (0,)
    assert gram.dense().shape == (0, 4)
    assert (gram.T @ torch.zeros(0)).tolist() == [0.0] * 4


@pytest.mark.parametrize(("rows", "columns", "width"), [(1, 1, 2), (70, 130, 3), (64, 65, 17)])
def test_products_of_a_stored_matrix_own_points(rows, columns, width):
    from mercer.evaluation.gpu.execution import stored_product

    random = np.random.default_rng(0)
    matrix, values = (
        random.standard_normal(shape).astype(np.float32)
        for shape in ((rows, columns + 3), (columns, width))
    )
    part = torch.as_tensor(matrix)[:, :columns]  # rows do not lie one after the other
    product = stored_product(part, torch.as_tensor(values)).numpy()
    exact = matrix[:, :columns].astype(np.float64) @ values
    scale = np.abs(matrix[:, :columns]) @ np.abs(values)
    assert (np.abs(product - exact) <= 1e-6 * scale).all()


def test_import_mercer_loads_neither_torch_nor_triton():
    program = (
        "import sys, mercer, mercer.kernels, mercer.solvers;"
        "print([m for m in ('torch', 'triton') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_fused_row_pass_maps_all_rows_at_once():
    X, C = points(40, 3, np.float64, 0), points(7, 3, np.float64, 1)
    V, w = points(7, 2, np.float64, 2), points(40, 1, np.float64, 3)
    weights = torch.tensor(w)
    ours = COMPOSITE.gram(torch.tensor(X), torch.tensor(C)).row_pass(
        torch.tensor(V), lambda start, stop, rows: MappedRows(weights[start:stop] * rows)
    )
    matrix = exact(COMPOSITE, X, C)
    np.testing.assert_allclose(ours.product.numpy(), matrix.T @ (w * (matrix @ V)), rtol=1e-12)


def test_a_fused_fit_with_another_loss():
    X, y = points(50, 3, np.float64, 0), np.sign(points(50, 1, np.float64, 1)[:, 0])
    options = {"kernel": Gaussian(2.0), "centres": 8, "random_state": 0}
    theirs = KernelClassifier("log_loss", **options).fit(X, y)
    ours = KernelClassifier("log_loss", **options).fit(torch.tensor(X), torch.tensor(y))
    values = ours.decision_function(torch.tensor(X[:5]))
    np.testing.assert_allclose(values.numpy(), theirs.decision_function(X[:5]), atol=1e-6)
    slopes = ours.function_.gradient(torch.tensor(X[:5])).numpy()
    np.testing.assert_allclose(slopes, theirs.function_.gradient(X[:5]), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["gaussian", "matern-1/2", "matern-2.2", "composite", "laplacian"])
def test_slopes_by_fused_code(name, dtype):
    X, Z, alpha = (points(n, d, dtype, n) for n, d in ((11, 12), (9, 12), (9, 2)))
    X[0] = Z[0]  # at a centre, where kernels may have kinks
    f = WITH_EXPRESSION[name].function(*(torch.tensor(part) for part in (Z, alpha)))
    expected = WITH_EXPRESSION[name].function(Z.astype(float), alpha.astype(float)).gradient(X)
    gap = np.abs(f.gradient(torch.tensor(X)).numpy() - expected).max()
    assert gap <= TOLERANCE[dtype] * np.abs(expected).max()
