"""The page: sections of figures and tables, and the style that holds them."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from mercer.persistence.container import write_whole
from mercer.report import figures

PAGE_STYLE = """
:root { color-scheme: light dark; --ink: #22303c; --quiet: #9aa4ae; --ours: #1f5fa8;
  --other: #d9702b; --third: #2a8c6a; --paper: #ffffff; --panel: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --quiet: #7d8893; --ours: #6fb0f5;
  --other: #f3a269; --third: #6fd0ac; --paper: #14191e; --panel: #1e252c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem; max-width: 1180px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0.4rem 0 0; } h2 { font-size: 1.1rem; margin: 2rem 0 0.4rem; }
p { margin: 0.3rem 0 0.7rem; max-width: 46rem; } .quiet { color: var(--quiet); }
.cards { display: grid; gap: 0.8rem; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr));
  margin: 1rem 0; }
.card { background: var(--panel); border-radius: 8px; padding: 0.7rem 0.9rem; }
.card b { display: block; font-size: 1.35rem; }
.figures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); }
.figures > div { background: var(--panel); border-radius: 8px; padding: 0.6rem; min-width: 0; }
svg.figure { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; margin-bottom: 0.8rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.25rem 0.9rem 0.25rem 0; border-bottom: 1px solid var(--panel);
  vertical-align: top; overflow-wrap: normal; }
td.number, th.number { text-align: right; } tr.ours td { font-weight: 600; }
pre { background: var(--panel); border-radius: 8px; padding: 0.8rem; overflow-x: auto;
  font: 13px/1.45 ui-monospace, monospace; overflow-wrap: normal; }
@media print { body { max-width: none; font-size: 12px; } h2, p { break-after: avoid; }
  .figures > div, .card, tr, pre { break-inside: avoid; }
  .figures { grid-template-columns: 1fr 1fr; } }
