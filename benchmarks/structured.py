"""The figures of kernels on strings, trees, graphs and mixed tables.

Peers: GraKeL for graphs, on the same graphs and with the same matrix; a straight dynamic program in
NumPy for strings and a recursive one in Python for trees, both on some of the pairs, the time for
all of them being in proportion; gradient boosting of scikit-learn for tables.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC as PeerSVC
from sklearn.svm import LinearSVC

from benchmarks import data, measure
from benchmarks.measure import Effort, Groups, Row
from mercer import SVC, KernelClassifier, KernelRidge
from mercer.features import ExplicitFeatures
from mercer.structured import (
    BlendedSpectrum,
    GapWeighted,
    Graphlets,
    ShortestPath,
    Spectrum,
    SubsetTrees,
    WeightedDegree,
    WeisfeilerLehman,
    table_kernel,
)

COSTS = {"C": np.logspace(-3, 3, 7)}
PUBLISHED = {  # accuracies of WL with ten folds: Shervashidze et al., 2011; Xu et al., 2019
    "MUTAG": "82.1% and 90.4%",
    "PTC": "59.9%",
    "ENZYMES": "52.2%",
    "NCI1": "82.2% and 86.0%",
}


def grakel() -> Any:
    return importlib.import_module("grakel")


def as_grakel(pairs: list[Any]) -> list[Any]:
    """Graphs in GraKeL's form: edges in both directions, labels by node."""
    result = []
    for edges, labels in pairs:
        both = {(int(u), int(v)): 1.0 for a, b in edges for u, v in ((a, b), (b, a))}
        adjacency = both or {i: {} for i in range(len(labels))}
        result.append(grakel().Graph(adjacency, node_labels=dict(enumerate(labels))))
    return result


# ---- graphs --------------------------------------------------------------------------------------


def weisfeiler_lehman(effort: Effort) -> Iterator[Row]:
    pairs, _, _ = data.graphs("NCI1")
    pairs = pairs[: effort.size(len(pairs))]
    theirs = as_grakel(pairs)
    matrices = {}

    def ours() -> None:
        matrices["mercer"] = WeisfeilerLehman(5)(pairs)

    def peer() -> None:
        matrices["GraKeL"] = grakel().WeisfeilerLehman(n_iter=5).fit_transform(theirs)

    times = measure.interleaved({"mercer": ours, "GraKeL": peer}, {"mercer": 5, "GraKeL": 2})
    yield measure.faster(
        f"Weisfeiler–Lehman, 5 rounds, Gram matrix of NCI1, {len(pairs):,} graphs",
        times,
        "GraKeL",
        len(pairs) ** 2,
        floor=5.0,
        error=measure.relative_error(matrices["mercer"], matrices["GraKeL"]),
        note="ours reads the graphs within its time",
    )


def paths_and_graphlets(effort: Effort) -> Iterator[Row]:
    pairs, _, _ = data.graphs("ENZYMES")
    pairs = pairs[: effort.size(len(pairs))]
    theirs = as_grakel(pairs)
    works: dict[str, tuple[Any, Callable[[], Any]]] = {
        "shortest paths": (ShortestPath(), lambda: grakel().ShortestPath()),
        "3-graphlets": (Graphlets(3), lambda: grakel().GraphletSampling(k=3)),
    }
    for name, (kernel, peer) in works.items():
        matrices = {}

        def run_ours(kernel: Any = kernel, matrices: Any = matrices) -> None:
            matrices["mercer"] = kernel(pairs)

        def run_peer(peer: Any = peer, matrices: Any = matrices) -> None:
            matrices["GraKeL"] = peer().fit_transform(theirs)

        times = measure.interleaved(
            {"mercer": run_ours, "GraKeL": run_peer}, {"mercer": 5, "GraKeL": 3}
        )
        reference, note = matrices["GraKeL"], "the error is the difference to the peer"
        if name == "3-graphlets":
            counts = np.array([open_and_closed(edges, len(labels)) for edges, labels in pairs])
            reference = counts @ counts.T
            off = measure.relative_error(matrices["GraKeL"], reference)
            note = (
                "the error is the difference to counts by degrees and triangles; that of the peer, "
                f"which counts the first graphlet of a kind twice and misses others, is {off:.1e}"
            )
        yield measure.faster(
            f"{name}, Gram matrix of ENZYMES, {len(pairs):,} graphs",
            times,
            "GraKeL",
            len(pairs) ** 2,
            floor=5.0,
            error=measure.relative_error(matrices["mercer"], reference),
            note=note,
        )


