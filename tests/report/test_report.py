"""The report: whole, alone, and no wider than the screen."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html import escape

import numpy as np
import pytest

import mercer
from mercer.kernels import Gaussian
from mercer.report import figures

pytest.importorskip("matplotlib")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
SECTIONS = ["Errors", "The function", "Which columns matter", "How it was chosen", "Certificate",
            "The data", "Time", "The same model in code"]  # fmt: skip


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    rng = np.random.default_rng(0)
    table = {
        "a column with a rather long name, in $ or $$": rng.uniform(size=90),
        'a column with a rather "long" name': rng.uniform(size=90),
        "town <b>": rng.choice(["Bonn & Köln", "Rome"], 90).astype(object),
        "x": rng.normal(size=90),
    }
    number = np.sin(6 * table["x"]) + rng.normal(size=90)
    table["price"] = number
    regression = mercer.fit(table, "price", time_limit=0.5).report(folder / "numbers.html")
    table["price"] = np.where(number > 0.5, "much", np.where(number > -0.5, "some", "little"))
    classes = mercer.fit(table, "price", time_limit=0.5).report(folder / "classes.html")
    return [regression, classes]


def test_all_sections_are_there_and_nothing_comes_from_elsewhere(reports):
    for path in reports:
        text = path.read_text("utf-8")
        assert [s for s in SECTIONS if f"<h2>{s}</h2>" not in text] == []
        assert escape("town <b>") in text
        assert "town <b>" not in text
        assert not re.findall(r"""(?:src|href)=["']?https?:""", text)
        assert "<script" not in text
        assert text.count("<svg") >= 8


def test_figures_are_well_formed_and_share_no_names(reports):
    for path in reports:
        text = path.read_text("utf-8")
        names = re.findall(r'\bid="([^"]+)"', text)
        assert len(names) == len(set(names))
        for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
            ET.fromstring(svg)


def test_lengthscales_are_drawn_also_behind_a_map():
    names = ["a $ and $", "b", "b"]
    shown = figures.lengthscales(names, Gaussian([1.0, 2.0, 4.0]))
    assert all(text in shown for text in (">a $ and $<", "b: 2<", "b: 4<"))
    mapped = figures.lengthscales(names, Gaussian(2.0).after([[1.0, 0.0, 0.6], [0.0, 2.0, 0.8]]))
    assert all(text in mapped for text in ("a $ and $: 2<", "b: 1<", "b: 2<"))
    assert figures.lengthscales(names, Gaussian(2.0)) is None


def test_nothing_is_left_of_a_report_that_fails(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    model = mercer.tune(rng.normal(size=(40, 1)), rng.normal(size=40), time_limit=0.2)
    with pytest.raises(OSError):
        model.report(tmp_path / "none" / "r.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_it_without_overflow_or_errors(reports, width, tmp_path):
    """The page stands in a frame of the given width, which tells how wide its content is."""
    for path in reports:
        page = escape(path.read_text("utf-8"), quote=True)
        frame = tmp_path / "frame.html"
        frame.write_text(
            f"<script>window.onerror = e => document.title = 'error ' + e</script>"
            f'<iframe style=\'width:{width}px;height:2000px;border:0\' srcdoc="{page}" onload="'
            'document.title = this.contentDocument.documentElement.scrollWidth"></iframe>',
            "utf-8",
        )
        options = [
            "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update",
            f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1400,2100", "--dump-dom",
        ]  # fmt: skip
        done = subprocess.run(
            [BROWSER, *options, f"file://{frame}"], capture_output=True, text=True
        )
        title = re.search(r"<title>(.*?)</title>", done.stdout)
        assert title is not None
        assert float(title[1]) <= width
