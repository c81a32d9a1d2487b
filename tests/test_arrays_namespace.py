from __future__ import annotations

import builtins
import subprocess
import sys

import numpy as np
import pytest

from mercer.arrays import namespace


def test_the_namespace_of_arrays_is_their_library(xp):
    assert namespace(xp.ones(3)) is xp
    assert namespace(xp.ones(3), xp.zeros((2, 2)), xp.asarray(1)) is xp


def test_numpy_subclasses_belong_to_numpy(tmp_path):
    mapped = np.memmap(tmp_path / "points", dtype=np.float32, mode="w+", shape=(2, 2))
    assert namespace(mapped, np.float64(1.0)) is np


def test_two_libraries_in_one_call_are_refused():
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(ValueError, match=r"got numpy and array_api_strict.*numpy\.asarray\("):
        namespace(np.ones(2), np.ones(2), strict.ones(2))
    with pytest.raises(ValueError, match=r"got array_api_strict and numpy.*strict\.asarray\("):
        namespace(strict.ones(2), np.ones(2))


def test_torch_is_named_as_its_users_call_it():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"got torch and numpy.*torch\.asarray\("):
        namespace(torch.ones(2), np.ones(2))


@pytest.mark.parametrize("value", [[1.0, 2.0], 1.0, None, "text"])
def test_what_is_no_array_is_refused(value):
    name = rf"got builtins\.{type(value).__name__}: write numpy\.asarray"
    with pytest.raises(TypeError, match=name):
        namespace(value)
    with pytest.raises(TypeError, match=name):
        namespace(np.ones(1), value)


def test_no_array_at_all_is_refused():
    with pytest.raises(TypeError, match=r"at least one array.*write namespace\(x\)"):
        namespace()


class Tensor:
    """Stand in for torch's, where torch is not installed."""


def test_torch_without_its_namespace_says_what_to_install(monkeypatch):
    fake = type(sys)("torch")
    fake.Tensor = Tensor
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.delitem(sys.modules, "array_api_compat.torch", raising=False)
    real_import = builtins.__import__

    def import_without_compat(name, *args, **kwargs):
        if name.startswith("array_api_compat"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", import_without_compat)
    with pytest.raises(ImportError, match=r'pip install "mercer\[gpu\]"'):
        namespace(Tensor())


def test_importing_arrays_loads_no_large_library():
    program = (
        "import sys, mercer.arrays;"
        "print([m for m in ('torch', 'numba', 'sklearn', 'array_api_compat') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
