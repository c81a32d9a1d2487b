"""Tables of polynomials against the functions they stand for."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numba import njit

from mercer.evaluation.cpu.elementary import in_float32, in_float64
from mercer.evaluation.cpu.vectors import OPTIONS
from mercer.evaluation.tables import DEGREE, PIECES, Table
from mercer.kernels.radial import bessel_table
from mercer.testing.rounding import ELEMENTARY

UNITS = ELEMENTARY["tabulated"]
precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
smoothnesses = pytest.mark.parametrize("smoothness", [0.1, 0.3, 1.0, 2.2, 7.3, 20.0, 50.0])


def hyperbola(order=0):
    """1/(1 + x) and its derivatives."""
    sign, factor = (-1.0) ** order, float(np.prod(np.arange(1, order + 1)))
    return Table(
        function=lambda x: sign * factor / (1.0 + np.asarray(x, np.float64)) ** (order + 1),
        derivative=lambda: hyperbola(order + 1),
        lowest=-60,
        highest=10,
    )


@cache
def looped(tabulated):
    @njit(**OPTIONS)
    def loop(stored, x, out):
        for i in range(len(x)):
            out[i] = tabulated(stored, x[i])

    return loop


def looked_up(table, x):
    loop = looped((in_float32 if x.dtype == np.float32 else in_float64).tabulated)
    out = np.empty_like(x)
    loop((table.coefficients(x.dtype), table.first_bits(x.dtype)), x, out)
    return out


def inside(table, dtype, count=20_001):
    """Numbers of all sizes that the table covers, and the ends of its pieces."""
    first, last = table.first_octave(dtype), table.last_octave(dtype)
    x = 2.0 ** np.linspace(first, last, count)[:-1]
    ends = 2.0 ** np.arange(first, last)[:, None] * (1 + np.arange(16) / 16)
    ends = ends.ravel().astype(dtype)
    below = np.nextafter(ends[1:], dtype(0))
    return np.concatenate([x.astype(dtype), ends, below])


@precisions
class TestHyperbola:
    def test_values(self, dtype):
        x = inside(hyperbola(), dtype)
        right = hyperbola().function(x)
        gap = np.abs(looked_up(hyperbola(), x) - right)
        assert (gap <= UNITS * np.finfo(dtype).eps * right).all()

    def test_slope(self, dtype):
        x = inside(hyperbola(), dtype)
        right = -1.0 / (1.0 + x.astype(np.float64)) ** 2
        gap = np.abs(looked_up(hyperbola().slope(), x) - right)
        assert (gap <= UNITS * np.finfo(dtype).eps * np.abs(right)).all()

    def test_below_and_above(self, dtype):
        table = hyperbola()
        top = dtype(2.0 ** table.last_octave(dtype))
        x = np.array([0.0, np.finfo(dtype).tiny, top, 2 * top, np.inf], dtype)
        lowest, highest = table.function(2.0 ** table.first_octave(dtype)), table.function(top)
        right = np.array([lowest] * 2 + [highest] * 3)
        assert np.allclose(looked_up(table, x), right, rtol=UNITS * np.finfo(dtype).eps, atol=0)

    def test_minus_zero(self, dtype):
        assert looked_up(hyperbola(), np.array([-0.0], dtype))[0] == 1.0

    def test_size(self, dtype):
        name, table = np.dtype(dtype).name, hyperbola()
        octaves = table.last_octave(dtype) - table.first_octave(dtype)
        assert table.coefficients(dtype).shape == (1 + octaves * PIECES[name], DEGREE[name] + 1)
        assert table.coefficients(dtype).dtype == dtype

    def test_is_made_once(self, dtype):
        table = hyperbola()
        assert table.coefficients(dtype) is table.coefficients(dtype)


class TestBessel:
    """h(r) is multiplied by e^{−r} ≤ 1, and what is off is measured after that, against k(0) = 1.

    How far h itself is off, and with it the kernel, stands in tests/kernels/test_closed_forms.py.
    """

    @pytest.mark.parametrize("smoothness", [0.1, 0.3, 1.0, 2.2, 7.3, 20.0])
    def test_is_its_function(self, smoothness):
        table = bessel_table(smoothness)
        x = inside(table, np.float32)
        gap = np.abs(looked_up(table, x) - table.function(x)) * np.exp(-x.astype(np.float64))
        assert gap.max() <= UNITS * np.finfo(np.float32).eps

    @smoothnesses
    def test_slope_is_the_slope(self, smoothness):
        table = bessel_table(smoothness)
        x = 2.0 ** np.linspace(-8, 5, 400)
        h = 1e-3 * x
        values = [table.function(x + k * h) for k in (-2, -1, 1, 2)]
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
        noise = 1e-12 * np.abs(values[1]) / h  # of the differences
        gap = np.abs(looked_up(table.slope(), x) - slope)
        assert (gap <= noise + 1e-6 * np.abs(slope)).all()

    @smoothnesses
    def test_is_one_at_zero_in_float32(self, smoothness):
        value = looked_up(bessel_table(smoothness), np.zeros(1, np.float32))[0]
        assert abs(value - 1) <= UNITS * np.finfo(np.float32).eps

    def test_second_derivatives_are_refused(self):
        with pytest.raises(NotImplementedError, match="second derivatives"):
            bessel_table(0.3).slope().slope()
