"""The figures of a report, each made of the record of a fit, as inline SVG.

They are drawn by matplotlib in colours that stand for those of the page, light and dark, and put in
their place in the text of the SVG. Texts stay texts, in the font of the page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import wraps
from html import escape
from itertools import count, cycle
from typing import Any

import numpy as np
from sklearn.metrics import roc_curve

COLOURS = {  # in the drawing, and on the page
    "#010203": "var(--ink)",
    "#020304": "var(--quiet)",
    "#030405": "var(--ours)",
    "#040506": "var(--other)",
    "#050607": "var(--third)",
}
INK, QUIET, OURS, OTHER, THIRD = COLOURS
FIGURE_STYLE = {
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
FIGURE_SIZE = (4.6, 3.3)
LEFT, RIGHT, BOTTOM, TOP = 0.66, 0.14, 0.5, 0.3  # inches for labels and titles
MOST_POINTS = 1500  # a report stays small
CLASSES_SHOWN = 6
COLUMNS_SHOWN = 12
POINTS, SIDE, SLICES = 80, 28, 4  # along a line, along each side of a plane, lines


# ---- from axes to the page -----------------------------------------------------------------------


def figure(
    size: tuple[float, float] = FIGURE_SIZE, fitted: bool = False
) -> Callable[[Callable[..., str | None]], Callable[..., str | None]]:
    """Make a function that draws on axes, its first argument, one that gives SVG.

    It returns the text for those who do not see the figure, or None where there is nothing to draw.
    `fitted` makes room for long names, and takes longer.
    """

    def decorated(draw: Callable[..., str | None]) -> Callable[..., str | None]:
        @wraps(draw)
        def drawn(*arguments: Any) -> str | None:
            from matplotlib import rc_context
            from matplotlib.figure import Figure

            with rc_context(FIGURE_STYLE):
                whole = Figure(figsize=size, layout="constrained" if fitted else None)
                if not fitted:
                    left, right = LEFT / size[0], 1.0 - RIGHT / size[0]
                    bottom, top = BOTTOM / size[1], 1.0 - TOP / size[1]
                    whole.subplots_adjust(left, bottom, right, top)
                label = draw(whole.subplots(), *arguments)
                if label is None:
                    return None
                file = io.StringIO()
                whole.savefig(file, format="svg", transparent=True, metadata={"Date": None})
            return _inline(file.getvalue(), label)

        return drawn

    return decorated


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


def plain(name: Any, most: int = 40) -> str:
    """The name of a column or a class, cut where it is long; its dollar signs are no formula."""
    text = str(name)
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return text.replace("$", r"\$")


TIP = "tip: "


def tip(artist: Any, text: str) -> None:
    """Show a text where the pointer rests on what is drawn: a <title>, which needs no script."""
    artist.set_gid(TIP + text)


def _some(*arrays: np.ndarray) -> list[np.ndarray]:
    rows = np.linspace(0, len(arrays[0]) - 1, min(MOST_POINTS, len(arrays[0]))).astype(int)
    return [array[rows] for array in arrays]


# ---- errors --------------------------------------------------------------------------------------


@figure()
def predictions(axes: Any, record: Any) -> str:
    """Predictions of held-out rows against the truth."""
    truth, predicted = _some(record.truth, record.predicted)
    low, high = min(truth.min(), predicted.min()), max(truth.max(), predicted.max())
    axes.plot([low, high], [low, high], color=QUIET, linewidth=1)
    axes.scatter(truth, predicted, s=9, color=OURS, alpha=0.5, linewidth=0)
    axes.set(xlabel=f"true {plain(record.target)}", ylabel="predicted", title="held-out rows")
    return "predictions against the truth"


@figure()
def residuals(axes: Any, record: Any) -> str:
    """The residuals of held-out rows."""
    truth, predicted = _some(record.truth, record.predicted)
    axes.axhline(0.0, color=QUIET, linewidth=1)
    axes.scatter(predicted, truth - predicted, s=9, color=OURS, alpha=0.5, linewidth=0)
    axes.set(xlabel="predicted", ylabel="true − predicted", title="residuals")
    return "residuals against predictions"


@figure()
def roc(axes: Any, record: Any, classes: np.ndarray) -> str:
    """The rate of right alarms against that of false ones, for each class."""
    codes = np.searchsorted(classes, record.truth)
    shown = [1] if len(classes) == 2 else list(range(min(len(classes), CLASSES_SHOWN)))
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=1)
    for number, colour in zip(shown, [OURS, OTHER, THIRD, INK, QUIET, OURS], strict=False):
        if not 0 < np.sum(codes == number) < len(codes):
            continue
        wrong, right, _ = roc_curve(codes == number, record.probabilities[:, number])
        axes.plot(wrong, right, color=colour, linewidth=1.6, label=plain(classes[number], 24))
    axes.set(xlabel="false alarms", ylabel="found", title="ROC, held-out rows")
    axes.legend(fontsize=8, loc="lower right")
    return "ROC curves"


@figure()
def calibration(axes: Any, record: Any, classes: np.ndarray) -> str:
    """How often the most probable class is right, against its probability."""
    best = record.probabilities.argmax(axis=1)
    stated = record.probabilities.max(axis=1)
    right = classes[best] == record.truth
    order = np.argsort(stated)
    groups = [g for g in np.array_split(order, max(3, min(10, len(order) // 20))) if len(g)]
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=1)
    x = [stated[g].mean() for g in groups]
    y = np.array([right[g].mean() for g in groups])
    spread = [
        1.96 * np.sqrt(max(p * (1 - p), 0.02) / len(g)) for p, g in zip(y, groups, strict=True)
    ]
    axes.errorbar(x, y, spread, color=OURS, marker="o", markersize=4, linewidth=1.2)
    low = min(0.5, 1.0 / len(classes), float(min(x)))
    axes.set(xlim=(low, 1.02), ylim=(min(low, float(y.min()) - 0.1), 1.04))
    axes.set(xlabel="stated probability", ylabel="share that is right", title="calibration")
    return "calibration"


@figure(fitted=True)
def confusion(axes: Any, record: Any, classes: np.ndarray) -> str:
    """True classes against predicted ones."""
    truth, guesses = (np.searchsorted(classes, side) for side in (record.truth, record.predicted))
    counts = np.zeros((len(classes), len(classes)), int)
    np.add.at(counts, (truth, guesses), 1)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.4, aspect="auto")
    for i, j in np.ndindex(*counts.shape):
        if counts[i, j] and len(classes) <= 12:
            axes.text(j, i, str(counts[i, j]), ha="center", va="center", color="#0b2239")
    names = [plain(c, 12) for c in classes]
    axes.set_xticks(range(len(classes)), names, rotation=0 if len(classes) < 7 else 90)
    axes.set_yticks(range(len(classes)), names)
    axes.set(xlabel="predicted", ylabel="true", title="held-out rows")
    axes.spines[:].set_visible(False)
    return "confusion matrix"


# ---- the choice ----------------------------------------------------------------------------------


@figure(fitted=True)
def surface(axes: Any, record: Any) -> str | None:
    """Leave-one-out errors over lengthscale and α."""
    grid = record.surface
    if len(grid["factors"]) < 2:
        return None
    errors = np.log10(np.asarray(grid["errors"]))
    x, y = np.log10(grid["alphas"]), np.log2(grid["factors"])
    shown = axes.contourf(x, y, errors, 16, cmap="viridis_r")
    i, j = np.unravel_index(int(np.argmin(errors)), errors.shape)
    axes.plot(x[j], y[i], "o", color="white", markeredgecolor="black", markersize=7)
    axes.set(xlabel="log₁₀ α", ylabel="log₂ lengthscale/median")
    axes.set(title=f"log₁₀ leave-one-out error, {grid['rows']} rows")
    axes.figure.colorbar(shown, ax=axes).outline.set_visible(False)
    return "leave-one-out surface"


@figure((4.6, 3.8), fitted=True)
def trials(axes: Any, record: Any) -> str:
    """The errors of all kernels that were tried, in order."""
    families = list(dict.fromkeys(trial["kernel"] for trial in record.trials))
    colours = dict(zip(families, cycle([OURS, OTHER, THIRD, INK, QUIET]), strict=False))
    for i, trial in enumerate(record.trials):
        family = trial["kernel"]
        (point,) = axes.plot(i, trial["error"], "o", markersize=4, color=colours[family])
        equal = trial["equal lengthscales"]
        tip(
            point,
            f"{family}, {'one lengthscale' if equal else 'a lengthscale for each column'}, "
            f"numbers: {trial['numbers']}, {trial['rows']} rows, α = {trial['alpha']:.3g}: "
            f"{trial['error']:.4g}",
        )
        if family in families:
            point.set_label(families.pop(families.index(family)))
    best = np.minimum.accumulate([trial["error"] for trial in record.trials])
    axes.plot(best, color=QUIET, linewidth=1, drawstyle="steps-post")
    axes.set(xlabel="kernel tried", ylabel="error on left-out rows")
    axes.set(title="the search")
    axes.figure.legend(fontsize=8, ncols=2, loc="outside lower center")
    return "kernels that were tried"


@figure()
def spectrum(axes: Any, record: Any) -> str:
    """Eigenvalues of the Gram matrix, and the effective dimension over λ."""
    values = np.clip(np.asarray(record.spectrum, float), 1e-16, None)
    ridges = np.logspace(-8, 1, 60)
    dimension = [(values / (values + ridge)).sum() for ridge in ridges]
    axes.loglog(np.arange(1, len(values) + 1), values, color=OURS, linewidth=1.8)
    axes.set(xlabel="number", ylabel="eigenvalue of K/n", title="Gram spectrum")
    axes.set_ylim(max(values.min(), 1e-12) / 2, 2 * values.max())
    other = axes.inset_axes((0.12, 0.12, 0.42, 0.4))
    other.semilogx(ridges, dimension, color=OTHER, linewidth=1.4)
    other.set_title("effective dimension over λ", fontsize=7.5)
    other.tick_params(labelsize=7)
    return "spectrum of the Gram matrix"


@figure(fitted=True)
def importance(axes: Any, record: Any) -> str:
    """Which columns matter."""
    most = sorted(record.importance.items(), key=lambda pair: pair[1])[-COLUMNS_SHOWN:]
    bars = axes.barh(range(len(most)), [share for _, share in most], color=OURS)
    for bar, (name, share) in zip(bars, most, strict=True):
        tip(bar, f"{name}: {share:.1%}")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
    axes.set(title="share of the mean squared slope")
    _named(axes, [name for name, _ in most])
    return "columns that matter"


@figure(fitted=True)
def lengthscales(axes: Any, names: Any, kernel: Any) -> str | None:
    """The lengthscale along each encoded column, the shortest at the top.

    Where columns are mapped together it is 1/‖A e_k‖ for column k of the map A.
    """
    own = kernel.get_params(deep=False)
    if "matrix" in own:
        inner = kernel.kernel.get_params(deep=False).get("lengthscale", 1.0)
        lengths = inner / np.linalg.norm(np.asarray(own["matrix"], float), axis=0)
    else:
        lengths = np.broadcast_to(np.asarray(own.get("lengthscale", np.nan), float), len(names))
    if len(names) < 2 or not np.isfinite(lengths).all() or np.ptp(lengths) == 0:
        return None
    order = np.argsort(lengths)[:COLUMNS_SHOWN][::-1]
    for place, k in enumerate(order):
        (point,) = axes.semilogx(lengths[k], place, "o", color=OURS)
        tip(point, f"{names[k]}: {lengths[k]:.3g}")
    axes.hlines(range(len(order)), lengths[order[-1]], lengths[order], color=QUIET, linewidth=1)
    ticks = np.geomspace(lengths[order[-1]], lengths[order[0]], 3)
    axes.minorticks_off()
    axes.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
    axes.set(title="lengthscales: short ones matter")
    _named(axes, [names[k] for k in order])
    return "lengthscales of columns"


def _named(axes: Any, names: list[Any]) -> None:
    """Names of columns at the left, one for each line, and room for them."""
    axes.set_yticks(range(len(names)), [plain(name, 24) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.figure.set_size_inches(FIGURE_SIZE[0], 1.0 + 0.22 * max(len(names), 6))


@figure(fitted=True)
def learning_curve(axes: Any, record: Any) -> str | None:
    """Errors over the number of rows, and the power law through them."""
    points = [(n, e) for n, e in record.learning_curve if e > 0]
    if len(points) < 2:
        return None
    n, errors = np.array(points, float).T
    slope, level = np.polyfit(np.log(n), np.log(errors), 1)
    grid = np.geomspace(n.min(), 4 * n.max(), 30)
    axes.loglog(grid, np.exp(level) * grid**slope, "--", color=QUIET, linewidth=1.2)
    axes.loglog(n, errors, "-", color=OURS, linewidth=1.8)
    for rows, error in zip(n, errors, strict=True):
        (point,) = axes.loglog(rows, error, "o", color=OURS)
        tip(point, f"{int(rows):,} rows: {error:.4g}")
    axes.set(xlabel="training rows", ylabel=f"held-out {record.measure}")
    axes.set(title=f"error ≈ c · n^{slope:.2f}".replace("-", "−"))
    axes.minorticks_off()
    axes.set_xticks(n, [f"{int(k):,}" for k in n])
    axes.set_yticks(np.unique(np.geomspace(errors.min(), errors.max(), 3)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    return "learning curve"


@figure()
def history(axes: Any, solution: Any) -> str | None:
    """The history of an iterative solver: the objective or error by step."""
    names = ("objective", "gap", "error", "residual", "gradient_norm")
    lines = {
        name: values
        for name, values in solution.history.items()
        if name in names and len(values) > 1 and np.ndim(values[0]) == 0
        if np.isfinite(values).all() and np.min(values) > 0
    }
    if not lines:
        return None
    for (name, values), colour in zip(lines.items(), [OURS, OTHER, THIRD], strict=False):
        axes.semilogy(values, "o-", markersize=3, color=colour, label=name)
    axes.axhline(max(solution.gap, 1e-16), color=QUIET, linestyle="--", linewidth=1)
    axes.set(xlabel="step", title=f"the solver; true gap {solution.gap:.1e}")
    axes.legend(fontsize=8)
    return "history of the solver"


# ---- the function --------------------------------------------------------------------------------


def slices(model: Any, record: Any) -> list[str | None]:
    """The function along the columns of numbers that matter most, and over the first two together.

    Other columns stay at their medians and most frequent values.
    """
    numbers = [
        column
        for column in record.columns
        if column["kind"] == "number"
        and column["quantiles"]
        and column["quantiles"][5] > column["quantiles"][1]
    ]
    columns = sorted(numbers, key=lambda column: -record.importance.get(column["name"], 0.0))
    regression, row, width = record.task == "regression", _typical_row(record), 0.0
    if regression:  # half of the 90 % interval of held-out residuals
        width = float(np.quantile(np.abs(record.truth - record.predicted), 0.9))
    title, values_of = _values(model, record, row)
    lines = []
    for column in columns[:SLICES]:
        x = np.linspace(column["quantiles"][1], column["quantiles"][5], POINTS)
        lines.append((column, x, values_of(_rows(row, {column["name"]: x}, POINTS))))
    limits = -0.02, 1.02  # one vertical axis for all, so that they can be compared
    if regression and lines:
        low = min(float(values.min()) for *_, values in lines) - width
        high = max(float(values.max()) for *_, values in lines) + width
        margin = 0.05 * (high - low) or 1.0
        limits = low - margin, high + margin
    drawings = [_line(title, *line, width, limits) for line in lines]
    if len(columns) >= 2:
        first, second = columns[:2]
        sides = [np.linspace(c["quantiles"][1], c["quantiles"][5], SIDE) for c in (first, second)]
        x, y = np.meshgrid(*sides)
        rows = _rows(row, {first["name"]: x.ravel(), second["name"]: y.ravel()}, SIDE * SIDE)
        grid = x, y, values_of(rows).reshape(SIDE, SIDE)
        drawings.append(_plane(title, first, second, grid, not regression))
    return drawings


def _typical_row(record: Any) -> dict[str, Any]:
    """Medians, and the most frequent categories; dates as dates."""
    row: dict[str, Any] = {}
    for column in record.columns:
        if column["kind"] == "number":
            row[column["name"]] = column["quantiles"][3] if column["quantiles"] else np.nan
        elif column["kind"] == "date":
            microseconds = int(column["quantiles"][3] * 86_400_000_000)
            row[column["name"]] = np.datetime64(microseconds, "us")
        else:
            row[column["name"]] = column["frequent"][0][0] if column["frequent"] else ""
    return row


def _values(model: Any, record: Any, row: dict[str, Any]) -> tuple[str, Callable[..., np.ndarray]]:
    """Name and values of the drawn quantity: the target, or the probability of one class.

    Of several classes that is the most probable one of the typical row.
    """
    if record.task == "regression":
        return record.target, lambda rows: np.asarray(model.predict(rows), float)
    shown = 1
    if len(model.classes_) > 2:
        shown = int(model.predict_proba(_rows(row, {}, 1))[0].argmax())
    title = f"probability that {record.target} is {model.classes_[shown]}"
    return title, lambda rows: np.asarray(model.predict_proba(rows)[:, shown], float)


def _rows(row: dict[str, Any], changed: dict[str, Any], count: int) -> dict[str, Any]:
    return {name: changed.get(name, np.array([value] * count)) for name, value in row.items()}


@figure((3.6, 2.6))
def _line(
    axes: Any, title: str, column: dict[str, Any], x: Any, values: Any, width: float,
    limits: tuple[float, ...],
) -> str:  # fmt: skip
    """The function along one column, with its band; `limits` are those of the vertical axis."""
    if width:
        axes.fill_between(x, values - width, values + width, color=OURS, alpha=0.15, linewidth=0)
    axes.plot(x, values, color=OURS, linewidth=2)
    for mark in column["quantiles"][1:-1]:
        axes.axvline(mark, color=QUIET, linewidth=0.5, alpha=0.6)
    axes.set(xlabel=plain(column["name"]), title=plain(title, 60), ylim=limits)
    return f"slice along {column['name']}"


@figure((4.6, 3.6))
def _plane(
    axes: Any, title: str, first: dict[str, Any], second: dict[str, Any], grid: Any, whole: bool
) -> str:
    """The function over two columns; `whole` is for probabilities, in colours from 0 to 1."""
    levels: Any = np.linspace(0.0, 1.0, 21) if whole else 18
    shown = axes.contourf(*grid, levels, cmap="RdBu_r")
    axes.contour(*grid, 9, colors="white", linewidths=0.4)
    axes.set(xlabel=plain(first["name"]), ylabel=plain(second["name"]))
    axes.set(title=plain(title, 60))
    axes.figure.colorbar(shown, ax=axes).outline.set_visible(False)
    return f"f over {first['name']} and {second['name']}"
