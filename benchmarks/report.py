"""Results as text, as JSON and as Markdown, and the table of the README."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
Result = dict[str, Any]
METHOD = (
    "Ours and the peers take turns in one process, and the best time of each counts. Errors are "
    "relative to a float64 reference by differences. “below floor” means just that."
)
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def write(name: str, results: Result) -> None:
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(results, indent=1, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    (RESULTS / f"{name}.md").write_text(markdown(results), encoding="utf-8")


def read(name: str) -> Result:
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise SystemExit(f"nothing is stored yet: run python -m benchmarks {name}")
    return json.loads(path.read_text("utf-8"))


def updated(name: str, results: Result) -> Result:
    """What is stored, with the groups of `results` in place of their old rows.

    The machine of most rows is named at the top, and another one with the rows measured on it.
    """
    fresh = {row["group"] for row in results["rows"]}
    stored = read(name) if (RESULTS / f"{name}.json").is_file() else results | {"rows": []}
    if not all(row.get("group") for row in stored["rows"]):
        raise SystemExit(f"stored rows are of no group: run python -m benchmarks {name} whole")
    order = {group: place for place, group in enumerate(results["groups"])}
    rows = [
        {"machine": of["machine"]} | row
        for of in (stored, results)
        for row in of["rows"]
        if row["group"] in order and (of is results or row["group"] not in fresh)
    ]
    machines = [row["machine"] for row in rows]
    most = max(machines, key=machines.count)
    for row in rows:
        if row["machine"] == most:
            del row["machine"]
    rows.sort(key=lambda row: order[row["group"]])
    return results | {"machine": most, "rows": rows}


# ---- figures -------------------------------------------------------------------------------------


def number(value: float | None, digits: int = 3) -> str:
    """Three digits, without an exponent where that is readable; a dash for nothing."""
    if value is None:
        return "–"
    if value != 0 and abs(value) < 1e-3:
        mantissa, exponent = f"{value:.1e}".split("e")
        power = "10" + str(int(exponent)).translate(SUPERSCRIPTS)
        return power if float(mantissa) == 1.0 else f"{mantissa}·{power}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def _mark(row: Result, key: str) -> str:
    if row[key] is None:
        return "–"
    return f"{'≥' if row['larger_is_better'] else '≤'} {number(row[key])}{row['unit']}"


def _measured(row: Result) -> str:
    if row["measured"] is None:
        return f"not measured: {row['note']}"
    return f"{number(row['measured'])}{row['unit']}"


def machine_line(measured: Result) -> str:
    machine = measured["machine"]
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    return (
        f"{machine['processor']}; {machine['cores']} cores; {machine['system']}; "
        f"Python {machine['python']}; {libraries}."
    )


# ---- tables --------------------------------------------------------------------------------------

HEADINGS = (
    "work", "ours, ms", "ns/entry", "peer", "peer, ms", "measured", "floor", "goal", "error", "",
)  # fmt: skip


def _cells(row: Result) -> tuple[str, ...]:
    return (
        row["work"],
        number(row["ours_ms"]),
        number(row["entry_ns"]),
        row["peer"] or "–",
        number(row["peer_ms"]),
        _measured(row),
        _mark(row, "floor"),
        _mark(row, "goal"),
        number(row["error"], 2),
        row["verdict"],
    )


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [headings, tuple("---" for _ in headings), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def markdown(results: Result) -> str:
    """Everything that was measured, with notes and machine."""
    lines = [f"# {results['title']}", "", f"Measured on {machine_line(results)}", ""]
    lines += [results.get("method", METHOD), ""]
    lines += _table(HEADINGS, [_cells(row) for row in results["rows"]])
    notes = [row for row in results["rows"] if row["note"] and row["measured"] is not None]
    elsewhere = [row for row in results["rows"] if "machine" in row]
    if notes or elsewhere:
        lines += ["", "## Notes", ""]
        lines += [f"- {row['work']}: {_in_a_line(row['note']).rstrip('.')}." for row in notes]
        lines += [f"- {row['work']}: measured on {machine_line(row)}" for row in elsewhere]
    return "\n".join(lines) + "\n"


def _in_a_line(note: str) -> str:
    """A note whose code may be broken into lines, as estimators print themselves."""
    return " ".join(note.split())


HIGHLIGHTS = {  # eight rows: of each set, how the work of a row begins
    "gpu": (
        "household power, exact ridge on 1,844,333",
        "household power, 1,844,333 × 11, M = 5,000",
    ),
    "products": ("K(X, Y)v, Gaussian, float32, n = 20,480, m = 10,240, d = 10",),
    "ridge": ("10 lengthscales",),
    "scale": ("ridge on 20,000 rows",),
    "svm": ("SVC, ijcnn1",),
    "online": ("samples a second",),
    "structured": ("Weisfeiler–Lehman",),
}


def highlights() -> str:
    """The README's table: some rows of each set, as they are stored, and the machine."""
    lines = []
    for name, starts in HIGHLIGHTS.items():
        results = read(name)
        for start in starts:
            chosen = [row for row in results["rows"] if row["work"].startswith(start)]
            lines += [
                _highlight(name, row, row.get("machine", results["machine"])) for row in chosen
            ]
    return "\n".join(_table(("work", "measured", "on", "details"), lines))


def _highlight(name: str, row: Result, machine: Result) -> tuple[str, ...]:
    against = f", against {row['peer']}" if row["peer_ms"] is not None else ""
    device = machine["processor"].partition(",")[0].replace("(R)", "").removesuffix(" Processor")
    device = device if name == "gpu" else f"{machine['cores']} cores, {device}"
    link = f"[{name}](benchmarks/results/{name}.md)"
    return f"{row['work']}{against}", _measured(row), device, link


def text(results: Result) -> str:
    """The table for a terminal, with aligned columns."""
    rows = [HEADINGS, *(_cells(row) for row in results["rows"])]
    widths = [min(58, max(len(row[i]) for row in rows)) for i in range(len(HEADINGS))]
    lines = []
    for row in rows:
        cells = [_clipped(cell, width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    notes = [f"  {row['work']}: {row['note']}" for row in results["rows"] if row["note"]]
    return "\n".join([*lines, "", *notes, "", machine_line(results)])


def _clipped(cell: str, width: int) -> str:
    return (cell if len(cell) <= width else cell[: width - 1] + "…").ljust(width)


def rewrite(readme: Path, name: str, table: str) -> None:
    """Put a table between <!-- benchmarks:NAME --> and <!-- /benchmarks:NAME -->."""
    start, stop = f"<!-- benchmarks:{name} -->", f"<!-- /benchmarks:{name} -->"
    content = readme.read_text("utf-8")
    if start not in content or stop not in content:
        raise SystemExit(f"{readme.name} has no lines {start} and {stop} to put the table between")
    head, _, rest = content.partition(start)
    tail = rest.partition(stop)[2]
    readme.write_text(f"{head}{start}\n{table}\n{stop}{tail}", encoding="utf-8")
