"""Methods of fitted models on arrays and tables of Dask: block by block, with the blocks of X."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from mercer.distributed.kinds import is_collection, is_table

METHODS = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "transform",
    "score_samples",
)


def by_blocks(kind: type) -> None:
    """Make the methods of a class, its own and inherited ones, take arrays and tables of Dask."""
    for name in METHODS:
        found: Any = next(
            (base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None
        )
        if hasattr(found, "fn"):  # scikit-learn's `available_if`
            if not hasattr(found.fn, "takes_collections"):
                found.fn = _by_blocks(found.fn, name)
        elif callable(found) and not hasattr(found, "takes_collections"):
            setattr(kind, name, _by_blocks(found, name))


def _by_blocks(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(method)
    def over_blocks(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_collection(X):
            return method(self, X, *args, **options)
        return _computed(self, name, X, args, options)

    over_blocks.takes_collections = True  # type: ignore[attr-defined]
    return over_blocks


def _computed(model: Any, name: str, X: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A lazy array whose blocks are those of X; the model travels to each worker once."""
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
    fitted = delayed(model, traverse=False, name=f"mercer-model-{id(model)}-{_stamp()}")
    return X.map_blocks(
        call, model=fitted, dtype=one.dtype, meta=one[:0], name=f"mercer-{name}-{_stamp()}", **shape
    )


class Method:
    """A method of a model, called with a block of rows."""

    def __init__(
        self, name: str, args: tuple[Any, ...], options: dict[str, Any], names: Any
    ) -> None:
        self.name, self.args, self.options, self.names = name, args, options, names

    def __call__(self, block: np.ndarray, model: Any) -> Any:
        if self.names is not None and hasattr(model, "feature_names_in_"):
            import pandas as pd

            block = pd.DataFrame(block, columns=list(self.names))
        return getattr(model, self.name)(block, *self.args, **self.options)


def _stamp() -> str:
    import uuid

    return uuid.uuid4().hex[:12]
