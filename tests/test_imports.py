"""`import mercer` is light: what is heavy comes with its first use."""

from __future__ import annotations

import pytest

import mercer
from processes import output_of

HEAVY = ("numba", "llvmlite", "torch", "triton", "matplotlib", "dask", "pandas", "polars")
PRINT = f"import sys; print([name for name in {HEAVY!r} if name in sys.modules])"


@pytest.mark.parametrize(
    "module", ["mercer", "mercer.kernels", "mercer.functions", "mercer.operators"]
)
def test_nothing_heavy_is_loaded(module):
    assert output_of(f"import {module}; {PRINT}") == "[]"


def test_kernels_are_made_and_combined_without_numba():
    code = "from mercer.kernels import *; k = 2.0 * Gaussian() + Linear().on([0]); k.expression(); "
    assert output_of(code + PRINT) == "[]"


def test_a_product_loads_numba():
    code = "from mercer.kernels import *; Gaussian()([[0.0]]); "
    assert "numba" in output_of(code + PRINT)


def test_names_come_on_first_use():
    assert mercer.kernels.Gaussian is not None
    assert mercer.RKHSFunction.__name__ == "RKHSFunction"
    assert {"kernels", "Gram", "testing"} <= set(dir(mercer))
    with pytest.raises(AttributeError, match="has no attribute 'kernel'"):
        mercer.kernel
