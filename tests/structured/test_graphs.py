"""Kernels on graphs against their definition on all small graphs, and against networkx."""

from __future__ import annotations

from collections import Counter

import networkx
import numpy as np
import pytest
from hypothesis import given, settings

from mercer.kernels import Gaussian
from mercer.structured import (
    Graph,
    Graphlets,
    PropagatedAttributes,
    RandomWalk,
    ShortestPath,
    WeisfeilerLehman,
    WeisfeilerLehmanAssignment,
    from_networkx,
)
from mercer.structured.graphs import GraphPoints
from mercer.testing import check_kernel, strategies
from structured_oracles import (
    adjacency,
    best_assignment,
    gram,
    graphlets,
    graphs,
    labels_of,
    random_walks,
    weisfeiler_lehman,
)

SMALL = [g for n in range(5) for g in graphs(n)]


def random_graphs(count, labels, seed=0, loops=False):
    random = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        n = int(random.integers(1, 9))
        pairs = [(u, v) for v in range(n) for u in range(v + loops)]
        edges = [pair for pair in pairs if random.random() < 0.4]
        result.append((edges, random.choice(list(labels), n).tolist()))
    return result


LABELLED = [([], []), *random_graphs(12, "CNO"), *random_graphs(3, "CNO", 1, loops=True)]


def paths(graph):
    """By networkx: ordered pairs of nodes by labels and distance."""
    G = networkx.Graph()
    G.add_nodes_from(range(len(labels_of(graph))))
    G.add_edges_from(graph[0])
    labels = labels_of(graph)
    lengths = dict(networkx.all_pairs_shortest_path_length(G))
    return Counter(
        (labels[u], labels[v], d) for u in lengths for v, d in lengths[u].items() if u != v
    )


FEATURES = {
    "wl-0": (WeisfeilerLehman(0), lambda g: weisfeiler_lehman(g, 0)),
    "wl-3": (WeisfeilerLehman(3), lambda g: weisfeiler_lehman(g, 3)),
    "shortest-path": (ShortestPath(), paths),
    "graphlets-3": (Graphlets(3), lambda g: graphlets(g, 3)),
    "graphlets-4": (Graphlets(4), lambda g: graphlets(g, 4)),
    "graphlets-5": (Graphlets(5), lambda g: graphlets(g, 5)),
}


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("X", [SMALL, LABELLED], ids=["small", "labelled"])
def test_values_are_those_of_the_definition(name, X):
    kernel, features = FEATURES[name]
    exact = gram(features, X)
    points = kernel.points(X)
    np.testing.assert_allclose(kernel(points), exact, rtol=1e-12)
    np.testing.assert_allclose(kernel.gram(points).diagonal(), np.diagonal(exact), rtol=1e-12)
    phi = kernel.features(points)
    np.testing.assert_allclose((phi @ phi.T).toarray(), exact, rtol=1e-12)


GRAKEL = {"ShortestPath": ShortestPath(), "WeisfeilerLehman": WeisfeilerLehman(3)}


@pytest.mark.parametrize("name", GRAKEL)
def test_values_are_those_of_grakel(name):
    """Where GraKeL is installed; the benchmarks compare with it on real graphs, too."""
    grakel = pytest.importorskip("grakel")
    graphs = [networkx.gnp_random_graph(8, 0.4, seed=seed) for seed in range(12)]
    pairs = [(np.array(G.edges), ["CNO"[i % 3] for i in G]) for G in graphs]
    theirs = [
        grakel.Graph({(u, v): 1.0 for a, b in G.edges for u, v in ((a, b), (b, a))},
                     node_labels={i: "CNO"[i % 3] for i in G})
        for G in graphs
    ]  # fmt: skip
    options = {"n_iter": 3} if name == "WeisfeilerLehman" else {}
    K = getattr(grakel, name)(**options).fit_transform(theirs)
    np.testing.assert_array_equal(GRAKEL[name](pairs), K)


@pytest.mark.parametrize("name", FEATURES)
def test_new_graphs_with_unseen_labels(name):
    kernel, features = FEATURES[name]
    new = [([(0, 1), (1, 2)], ["C", "X", "N"]), ([], ["new"])]
    expected = gram(features, new, LABELLED)
    np.testing.assert_allclose(kernel(new, LABELLED), expected, rtol=1e-12)


