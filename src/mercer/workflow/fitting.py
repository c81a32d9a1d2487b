"""`mercer.fit` and `mercer.tune`: hold rows out, choose, fit, test, and fit again to all rows."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from mercer.checks import check_between, check_positive
from mercer.errors import ApproximationWarning
from mercer.persistence import load, save
from mercer.structured.encodings import column_names
from mercer.version import __version__
from mercer.workflow.choice import Choice, Plan, choose, probabilities_of
from mercer.workflow.columns import TableEncoder, as_table, row_count, summarised, take_rows
from mercer.workflow.model import FittedModel, Record, code_of
from mercer.workflow.progress import Notify, progress_bar
from mercer.workflow.reading import read_table
from mercer.workflow.search import Limit
from mercer.workflow.targets import Target, read_target


@dataclass(frozen=True)
class Tuning:
    """Rows of what is computed beside the fit."""

    held_out: int = 20_000  # at most
    baseline_rows: int = 20_000  # of which a linear model is made, at most,
    baseline_values: int = 4_000_000  # and values of their columns
    curve: tuple[float, ...] = (0.125, 0.25, 0.5)  # of the training rows, or of so many:
    curve_rows: int = 100_000
    slopes_at: int = 400  # rows at which the slopes of the function are looked at


TUNING = Tuning()


def fit(
    table: Any,
    target: str,
    *,
    task: str | None = None,
    loss: Any = None,
    time_limit: float = 60.0,
    held_out: float = 0.2,
    random_state: int = 0,
    device: Any = None,
    verbose: bool = False,
    limit: Limit | None = None,
    notify: Notify | None = None,
    checkpoint: Any = None,
) -> FittedModel:
    """Fit a model that predicts one column of a table from the others, and estimate its error.

    Some rows are held out. On the others the encoding of numbers, the kernel, a lengthscale for
    each column and the regularisation are chosen by exact leave-one-out. The error is measured on
    the held-out rows; then the model is fitted to all rows.

    Parameters
    ----------
    table : DataFrame, dictionary of columns, or path
        A path names a CSV, Parquet, Feather or npz file.
    target : str
        The column to predict.
    task : "regression", "classification" or None, default=None
        None takes classes for texts, for two values, and for few different whole numbers.
    loss : Loss or str, optional
        For numbers, as in `KernelRegressor`; by default the square. For classes "squared_error" or
        "log_loss"; by default the better one.
    time_limit : float, default=60.0
        Seconds, approximately: a step that has begun is finished.
    held_out : float, default=0.2
        The share of rows that is used for the estimate of the error only.
    random_state : int, default=0
    device : str, optional
        As in `KernelRidge`: "cuda" fits on a GPU.
    verbose : bool, default=False
        Show a bar with the time left, on a terminal and in a notebook, and print the errors and the
        code that makes the same model.
    limit : Limit, optional
        In place of `time_limit`; `limit.stop()` from another thread or a signal ends the search.
    notify : function, optional
        Called with a message and the share of the work that is done.
    checkpoint : path, optional
        A file for the choices, as soon as they are made, and for the state of an iterative solver.
        A fit that was killed and is started again with the same rows continues from there.

    Returns
    -------
    model : FittedModel
        A fitted `Pipeline` with `report`, `certificate`, `explain` and `save`.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer
    >>> rng = np.random.default_rng(0)
    >>> table = {"x": rng.uniform(size=200), "town": rng.choice(["Bonn", "Rome"], 200)}
    >>> table["price"] = np.sin(6 * table["x"]) + (table["town"] == "Rome")
    >>> model = mercer.fit(table, "price", time_limit=2.0)
    >>> model.record_.scores["mercer"]["RMSE"] < 0.1
    True
    """
    if np.ndim(target):
        raise ValueError(
            "target names the column to predict, as in mercer.fit(table, 'price'); got "
            f"{type(target).__name__} of shape {np.shape(target)}: for X and y write "
            "mercer.tune(X, y)."
        )
    if isinstance(table, (str, Path)):
        table = read_table(table)
    table = as_table(table)
    names = column_names(table)
    if target not in names:
        raise ValueError(f"there is no column {target!r}; there are {names}.")
    rest = {name: table[name] for name in names if name != target}
    if not rest:
        raise ValueError(f"the table has no column beside {target!r} to predict it by.")
    return tune(
        rest,
        table[target],
        task=task,
        loss=loss,
        time_limit=time_limit,
        held_out=held_out,
        random_state=random_state,
        device=device,
        verbose=verbose,
        limit=limit,
        notify=notify,
        checkpoint=checkpoint,
        target=target,
    )


def tune(
    X: Any,
    y: Any,
    *,
    task: str | None = None,
    loss: Any = None,
    time_limit: float = 60.0,
    held_out: float = 0.2,
    random_state: int = 0,
    device: Any = None,
    verbose: bool = False,
    limit: Limit | None = None,
    notify: Notify | None = None,
    checkpoint: Any = None,
    target: str = "y",
) -> FittedModel:
    """`fit` for those who have X and y.

    Parameters
    ----------
    X : array, DataFrame or dictionary of columns
    y : array
    task, loss, time_limit, held_out, random_state, device, verbose, limit, notify, checkpoint :
        As in `fit`.
    target : str, default="y"
        What y is called in the report.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> model = mercer.tune(X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other"), time_limit=2.0)
    >>> model.predict([[0.5, 0.5], [0.5, -0.5]]).tolist()
    ['same', 'other']
    """
    check_positive("fit", "time_limit", time_limit)
    check_between("fit", "held_out", held_out, 0.0, 1.0)
    limit = limit or Limit(time_limit)
    table = as_table(X)
    goal = read_target(target, y, task)
    if row_count(table) != len(goal.values):
        raise ValueError(
            f"X has {row_count(table)} rows and y has {len(goal.values)}: they must be as many."
        )
    with progress_bar(verbose and notify is None) as bar:
        plan = Plan(limit, loss, held_out, random_state, device, notify or bar, checkpoint)
        model = _fitted(table, goal, plan)
    if verbose:
        print(model.explain())
    return model


# ---- the way -------------------------------------------------------------------------------------


def _fitted(table: Any, goal: Target, plan: Plan) -> FittedModel:
    """Divide, choose, fit, test, fit again, and record it."""
    laps, began = dict[str, float](), time.perf_counter()

    def lap(name: str) -> float:
        """The seconds since the last lap, which are kept under a name."""
        laps[name] = time.perf_counter() - began - sum(laps.values())
        return laps[name]

    seen, hidden = _divided(goal, plan)
    known, training = goal.take(seen), take_rows(table, seen)
    tested, testing = goal.take(hidden), take_rows(table, hidden)
    choice = _remembered(plan, goal, lambda: choose(training, known, plan))
    lap("choosing")
    plan.report("fitting", 0.55)
    fitted, rows = seen[: choice.fitted_rows], np.arange(len(goal.values))
    if len(fitted) < len(seen):
        rows = np.sort(np.concatenate([fitted, hidden]))
        training, known = take_rows(table, fitted), goal.take(fitted)
    encoder = TableEncoder(numbers=choice.numbers).fit(training)
    Z, Z_test = encoder.transform(training), encoder.transform(testing)
    test = Test(choice.estimator, Z, known, Z_test, tested)
    first = test.fitted(slice(None))
    last = lap("fitting to the rows that are not held out")
    last *= (len(rows) / len(fitted)) ** 3  # what the fit to all rows will take, at most
    plan.report("testing", 0.7)
    predicted = first.predict(Z_test)
    probabilities = first.predict_proba(Z_test) if goal.classes is not None else None
    scores = {"mercer": tested.scores(predicted, probabilities), **test.baselines()}
    curve = test.curve(plan.limit.within(plan.limit.left - last))
    curve.append([len(fitted), next(iter(scores["mercer"].values()))])
    lap("testing, and the learning curve")
    plan.report("fitting to all rows", 0.8)
    if len(rows) < len(goal.values):
        table, goal = take_rows(table, rows), goal.take(rows)
    final = _final(choice, table, goal, plan)
    lap("fitting to all rows")
    final.record_ = Record(
        target=goal.name,
        task=goal.task,
        rows=len(seen) + len(hidden),
        held_out_rows=len(hidden),
        scores=scores,
        truth=tested.values,
        predicted=predicted,
        probabilities=probabilities,
        columns=summarised(training, column_names(training)),
        trials=choice.trials,
        surface=choice.surface,
        spectrum=choice.spectrum,
        learning_curve=curve,
        importance=_importance(final, take_rows(table, slice(0, TUNING.slopes_at))),
        figures=_figures(final, choice, scores["mercer"], goal.classes),
        seconds=laps,
        code=code_of(final, goal.name),
        notes=_notes(plan, final, len(rows), len(seen) + len(hidden)),
        version=__version__,
    )
    plan.report("done", 1.0)
    return final


def _divided(goal: Target, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """The rows to choose and fit by, and those that are held out, in random order."""
    count = min(max(round(plan.held_out * len(goal.values)), 1), TUNING.held_out)
    by_class = None
    if goal.classes is not None:
        count, by_class = max(count, len(goal.classes)), goal.codes
    rows = np.arange(len(goal.values))
    seen, hidden = train_test_split(
        rows, test_size=count, random_state=plan.random_state, stratify=by_class
    )
    return seen, hidden


def _remembered(plan: Plan, goal: Target, make: Callable[[], Choice]) -> Choice:
    """The choice in the checkpoint of the same fit, or a new one, which is put there."""
    if plan.checkpoint is None:
        return make()
    path = Path(plan.checkpoint)
    state = repr((goal.name, goal.task, plan.loss, plan.held_out, plan.random_state)).encode()
    values = goal.values.tobytes() if goal.values.dtype != object else repr(goal.values).encode()
    mark = hashlib.sha256(state + values).hexdigest()
    if path.exists():
        stored = load(path)
        if not isinstance(stored, dict) or stored.get("mark") != mark:
            raise ValueError(
                f"{path} is a checkpoint of another fit: its target or its options are different. "
                "Remove it to start anew."
            )
        return stored["choice"]
    choice = make()
    save({"mark": mark, "choice": choice}, path)
    return choice


def _final(choice: Choice, table: Any, goal: Target, plan: Plan) -> FittedModel:
    """The model of all rows; its solver has a checkpoint beside that of the choice."""
    encoder = TableEncoder(numbers=choice.numbers).fit(table)
    model = clone(choice.estimator)
    if plan.checkpoint is not None and "checkpoint" in model.get_params(deep=False):
        model.set_params(checkpoint=f"{plan.checkpoint}.fit")
    _quietly(model, encoder.transform(table), goal.values)
    if plan.checkpoint is not None:
        model.checkpoint = None
    return FittedModel([("columns", encoder), ("model", model)])


def _quietly(model: Any, Z: np.ndarray, y: np.ndarray) -> Any:
    """Fit without the warning that centres are taken: they were asked for here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)
        return model.fit(Z, y)


