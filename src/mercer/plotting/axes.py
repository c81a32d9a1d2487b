"""Shared by all displays: axes to draw on, colours, and the import of matplotlib."""

from __future__ import annotations

from typing import Any

BLUE, RED, GREEN, GREY = "#1f5fa8", "#d1495b", "#3a7d44", "#8a8f98"


def axes(ax: Any = None, size: tuple[float, float] = (6.0, 4.0)) -> Any:
    """The given axes, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained").add_subplot()


def finished(
    display: Any, ax: Any, x: str = "", y: str = "", title: str = "", *, legend: bool = False
) -> Any:
    """The display with its axes and figure as attributes, after labels and the last touches."""
    ax.set(**{side: text for side, text in {"xlabel": x, "ylabel": y}.items() if text})
    if title:
        ax.set_title(title, fontsize=9)
    if legend:
        ax.legend(frameon=False, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    display.ax_, display.figure_ = ax, ax.figure
    return display