def test_assignments_are_the_best_ones():
    kernel = WeisfeilerLehmanAssignment(2)
    exact = [[best_assignment(x, y, 2) for y in LABELLED] for x in LABELLED]
    np.testing.assert_array_equal(kernel(LABELLED), exact)
    phi = kernel.features(kernel.points(LABELLED))
    np.testing.assert_array_equal((phi @ phi.T).toarray(), exact)


@pytest.mark.parametrize("steps", [None, 3])
@pytest.mark.parametrize("by_degree", [False, True])
@pytest.mark.parametrize("labelled", [False, True])
def test_walks_in_product_graphs(steps, by_degree, labelled):
    X = [g if labelled else (g[0], len(g[1])) for g in LABELLED[1:]]
    kernel = RandomWalk(0.9 if by_degree else 0.02, steps, by_degree)
    exact = [[random_walks(x, y, kernel.decay, steps, by_degree) for y in X] for x in X]
    np.testing.assert_allclose(kernel(X), exact, rtol=1e-11)
    np.testing.assert_allclose(kernel.gram(X).diagonal(), np.diagonal(exact), rtol=1e-11)


def test_walks_that_do_not_converge_are_refused():
    triangle, star = ([(0, 1), (1, 2), (2, 0)], 3), ([(0, i) for i in range(1, 10)], 10)
    kernel = RandomWalk(0.2)
    kernel(triangle, triangle)
    with pytest.raises(ValueError, match="item 1 has an adjacency matrix with the eigenvalue 3"):
        kernel([triangle, star])
    with pytest.raises(ValueError, match=r"a decay below 1/3² = 0.111, and has 0.2: write a small"):
        kernel([triangle], [star])  # an unseen graph
    assert np.isfinite(RandomWalk(0.2, by_degree=True)([triangle, star])).all()
    assert np.isfinite(RandomWalk(0.2, steps=5)([triangle, star])).all()


def test_edge_labels_count():
    single, double = (Graph([(0, 1)], ["C", "C"], edge_labels=[kind]) for kind in "-=")
    kernel = WeisfeilerLehman(1)
    assert kernel(single, single) == 8
    assert kernel(single, double) == 4


def test_attributes_spread_over_edges():
    random = np.random.default_rng(0)
    X = [Graph(g[0], len(g[1]), random.standard_normal((len(g[1]), 2))) for g in LABELLED]
    bags = []
    for g in X:
        A, rows = adjacency((g.edges, g.labels)), [g.attributes]
        degrees = np.maximum(A.sum(axis=1), 1)[:, None]
        for _ in range(2):
            mean = np.where(A.sum(axis=1)[:, None] > 0, A @ rows[-1] / degrees, rows[-1])
            rows.append((rows[-1] + mean) / 2)
        bags.append(np.concatenate(rows, axis=1))
    k = Gaussian(1.2)
    exact = [[k(a, b).mean() if len(a) and len(b) else 0.0 for b in bags] for a in bags]
    np.testing.assert_allclose(PropagatedAttributes(2, k)(X), exact, rtol=1e-12)
    labelled = [g._replace(labels=list("ab" * 9)[: g.labels]) for g in X]
    K = PropagatedAttributes(2, k)(labelled)
    assert (np.array(exact) + 1e-12 >= K).all()
    assert np.linalg.eigvalsh(K)[0] > -1e-10


# ---- contract ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel",
    [
        WeisfeilerLehman(2),
        WeisfeilerLehmanAssignment(2).normalised(),
        ShortestPath().normalised(),
        Graphlets(4),
        RandomWalk(0.02),
        RandomWalk(0.5, by_degree=True),
        RandomWalk(0.3, steps=4),
    ],
)
def test_contract(kernel):
    check_kernel(kernel, LABELLED[:9])


@settings(max_examples=8)
@given(strategies.graphs())
def test_contract_on_random_graphs(X):
    check_kernel(WeisfeilerLehman(2).normalised(), X)
    check_kernel(RandomWalk(0.9, by_degree=True), X)


@settings(max_examples=5)
@given(strategies.graphs(labels=None, width=2))
def test_contract_on_random_graphs_with_attributes(X):
    check_kernel(PropagatedAttributes(1), X)
    check_kernel(RandomWalk(0.01), X)


