"""Methods of models on arrays and tables of Dask: block by block, with the blocks of X."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial, wraps
from typing import Any

import numpy as np

from mercer.checks import check_count
from mercer.distributed.admission import admitted, is_collection, is_scattered, is_table, names_of
from mercer.distributed.cards import resident
from mercer.distributed.placement import token
from mercer.distributed.rows import Rows, add_up

FITTED_METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
    "score_samples",
    "values",
)
SUMS_OVER_ROWS = ("weighted_sum", "normal_equations")


def by_blocks(kind: type) -> None:
    """Make the methods of a class, its own and inherited ones, take arrays and tables of Dask.

    Most estimators fit rows on a cluster as they fit any array; an online machine learns block by
    block, as with `partial_fit`.
    """
    learns = ("partial_fit", "fit") if hasattr(kind, "passes") else ("partial_fit",)
    ways = {_computed: FITTED_METHODS, _summed: SUMS_OVER_ROWS, _learned: learns}
    for way, name in ((way, name) for way, names in ways.items() for name in names):
        owner = next((base for base in kind.__mro__ if name in base.__dict__), None)
        own: Any = None if owner is None else owner.__dict__[name]
        if hasattr(own, "fn"):  # scikit-learn's `available_if`
            if not hasattr(own.fn, "takes_collections"):
                own.fn = _taking_blocks(own.fn, name, way)
        elif callable(own) and not hasattr(own, "takes_collections"):
            code = getattr(own, "__code__", None)
            if code is None or code.co_argcount > 1:  # rows, not several views of them
                setattr(kind, name, _taking_blocks(own, name, way))


def _taking_blocks(
    method: Callable[..., Any], name: str, way: Callable[..., Any]
) -> Callable[..., Any]:
    """A method that goes through the blocks of X in a way of its own where X is on a cluster."""
    applies = is_collection if way is _computed else is_scattered

    @wraps(method)
    def over_blocks(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not applies(X):
            return method(self, X, *args, **options)
        return way(self, name, X, args, options)

    over_blocks.takes_collections = True  # type: ignore[attr-defined]
    return over_blocks


# ---- sums over rows ------------------------------------------------------------------------------


def _summed(model: Any, name: str, X: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The sum of the answers for blocks, added in their order."""
    rows = admitted(X)
    blocks = range(len(rows.blocks()))
    given = [_beside(part, rows) for part in (*args, *options.values())]
    parts = [[_of_block(part, i) for part in given] for i in blocks]
    models = [rows.placement.shared("model", model).value] * len(blocks)
    work = partial(_sum_of_block, name, tuple(options))
    _, total = rows.placement.summed(name, work, add_up, models, rows.blocks(), parts)
    return _with_model(total, None, model)


def _sum_of_block(
    name: str, options: tuple[str, ...], model: Any, block: np.ndarray, given: list[Any]
) -> Any:
    """The sum for a block; runs on a worker. The model is there already."""
    count = len(given) - len(options)
    named = dict(zip(options, given[count:], strict=True))
    return _with_model(getattr(model, name)(block, *given[:count], **named), model, None)


def _with_model(answer: Any, before: Any, after: Any) -> Any:
    """An answer that holds a model with another one in its place."""
    if not is_dataclass(answer) or isinstance(answer, type):
        return answer
    held = [part.name for part in fields(answer) if getattr(answer, part.name) is before]
    return replace(answer, **dict.fromkeys(held, after))


# ---- a stream ------------------------------------------------------------------------------------


def _learned(
    machine: Any, name: str, X: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """A machine that learns block after block, in order, and is sent to where each block is."""
    names, rows = names_of(X), admitted(X)
    args = tuple(_beside(part, rows) for part in args)
    options = {key: _beside(part, rows) for key, part in options.items()}
    if name == "fit":
        return _fitted(machine, rows, names, *args, **options)
    names = getattr(machine, "feature_names_in_", None) if names is None else names
    return _continued(machine, rows, names, args, options)


def _fitted(machine: Any, rows: Rows, names: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """A machine that forgets everything, and goes through all blocks `passes` times."""
    check_count(machine, "passes", machine.passes)
    machine._forget()
    y = None if y is None else admitted(y, beside=rows, what="y")
    classes = np.unique(y) if machine._is_classifier() else None
    for _ in range(machine.passes):
        _continued(machine, rows, names, (y, classes, sample_weight), {})
    return machine


def _continued(
    machine: Any, rows: Rows, names: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """One task for each block, one after the other, each where its block is."""
    placement, key = rows.placement, token("partial_fit")
    learned = placement.shared("machine", machine).value
    workers = {
        i: worker
        for group, worker in zip(placement.groups, placement.workers, strict=True)
        for i in group
    }
    for i, block in enumerate(rows.blocks()):
        learned = placement.client.submit(
            _learn_block,
            learned,
            names,
            block,
            [_of_block(part, i) for part in args],
            {key: _of_block(part, i) for key, part in options.items()},
            key=f"{key}-{i}",
            workers=[workers[i]],
            pure=False,
        )
    vars(machine).update(vars(placement.fetched(learned)))
    return machine


def _beside(thing: Any, rows: Rows) -> Any:
    """Targets and weights beside rows; other arguments as they are."""
    per_row = isinstance(thing, np.ndarray) and thing.ndim and len(thing) == len(rows)
    return admitted(thing, beside=rows, what="y") if is_scattered(thing) or per_row else thing


def _of_block(thing: Any, number: int) -> Any:
    return thing.blocks()[number] if isinstance(thing, Rows) else thing


def _learn_block(
    model: Any, names: Any, block: np.ndarray, args: list[Any], options: dict[str, Any]
) -> Any:
    """The model after one more block; runs on a worker, and leaves the model before as it was."""
    return copy.deepcopy(model).partial_fit(_with_names(block, names), *args, **options)


# ---- methods of a fitted model -------------------------------------------------------------------


def _computed(model: Any, name: str, X: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A lazy array whose blocks are those of X; the model is sent to each worker once."""
    from dask import delayed

    names = tuple(X.columns) if is_table(X) else None
    dtype: Any = np.float64
    if is_table(X):
        X = X.to_dask_array()
    elif X.dtype == np.float32:
        dtype = np.float32
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions; got shape {X.shape}.")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    call = Method(name, args, options, names)
    one = call(np.zeros((1, X.shape[1]), dtype), model)
    shape: dict[str, Any] = {"drop_axis": 1}
    if one.ndim == 2:
        shape = {"chunks": (X.chunks[0], (one.shape[1],))}
    fitted = delayed(model, traverse=False, name=token("model"))
    return X.map_blocks(
        call, model=fitted, dtype=one.dtype, meta=one[:0], name=token(name), **shape
    )


class Method:
    """A method of a model, called with a block of rows."""

    def __init__(
        self, name: str, args: tuple[Any, ...], options: dict[str, Any], names: Any
    ) -> None:
        self.name, self.args, self.options, self.names = name, args, options, names

    def __call__(self, block: np.ndarray, model: Any) -> Any:
        if hasattr(model, "_on"):
            model = resident(model, type(model)._on)
        names = self.names if hasattr(model, "feature_names_in_") else None
        return getattr(model, self.name)(_with_names(block, names), *self.args, **self.options)


def _with_names(block: np.ndarray, names: Any) -> Any:
    """A block of rows as the table it comes from."""
    if names is None:
        return block
    import pandas as pd

    return pd.DataFrame(block, columns=list(names))
