"""The walks of docs/architecture.md are the ones that calls take; estimators are small.

What is above the wall knows nothing of a cluster.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import fields
from inspect import isclass, signature
from pathlib import Path

import numpy as np
import pytest

import mercer
from fuzz import inputs
from mercer import SVC, KernelRidge, features, online
from mercer.kernels import Gaussian
from mercer.online import OnlineKernelMachine

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("## Eight walks\n")[1]
WALKS = dict(re.findall(r"^\*\*(.*?), `.*?\*\*(.*?)(?=^\*\*|\Z)", PAGE, re.DOTALL | re.MULTILINE))
SOURCES = {path: path.read_text("utf-8") for path in (ROOT / "src" / "mercer").rglob("*.py")}
DEFINED = {path.stem for path in SOURCES} | {path.parent.name for path in SOURCES}
for _text in SOURCES.values():
    DEFINED.update(re.findall(r"\b(?:def|class) (\w+)", _text), re.findall(r"(\w+) *[:=]", _text))
RNG = np.random.default_rng(0)
X = RNG.uniform(size=(60, 2))
Y = X[:, 0] - X[:, 1]
LABELS = np.where(Y > 0, 1, -1)
CALLS = {
    "A product": lambda: Gaussian().gram(X) @ Y,
    "Ridge": lambda: KernelRidge(kernel="rbf").fit(X, Y),
    "Support vectors": lambda: SVC().fit(X, LABELS),
    "Centres": lambda: KernelRidge(kernel="rbf", centres=20, random_state=0).fit(X, Y),
    "A stream": lambda: OnlineKernelMachine().partial_fit(X, LABELS, classes=[-1, 1]).function_,
}


def names_in(text):
    """Give the names of modules, classes and functions among what is set as code."""
    quoted = re.findall(r"`([^`]*)`", text)
    plain = (re.match(r"[\w./]*", code.removesuffix(".py"))[0] for code in quoted)
    return [name.replace("/", ".") for name in plain if name]


def titles(frame):
    """Give the names by which a page may speak of a function: with its class, module, package."""
    path = Path(frame.f_code.co_filename)
    package, module = path.parent.name, path.stem
    owner, _, name = frame.f_code.co_qualname.rpartition(".")
    short = {name, owner, f"{owner}.{name}"}
    return (
        short
        | {f"{module}.{one}" for one in short}
        | {f"{package}.{one}" for one in (module, name)}
        | {module}
    )


def calls_of(work):
    """Give the titles of our functions that a piece of work calls, one after the other."""
    seen = []

    def look(frame, event, _):
        if event == "call" and "mercer/" in frame.f_code.co_filename.replace("\\", "/"):
            seen.append(titles(frame))

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize("walk", CALLS)
def test_calls_take_the_walk_of_the_page(walk):
    called, at = calls_of(CALLS[walk]), 0
    for step in WALKS[walk].split("→"):
        names = set(names_in(step))
        if not names:  # as "generated code", or what stands in words
            continue
        later = (i for i in range(at, len(called)) if names & called[i])
        at = next(later, None)
        assert at is not None, f"nothing of {sorted(names)} is called here"


@pytest.mark.parametrize("walk", WALKS)
def test_every_name_of_a_walk_exists(walk):
    for name in names_in(WALKS[walk]):
        for part in name.split("."):
            assert part in DEFINED, f"{part} of `{name}` is nowhere in src/mercer"


DOORS = {"solvers/admission.py", "features/inputs.py", "estimators/inputs.py"}
ABOVE = ("solvers", "estimators", "features", "functions", "losses", "learning", "online")
WRITTEN = {
    name: text
    for path, text in SOURCES.items()
    if (name := path.relative_to(ROOT / "src" / "mercer").as_posix()).startswith(ABOVE)
    if name not in DOORS
}


def traces_of_a_cluster(text):
    """Give what code knows of rows on workers: modules, places, tasks; not what it says of them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            module = getattr(node, "module", None)
            names += [module, *(f"{module}.{name}" for name in names)] if module else []
            behind = {"mercer.distributed", "mercer.evaluation.cluster", "distributed", "dask"}
            yield from (name for name in names if behind & {*_packages(name)})
        elif isinstance(node, ast.Attribute) and node.attr == "placement":
            yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and node.value in ("cluster", "mercer.distributed"):
            yield repr(node.value)


def _packages(name):
    parts = name.split(".")
    return [".".join(parts[:k]) for k in range(1, len(parts) + 1)]


def test_solvers_and_fits_know_nothing_of_a_cluster():
    """One module of each layer admits arrays; behind it rows on workers are an array as others."""
    assert len(WRITTEN) > 100
    found = {name: list(traces_of_a_cluster(text)) for name, text in WRITTEN.items()}
    assert {name: traces for name, traces in found.items() if traces} == {}


@pytest.mark.parametrize(
    "code",
    [
        "from mercer.distributed import Rows",
        "def f():\n    from mercer.distributed.rows import smallest",
        "from mercer import distributed",
        "import mercer.evaluation.cluster",
        "import dask.array as da",
        'x.home == "cluster"',
        "rows.placement.lengths",
    ],
)
def test_traces_of_a_cluster_are_seen(code):
    assert list(traces_of_a_cluster(code))


def extent_of(work):
    """Give how many of our functions a piece of work runs through, and how deep."""
    seen, depth, deepest = set(), 0, 0

    def look(frame, event, _):
        nonlocal depth, deepest
        if "mercer/" in frame.f_code.co_filename.replace("\\", "/"):
            depth += (event == "call") - (event == "return")
            deepest = max(deepest, depth)
            seen.add((frame.f_code.co_filename, frame.f_code.co_name))

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(seen), deepest


