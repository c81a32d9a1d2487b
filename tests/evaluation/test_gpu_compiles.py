"""The generated code compiles for a card, assembly and all; no card is needed for that."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from mercer.evaluation.expression import numbers_of  # noqa: E402
from mercer.evaluation.gpu import packing  # noqa: E402
from mercer.evaluation.gpu.product import FusedProduct, tile_for, tile_of_pairs  # noqa: E402
from mercer.evaluation.gpu.source import source_of  # noqa: E402
from mercer.evaluation.operations import derivative  # noqa: E402
from mercer.kernels import (  # noqa: E402
    Exponential,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    PeriodicExponential,
    RationalQuadratic,
    Sigmoid,
    Spline,
)
from mercer.runtime.cache import load  # noqa: E402

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("TRITON_INTERPRET") == "1", reason="what is interpreted is not compiled"
    ),
    pytest.mark.skipif(
        tuple(map(int, triton.__version__.split(".")[:2])) < (3, 6),
        reason="older versions want another signature",
    ),
]
HOPPER = GPUTarget("cuda", 90, 32)
TYPES = {
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.int32: "*i32",
}
WHOLE = ("n", "m", "m_padded", "tiles", "width", "strip", "height")
KERNELS = {
    "gaussian": Gaussian(2.0),
    "steep gaussian": Gaussian(0.1),
    "exponential": Exponential(2.0),
    "matern-3/2": Matern(1.5, 2.0),
    "matern-5/2": Matern(2.5, 2.0),
    "matern-2.2": Matern(2.2, 2.0),
    "rational quadratic": RationalQuadratic(1.5, 2.0),
    "sigmoid": Sigmoid(0.1),
    "laplacian": Laplacian(3.0),
    "composite": 2.0 * Gaussian(2.0) + Linear() * Matern(1.5, 2.0),
    "product": Linear() * Matern(1.5, 2.0),
}


@pytest.fixture(autouse=True)
def packed_without_a_card(monkeypatch):
    """Norms by torch, which say how distances are obtained; operands hold anything."""

    def launch(kernel, count, together, rows, CENTRE, OUT=None, **given):
        if OUT is not None:
            OUT.zero_()[: len(rows)] = (rows - CENTRE).square().sum(1)

    monkeypatch.setattr(packing, "_launch", launch)


def compiled(kernel, dtype, name, columns, middle=0.0, expression=None):
    """The machine code of one function for points of ten columns."""
    draw = torch.Generator().manual_seed(0)
    rows = [torch.randn(300, 10, dtype=dtype, generator=draw) + middle for _ in range(2)]
    points = [kernel.points(side) for side in rows]
    product = FusedProduct(expression or kernel.expression(), *points, dtype, "float32")
    launch = product.prepared()[0].launch
    code = launch.operands.code
    pairs = name == "reduce_pairs"
    many = columns or (16 if name == "reduce_many" else 1)
    tile = tile_of_pairs(code) if pairs else tile_for(code, many)
    function = getattr(load(source_of(code, columns, tile.by_elements, True, pairs)), name)
    fixed = {"BM": tile.rows, "BN": tile.columns, "T": 16}
    arrays = launch.operands.arrays
    types = {key: TYPES[a.dtype] for key, a in arrays.items() if isinstance(a, torch.Tensor)}
    types |= dict.fromkeys(("V", "OUT", "BELOW", "P", "UNUSED"), TYPES[dtype])
    types |= dict.fromkeys(WHOLE, "i32")

    def kind(argument):
        if argument in fixed:
            return "constexpr"
        if argument in types:
            return types[argument]
        return "i32" if isinstance(arrays.get(argument), int) else "fp32"

    names = list(enumerate(function.arg_names))
    source = ASTSource(
        fn=function,
        signature={argument: kind(argument) for _, argument in names},
        constexprs={(n,): fixed[argument] for n, argument in names if argument in fixed},
        attrs={(n,): [["tt.divisibility", 16]] for n, a in names if kind(a).startswith("*")},
    )
    return triton.compile(source, target=HOPPER, options=launch.options(tile)).asm


@pytest.mark.parametrize("name", KERNELS)
def test_products_with_one_column_compile(name):
    asm = compiled(KERNELS[name], torch.float32, "reduce", 1)
    assert len(asm["cubin"]) > 1000
    assert "mma" in asm["ptx"] or name == "laplacian"


def test_exponentials_and_roots_are_instructions_of_the_card():
    ptx = compiled(KERNELS["composite"], torch.float32, "reduce", 1)["ptx"]
    assert ptx.count("ex2.approx.ftz.f32") == 2 * ptx.count("sqrt.approx.ftz.f32") > 0


def stack_of(code, folder):
    """Bytes that a thread keeps outside its registers."""
    (folder / "code").write_bytes(code["cubin"])
    command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", folder / "code"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(re.findall(r"STACK:(\d+)", told)[-1])


@pytest.mark.parametrize(("function", "columns"), [("reduce", 1), ("reduce_many", 0)])
def test_what_is_held_of_rows_stays_in_registers(function, columns, tmp_path):
    """For functions of ten coordinates with as many parts of a row alone as there are anywhere."""
    code = compiled(Spline(), torch.float32, function, columns, middle=10.0)
    assert stack_of(code, tmp_path) <= 16


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("gaussian", torch.float32),
        ("gaussian", torch.float64),
        ("steep gaussian", torch.float32),
        ("matern-2.2", torch.float32),
        ("composite", torch.float32),
    ],
)
def test_sums_of_rows_and_of_columns_stay_in_registers(name, dtype, tmp_path):
    code = compiled(KERNELS[name], dtype, "reduce_pairs", 1)
    assert stack_of(code, tmp_path) <= 16


def test_functions_of_one_point_are_not_computed_for_each_pair():
    ptx = compiled(PeriodicExponential(), torch.float32, "reduce", 1)["ptx"]
    assert "ex2" not in ptx
    assert "cvt.r" not in ptx  # no rounding to a whole number


@pytest.mark.parametrize("function", ["reduce_many", "fill"])
def test_other_functions_compile(function):
    assert "mma" in compiled(KERNELS["composite"], torch.float32, function, 0)["ptx"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["matern-2.2", "composite"])
def test_slopes_compile(name, dtype):
    expression = KERNELS[name].expression()
    slopes = [derivative(expression, number) for number in numbers_of(expression, twins=True)]
    for slope in slopes:
        cubin = compiled(KERNELS[name], dtype, "fill", 0, expression=slope)["cubin"]
        assert len(cubin) > 1000


@pytest.mark.parametrize("name", ["gaussian", "matern-2.2"])
def test_float64_compiles(name):
    assert "f64" in compiled(KERNELS[name], torch.float64, "reduce", 1)["ptx"]


def test_tables_are_read_without_an_exchange_between_threads():
    ptx = compiled(KERNELS["matern-2.2"], torch.float32, "reduce", 1)["ptx"]
    assert "ld.global.nc.v2.f32" in ptx
    assert ptx.count("bar.sync") < 10  # 72 where Triton exchanged the coefficients
