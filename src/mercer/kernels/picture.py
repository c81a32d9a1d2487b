"""Pictures of a kernel in a notebook: values on a line, the Gram matrix, the known facts.

Drawn as inline SVG by the standard library: a notebook needs nothing else, and text takes the
colour of the page, light or dark.
"""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.kernels.base import Kernel, parts
from mercer.operators import Gram
from mercer.points import VectorPoints

LINE_POINTS = 41  # on the line, and rows of the heat map
LINE_COLOURS = ("#3b7dd8", "#d8833b", "#3fa66b")
POSITIVE, NEGATIVE = np.array([33, 84, 158]), np.array([178, 52, 44])
HEIGHT = 110


def kernel_html(kernel: Kernel) -> str:
    """The kernel as Python writes it, its picture, and its facts to unfold."""
    try:
        facts = f"<details><summary>facts</summary>{preformatted(kernel.facts())}</details>"
    except (ValueError, TypeError):  # some are known for one number of columns only
        facts = ""
    head = f"<code>{escaped(short(kernel))}</code>"
    return f"<div>{head}{kernel_picture(kernel)}{facts}</div>"


def kernel_picture(kernel: Kernel) -> str:
    """k(x, ·) for one or three points x of a line and the Gram matrix of the line, if k takes one.

    The points are t·(1, …, 1) for t from −3ℓ to 3ℓ, or from 0 to 1 where k takes no negative ones.
    """
    reach = 3.0 * _lengthscale(kernel)
    for start, stop in ((-reach, reach), (0.0, 1.0)):
        line = np.linspace(start, stop, LINE_POINTS)
        matrix = _values(kernel, line)
        if matrix is not None:
            break
    else:
        return ""
    scale = float(np.abs(matrix).max()) or 1.0
    moved = np.allclose(matrix[1:, 1:], matrix[:-1, :-1], rtol=1e-6, atol=1e-6 * scale)
    middle, quarter = LINE_POINTS // 2, LINE_POINTS // 4
    places = [middle] if moved else [quarter, middle, 3 * LINE_POINTS // 4]
    label = "k(0, t)" if moved else "k(s, t), three s"
    return side_by_side(curves(line, matrix[places], label), heat_map(matrix, "Gram matrix"))


def _lengthscale(kernel: Kernel) -> float:
    """The largest of all parts, the period of periodic ones, 1 where there is none."""
    sizes = [
        float(np.max(getattr(part, name)))
        for part in parts(kernel)
        for name in ("lengthscale", "period")
        if isinstance(getattr(part, name, None), (int, float, np.ndarray, list, tuple))
    ]
    sizes = [size for size in sizes if np.isfinite(size) and size > 0]
    return max(sizes, default=1.0)


def _values(kernel: Kernel, line: np.ndarray) -> np.ndarray | None:
    """The Gram matrix of points of a line, by code that is not compiled; None if k takes none."""
    try:
        rows = line[:, None] * np.ones(kernel.columns_needed())
        points = kernel.points(rows)
        if not isinstance(points, VectorPoints):
            return None
        with np.errstate(all="ignore"):
            matrix = np.asarray(Gram(kernel, points, precision="reference").dense(), np.float64)
    except Exception:  # a picture is no reason to fail where an object is shown
        return None
    return matrix if matrix.shape == (len(line),) * 2 and np.isfinite(matrix).all() else None


# ---- drawing -------------------------------------------------------------------------------------


def curves(x: np.ndarray, lines: np.ndarray, label: str) -> str:
    """Curves over x as a small SVG, with the ends of both ranges written beside them."""
    values = np.asarray(lines, np.float64)
    low, high = min(float(values.min()), 0.0), float(values.max())
    high = high if high > low else low + 1.0
    width, left, top, bottom = 230, 44, 16, HEIGHT - 16
    across = left + (width - left - 6) * (x - x[0]) / (x[-1] - x[0])
    drawn = []
    for line, colour in zip(values, LINE_COLOURS, strict=False):
        heights = bottom - (bottom - top) * (line - low) / (high - low)
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, heights, strict=True))
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    zero = bottom - (bottom - top) * (0.0 - low) / (high - low)
    drawn.append(
        f'<path d="M{left} {zero:.1f}H{width - 6}M{left} {top}V{bottom}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.5"/>'
    )
    texts = [
        (left - 4, top + 4, "end", f"{high:.3g}"), (left - 4, bottom + 2, "end", f"{low:.3g}"),
        (left, HEIGHT - 2, "start", f"{x[0]:.3g}"), (width - 6, HEIGHT - 2, "end", f"{x[-1]:.3g}"),
        ((left + width) / 2, 10, "middle", label),
    ]  # fmt: skip
    return _svg(width, label, [*drawn, *(_text(*text) for text in texts)])


def heat_map(matrix: np.ndarray, label: str) -> str:
    """A matrix in colours as a small SVG: blue from 0 up, red from 0 down."""
    values = np.asarray(matrix, np.float64)
    scale = float(np.abs(values).max()) or 1.0
    depth = np.abs(values)[:, :, None] / scale
    ends = np.where(values[:, :, None] >= 0, POSITIVE, NEGATIVE)
    pixels = np.rint(255.0 + depth * (ends - 255.0)).astype(np.uint8)
    data = base64.b64encode(_png(pixels)).decode("ascii")
    side = HEIGHT - 16
    image = (
        f'<image x="0" y="16" width="{side}" height="{side}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'
    )
    return _svg(side, label, [_text(side / 2, 10, "middle", label), image])


def side_by_side(*pictures: str) -> str:
    """Pictures in a row that wraps on narrow screens."""
    return f'<div style="display:flex;flex-wrap:wrap;gap:16px">{"".join(pictures)}</div>'


def short(kernel: Kernel, longest: int = 300) -> str:
    """The kernel as Python writes it, cut where matrices make it long."""
    text = repr(kernel)
    return text if len(text) <= longest else f"{text[:longest]} …"


def escaped(text: Any) -> str:
    """Text as HTML shows it."""
    return html.escape(str(text), quote=False)


def preformatted(text: Any) -> str:
    """Lines as they are, wrapped on narrow screens."""
    return f'<pre style="white-space:pre-wrap">{escaped(text)}</pre>'


def _svg(width: int, label: str, drawn: Sequence[str]) -> str:
    return (
        f'<svg width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}" role="img" '
        f'aria-label="{html.escape(label)}" font-size="10" font-family="sans-serif" '
        f'fill="currentColor">{"".join(drawn)}</svg>'
    )


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escaped(text)}</text>'


def _png(pixels: np.ndarray) -> bytes:
    """Pixels of shape (rows, columns, 3) as a file in the PNG format."""
    rows, columns, _ = pixels.shape
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)], axis=1)

    def chunk(name: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + check

    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")
