"""The result of `mercer.fit`: a fitted pipeline with a record of how it was made and tested."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer.estimators.conformal import check_coverage, upper_rank
from mercer.kernels import Kernel
from mercer.kernels.base import parts
from mercer.persistence import save
from mercer.report import write_report
from mercer.theory.certificate import Certificate, Statement

CODE_WIDTH = 96


@dataclass(frozen=True, eq=False)
class Record:
    """The record of a fit, in plain numbers and texts; it is stored with the model.

    Attributes
    ----------
    target, task : str
        The column that is predicted; "regression" or "classification".
    rows, held_out_rows : int
        All rows, and those of them that no choice has seen.
    scores : dict
        The errors on held-out rows of the model, a constant and a linear model, by name.
    truth, predicted, probabilities : arrays
        Of the held-out rows.
    columns : list of dict
        A summary of each column.
    trials : list of dict
        The kernels that were tried, with their leave-one-out errors.
    surface : dict
        Leave-one-out errors of the chosen kernel over lengthscales and α.
    spectrum : array
        Eigenvalues of the Gram matrix of some rows, over their number, from the largest.
    learning_curve : list of pairs
        Numbers of training rows, and the held-out error of fits to so many.
    importance : dict
        The share of each column in how much the function changes.
    figures : dict
        What the certificate states.
    seconds : dict
        What took how long.
    code : str
        Public code that makes the same model.

    Examples
    --------
    >>> import mercer
    >>> x = np.linspace(0, 1, 60)
    >>> record = mercer.fit({"x": x, "y": x**2}, "y", time_limit=1.0).record_
    >>> record.rows, record.held_out_rows, record.task
    (60, 12, 'regression')
    """

    target: str
    task: str
    rows: int
    held_out_rows: int
    scores: dict[str, dict[str, float]]
    truth: np.ndarray
    predicted: np.ndarray
    probabilities: np.ndarray | None
    columns: list[dict[str, Any]]
    trials: list[dict[str, Any]]
    surface: dict[str, Any]
    spectrum: np.ndarray
    learning_curve: list[Any]
    importance: dict[str, float]
    figures: dict[str, Any]
    seconds: dict[str, float]
    code: str
    notes: list[str] = field(default_factory=list)
    version: str = ""

    @property
    def measure(self) -> str:
        """The name of the error that scores hold first."""
        return "error rate" if self.task == "classification" else "RMSE"


class FittedModel(Pipeline):
    """A pipeline from the columns of a table to a prediction, with the record of how it was made.

    It is made by `mercer.fit`. As a `Pipeline` it can be cloned, fitted again, searched over and
    put into other tools of scikit-learn; `record_` belongs to the fit of `mercer.fit`.

    >>> import mercer
    >>> x = np.linspace(0, 1, 60)
    >>> model = mercer.fit({"x": x, "y": x**2}, "y", time_limit=1.0)
    >>> model.predict({"x": [0.5]}).shape
    (1,)
    """

    record_: Record

    @property
    def model_(self) -> Any:
        """The fitted estimator, the last step."""
        return self.steps[-1][1]

    @property
    def code_(self) -> str:
        """Public code that makes the same model."""
        return self._record().code

    def _record(self) -> Record:
        check_is_fitted(self, "record_", msg="This model has no record: write mercer.fit(...).")
        return self.record_

    def fit(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit the steps again to other rows; the record of an earlier fit is dropped."""
        if hasattr(self, "record_"):
            del self.record_
        return super().fit(X, y, **params)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals for a new target, by split conformal prediction.

        They are the prediction ± a quantile of the absolute residuals of held-out rows, which no
        choice has seen. For rows like those of the table they hold with probability `coverage` or
        more, up to the change of the model by its last fit to all rows.
        """
        width = self.interval_width(coverage)
        predicted = self.predict(X)
        return predicted - width, predicted + width

    def interval_width(self, coverage: float = 0.9) -> float:
        """Half of the width of `predict_interval`, which is the same for all rows."""
        record, coverage = self._record(), check_coverage(self, coverage)
        if record.task != "regression":
            raise ValueError("intervals are for numbers: classes have predict_proba.")
        residuals = np.sort(np.abs(record.truth - record.predicted))
        rank = upper_rank(len(residuals), coverage)
        return float(residuals[rank - 1]) if rank <= len(residuals) else np.inf

    def certificate(
        self, probability: float = 0.95, target_bound: float | None = None
    ) -> Certificate:
        """The error on held-out rows, then what is proved of the fitted function.

        Kernel and λ were chosen on the rows that were fitted, which the bounds that forbid it say;
        the parameters are those of `KernelRidge.certificate`.
        """
        record = self._record()
        measure, error = next(iter(record.scores["mercer"].items()))
        held_out = Statement(
            f"held-out {measure}",
            error,
            f"On {record.held_out_rows:,} rows that no choice has seen, before the last fit to "
            "all rows.",
        )
        of_function = self.model_.certificate(
            probability, target_bound, chosen=["kernel", "regularization"]
        )
        return of_function.beside(held_out, notes=record.notes)

    def explain(self) -> str:
        """Kernel, errors, certificate, and what the solver did and why."""
        record, model = self._record(), self.model_
        kernel = repr(model.kernel_)
        most = sorted(record.importance.items(), key=lambda pair: -pair[1])[:8]
        sections = [
            f"{record.task} of {record.target!r}: {record.rows:,} rows, "
            f"{len(record.columns)} columns",
            score_table(record),
            f"kernel\n  {kernel if len(kernel) < 400 else kernel[:400] + ' …'}",
            "columns that matter most\n"
            + "\n".join(f"  {share:6.1%}  {name}" for name, share in most),
            "figures\n" + "\n".join(f"  {name:<28} {v}" for name, v in record.figures.items()),
            "certificate\n  " + str(self.certificate()).replace("\n", "\n  "),
        ]
        if hasattr(model, "explain"):
            sections.append("solver\n  " + model.explain().replace("\n", "\n  "))
        else:
            sections.append(f"solver\n  {model.solution_.status}")
        sections.append("code\n  " + record.code.replace("\n", "\n  "))
        return "\n\n".join(sections)

    def report(self, path: Any = "report.html") -> Path:
        """Write the report, one HTML file that needs nothing else, and return its path."""
        return write_report(self, self._record(), path)

    def save(self, path: Any, *, centres: int | None = None) -> Path:
        """Write the model to a file, see `mercer.save`; `mercer.load` reads it."""
        return save(self, path, centres=centres)

    def _html_repr(self) -> str:
        """In a notebook: the errors and the certificate above the diagram of scikit-learn."""
        diagram = super()._html_repr()
        if not hasattr(self, "record_"):
            return diagram
        text = f"{score_table(self.record_)}\n\n{self.certificate()}"
        return f"<pre>{escape(text, quote=False)}</pre>{diagram}"


def score_table(record: Record) -> str:
    """The errors on held-out rows as a text table."""
    names = list(dict.fromkeys(name for scores in record.scores.values() for name in scores))
    head = f"{f'on {record.held_out_rows:,} held-out rows':<28}" + "".join(
        f"{name:>14}" for name in names
    )
    lines = [head]
    for model, scores in record.scores.items():
        cells = (f"{scores[name]:>14.4g}" if name in scores else f"{'':>14}" for name in names)
        lines.append(f"{model:<28}" + "".join(cells))
    return "\n".join(lines)


def code_of(model: Any, target: str) -> str:
    """Code that fits the same pipeline to `table`, without the search."""
    encoder, estimator = (step for _, step in model.steps)
    kernel = estimator.kernel
    named = sorted({type(part).__name__ for part in parts(kernel)})
    lines = [
        "from sklearn.pipeline import make_pipeline",
        f"from mercer import {type(estimator).__name__}",
        f"from mercer.kernels import {', '.join(named)}",
        "from mercer.workflow import TableEncoder",
        "",
        f"kernel = {_wrapped(repr(kernel))}",
        "model = make_pipeline(",
        f"    TableEncoder({_changed(encoder)}),",
        f"    {type(estimator).__name__}({_changed(estimator)}),",
        ")",
        f"model.fit(table.drop(columns={target!r}), table[{target!r}])",
    ]
    return "\n".join(lines)


def _changed(estimator: Any) -> str:
    """The parameters that are not the default, as they are written."""
    own = estimator.get_params(deep=False)
    plain = type(estimator)().get_params(deep=False)
    shown = {name: value for name, value in own.items() if repr(value) != repr(plain[name])}
    return ", ".join(
        f"{name}=kernel" if isinstance(value, Kernel) else f"{name}={value!r}"
        for name, value in shown.items()
    )


def _wrapped(text: str) -> str:
    """A kernel, with a long list of lengthscales over several lines."""
    if len(text) <= CODE_WIDTH:
        return text
    head, _, rest = text.partition("[")
    inner, _, tail = rest.rpartition("]")
    lines = textwrap.wrap(inner, CODE_WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return f"{head}[\n    " + "\n    ".join(lines) + f"\n]{tail}"
