"""Steps, averages and bounds: what they are, and what they refuse."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from mercer.solvers.schedules import (
    Average,
    Constant,
    InverseSquareRoot,
    InverseTime,
    average_bound,
    subgradient_bound,
    weighted_average_bound,
)

SCHEDULES = [Constant(0.3), InverseTime(2.0), InverseTime(2.0, offset=5), InverseSquareRoot(0.7)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_steps_are_positive_floats_that_never_grow(schedule):
    steps = [schedule.step(t) for t in range(1, 200)]
    assert all(isinstance(step, float) and step > 0 for step in steps)
    assert all(later <= step for step, later in pairwise(steps))


def test_closed_forms():
    assert [InverseTime(3.0, 1.0).step(t) for t in (1, 2)] == [1.5, 1.0]
    assert InverseSquareRoot(2.0).step(16) == 0.5
    assert [Average(2.0).weight(t) for t in (1, 3)] == [1.0, 9.0]


def test_conditions_of_robbins_and_monro():
    """Ση diverges like log T and Ση² stays below scale²·π²/6, which 1/√t does not do."""
    t = np.arange(1, 20001)
    slow, fast = (np.array([s.step(k) for k in t]) for s in SCHEDULES[3:0:-2])
    assert fast.sum() == pytest.approx(2.0 * (math.log(20000) + 0.5772), rel=1e-3)
    assert (fast**2).sum() < 4.0 * math.pi**2 / 6
    assert (slow**2).sum() == pytest.approx(0.49 * (math.log(20000) + 0.5772), rel=1e-3)


def test_equal_schedules_are_equal_values():
    assert InverseTime(1.0) == InverseTime(1.0, 0.0) != InverseTime(2.0)
    assert len({Average(), Average(0.0), Average(1.0)}) == 2


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, "0.1", True, None])
@pytest.mark.parametrize("kind", [Constant, InverseTime, InverseSquareRoot])
def test_bad_sizes_are_refused(kind, value):
    with pytest.raises(ValueError, match=rf"{kind.__name__} needs a finite (size|scale) > 0; got"):
        kind(value)


def test_bad_offsets_and_powers_are_refused():
    with pytest.raises(ValueError, match="InverseTime needs a finite offset ≥ 0; got -1"):
        InverseTime(1.0, -1)
    with pytest.raises(ValueError, match="Average needs a finite power ≥ 0; got -1"):
        Average(-1)


def test_bounds_fall_at_their_rates():
    assert subgradient_bound(3.0, 2.0, 400) == pytest.approx(0.3)
    assert average_bound(2.0, 3.0, 0.5, 100) == pytest.approx(2 * 36 * (1 + math.log(100)) / 50)
    assert weighted_average_bound(2.0, 3.0, 0.5, 99) == pytest.approx(8 * 36 / 50)


def test_bounds_refuse_what_makes_no_sense():
    with pytest.raises(ValueError, match="subgradient_bound needs a whole number steps ≥ 1; got 0"):
        subgradient_bound(1.0, 1.0, 0)
    with pytest.raises(ValueError, match="subgradient_bound needs a finite lipschitz ≥ 0; got inf"):
        subgradient_bound(1.0, math.inf, 3)
    with pytest.raises(ValueError, match="average_bound needs a finite regularization > 0; got 0"):
        average_bound(1.0, 1.0, 0.0, 3)
    with pytest.raises(ValueError, match=r"steps ≥ 1; got 2\.5"):
        weighted_average_bound(1.0, 1.0, 1.0, 2.5)
