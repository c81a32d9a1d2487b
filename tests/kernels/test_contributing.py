"""What CONTRIBUTING.md says about adding a kernel is true: one file, one line."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import markets
from mercer.kernels import laws
from mercer.testing import check_kernel

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture
def blocks():
    """Give the Python of the section on kernels: a file, and a line of the market."""
    section = GUIDE.read_text("utf-8").split("## A kernel")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)


def test_a_radial_kernel(blocks, tmp_path, monkeypatch):
    source, line = blocks
    (tmp_path / "inverse_multiquadric.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("inverse_multiquadric")
    market = eval("{" + line + "}", vars(module))
    ((name, kernel),) = market.items()
    assert name not in markets.KERNELS
    check_kernel(kernel)
    assert laws.positive_definite(kernel + 1.0, 3).yes  # stated in the class
    X = markets.normal(6)
    squares = ((X[:, None] - X) ** 2).sum(axis=-1)
    assert np.allclose(kernel(X), 1 / np.sqrt(1 + squares / 0.49), rtol=1e-14)
