"""Every kernel, on every kind of points, keeps every law."""

from __future__ import annotations

import pytest

import markets
from mercer.kernels import Gaussian, Linear, Matern
from mercer.testing import check_kernel

@pytest.mark.parametrize("name", markets.KERNELS)
def test_laws_of_every_kernel(name):
    kernel, points = markets.KERNELS[name]
    check_kernel(kernel, points)


STORED = {
    "linear": Linear(),
    "gaussian": Gaussian(1.5),
    "matern-1/2": Matern(0.5),
    "composite": markets.COMPOSITE,
    "on-columns": Gaussian(0.6).on([2, 0]),
}


@pytest.mark.parametrize("points", markets.POINTS)
@pytest.mark.parametrize("name", STORED)
def test_laws_on_every_kind_of_points(name, points, tmp_path):
    check_kernel(STORED[name], markets.POINTS[points](tmp_path))