# ---- what is read --------------------------------------------------------------------------------


def test_graphs_of_networkx():
    path = networkx.path_graph(3)
    networkx.set_node_attributes(path, dict(enumerate("COC")), "label")
    renamed = networkx.relabel_nodes(path, {0: "x", 1: "y", 2: "z"})
    plain = ([(0, 1), (1, 2)], ["C", "O", "C"])
    K = ShortestPath()([path, renamed, plain])
    assert (K[0, 0] == K).all()
    assert ShortestPath()(path, plain) == K[0, 0]
    networkx.set_node_attributes(path, dict(enumerate("abc")), "element")
    assert from_networkx(path, label="element").labels == ["a", "b", "c"]
    with pytest.raises(ValueError, match="item 1 is no graph: it is directed: write graph"):
        ShortestPath().points([path, networkx.DiGraph([(0, 1)])])
    path.nodes[1].pop("label")
    with pytest.raises(ValueError, match="item 0 is no graph: 1 of its 3 nodes have no 'label'"):
        ShortestPath().points([path])


def test_edges_in_both_directions_and_twice_are_one():
    once, often = ([(0, 1)], 2), ([(0, 1), (1, 0), (0, 1)], 2)
    assert RandomWalk(0.1)(once, often) == RandomWalk(0.1)(once, once)


def test_graphs_come_back_as_they_were():
    graph = Graph(np.array([[0, 0], [0, 2]]), ["a", 1, ("b", 2)], np.eye(3), ["-", "="])
    again = GraphPoints.read([graph]).data[0]
    assert again.labels == graph.labels
    assert again.edge_labels == graph.edge_labels
    np.testing.assert_array_equal(again.edges, graph.edges)
    np.testing.assert_array_equal(again.attributes, graph.attributes)
    points = GraphPoints.read(LABELLED)
    assert [g.labels for g in points.take([4, 0, 2]).compact()] == [
        LABELLED[i][1] for i in (4, 0, 2)
    ]
    kernel = WeisfeilerLehman(2)
    both = points.take([4, 2]).concatenated(GraphPoints.read(LABELLED[5:7]))
    np.testing.assert_array_equal(kernel(both), kernel([LABELLED[i] for i in (4, 2, 5, 6)]))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (
            [([], 1), ([(0, 2)], 2)],
            "item 1 is no graph: an edge leads to node 2; there are 2",
        ),
        (
            [([(0, 1, 2)], 3)],
            r"item 0 is no graph: edges are pairs.*shape \(1, 3\)",
        ),
        ([([(0.5, 1)], 3)], "item 0 is no graph: edges are pairs of node numbers"),
        ([([], 1), "C-O"], "item 1 is no graph: write a pair"),
        ([([], ["a"]), ([], 1)], "item 1 has no labels, and item 0 has labels"),
        ([([], -1)], "item 0 is no graph: the number of nodes is ≥ 0; got -1"),
        ([([], [object()])], "item 0 is no graph: .* cannot be a symbol"),
        ([Graph([(0, 1)], 2, edge_labels=["a", "b"])], "2 edge labels were given for 1 edges"),
        ([Graph([(0, 1)], 2, [[1.0]])], "attributes need a row for each of 2 nodes"),
        ([Graph([], 1, [[np.nan]])], "its attributes contain NaN"),
    ],
)
def test_bad_graphs_are_named(X, message):
    with pytest.raises(ValueError, match=message):
        WeisfeilerLehman().points(X)


def test_bad_parameters_and_pairs():
    with pytest.raises(ValueError, match="rounds ≥ 0; got -1"):
        WeisfeilerLehman(-1)
    with pytest.raises(ValueError, match="size of 3, 4 or 5 nodes; got 6"):
        Graphlets(6)
    with pytest.raises(ValueError, match="steps ≥ 1, or None for all; got 0"):
        RandomWalk(steps=0)
    with pytest.raises(ValueError, match="0 < decay < 1"):
        RandomWalk(1.5, by_degree=True)
    with pytest.raises(ValueError, match="item 0 has no attributes"):
        PropagatedAttributes()([([(0, 1)], 2)])
    with pytest.raises(ValueError, match="one side has graphs with labels, the other without"):
        ShortestPath()([([], ["a"])], [([], 1)])