"""


def write_report(model: Any, record: Any, path: Any) -> Path:
    """Write the report of a fitted model with its record, as a whole or not at all."""
    target = Path(path)
    if not target.resolve().parent.is_dir():  # said before all figures are drawn
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    return write_whole(target, page(model, record).encode())


def page(model: Any, record: Any) -> str:
    """The whole page."""
    title = f"{record.target}: a {record.task} model"
    seconds = [[name, value] for name, value in record.seconds.items()]
    body = "\n".join(
        [
            _head(record, title),
            _errors(record, model),
            _section(
                "The function",
                "Along the columns that matter most, with all others at their medians and most "
                "frequent values, on one scale. Thin lines are quantiles of the data."
                f"{' The band holds 90 % of held-out residuals.' * (record.task == 'regression')}",
                drawings=figures.slices(model, record),
            ),
            _section(
                "Which columns matter",
                "How much the function changes along each column, in units of the spread of that "
                "column: the shares of the mean squared slope. A short lengthscale lets it change "
                "quickly.",
                drawings=[
                    figures.importance(record),
                    figures.lengthscales(
                        model.steps[0][1].get_feature_names_out(), model.model_.kernel_
                    ),
                ],
            ),
            _choice(record, model),
            _certificate(record, model),
            _section("The data", content=_columns(record)),
            _section("Time", content=_table(["part", "seconds"], seconds)),
            _section("The same model in code", content=f"<pre>{escape(record.code)}</pre>"),
        ]
    )
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{escape(title)}</title>\n<style>{PAGE_STYLE}</style>\n</head>\n<body>\n{body}\n"
        f"<p class='quiet'>Made by mercer {escape(record.version)}.</p>\n</body>\n</html>\n"
    )


# ---- parts ---------------------------------------------------------------------------------------


def _section(
    title: str, text: str = "", content: str = "", drawings: Sequence[str | None] = ()
) -> str:
    shown = [f"<div>{drawing}</div>" for drawing in drawings if drawing]
    grid = f"<div class='figures'>{''.join(shown)}</div>" if shown else ""
    said = f"<p>{text}</p>" if text else ""
    return f"<section><h2>{escape(title)}</h2>{said}{content}{grid}</section>"


def _table(heads: list[str], rows: list[list[Any]], ours: int | None = None) -> str:
    def cells(tag: str, texts: Sequence[Any], like: Sequence[Any]) -> str:
        """Cells, to the right where the values of `like` are numbers."""
        parts = []
        for text, value in zip(texts, like, strict=True):
            kind = " class='number'" if isinstance(value, float) else ""
            shown = f"{text:.4g}" if isinstance(text, float) else str(text)
            parts.append(f"<{tag}{kind}>{escape(shown)}</{tag}>")
        return "".join(parts)

    lines = [f"<tr>{cells('th', heads, rows[0] if rows else heads)}</tr>"]
    for i, row in enumerate(rows):
        mark = " class='ours'" if i == ours else ""
        lines.append(f"<tr{mark}>{cells('td', row, row)}</tr>")
    return f"<div class='scroll'><table>{''.join(lines)}</table></div>"


def _head(record: Any, title: str) -> str:
    scores = record.scores["mercer"]
    cards = [(f"{value:.4g}", f"{name} on held-out rows") for name, value in scores.items()]
    cards += [(f"{record.rows:,}", "rows"), (f"{len(record.columns)}", "columns")]
    shown = "".join(f"<div class='card'><b>{escape(v)}</b>{escape(n)}</div>" for v, n in cards)
    return f"<h1>{escape(title)}</h1><div class='cards'>{shown}</div>"


def _errors(record: Any, model: Any) -> str:
    constant = record.scores["constant"][record.measure]
    gained = 1.0 - record.scores["mercer"][record.measure] / constant if constant else 0.0
    text = (
        f"Measured on {record.held_out_rows:,} rows that no choice and no fit has seen; the model "
        f"was then fitted to all {record.rows:,} rows. Its {escape(record.measure)} is "
        f"{gained:.0%} below that of the best constant."
    )
    names = list(dict.fromkeys(n for scores in record.scores.values() for n in scores))
    rows = [[who, *(own.get(name, "") for name in names)] for who, own in record.scores.items()]
    if record.task == "regression":
        drawings = [figures.predictions(record), figures.residuals(record)]
    else:
        kinds = figures.roc, figures.calibration, figures.confusion
        drawings = [draw(record, model.classes_) for draw in kinds]
    table, curve = _table(["", *names], rows, ours=0), figures.learning_curve(record)
    return _section("Errors", text, table, [*drawings, curve])


def _choice(record: Any, model: Any) -> str:
    text = (
        f"{len(record.trials)} kernels were compared by exact leave-one-out, each for "
        f"{len(record.surface['alphas'])} values of α: many on few rows first, then few on many."
    )
    if "learned" in record.trials[-1]["kernel"]:
        text += (
            " The last one has a learned metric, and did better on rows which that had not seen."
        )
    drawings = [
        figures.trials(record),
        figures.surface(record),
        figures.spectrum(record),
        figures.history(model.model_.solution_),
    ]
    return _section("How it was chosen", text, drawings=drawings)


def _certificate(record: Any, model: Any) -> str:
    rows = [[name, value] for name, value in record.figures.items()]
    notes = "".join(f"<p>{escape(note)}</p>" for note in record.notes)
    stated = []
    for s in model.certificate():
        value = "unknown" if s.value is None else f"{s.value:.4g}"
        stated.append([s.name, value, s.meaning, "; ".join(map(str, s.assumptions))])
    proved = _table(["what is proved", "value", "meaning", "if"], stated)
    text = "What is known of the fitted function; the gap is computed anew, not the solver's own."
    return _section("Certificate", text, _table(["", ""], rows) + notes + proved)


def _columns(record: Any) -> str:
    rows = []
    for column in record.columns:
        if column.get("quantiles"):
            q = column["quantiles"]
            what = f"{q[0]:.4g} … {q[3]:.4g} … {q[-1]:.4g}"
        else:
            frequent = column.get("frequent", [])
            what = ", ".join(f"{name} {share:.0%}" for name, share in frequent)
        rows.append([column["name"], column["kind"], f"{column['missing']:.1%}", what])
    heads = ["column", "kind", "missing", "least … median … largest, or most frequent"]
    return _table(heads, rows)