# ---- the test ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Test:
    """Fits to rows that are not held out, and their errors on those that are."""

    estimator: Any
    Z: np.ndarray
    known: Target
    Z_test: np.ndarray
    tested: Target

    def fitted(self, rows: slice) -> Any:
        """The estimator, fitted to some rows."""
        return _quietly(clone(self.estimator), self.Z[rows], self.known.values[rows])

    def curve(self, limit: Limit) -> list[Any]:
        """Numbers of rows and errors of fits to them, while time lasts."""
        points: list[Any] = []
        lasted = 0.0
        for share in TUNING.curve:
            rows = slice(0, round(share * min(len(self.known.values), TUNING.curve_rows)))
            part = self.known.take(rows)
            if len(part.values) < 10 or not part.has_all_classes:
                continue
            if limit.left <= 8.0 * lasted:  # twice the rows take eight times as long
                break
            spent = limit.spent
            predicted = self.fitted(rows).predict(self.Z_test)
            points.append([len(part.values), next(iter(self.tested.scores(predicted).values()))])
            lasted = limit.spent - spent
        return points

    def baselines(self) -> dict[str, dict[str, float]]:
        """The errors of a linear model and of a constant."""
        few = slice(0, min(TUNING.baseline_rows, TUNING.baseline_values // self.Z.shape[1]))
        scores, known = {}, self.known
        for name, model in known.baselines().items():
            rows = slice(None) if name == "constant" else few
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(self.Z[rows], known.values[rows])
            stated = None
            if known.classes is not None:
                stated = probabilities_of(model, self.Z_test, known)
            scores[name] = self.tested.scores(model.predict(self.Z_test), stated)
        return scores


# ---- the description of the model ----------------------------------------------------------------


def _importance(model: FittedModel, table: Any) -> dict[str, float]:
    """The share of each column of the table in the mean squared slope, in units of its spread."""
    encoder, fitted = model.steps[0][1], model.model_
    Z = encoder.transform(table)
    slopes = fitted.function_.gradient(Z)
    along = (slopes**2).mean(axis=tuple(range(slopes.ndim - 1))) * Z.var(axis=0)
    shares: dict[str, float] = {}
    for name, share in zip(encoder.origins(), along.tolist(), strict=True):
        shares[name] = shares.get(name, 0.0) + share
    total = sum(shares.values()) or 1.0
    return {name: share / total for name, share in shares.items()}


def _figures(
    model: FittedModel, choice: Choice, scores: dict[str, float], classes: Any
) -> dict[str, Any]:
    solution, f = model.model_.solution_, model.model_.function_
    measure, error = next(iter(scores.items()))
    return {
        f"held-out {measure}": f"{error:.4g}",
        "error of the choice": f"{choice.error:.4g}, mean square of "
        f"{'standardised targets' if classes is None else 'probabilities'}, on {choice.rows} rows",
        "objective": f"{solution.objective:.6g}",
        "optimality gap": f"{solution.gap:.2g}",
        "norm of f": f"{f.norm():.4g}",
        "centres": f"{len(f):,}",
        "degrees of freedom": f"{choice.freedom:.1f} on {choice.rows} rows",
        "solver": str(solution.status),
    }


def _notes(plan: Plan, model: FittedModel, fitted: int, rows: int) -> list[str]:
    notes = []
    if fitted < rows:
        notes.append(
            f"The model was fitted to {fitted:,} of {rows:,} rows, drawn at random: there was no "
            "time for all of them."
        )
    if plan.limit.stopped:
        notes.append("The search was stopped by hand: this is the best model found by then.")
    if getattr(model.model_, "centres", None):
        notes.append(
            f"f is sought among functions with {model.model_.centres} centres, not on all rows."
        )
    return notes
