"""Every kernel keeps every contract, on every kind of points."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import markets
import mercer.kernels
from mercer.kernels import ArcCosine, Gaussian, Kernel, Linear, Matern, Radial
from mercer.kernels.base import parts
from mercer.testing import KERNEL_CONTRACTS, check_kernel
from mercer.testing.kernels import Case


@pytest.mark.parametrize("name", markets.KERNELS)
def test_contracts_of_every_kernel(name):
    kernel, points = markets.KERNELS[name]
    check_kernel(kernel, points)


def test_the_market_is_large():
    """At least 45 kernels, of at least 30 classes."""
    assert len(markets.KERNELS) >= 45
    classes = {type(part) for kernel, _ in markets.KERNELS.values() for part in parts(kernel)}
    classes |= {type(kernel) for kernel in markets.INDEFINITE.values()}
    assert len(classes) >= 30
    ours = {getattr(mercer.kernels, name) for name in mercer.kernels.__all__}
    kernels = {thing for thing in ours if isinstance(thing, type)}
    assert kernels - classes <= {Kernel, Radial}


@pytest.mark.parametrize("name", markets.INDEFINITE)
def test_contracts_of_what_is_not_positive_definite(name):
    """All of them but the two that say it is a kernel, and those refuse it."""
    kernel = markets.INDEFINITE[name]
    case = Case(kernel, markets.normal(17, 2), "plain points")
    for contract, check in KERNEL_CONTRACTS.items():
        if contract in ("positive_semidefinite", "cauchy_schwarz"):
            with pytest.raises(AssertionError):
                check(case)
        else:
            check(case)


STORED = {
    "linear": Linear(),
    "gaussian": Gaussian(1.5),
    "matern-1/2": Matern(0.5),
    "composite": markets.COMPOSITE,
    "on-columns": Gaussian(0.6).on([2, 0]),
    "arc-cosine": ArcCosine(1),
    "linear-map": Gaussian(0.9).after(np.array([[1.0, 0.5]])).on([2, 0]),
}


# Kinds of points are read in one way for all kernels, so all of them meet two kernels; the others
# meet those that are computed in another way.
SEVERAL = ("csr", "csr-float32", "wide-float32", "frame")
PAIRS = [
    (name, points)
    for name, points in itertools.product(STORED, markets.POINTS)
    if name in ("composite", "on-columns") or points in SEVERAL
]


@pytest.mark.parametrize(("name", "points"), PAIRS)
def test_contracts_on_every_kind_of_points(name, points, tmp_path):
    check_kernel(STORED[name], markets.POINTS[points](tmp_path))
