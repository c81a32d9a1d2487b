"""Every public name of the reference has an example in its docstring; the doctests run them."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INDEX = (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
MODULES = ["mercer", *re.findall(r"^   (mercer[\w.]*)$", INDEX, re.MULTILINE)]


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_an_example(name):
    if name == "mercer.plotting":
        pytest.importorskip("matplotlib")
    module = importlib.import_module(name)
    public = {n: getattr(module, n) for n in module.__all__}
    objects = {n: o for n, o in public.items() if inspect.isclass(o) or inspect.isroutine(o)}
    assert objects
    assert [n for n, o in objects.items() if ">>>" not in (o.__doc__ or "")] == []


def test_no_module_with_public_names_is_left_out():
    packages = {
        f"mercer.{path.parent.name}"
        for path in (ROOT / "src" / "mercer").glob("*/__init__.py")
        if "__all__" in path.read_text(encoding="utf-8")
    }
    inner = {"cli", "distributed", "evaluation", "points", "report", "runtime"}  # used by others
    assert packages - {f"mercer.{name}" for name in inner} <= set(MODULES)
