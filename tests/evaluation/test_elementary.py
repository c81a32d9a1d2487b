"""Compiled elementary functions against NumPy in a wider precision, in units in the last place."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numba import njit

from mercer.evaluation.cpu.elementary import in_float32, in_float64, nearest, sqrt
from mercer.evaluation.cpu.panels import address, address_of, call
from mercer.evaluation.cpu.vectors import OPTIONS, column_step
from mercer.evaluation.expression import Operation, X
from mercer.evaluation.operations import OPERATIONS
from mercer.evaluation.program import straight_line
from mercer.evaluation.rewrite import formula, rewritten

FUNCTIONS = {np.float32: in_float32, np.float64: in_float64}
WIDER = {np.float32: np.float64, np.float64: np.longdouble}
BOUND = {np.float32: 87.3, np.float64: 708.3}  # beyond, exp would not be a normal number
precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


@cache
def looped(function):
    """The function on every entry, in a loop compiled as kernel programs are."""

    @njit(**OPTIONS)
    def loop(x, out):
        for i in range(len(x)):
            out[i] = function(x[i])

    return loop


def compiled(function, x):
    out = np.empty_like(x)
    looped(function)(x, out)
    return out


def of(dtype, name, x):
    function = {"sqrt": sqrt, "nearest": nearest}.get(name) or getattr(FUNCTIONS[dtype], name, None)
    return compiled(function or printed(dtype, name), np.atleast_1d(np.asarray(x, dtype)))


@cache
def printed(dtype, name):
    """An operation that is a formula of others, as programs have it."""
    code = straight_line(rewritten(Operation(name, (X,)), (formula,)), {X: "x"})
    scope = vars(FUNCTIONS[dtype]) | {f"p{i}": dtype(p) for i, p in enumerate(code.parameters)}
    body = "\n    ".join([*code.lines, f"return {code.result}"])
    exec(f"def function(x):\n    {body}", scope)
    return njit(**OPTIONS)(scope["function"])


def exact(dtype, name, x):
    """The oracle of the operation, on the same numbers in a wider precision."""
    return OPERATIONS[name].oracle(np.asarray(x, dtype).astype(WIDER[dtype]))


def ulps(dtype, name, x):
    """How far the compiled value is off, in units in the last place of the exact one."""
    x = np.asarray(x, dtype)
    value, right = of(dtype, name, x).astype(WIDER[dtype]), exact(dtype, name, x)
    with np.errstate(under="ignore"):
        unit = np.spacing(np.abs(right).astype(dtype)).astype(WIDER[dtype])
    return np.abs(value - right) / unit


def spread(dtype, lowest, highest, count=20_001):
    """Numbers of all sizes between two positive ones."""
    return np.exp(np.linspace(np.log(lowest), np.log(highest), count)).astype(dtype)


@precisions
class TestExponentials:
    """x·log₂e carries two roundings, its own and that of log₂e: half a unit each, times |x|."""

    def test_decay(self, dtype):
        x = np.concatenate([np.linspace(0, BOUND[dtype], 20_001), spread(dtype, 1e-30, 1.0)])
        x = x.astype(dtype)
        relative = np.abs(of(dtype, "decay", x) / exact(dtype, "decay", x) - 1)
        assert (relative <= (x.astype(np.float64) + 2) * np.finfo(dtype).eps).all()

    def test_decay_is_exact_at_zero(self, dtype):
        assert of(dtype, "decay", 0.0)[0] == 1.0

    @pytest.mark.parametrize("x", [1e3, 1e30, np.inf])
    def test_decay_ends_below_the_smallest_normal_number(self, dtype, x):
        assert 0 <= of(dtype, "decay", x)[0] <= 2 * np.finfo(dtype).tiny

    def test_decay_of_nan_is_nan(self, dtype):
        assert np.isnan(of(dtype, "decay", np.nan)[0])

    def test_exp(self, dtype):
        x = np.linspace(-BOUND[dtype], BOUND[dtype], 20_001).astype(dtype)
        relative = np.abs(of(dtype, "exp", x) / exact(dtype, "exp", x) - 1)
        assert (relative <= (np.abs(x).astype(float) + 2) * np.finfo(dtype).eps).all()

    def test_exp_overflows_to_infinity(self, dtype):
        beyond = np.array([BOUND[dtype] + 1.5, 1e4, 1e30, np.inf])
        assert (of(dtype, "exp", beyond) == np.inf).all()

    def test_exp_underflows(self, dtype):
        below = of(dtype, "exp", [-BOUND[dtype] - 1.0, -1e30, -np.inf])
        assert ((below >= 0) & (below <= 2 * np.finfo(dtype).tiny)).all()

    def test_exp_of_nan_is_nan(self, dtype):
        assert np.isnan(of(dtype, "exp", np.nan)[0])

    def test_tanh_is_right_beside_one(self, dtype):
        x = np.linspace(-30, 30, 20_001).astype(dtype)
        gap = np.abs(of(dtype, "tanh", x) - exact(dtype, "tanh", x))
        assert gap.max() <= 4 * np.finfo(dtype).eps
        assert (of(dtype, "tanh", [-1e4, -np.inf, np.inf, 1e4]) == [-1, -1, 1, 1]).all()
        assert np.isnan(of(dtype, "tanh", np.nan)[0])

    def test_tanh_is_right_relative_to_itself_away_from_zero(self, dtype):
        assert ulps(dtype, "tanh", spread(dtype, 1.0, 10.0)).max() <= 4


@precisions
class TestDecayOfPanels:
    """The same promises as `decay`, in place and by vectors."""

    def in_panel(self, dtype, x):
        x = np.asarray(x, dtype)
        step = column_step(dtype)
        panel = np.zeros((1, -(-len(x) // step) * step), dtype)
        fill_decays = address_of("decay", np.dtype(dtype).name)
        in_place(fill_decays, x, step, panel, np.ones(1, dtype))
        return panel[0, : len(x)]

    def test_digits(self, dtype):
        x = np.concatenate([np.linspace(0, BOUND[dtype], 20_001), spread(dtype, 1e-30, 1.0)])
        x = x.astype(dtype)
        relative = np.abs(self.in_panel(dtype, x) / exact(dtype, "decay", x) - 1)
        assert (relative <= (0.5 * x.astype(np.float64) + 2) * np.finfo(dtype).eps).all()

    def test_ends(self, dtype):
        first, *ends, last = self.in_panel(dtype, [0.0, 1e3, 1e30, np.inf, np.nan])
        assert first == 1.0
        assert all(0 <= end <= 2 * np.finfo(dtype).tiny for end in ends)
        assert np.isnan(last)


@njit(**OPTIONS)
def in_place(fill_decays, x, step, panel, factor):
    given, out = (1, address(x), len(x)), (address(panel), panel.shape[1])
    call(fill_decays, (*given, 1, len(x), step, *out, address(factor)))


@precisions
class TestLogarithm:
    def test_everywhere(self, dtype):
        info = np.finfo(dtype)
        assert ulps(dtype, "log", spread(dtype, info.tiny, info.max / 2)).max() <= 4

    def test_near_one(self, dtype):
        x = 1.0 + np.linspace(-0.4, 0.4, 20_001)
        assert ulps(dtype, "log", x[x != 1.0]).max() <= 4
        steps = 1.0 + np.arange(-50, 51) * np.finfo(dtype).eps
        assert ulps(dtype, "log", steps[steps != 1.0]).max() <= 4

    def test_is_zero_at_one(self, dtype):
        assert of(dtype, "log", 1.0)[0] == 0.0


@precisions
class TestAngles:
    def test_arcsin(self, dtype):
        x = np.concatenate([np.linspace(0, 0.7071, 20_001)[1:], spread(dtype, 1e-12, 0.7071)])
        assert ulps(dtype, "arcsin", x).max() <= 4

    @pytest.mark.parametrize("name", ["ramp_angle", "square_angle"])
    def test_angles_of_ramps(self, dtype, name):
        x = np.linspace(0.001, 0.7071, 5_001)
        assert ulps(dtype, name, x).max() <= 6
        t = 2 * np.arcsin(x[2_500:].astype(dtype).astype(np.longdouble))
        sine, cosine = np.sin(t), np.cos(t)
        formulas = {
            "ramp_angle": sine - t * cosine,
            "square_angle": t * (1 + 2 * cosine**2) - 3 * sine * cosine,
        }
        assert np.allclose(2 * exact(dtype, name, x[2_500:]), formulas[name], rtol=1e-13)

    @pytest.mark.parametrize("name", ["arcsin", "ramp_angle", "square_angle"])
    def test_zero(self, dtype, name):
        assert of(dtype, name, 0.0)[0] == 0.0


@precisions
class TestRoots:
    def test_root(self, dtype):
        info = np.finfo(dtype)
        assert ulps(dtype, "sqrt", spread(dtype, info.tiny, info.max / 2)).max() <= 0.5001

    def test_reciprocal_root(self, dtype):
        info = np.finfo(dtype)
        x = spread(dtype, info.tiny, info.max / 2)
        assert ulps(dtype, "reciprocal_root", x).max() <= 2

    def test_reciprocal_root_is_zero_at_zero(self, dtype):
        assert (of(dtype, "reciprocal_root", [0.0, -0.0]) == 0.0).all()


@precisions
class TestSteps:
    x = np.array([-2.5, -1.0, -0.3, -0.0, 0.0, 1e-30, 0.7, 1.0, 3.9])

    def test_nearest(self, dtype):
        assert np.array_equal(of(dtype, "nearest", self.x), np.rint(self.x.astype(dtype)))

    def test_step(self, dtype):
        assert np.array_equal(of(dtype, "step", self.x), np.heaviside(self.x, 0.5))
