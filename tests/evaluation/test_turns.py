"""Cosines and sines of turns, against long double."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosines_and_sines_keep_their_digits(dtype):
    from mercer.features import compiled

    rng = np.random.default_rng(0)
    special = [0.0, -0.0, 0.25, 0.5, 0.75, 1.0, 1e-3, 1e-30, -0.125, 12345.5, 2.0**30 + 1]
    turns = np.concatenate([special, rng.uniform(-0.5, 0.5, 4000), rng.uniform(-1e4, 1e4, 4000)])
    turns = turns.astype(dtype)[None, :]
    out = np.empty((1, 2 * turns.size), dtype)
    compiled.pairs(turns, 1.0, out, 0, turns.size)
    wide = turns.astype(np.longdouble)
    angle = 8 * np.arctan(np.longdouble(1)) * (wide - np.rint(wide))
    unit = np.finfo(dtype).eps
    assert np.abs(out[:, : turns.size] - np.cos(angle)).max() < 1.5 * unit
    assert np.abs(out[:, turns.size :] - np.sin(angle)).max() < 1.5 * unit
    assert (np.abs(out) <= 1 + unit).all()
    shifted = np.empty((1, turns.size), dtype)
    compiled.cosines(turns, np.full(turns.size, 0.125, dtype), 2.0, shifted, 0)
    small = np.abs(turns) <= 0.5
    exact = 2 * np.cos(angle + np.arctan(np.longdouble(1)))
    assert np.abs(shifted - exact)[small].max() < 4 * unit