def open_and_closed(edges: Any, nodes: int) -> tuple[float, float]:
    """The connected subgraphs of three nodes, Σ d(d − 1)/2 − 3t with two edges and t triangles."""
    A = np.zeros((nodes, nodes))
    A[edges[:, 0], edges[:, 1]] = A[edges[:, 1], edges[:, 0]] = 1.0
    np.fill_diagonal(A, 0.0)
    degrees, triangles = A.sum(axis=1), np.trace(A @ A @ A) / 6
    return float((degrees * (degrees - 1) / 2).sum() - 3 * triangles), float(triangles)


def accuracies(effort: Effort) -> Iterator[Row]:
    """Ten given folds, C by five folds within the training part of each."""
    for name in ("MUTAG", "PTC", "ENZYMES", "NCI1"):
        pairs, y, folds = data.graphs(name)
        own = WeisfeilerLehman(5).normalised()
        ours, took = measure.timed(
            lambda: folded(SVC(kernel="precomputed"), own(pairs), y, folds, effort)  # noqa: B023
        )
        peer = grakel().WeisfeilerLehman(n_iter=5, normalize=True).fit_transform(as_grakel(pairs))
        theirs = folded(PeerSVC(kernel="precomputed"), peer, y, folds, effort)
        yield Row(
            f"accuracy by ten folds, WL and SVC, C chosen within each: {name}",
            100 * (ours - theirs),
            " points above the peer",
            peer="GraKeL and scikit-learn's SVC",
            floor=-1.5,
            note=f"ours {100 * ours:.1f}%, theirs {100 * theirs:.1f}%, published {PUBLISHED[name]}"
            f"; ours took {took:.0f} s",
        )


def folded(model: Any, K: Any, y: Any, folds: list[Any], effort: Effort) -> float:
    """The share of right predictions over the folds."""
    right = total = 0
    for test in folds[: 2 if effort.quick else 10]:
        train = np.setdiff1d(np.arange(len(y)), test)
        search = GridSearchCV(model, COSTS, cv=5).fit(K[np.ix_(train, train)], y[train])
        right += int((search.predict(K[np.ix_(test, train)]) == y[test]).sum())
        total += len(test)
    return right / total


# ---- strings -------------------------------------------------------------------------------------


def subsequences(effort: Effort) -> Iterator[Row]:
    names, _ = data.strings("surnames_18lang")
    random = np.random.default_rng(0)
    names = [names[i] for i in random.permutation(len(names))[: effort.size(1000)]]
    few = names[:24]
    exact = np.array([[numpy_gap_weighted(x, y, 4, 0.5) for y in few] for x in few])
    n = len(names)
    all_pairs = n * (n + 1) / 2
    times = measure.interleaved(
        {
            "mercer": lambda: GapWeighted(4, 0.5)(names),
            "NumPy": lambda: [
                numpy_gap_weighted(few[i], few[j], 4, 0.5) for i in range(24) for j in range(i + 1)
            ],
        },
        3,
    )
    times["NumPy"] *= all_pairs / 300
    yield measure.faster(
        f"gap-weighted subsequences, p = 4, Gram matrix of {n:,} surnames",
        times,
        "NumPy",
        n * n,
        floor=50.0,
        error=measure.relative_error(GapWeighted(4, 0.5)(few), exact),
        note="the peer was timed on 300 pairs",
    )


