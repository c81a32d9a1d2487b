"""Every page runs as it is written, its links lead somewhere, and its pictures are described."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mercer.version import __version__

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
TEXTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.glob("*.md")),
    *sorted(DOCS.glob("guide/*.md")),
    *sorted(DOCS.glob("reference/*.md")),
]
PAGES = [
    path
    for path in TEXTS
    if CODE.search(path.read_text(encoding="utf-8")) and path.name != "CONTRIBUTING.md"
]


def _name(path):
    return str(path.relative_to(ROOT).with_suffix(""))


@pytest.mark.parametrize("page", PAGES, ids=_name)
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


def _anchor(heading):
    """What a heading is called in a link, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _leads_somewhere(page, target):
    if target.startswith("http"):
        return target.startswith("https://")
    path, _, anchor = target.partition("#")
    if path == "gallery/index" or path.endswith("/gallery/index"):
        return True  # made by sphinx-gallery from examples/, and checked by `make docs`
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return False
    headings = (
        re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
    )
    return not anchor or anchor in map(_anchor, headings)


@pytest.mark.parametrize("page", TEXTS, ids=_name)
def test_links_lead_somewhere_and_pictures_are_described(page):
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for picture, words, target in LINK.findall(text):
        assert _leads_somewhere(page, target), target
        if picture:
            assert len(words.split()) >= 5, f"{target} needs an alternative text"


def test_the_guide_lists_its_pages_in_the_order_in_which_they_lead_on():
    index = (DOCS / "guide" / "index.md").read_text(encoding="utf-8")
    pages = re.findall(r"^(\w+)$", index.split("```")[1], re.MULTILINE)
    assert sorted(pages) == sorted(p.stem for p in DOCS.glob("guide/*.md") if p.stem != "index")
    texts = [(DOCS / "guide" / f"{page}.md").read_text(encoding="utf-8") for page in pages]
    assert all("](../images/" in text for text in texts)
    for text, following in zip(texts, pages[1:], strict=False):
        assert re.search(rf"Next: \[[^\]]*\]\({following}\.md\)", text)


def test_names_in_the_map_from_theorem_to_code_exist():
    text = (DOCS / "theorems.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:mercer\.)?((?:theory|laws|solvers|online)\.\w+)", text))
    assert len(named) > 10
    for name in named:
        module, _, attribute = name.partition(".")
        prefix = "mercer.kernels." if module == "laws" else "mercer."
        assert hasattr(importlib.import_module(prefix + module), attribute), name


def test_every_picture_is_used():
    used = "".join(path.read_text(encoding="utf-8") for path in TEXTS)
    assert [p.name for p in (DOCS / "images").iterdir() if f"images/{p.name}" not in used] == []


def test_the_readme_has_at_most_eight_measured_rows():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.split("<!-- benchmarks:highlights -->")[1].split("<!-- /benchmarks")[0]
    assert 1 <= len(table.strip().splitlines()) - 2 <= 8


def test_the_citation_names_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {__version__}\n" in citation