def test_a_reader_need_not_walk_far():
    """Who follows a product or a small ridge fit reads this many functions, this deep."""
    rows = RNG.normal(size=(400, 3))
    for (most, deepest), work in {
        (50, 8): lambda: Gaussian().gram(rows) @ rows[:, 0],
        (120, 12): lambda: KernelRidge(alpha=0.1, kernel="rbf").fit(rows, rows[:, 0]),
    }.items():
        work()  # what is made once is not counted
        functions, depth = extent_of(work)
        assert functions <= most
        assert depth <= deepest


ESTIMATORS = {
    name: thing
    for home in (mercer, features, online)
    for name in home.__all__
    if isclass(thing := getattr(home, name)) and hasattr(thing, "fit")
    if name not in ("FeatureMap", "OnlineMachine")  # the bases of many
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_three_classes_of_ours_are_enough_below_an_estimator(name):
    bases = ESTIMATORS[name].__mro__[1:]
    assert len([base for base in bases if base.__module__.startswith("mercer.")]) <= 3


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_are_declared_once(name):
    """As fields, from which the constructor is made."""
    kind = ESTIMATORS[name]
    declared = [field.name for field in fields(kind) if field.init]
    assert sorted(signature(kind).parameters) == sorted(declared)


SMALL = RNG.uniform(size=(24, 1))
SIDES = np.where(SMALL[:, 0] > 0.5, 1, 0)
MAKERS = {
    type(make()).__name__: (make, y)
    for makers, y in (
        (inputs.REGRESSORS, SMALL[:, 0]),
        (inputs.CLASSIFIERS, SIDES),
        (inputs.SEARCHES, SIDES),
        (inputs.UNSUPERVISED, None),
        (inputs.MAPS, None),
        (inputs.ONLINE, SIDES),
    )
    for make in makers
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAKERS)
def test_a_fit_sets_no_parameter(name, monkeypatch):
    make, y = MAKERS[name]
    model, written = make(), []
    before = model.get_params(deep=False)

    def note(self, name, value):
        written.append(name)
        object.__setattr__(self, name, value)

    monkeypatch.setattr(type(model), "__setattr__", note, raising=False)
    model.fit(SMALL, y)
    assert not set(written) & set(before)
    assert all(value is before[name] for name, value in model.get_params(deep=False).items())


# Names that start with an underscore and belong to others: notebooks, river, os, named tuples.
OF_OTHERS = {
    "_repr_html_", "_repr_mimebundle_", "_unit_test_params", "_unit_test_skips", "_exit",
    "_replace",
}  # fmt: skip


def private(name):
    return name.startswith("_") and not name.endswith("__") and name not in OF_OTHERS


def private_names_in(tree):
    """Give those that a module takes from another, as an attribute, by import or by patching."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) if private(name):
                yield node.lineno, name
            case ast.ImportFrom(names=names):
                yield from ((node.lineno, one.name) for one in names if private(one.name))
            case ast.Call(
                func=ast.Attribute(attr="setattr" | "delattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ) if private(name):
                yield node.lineno, name


def test_private_names_are_looked_for():
    text = "import a\na._b\nfrom a import _c\nself._d\npatch.setattr(a, '_e', 1)\na.__dict__\n"
    assert sorted(private_names_in(ast.parse(text))) == [(2, "_b"), (3, "_c"), (5, "_e")]


def test_only_tests_of_evaluation_reach_private_names():
    here = ROOT / "tests"
    found = [
        f"{path.relative_to(here)}:{line} {name}"
        for path in here.rglob("*.py")
        if path.parent.name != "evaluation"
        for line, name in private_names_in(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []


def test_a_constant_of_one_name_stands_in_one_module():
    """But for `TUNING`, the numbers of the algorithm of a module, with their reasons."""
    homes = {}
    for path, text in SOURCES.items():
        for node in ast.parse(text).body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)]) if name.isupper() and name != "TUNING":
                    homes.setdefault(name, set()).add(str(path))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_tests_patch_no_constants_but_whole_tunings():
    patched = {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(
            r"setattr\([^\"()]*\"(?:[\w.]*\.)?([A-Z_]+)\"", path.read_text("utf-8")
        )
    }
    assert patched == {"TUNING"}


PLACES = re.compile("is_tensor|torch|on_host|[Dd]evice")
ADMITTING = {"estimators/inputs.py", "features/inputs.py", "solvers/admission.py"}


def names_of_places_in(tree):
    """Give what a module asks of the place of an array; `device` may be declared as a parameter."""
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(target=ast.Name(id="device")):
                node.target.id = "declared"
            case ast.Name(id=name) | ast.Attribute(attr=name) if PLACES.search(name):
                yield node.lineno, name
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                yield from ((node.lineno, one.name) for one in names if PLACES.search(one.name))


def test_places_are_looked_for():
    text = "device: str = None\nfrom a import is_tensor\nx.device\nif on_host(x): pass"
    found = names_of_places_in(ast.parse(text))
    assert sorted(found) == [(2, "is_tensor"), (3, "device"), (4, "on_host")]


@pytest.mark.parametrize("package", ["solvers", "estimators", "features", "functions", "online"])
def test_one_module_of_a_package_asks_where_arrays_are(package):
    home = ROOT / "src" / "mercer"
    found = [
        f"{path.relative_to(home)}:{line} {name}"
        for path in (home / package).rglob("*.py")
        if path.relative_to(home).as_posix() not in ADMITTING
        for line, name in names_of_places_in(ast.parse(SOURCES[path]))
    ]
    assert found == []
