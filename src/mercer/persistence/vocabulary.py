"""The classes that a file may name, in groups; a file names no module.

Everything else is refused, when a model is saved and when it is loaded. A class of a user's own is
known where it is passed in, under the group "user".
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Sequence
from functools import cache

from sklearn.base import BaseEstimator

from mercer.errors import ModelFileError

GROUPS: dict[str, tuple[str, ...]] = {
    "kernels": ("mercer.kernels",),
    "structured": (
        "mercer.structured",
        "mercer.structured.encodings",
        "mercer.structured.text",
        "mercer.structured.sparse",
    ),
    "losses": ("mercer.losses",),
    "points": ("mercer.points", "mercer.points.kinds", "mercer.structured.tables"),
    "functions": ("mercer.functions",),
    "features": ("mercer.features", "mercer.features.centres"),
    "solvers": ("mercer.solvers", "mercer.solvers.solution", "mercer.solvers.automatic"),
    "estimators": ("mercer.estimators", "mercer.estimators.pairs"),
    "workflow": ("mercer.workflow",),
    "sklearn": (
        "sklearn.pipeline",
        "sklearn.preprocessing",
        "sklearn.impute",
        "sklearn.feature_extraction.text",
    ),
}
OF_SKLEARN = (  # what is fitted in them is arrays, numbers and texts
    "Pipeline",
    "StandardScaler",
    "MinMaxScaler",
    "MaxAbsScaler",
    "RobustScaler",
    "QuantileTransformer",
    "OneHotEncoder",
    "OrdinalEncoder",
    "SimpleImputer",
    "CountVectorizer",
    "TfidfVectorizer",
    "TfidfTransformer",
    "HashingVectorizer",
)


@cache
def classes(group: str) -> dict[str, type]:
    """The classes of a group by name."""
    by_name: dict[str, type] = {}
    for module in GROUPS.get(group, ()):
        for name, value in vars(importlib.import_module(module)).items():
            if inspect.isclass(value) and value.__name__ == name and _is_known(value, group):
                by_name.setdefault(name, value)
    return by_name


def _is_known(value: type, group: str) -> bool:
    if group == "sklearn":
        return value.__name__ in OF_SKLEARN
    ours = value.__module__.startswith("mercer.")
    return ours and (dataclasses.is_dataclass(value) or issubclass(value, BaseEstimator))


def name_of(kind: type) -> str | None:
    """The name of a class in files; None where it is not known."""
    for group in GROUPS:
        if classes(group).get(kind.__name__) is kind:
            return f"{group}.{kind.__name__}"
    return None


def class_of(name: str, users: Sequence[type] = ()) -> type:
    """The class that a file names; `users` are classes of the user's own."""
    group, _, own = str(name).partition(".")
    known = {kind.__name__: kind for kind in users} if group == "user" else classes(group)
    if own in known:
        return known[own]
    if group == "user":
        raise ModelFileError(
            f"the model needs a class of your own, {own}: write load(path, kernels=[{own}])."
        )
    raise ModelFileError(f"the model needs {name!r}, which this version of mercer does not know.")
