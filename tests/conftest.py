"""What all tests share: Hypothesis without a clock, and the array libraries to run on."""

from __future__ import annotations

import gc
import os

if "PYTEST_XDIST_WORKER" in os.environ:
    # Before NumPy is loaded: with a thread for each core in each worker, threads wait for one
    # another, and all tests take twice as long. Tests of threads ask for two by themselves.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

EXAMPLES = 30  # a law that fails on one kernel in a market fails on many
settings.register_profile("mercer", deadline=None, max_examples=EXAMPLES)
settings.register_profile("ci", deadline=None, max_examples=EXAMPLES, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=500)
chosen = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "mercer")
settings.load_profile(chosen)


def pytest_configure(config):
    """Our own warnings are errors; a test that expects one says so with `pytest.warns`.

    Said here, not in pyproject.toml: there it would import mercer before coverage looks on.
    """
    config.addinivalue_line("filterwarnings", "error::mercer.errors.MercerWarning")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is collected stays to the end, so it need not be searched for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _library(name):
    if name == "torch":
        pytest.importorskip("torch")
        return pytest.importorskip("array_api_compat.torch")
    return np if name == "numpy" else pytest.importorskip(name)


@pytest.fixture(scope="session", params=["numpy", "array_api_strict", "torch"])
def xp(request):
    """Give the array-API namespace of each library that is installed."""
    return _library(request.param)
