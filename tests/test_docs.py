"""Every page runs as it is written, from top to bottom."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if CODE.search(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")
def test_a_page_runs(page, tmp_path, monkeypatch):
    code = "\n".join(CODE.findall(page.read_text(encoding="utf-8")))
    if "import torch" in code:
        pytest.importorskip("torch")
    if "import dask" in code:
        pytest.importorskip("distributed")
    if "mercer.plotting" in code:
        pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # pickles look their classes up there
    exec(compile(code, str(page), "exec"), vars(module))
