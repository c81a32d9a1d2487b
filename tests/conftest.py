"""What all tests share: Hypothesis without a clock, and the array libraries to run on."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("mercer", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "mercer")


def pytest_configure(config):
    """Our own warnings are errors; a test that expects one says so with `pytest.warns`.

    Said here, not in pyproject.toml: there it would import mercer before coverage looks on.
    """
    config.addinivalue_line("filterwarnings", "error::mercer.errors.MercerWarning")


def _library(name):
    if name == "torch":
        pytest.importorskip("torch")
        return pytest.importorskip("array_api_compat.torch")
    return np if name == "numpy" else pytest.importorskip(name)


@pytest.fixture(scope="session", params=["numpy", "array_api_strict", "torch"])
def xp(request):
    """Give the array-API namespace of each library that is installed."""
    return _library(request.param)
