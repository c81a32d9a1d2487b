"""`save` and `load`: a model as JSON and arrays, and back.

Plain values are themselves; everything else is a dictionary with one of the keys of `Reader.KINDS`.
Objects are described by their class and fields, and made again by calling the class, which checks
the fields; estimators get what they learned set beside their parameters. A file names no module,
but classes of some groups; everything else is refused, when a model is saved and when it is loaded.
A class of a user's own is known where it is passed in, under the group "user".
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from mercer.checks import check_count
from mercer.errors import ModelFileError
from mercer.estimators.smaller import compress
from mercer.kernels.base import Kernel
from mercer.losses import Loss
from mercer.persistence import container
from mercer.persistence.container import TYPE_NAMES
from mercer.solvers.solution import Solution
from mercer.version import __version__

FORMAT = 1
"""Raised where older versions could not read what is written."""


def save(model: Any, path: Any, *, centres: int | None = None) -> Path:
    """Write a fitted estimator, or a pipeline that ends in one, to a file.

    Parameters
    ----------
    model : estimator, Pipeline, or function
        Of mercer; a pipeline may hold scalers, encoders and imputers of scikit-learn.
    path : path
        By custom it ends in ".mercer".
    centres : int, optional
        Write a smaller model, see `compressed`: so many centres, which are not training rows.

    Returns
    -------
    path : Path

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from mercer import KernelRidge
    >>> model = KernelRidge(kernel="rbf").fit(np.eye(3), [1.0, 2.0, 3.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.mercer").name
    'model.mercer'
    """
    if centres is not None:
        model = compressed(model, centres)
    writer = Writer()
    description = writer.described(model, type(model).__name__)
    texts = {
        "format": f"mercer {FORMAT}",
        "version": __version__,
        "description": json.dumps(description, ensure_ascii=False, separators=(",", ":")),
    }
    return container.write(path, writer.arrays, texts)


def compressed(model: Any, centres: int) -> Any:
    """A copy of a fitted model whose function has few centres, which are not training rows.

    The centres are the means of groups of training rows (k-means); the function is projected on
    their span. For points that have no means, as texts and categories, they are some of the
    training points.

    Parameters
    ----------
    model : estimator, or a pipeline that ends in one
    centres : int

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge
    >>> from mercer.kernels import Gaussian
    >>> from mercer.persistence import compressed
    >>> X = np.random.default_rng(0).uniform(size=(200, 1))
    >>> model = KernelRidge(1e-3, kernel=Gaussian(0.5)).fit(X, np.sin(3 * X[:, 0]))
    >>> small = compressed(model, 12)
    >>> len(small.function_), bool(np.allclose(small.predict(X), model.predict(X), atol=1e-3))
    (12, True)
    """
    check_count("compressed", "centres", centres)
    if hasattr(model, "steps"):
        copied = copy.copy(model)
        name, last = model.steps[-1]
        copied.steps = [*model.steps[:-1], (name, compressed(last, centres))]
        return copied
    return compress(model, centres)


def load(path: Any, *, kernels: Sequence[type] = ()) -> Any:
    """The model in a file.

    Parameters
    ----------
    path : path
    kernels : sequence of classes
        Kernels (and losses) of your own that the model uses.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from mercer import KernelRidge
    >>> model = KernelRidge(kernel="rbf").fit(np.eye(3), [1.0, 2.0, 3.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load(save(model, f"{folder}/model.mercer"))
    >>> bool((again.predict(np.eye(3)) == model.predict(np.eye(3))).all())
    True
    """
    arrays, texts = container.read(path)
    written = texts.get("format", "")
    if written != f"mercer {FORMAT}":
        raise ModelFileError(
            f"{path} has the format {written!r}, and this version reads 'mercer {FORMAT}': it was "
            f"written by mercer {texts.get('version', 'of unknown version')}; this is "
            f"{__version__}."
        )
    try:
        return Reader(arrays, tuple(kernels)).value(json.loads(texts["description"]))
    except ModelFileError as refusal:
        raise ModelFileError(f"{path}: {refusal}{_age(texts)}") from None
    except Exception as refusal:  # whatever a class refuses: a file is never a traceback
        kind = type(refusal).__name__
        raise ModelFileError(
            f"{path} holds no valid model: {kind}: {refusal}{_age(texts)}"
        ) from None


def _age(texts: dict[str, str]) -> str:
    written = texts.get("version")
    if written == __version__:
        return ""
    return f" It was written by mercer {written}; this is {__version__}."


CENTRES = "X_fit_"
WORKING = ("_problems", "_known", "_sums", "_skl")  # what a fit leaves beside what it learned
LEFT_OUT = {"cache", "tuning"}  # computed again; numbers that only change how long a fit takes


# ---- writing -------------------------------------------------------------------------------------


class Writer:
    """Describes objects; their arrays are collected in `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.seen: dict[int, tuple[int, Any]] = {}  # the object is kept, so that its id stays its

    def described(self, value: Any, place: str) -> Any:
        """A value as JSON; `place` is where it stands, for refusals."""
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int:
            return value if abs(value) < 2**53 else {"integer": str(value)}
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is np.str_:
            return str(value)
        for kind, describe in self.WAYS:
            if isinstance(value, kind):
                return describe(self, value, place)
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"type": np.dtype(value).name}
        return self._object(value, place)

    def _list(self, value: Sequence[Any], place: str) -> Any:
        items = [self.described(item, f"{place}[{i}]") for i, item in enumerate(value)]
        if type(value) is list:
            return items
        return {"tuple": items} if type(value) is tuple else self._object(value, place)

    def _dict(self, value: Mapping[Any, Any], place: str) -> Any:
        pairs = [
            [self.described(key, f"a key of {place}"), self.described(item, f"{place}[{key!r}]")]
            for key, item in value.items()
        ]
        return {"dict": pairs}

    def _array(self, value: np.ndarray, place: str) -> Any:
        if value.dtype.newbyteorder("<") in TYPE_NAMES:
            number, _ = self.seen.setdefault(id(value), (len(self.seen), value))
            self.arrays[f"a{number}"] = value
            return {"array": f"a{number}"}
        if value.dtype.kind in "Mm":
            numbers = self._array(value.view(np.int64), place)["array"]
            return {"array": numbers, "unit": value.dtype.str.lstrip("<=|")}
        if value.dtype.kind in "UO":
            flat = [self.described(item, place) for item in value.ravel().tolist()]
            return {"objects": flat, "shape": list(value.shape), "type": value.dtype.str}
        raise ModelFileError(f"{place} is an array of {value.dtype}, which cannot be stored.")

    def _sparse(self, value: Any, place: str) -> Any:
        rows = value.tocsr()
        parts = [self._array(part, place) for part in (rows.data, rows.indices, rows.indptr)]
        old = isinstance(value, scipy.sparse.spmatrix)
        return {"csr": parts, "shape": list(rows.shape), "matrix": old}

    def _object(self, value: Any, place: str) -> Any:
        if id(value) in self.seen:
            return {"same": self.seen[id(value)][0]}
        name = name_of(type(value))
        if name is None and isinstance(value, (Kernel, Loss)) and dataclasses.is_dataclass(value):
            name = f"user.{type(value).__name__}"
        if name is None:
            raise ModelFileError(_refusal(value, place))
        number = len(self.seen)
        self.seen[id(value)] = number, value
        fields, learned = (
            {key: self.described(part, f"{place}.{key}") for key, part in parts.items()}
            for parts in _parts(value)
        )
        return {"class": name, "number": number, "fields": fields, "learned": learned}

    WAYS: ClassVar[list[tuple[Any, Callable[..., Any]]]] = [
        ((list, tuple), _list),
        (dict, _dict),
        (np.ndarray, _array),
        (np.generic, lambda self, v, place: {"scalar": self._array(np.asarray(v), place)}),
        ((scipy.sparse.spmatrix, scipy.sparse.sparray), _sparse),
    ]


def _parts(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of an object, and its fitted attributes."""
    if isinstance(value, BaseEstimator):
        fields = value.get_params(deep=False)
        ours = type(value).__module__.startswith("mercer.")
        learned = {
            name: part
            for name, part in vars(value).items()
            if name not in fields and not (ours and name.startswith(WORKING))
        }
        if CENTRES in learned and hasattr(learned.get("function_"), "centres"):
            learned[CENTRES] = None  # training rows are stored once, as those of the function
        return fields, learned
    if hasattr(value, "compact"):
        value = value.compact()  # points do not take along those that were not chosen
    if isinstance(value, Solution):
        value = replace(value, factor=None)  # it is computed again where it is needed
    made = [f.name for f in dataclasses.fields(value) if f.init and f.name not in LEFT_OUT]
    return {name: getattr(value, name) for name in made}, {}


def _refusal(value: Any, place: str) -> str:
    if inspect.isroutine(value):
        return (
            f"{place} is the function {value.__name__!r}, which a file cannot hold: write a kernel "
            "of your own as a dataclass derived from mercer.kernels.Kernel, or use pickle."
        )
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    return f"{place} is a {kind}, which cannot be stored. Pickle and skops store any estimator."


# ---- reading -------------------------------------------------------------------------------------


class Reader:
    """Makes objects from their description; `users` are classes of the user's own."""

    def __init__(self, arrays: Mapping[str, np.ndarray], users: Sequence[type] = ()) -> None:
        self.arrays, self.users = arrays, users
        self.made: dict[int, Any] = {}

    def value(self, described: Any) -> Any:
        """The value that was described."""
        if isinstance(described, list):
            return [self.value(item) for item in described]
        if not isinstance(described, dict):
            return described
        for key, read in self.KINDS.items():
            if key in described:
                return read(self, described)
        raise ModelFileError(f"the model holds an unknown kind of value: {list(described)[:5]}.")

    def _object(self, described: Mapping[str, Any]) -> Any:
        kind = class_of(described["class"], self.users)
        fields = {key: self.value(part) for key, part in described["fields"].items()}
        learned = {key: self.value(part) for key, part in described["learned"].items()}
        try:
            made = kind(**fields)
        except TypeError as refusal:
            raise ModelFileError(
                f"{kind.__name__} does not take what is stored: {refusal}"
            ) from None
        for name, part in learned.items():
            if name in fields or not name.isidentifier() or hasattr(kind, name):
                raise ModelFileError(f"{kind.__name__} learns nothing that is called {name!r}.")
            setattr(made, name, part)
        if CENTRES in learned and learned[CENTRES] is None:
            setattr(made, CENTRES, learned["function_"].centres)
        self.made[described["number"]] = made
        return made

    def _stored(self, described: Mapping[str, Any]) -> np.ndarray:
        array = self.arrays[described["array"]]
        return array.view(described["unit"]) if "unit" in described else array

    def _objects(self, described: Mapping[str, Any]) -> np.ndarray:
        dtype = np.dtype(str(described["type"]))
        if dtype.kind not in "UO" or dtype.itemsize > 4 << 20:
            raise ModelFileError(f"the model holds an array of {dtype} where texts are expected.")
        filled = np.empty(len(described["objects"]), dtype)
        for i, item in enumerate(described["objects"]):
            filled[i] = self.value(item)
        return filled.reshape(described["shape"])

    def _csr(self, described: Mapping[str, Any]) -> Any:
        kind = scipy.sparse.csr_matrix if described["matrix"] else scipy.sparse.csr_array
        parts = tuple(self._stored(part) for part in described["csr"])
        rows = kind(parts, shape=tuple(described["shape"]))
        rows.check_format(full_check=True)
        return rows

    KINDS: ClassVar[dict[str, Callable[..., Any]]] = {
        "class": _object,
        "same": lambda self, described: self.made[described["same"]],
        "array": _stored,
        "objects": _objects,
        "scalar": lambda self, described: self._stored(described["scalar"])[()],
        "csr": _csr,
        "tuple": lambda self, described: tuple(map(self.value, described["tuple"])),
        "dict": lambda self, described: {
            self.value(key): self.value(item) for key, item in described["dict"]
        },
        "integer": lambda self, described: int(described["integer"]),
        "float": lambda self, described: float(described["float"]),
        "type": lambda self, described: _number_type(described["type"]),
    }


def _number_type(name: Any) -> type:
    dtype = np.dtype(str(name))
    if dtype.newbyteorder("<") not in TYPE_NAMES:
        raise ModelFileError(f"the model names a type of numbers {name!r}, which is not known.")
    return dtype.type


# ---- the classes that a file may name ------------------------------------------------------------

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
    "learning": ("mercer.learning", "mercer.learning.local"),
    "estimators": (
        "mercer.estimators",
        "mercer.estimators.calibration",
        "mercer.estimators.pairs",
    ),
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