def numpy_gap_weighted(x: str, y: str, length: int, decay: float) -> float:
    """The dynamic program of Lodhi et al., row by row in NumPy."""
    s, t = (np.frombuffer(text.encode("utf-32-le"), np.uint32) for text in (x, y))
    n, m = len(s), len(t)
    before = np.ones((n + 1, m + 1))
    powers = decay ** np.arange(m + 1)
    for _ in range(length - 1):
        after = np.zeros((n + 1, m + 1))
        for i in range(1, n + 1):
            matches = np.where(t == s[i - 1], before[i - 1, :m], 0.0) * decay**2
            along = np.cumsum(matches / powers[:m]) * powers[:m]
            after[i, 1:] = decay * after[i - 1, 1:] + along
        before = after
    total = 0.0
    for i in range(1, n + 1):
        total += decay**2 * before[i - 1, :m][t == s[i - 1]].sum()
    return float(total)


def splice(effort: Effort) -> Iterator[Row]:
    strings, y = data.strings("splice")
    count = effort.size(len(strings))
    strings, y = strings[:: len(strings) // count][:count], y[:: len(y) // count][:count]
    times = measure.interleaved({"mercer": lambda: Spectrum(5)(strings)}, 5)
    errors = {}
    for name, kernel in {
        "5-spectrum": Spectrum(5).normalised(),
        "weighted degree 5": WeightedDegree(5).normalised(),
    }.items():
        errors[name] = ridge_error(kernel, strings, y)
    yield measure.taken(
        f"5-spectrum, Gram matrix of {count:,} splice sequences",
        times["mercer"],
        entry_ns=1e9 * times["mercer"] / count**2,
        floor=1.0,
        note="error of ridge by ten folds: "
        + ", ".join(f"{name} {100 * error:.1f}%" for name, error in errors.items()),
    )
    yield measure.smaller(
        "splice sites: error of the weighted-degree kernel, of that of the 5-spectrum",
        errors["weighted degree 5"] / errors["5-spectrum"],
        floor=1.0,
    )


def ridge_error(kernel: Any, X: Any, y: Any) -> float:
    classes, codes = np.unique(y, return_inverse=True)
    folds = KFold(10, shuffle=True, random_state=0)
    model = KernelRidge(kernel=kernel, alpha=0.1)
    values = cross_val_predict(model, X, 2.0 * np.eye(len(classes))[codes] - 1.0, cv=folds)
    return float((values.argmax(axis=1) != codes).mean())


def surnames(effort: Effort) -> Iterator[Row]:
    """Ridge with a target for each language; products with K are linear in the number of names."""
    names, y = data.strings("surnames_18lang")
    order = np.random.default_rng(0).permutation(len(names))[: effort.size(len(names))]
    names, y = [f"^{names[i]}$" for i in order], y[order]
    cut = len(names) * 4 // 5
    kernel = BlendedSpectrum(5, decay=1.5).normalised()

    def ridge() -> float:
        classes, codes = np.unique(y, return_inverse=True)
        targets = np.eye(len(classes))[codes]
        model = KernelRidge(kernel=kernel, alpha=1.0).fit(names[:cut], targets[:cut])
        return float((model.predict(names[cut:]).argmax(axis=1) != codes[cut:]).mean())

    def linear() -> float:
        model = make_pipeline(ExplicitFeatures(kernel), LinearSVC()).fit(names[:cut], y[:cut])
        return float((model.predict(names[cut:]) != y[cut:]).mean())

    for name, work in {"KernelRidge": ridge, "LinearSVC on explicit features": linear}.items():
        wrong, took = measure.timed(work)
        yield measure.taken(
            f"surnames in 18 languages, {len(names):,} strings, blended spectrum of 1 to 5 "
            f"letters, {name}",
            took,
            floor=60.0,
            note=f"fit and predict; error {100 * wrong:.1f}% on a fifth of the names",
        )


# ---- trees ---------------------------------------------------------------------------------------


def trees(effort: Effort) -> Iterator[Row]:
    texts = data.trees(effort.size(2000))
    few = texts[:20]
    nested = [list(nodes_of(tree)) for tree in SubsetTrees().points(few)]
    n = len(texts)

    def peer() -> list[float]:
        return [
            recursive_subset_trees(nested[i], nested[j], 0.4)
            for i in range(20)
            for j in range(i + 1)
        ]

    works = {"mercer": lambda: SubsetTrees(0.4)(texts), "recursion": peer}
    times = measure.interleaved(works, {"mercer": effort.repeats(2), "recursion": 2})
    times["recursion"] *= n * (n + 1) / 2 / 210
    places = np.tril_indices(20)
    yield measure.faster(
        f"subset trees, Gram matrix of {n:,} trees of the Stanford Sentiment Treebank",
        times,
        "recursion",
        n * n,
        floor=20.0,
        error=measure.relative_error(SubsetTrees(0.4)(few)[places], np.array(peer())),
        note="the peer is a recursive Python function with a table, timed on 210 pairs",
    )


def nodes_of(tree: Any) -> Iterator[Any]:
    """All nodes that have children, as (production, children)."""
    if isinstance(tree, tuple) and len(tree) > 1:
        labels = tuple(c[0] if isinstance(c, tuple) else c for c in tree[1:])
        yield (tree[0], labels), tree, tree[1:]
        for child in tree[1:]:
            yield from nodes_of(child)


def recursive_subset_trees(x: list[Any], y: list[Any], decay: float) -> float:
    productions = {id(tree): production for production, tree, _ in (*x, *y)}
    table: dict[tuple[int, int], float] = {}

    def delta(u: Any, v: Any) -> float:
        key = id(u), id(v)
        if key not in table:
            left, right = productions.get(key[0]), productions.get(key[1])
            value = 0.0
            if left is not None and left == right:
                value = decay
                for c, d in zip(u[1:], v[1:], strict=True):
                    value *= 1.0 + delta(c, d)
            table[key] = value
        return table[key]

    return sum(delta(u, v) for _, u, _ in x for _, v, _ in y)


# ---- tables --------------------------------------------------------------------------------------


def tables(effort: Effort) -> Iterator[Row]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    frame, X, y, train, test = data.adult()
    train = train[: effort.size(len(train))]
    settings: Any = {"loss": "log_loss", "regularization": 1e-5, "random_state": 0}

    def ours() -> float:
        kernel, count = table_kernel(frame.iloc[train]), effort.size(2000)
        model = KernelClassifier(kernel=kernel, centres=count, **settings)
        model.fit(frame.iloc[train], y[train])
        return float((model.predict(frame.iloc[test]) != y[test]).mean())

    def theirs() -> float:
        model = HistGradientBoostingClassifier(random_state=0).fit(X[train], y[train])
        return float((model.predict(X[test]) != y[test]).mean())

    (wrong, seconds), (theirs_wrong, peer) = measure.timed(ours), measure.timed(theirs)
    yield measure.smaller(
        f"adult, {len(train):,} rows, table_kernel with logistic loss on centres",
        100 * (wrong - theirs_wrong),
        " points of error above the peer",
        peer="HistGradientBoosting on one-hot columns",
        ours_ms=1e3 * seconds,
        peer_ms=1e3 * peer,
        floor=0.5,
        note=f"errors {100 * wrong:.2f}% and {100 * theirs_wrong:.2f}% on {len(test):,} rows; "
        "times are of fit and predict",
    )


GROUPS: Groups = {
    "wl": weisfeiler_lehman,
    "paths": paths_and_graphlets,
    "accuracy": accuracies,
    "subsequences": subsequences,
    "splice": splice,
    "surnames": surnames,
    "trees": trees,
    "adult": tables,
}


run = partial(measure.measured, "Kernels on strings, trees, graphs and tables", GROUPS)
