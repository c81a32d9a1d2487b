"""`import mercer` is light: what is heavy comes with its first use."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

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


def test_type_checkers_see_all_names():
    """The names of `if TYPE_CHECKING`, which editors read, are those that `__getattr__` gives."""
    tree = ast.parse(Path(mercer.__file__).read_text(encoding="utf-8"))
    (block,) = (n for n in tree.body if isinstance(n, ast.If) and isinstance(n.test, ast.Name))
    seen = {alias.asname or alias.name for line in block.body for alias in line.names}
    lazy = "import mercer; print(sorted(set(dir(mercer)) - set(vars(mercer))))"
    assert seen == set(ast.literal_eval(output_of(lazy)))
    assert all(hasattr(mercer, name) for name in seen)
    assert set(mercer.__all__) - {"__version__"} <= seen


@pytest.mark.parametrize("name", sorted({*mercer.estimators.__all__, *mercer.features.__all__}))
def test_parameters_have_types(name):
    """Of estimators and feature maps, for editors; `tests/typed` shows what mypy says of them."""
    kind = getattr(mercer.estimators, name, None) or getattr(mercer.features, name)
    if isinstance(kind, type) and issubclass(kind, BaseEstimator):
        hints = {p.name: p.annotation for p in inspect.signature(kind).parameters.values()}
        untyped = {n for n, hint in hints.items() if hint in (inspect.Parameter.empty, "Any")}
        assert untyped <= {"device", "kernel", "features", "estimator", "form"}  # of any kind


def test_names_come_on_first_use():
    assert mercer.kernels.Gaussian is not None
    assert mercer.RKHSFunction.__name__ == "RKHSFunction"
    assert {"kernels", "Gram", "testing"} <= set(dir(mercer))
    with pytest.raises(AttributeError, match="has no attribute 'kernel'"):
        mercer.kernel
