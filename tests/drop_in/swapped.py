"""scikit-learn's own tests, run on our classes under its names."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import sklearn

VERSION = "1.9"  # whose tests these are; others ask other things


def swapped_tests(file: str, homes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The tests of a file of the installed scikit-learn that use any of the swapped classes.

    `homes` has for each module of scikit-learn our classes by the names they replace. Tests over
    array libraries are left out: they run only where SCIPY_ARRAY_API is set before SciPy is loaded,
    and hundreds of cases would be skipped (ours are in estimators/test_newer_habits.py).
    """
    path = Path(sklearn.__file__).parent / file
    spec = importlib.util.spec_from_file_location(f"swapped_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    copies = {home: _swapped(home, ours) for home, ours in homes.items()}
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(sys.modules, copies))
        for home, copy in copies.items():  # for `from sklearn import svm`
            stack.enter_context(mock.patch.object(sklearn, home.removeprefix("sklearn."), copy))
        spec.loader.exec_module(module)
    names = "|".join(name for ours in homes.values() for name in ours)
    uses = re.compile(rf"\b({names})\b")
    return {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_") and inspect.isfunction(test)
        if uses.search(inspect.getsource(test))
        if "array_namespace" not in inspect.signature(test).parameters
    }


def _swapped(home: str, ours: dict[str, Any]) -> ModuleType:
    """A copy of a module of scikit-learn with our classes in it."""
    theirs = importlib.import_module(home)
    copy = ModuleType(home)
    vars(copy).update(vars(theirs))
    vars(copy).update(ours)
    return copy
