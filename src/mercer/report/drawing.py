"""Figures as inline SVG that follow the colours of the page, light and dark.

They are drawn by matplotlib in colours that stand for those of the page, and put in their place in
the text of the SVG. Texts stay texts, in the font of the page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from itertools import count
from typing import Any

COLOURS = {  # in the drawing, and on the page
    "#010203": "var(--ink)",
    "#020304": "var(--quiet)",
    "#030405": "var(--ours)",
    "#040506": "var(--other)",
    "#050607": "var(--third)",
}
INK, QUIET, OURS, OTHER, THIRD = COLOURS
STYLE = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mercer",
    "legend.frameon": False,
}
SIZE = (4.6, 3.3)
LEFT, RIGHT, BOTTOM, TOP = 0.66, 0.14, 0.5, 0.3  # inches for labels and titles


def drawn(
    draw: Callable[[Any], Any],
    size: tuple[float, float] = SIZE,
    label: str = "",
    fitted: bool = False,
) -> str:
    """The SVG of what `draw(axes)` draws; `fitted` makes room for long names, and takes longer."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained" if fitted else None)
        if not fitted:
            width, height = size
            figure.subplots_adjust(
                left=LEFT / width,
                right=1.0 - RIGHT / width,
                bottom=BOTTOM / height,
                top=1.0 - TOP / height,
            )
        draw(figure.subplots())
        figure.patch.set_alpha(0.0)
        for axes in figure.axes:
            axes.patch.set_alpha(0.0)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return _inline(file.getvalue(), label)


def plain(name: Any, most: int = 40) -> str:
    """The name of a column or a class, cut where it is long; its dollar signs are no formula."""
    text = str(name)
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return text.replace("$", r"\$")


TIP = "tip: "


def tip(artist: Any, text: str) -> None:
    """Show a text where the pointer rests on what is drawn: a <title>, which needs no script."""
    artist.set_gid(TIP + text)


_numbers = count(1)


def _inline(text: str, label: str) -> str:
    """An SVG file as a part of a page: without its head, as wide as its place."""
    svg = text[text.index("<svg") :]
    for drawing, page in COLOURS.items():
        svg = svg.replace(drawing, page)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'font: ([^"]*?)px [^";]*', r"font-size: \1px; font-family: inherit", svg)
    svg = re.sub(rf'<g id="{TIP}([^"]*)">', r"<g><title>\1</title>", svg)
    prefix = f"f{next(_numbers)}-"  # no other figure of the page has clips and markers of this name
    svg = re.sub(r'(\bid="|url\(#|xlink:href="#)', lambda match: match[0] + prefix, svg)
    head = f'<svg role="img" aria-label="{escape(label)}" class="figure" '
    return re.sub(r'<svg (?:height="[^"]*" )?', lambda _: head, svg, count=1)
