"""Kernels on graphs: labels that take in their neighbours, paths, graphlets and walks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from itertools import permutations
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse

from mercer.checks import check_between, check_positive, is_count
from mercer.kernels.base import Kernel, checked
from mercer.kernels.facts import Facts
from mercer.kernels.radial import Gaussian
from mercer.structured.base import (
    Coder,
    Hashes,
    StructuredKernel,
    StructuredPoints,
    as_items,
    bad_item,
    check_whole,
    gathered,
    mixed,
    offsets,
)
from mercer.structured.sets import MeanMap, check_inner, segment_means
from mercer.structured.sparse import FeatureRows, MinimumKernel, SparseKernel


class Graph(NamedTuple):
    """An undirected graph: edges, and what is known of its nodes and edges.

    A plain pair (edges, labels) will do as well.

    Parameters
    ----------
    edges : array of shape (m, 2)
        The two nodes of each edge, counted from 0. Edges in both directions, or twice, are one.
    labels : sequence, int or None
        A label for each node; the number of nodes, where they have none; None for as many nodes as
        the edges name.
    attributes : array of shape (n, d) or None
        Numbers for each node.
    edge_labels : sequence or None
        A label for each edge.

    Examples
    --------
    >>> from mercer.structured import WeisfeilerLehman
    >>> path = Graph([(0, 1), (1, 2)], labels=["C", "C", "O"])
    >>> WeisfeilerLehman(0)([path])  # two C and one O: 2² + 1²
    array([[5.]])
    """

    edges: Any
    labels: Any = None
    attributes: Any = None
    edge_labels: Any = None


def from_networkx(
    graph: Any, label: str = "label", attributes: str = "attributes", edge_label: str = "label"
) -> Graph:
    """A graph of networkx, with the names under which labels and attributes are kept in it.

    Kernels read such graphs by themselves where the names are the default ones.

    >>> class Path:  # what is used of networkx
    ...     nodes = {"a": {"element": "C"}, "b": {"element": "O"}}
    ...     edges = {("a", "b"): {}}
    >>> from_networkx(Path(), label="element").labels
    ['C', 'O']
    """
    names = {node: i for i, node in enumerate(graph.nodes)}
    edges = [(names[edge[0]], names[edge[1]]) for edge in graph.edges]
    return Graph(
        np.array(edges, np.int64).reshape(-1, 2),
        _all_of(graph.nodes, label, "node") or len(names),
        _all_of(graph.nodes, attributes, "node"),
        _all_of(graph.edges, edge_label, "edge"),
    )


def _all_of(parts: Any, name: str, what: str) -> list[Any] | None:
    """The attribute of all nodes or edges under a name; None where none has it."""
    values = [parts[part].get(name) for part in parts]
    missing = sum(value is None for value in values)
    if missing in (0, len(values)):
        return None if missing else values
    raise ValueError(f"{missing} of its {len(values)} {what}s have no {name!r}")


@dataclass(frozen=True, eq=False)
class GraphPoints(StructuredPoints):
    """Undirected graphs: the nodes of all graphs, and the neighbours of each node.

    A graph is one of networkx, a `Graph`, or a pair (edges, labels) as there. Self-loops and
    parts that hang together with nothing are fine; so is a graph without nodes.
    """

    parts = ("labels", "attributes")
    labels: np.ndarray
    firsts: np.ndarray  # where the neighbours of each node start
    neighbours: np.ndarray  # counted from the start of the graph
    edge_labels: np.ndarray  # of the edges to these neighbours
    attributes: np.ndarray  # no columns where there are none
    labelled: bool

    @classmethod
    def read(cls, data: Any) -> Self:
        coder = Coder()
        graphs = [_in_arrays(i, item, coder) for i, item in enumerate(as_items(data, "graphs"))]
        some = [(i, graph) for i, graph in enumerate(graphs) if len(graph.attributes)]
        for i, graph in some:
            first, other = some[0]
            for mine, its in zip(_known(graph), _known(other), strict=True):
                if mine != its:
                    raise bad_item(i, f"has {mine}, and item {first} has {its}")
        starts = offsets([len(graph.attributes) for graph in graphs])
        labelled = bool(some) and some[0][1].labels is not None
        labels = [g.labels for _, g in some] if labelled else [np.zeros(starts[-1], np.int64)]
        attributes = [graph.attributes for _, graph in some] or [np.empty((0, 0))]
        return cls(
            np.arange(len(graphs)),
            starts,
            np.concatenate(labels),
            *_neighbours(starts, graphs),
            np.concatenate(attributes),
            labelled,
            tokens=coder.tokens,
        )

    @staticmethod
    def is_object(x: Any) -> bool:
        return isinstance(x, tuple) or _is_networkx(x)

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Both ends of every edge in each direction, among the nodes of all graphs."""
        sources = np.repeat(np.arange(len(self.labels)), np.diff(self.firsts))
        return sources, self.neighbours + self.starts[:-1][self.owners][sources]

    def adjacency(self, i: int) -> np.ndarray:
        """The adjacency matrix of graph i of the arrays."""
        a, b = self.starts[i], self.starts[i + 1]
        matrix = np.zeros((b - a, b - a))
        rows = np.repeat(np.arange(b - a), np.diff(self.firsts[a : b + 1]))
        matrix[rows, self.neighbours[self.firsts[a] : self.firsts[b]]] = 1.0
        return matrix

    def restored(self, i: int) -> Graph:
        a, b = self.starts[i], self.starts[i + 1]
        span = slice(self.firsts[a], self.firsts[b])
        rows = np.repeat(np.arange(b - a), np.diff(self.firsts[a : b + 1]))
        once = rows <= self.neighbours[span]
        edges = np.stack([rows[once], self.neighbours[span][once]], axis=1)
        labels = self.symbols_of(self.labels[a:b])
        kinds = self.symbols_of(self.edge_labels[span][once])
        return Graph(
            edges,
            labels if self.labelled else len(labels),
            self.attributes[a:b] if self.attributes.shape[1] else None,
            kinds if any(kinds) else None,
        )

    def selected(self, indices: np.ndarray) -> Self:
        edges, firsts = gathered(self.firsts, gathered(self.starts, indices)[0])
        return replace(
            super().selected(indices),
            firsts=firsts,
            neighbours=self.neighbours[edges],
            edge_labels=self.edge_labels[edges],
        )

    def joined(self, other: Self) -> Self:
        check_alike(self, other)
        return replace(
            super().joined(other),
            firsts=np.concatenate([self.firsts, self.firsts[-1] + other.firsts[1:]]),
            neighbours=np.concatenate([self.neighbours, other.neighbours]),
            edge_labels=np.concatenate([self.edge_labels, other.edge_labels]),
        )


def check_alike(x: GraphPoints, y: GraphPoints) -> None:
    """Refuse graphs with labels beside graphs without, and attributes of different widths."""
    if not (len(x.labels) and len(y.labels)):
        return  # graphs without nodes fit to all
    if x.labelled != y.labelled:
        raise ValueError("one side has graphs with labels, the other without: label both or none.")
    if x.attributes.shape[1] != y.attributes.shape[1]:
        raise ValueError(
            f"both sides must have as many attributes; got {x.attributes.shape[1]} and "
            f"{y.attributes.shape[1]}."
        )


class CountsOfGraphs(SparseKernel):
    """Kernels whose features count parts or labels of a graph."""

    kind = GraphPoints
    positive_definite = "it is the inner product of counts of parts of the graphs"

    def check_pair(self, x: Any, y: Any) -> None:
        check_alike(x, y)


def _is_networkx(item: Any) -> bool:
    return hasattr(item, "nodes") and hasattr(item, "edges")


def _known(graph: Graph) -> tuple[str, str]:
    """What is known of nodes, which must be the same for all graphs."""
    labels = "no labels" if graph.labels is None else "labels"
    return labels, f"{graph.attributes.shape[1]} attributes"


def _in_arrays(i: int, item: Any, coder: Coder) -> Graph:
    """A graph whose labels are codes, or None, and whose attributes have a row for each node."""
    try:
        if _is_networkx(item):
            if getattr(item, "is_directed", lambda: False)():
                raise ValueError("it is directed: write graph.to_undirected()")
            item = from_networkx(item)
        if not isinstance(item, (tuple, list)) or not 1 <= len(item) <= 4:
            raise ValueError(
                "write a pair (edges, labels), a mercer.structured.Graph or a graph of networkx; "
                f"got {type(item).__name__}"
            )
        graph = Graph(*item)
        edges = _edges(graph)
        labels, n = _node_labels(graph, edges, coder)
        if edges.size and (edges.min() < 0 or edges.max() >= n):
            outside = edges[(edges < 0) | (edges >= n)]
            raise ValueError(f"an edge leads to node {outside[0]}; there are {n} nodes")
        return Graph(edges, labels, _attributes(graph, n), _edge_labels(graph, edges, coder))
    except (TypeError, ValueError) as error:
        raise bad_item(i, f"is no graph: {error}") from None


def _edges(graph: Graph) -> np.ndarray:
    edges = np.asarray(graph.edges)
    edges = edges.reshape(-1, 2) if edges.size == 0 else edges
    if edges.ndim != 2 or edges.shape[1] != 2 or (edges.size and edges.dtype.kind not in "iu"):
        raise ValueError(
            f"edges are pairs of node numbers, an array of shape (m, 2); got shape {edges.shape} "
            f"of {edges.dtype}"
        )
    return edges.astype(np.int64)


def _neighbours(
    starts: np.ndarray, graphs: list[Graph]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the neighbours of each node start, the neighbours, and the labels of these edges.

    Edges go in both directions, each once, and the neighbours of a node are in order.
    """
    nodes = int(starts[-1])
    edges = np.concatenate([np.empty((0, 2), np.int64), *(graph.edges for graph in graphs)])
    kinds = np.concatenate([np.empty(0, np.int64), *(graph.edge_labels for graph in graphs)])
    begin = np.repeat(starts[:-1], [len(graph.edges) for graph in graphs])
    left, right = edges.T + begin
    keys = np.concatenate([left * nodes + right, right * nodes + left])
    keys, first = np.unique(keys, return_index=True)
    firsts = offsets(np.bincount(keys // max(nodes, 1), minlength=nodes))
    return firsts, keys % max(nodes, 1) - np.tile(begin, 2)[first], np.tile(kinds, 2)[first]


def _node_labels(graph: Graph, edges: np.ndarray, coder: Coder) -> tuple[Any, int]:
    """Codes of labels, or None, and the number of nodes."""
    if graph.labels is None:
        return None, int(edges.max(initial=-1)) + 1
    if isinstance(graph.labels, (int, np.integer)):
        if graph.labels < 0:
            raise ValueError(f"the number of nodes is ≥ 0; got {graph.labels}")
        return None, int(graph.labels)
    labels = graph.labels.tolist() if isinstance(graph.labels, np.ndarray) else graph.labels
    if isinstance(labels, dict):
        labels = [labels[node] for node in range(len(labels))]
    codes = np.array([coder.code(label) for label in labels], np.int64)
    return codes, len(codes)


def _edge_labels(graph: Graph, edges: np.ndarray, coder: Coder) -> np.ndarray:
    if graph.edge_labels is None:
        return np.zeros(len(edges), np.int64)
    if len(graph.edge_labels) != len(edges):
        raise ValueError(f"{len(graph.edge_labels)} edge labels were given for {len(edges)} edges")
    return np.array([coder.code(label) for label in graph.edge_labels], np.int64)


def _attributes(graph: Graph, n: int) -> np.ndarray:
    if graph.attributes is None:
        return np.empty((n, 0))
    rows = np.asarray(graph.attributes, np.float64)
    rows = rows.reshape(-1, 1) if rows.ndim == 1 else rows
    if rows.ndim != 2 or len(rows) != n:
        raise ValueError(f"attributes need a row for each of {n} nodes; got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("its attributes contain NaN or infinity")
    return rows


# ---- refinement: a node takes in its neighbours, round after round -------------------------------


def refined_labels(points: GraphPoints, rounds: int) -> list[Hashes]:
    """The labels of all nodes after 0, 1, …, `rounds` rounds of Weisfeiler and Lehman.

    A new label is a hash of the old one and of the multiset of the neighbours' labels (with the
    labels of the edges to them): a sum of hashes does not depend on their order.
    """
    sources, targets = points.ends
    labels = [mixed(points.labels)]
    kinds = mixed(points.edge_labels, salt=2)
    for _ in range(rounds):
        around = np.zeros(len(points.labels), np.uint64)
        np.add.at(around, sources, mixed(labels[-1][targets] + kinds, salt=1))
        labels.append(mixed(mixed(labels[-1]) + around))
    return labels


@dataclass(frozen=True, eq=False, repr=False)
class _Refinement(CountsOfGraphs):
    """Kernels whose features count labels of all rounds."""

    rounds: int = 5
    checks = checked(rounds=check_whole)

    def feature_rows(self, points: GraphPoints) -> FeatureRows:
        labels = np.stack(refined_labels(points, self.rounds), axis=1)  # node by node
        return FeatureRows.counted(points.starts * (self.rounds + 1), labels.reshape(-1))


@dataclass(frozen=True, eq=False, repr=False)
class WeisfeilerLehman(_Refinement):
    """The Weisfeiler–Lehman subtree kernel, Σ_{i ≤ h} Σ_l c_l^i(x) c_l^i(y).

    c_l^i(x) counts the nodes of x that have the label l after i rounds; in each round a node's
    label becomes its own and those of its neighbours, with edge labels where there are any. Nodes
    without labels start with the same one. Rounds take time linear in the number of edges.

    Parameters
    ----------
    rounds : int, default=5
        h.

    References
    ----------
    Shervashidze, Schweitzer, van Leeuwen, Mehlhorn, Borgwardt, Weisfeiler–Lehman graph kernels,
    2011.

    Examples
    --------
    >>> path = ([(0, 1), (1, 2)], ["C", "C", "O"])
    >>> WeisfeilerLehman(0)(path, path)  # two C, one O: 2² + 1²
    5.0
    >>> WeisfeilerLehman(1)(path, path)  # and three different neighbourhoods
    8.0
    """

    positive_definite = "it is the inner product of counts of labels"


@dataclass(frozen=True, eq=False, repr=False)
class WeisfeilerLehmanAssignment(_Refinement, MinimumKernel):
    """The best assignment of nodes to nodes, by how many rounds their labels agree.

    k(x, y) = max over assignments of Σ (number of rounds 0, …, h in which both nodes have the same
    label) = Σ_{i ≤ h} Σ_l min(c_l^i(x), c_l^i(y)), since the labels form a hierarchy.

    Parameters
    ----------
    rounds : int, default=5
        h.

    References
    ----------
    Kriege, Giscard, Wilson, On valid optimal assignment kernels and applications to graph
    classification, 2016.

    Examples
    --------
    >>> path, pair = ([(0, 1), (1, 2)], ["C", "C", "O"]), ([(0, 1)], ["C", "O"])
    >>> WeisfeilerLehmanAssignment(1)(path, pair)  # C and O in round 0; O–C in round 1
    3.0
    """

    positive_definite = "Σ min(a, b) is the inner product of the indicators of [0, a] and [0, b]"


@dataclass(frozen=True, eq=False, repr=False)
class PropagatedAttributes(StructuredKernel):
    """Graphs whose nodes have numbers: mean maps of attributes that spread over the edges.

    In each round a node's attributes become the mean of its own and of the average of its
    neighbours'. The attributes of all rounds, side by side, make a graph a bag of vectors, and bags
    are compared by their mean maps, (1/nm) Σ_{u, v} k(a_u, b_v). Where nodes have labels too, only
    nodes with the same label are compared.

    Parameters
    ----------
    rounds : int, default=2
        How often attributes spread.
    kernel : Kernel, default=Gaussian()
        k, on the attributes of all rounds.

    References
    ----------
    Togninalli, Ghisu, Llinares-López, Rieck, Borgwardt, Wasserstein Weisfeiler–Lehman graph
    kernels, 2019 (for how attributes spread).

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> from mercer.structured import Graph
    >>> pair = Graph([(0, 1)], attributes=[[0.0], [4.0]])
    >>> PropagatedAttributes(1, Linear())(pair, pair)  # means 2 and 2 of both rounds
    8.0
    """

    rounds: int = 2
    kernel: Kernel = field(default_factory=Gaussian)
    kind = GraphPoints
    checks = checked(rounds=check_whole, kernel=check_inner)

    def facts(self, dimension: int | None = None) -> Facts:
        answer = MeanMap(self.kernel).facts().positive_definite
        return Facts(self, dimension, positive_definite=answer)

    def check_points(self, points: Any) -> None:
        if len(points.labels) and not points.attributes.shape[1]:
            raise bad_item(
                int(np.argmax(np.diff(points.starts) > 0)),
                "has no attributes, numbers for each node: write Graph(edges, labels, attributes)",
            )

    def block(self, x: Any, y: Any) -> np.ndarray:
        check_alike(x, y)
        (rows, labels, starts), (columns, others, ends) = self._nodes(x), self._nodes(y)
        if not len(rows) or not len(columns):
            return np.zeros((len(x), len(y)))
        values = self.kernel.block(self.kernel.points(rows), self.kernel.points(columns))
        values = np.where(labels[:, None] == others, values, 0.0)
        return segment_means(segment_means(values, starts).T, ends).T

    def _nodes(self, points: GraphPoints) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The attributes of all rounds and the labels of the nodes, and where each graph starts."""
        rows = points.prepared(("spread", self.rounds), self._spread)
        places, starts = gathered(points.starts, points.chosen)
        return rows[places], points.labels[places], starts

    def _spread(self, points: GraphPoints) -> np.ndarray:
        sources, targets = points.ends
        degrees = np.maximum(np.diff(points.firsts), 1)[:, None]
        alone = np.diff(points.firsts)[:, None] == 0  # nodes without neighbours keep their own
        rounds = [points.attributes]
        for _ in range(self.rounds):
            around = np.zeros_like(rounds[-1])
            np.add.at(around, sources, rounds[-1][targets])
            rounds.append(np.where(alone, rounds[-1], 0.5 * (rounds[-1] + around / degrees)))
        return np.concatenate(rounds, axis=1)


# ---- paths and small subgraphs -------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class ShortestPath(CountsOfGraphs):
    """The shortest-path kernel: pairs of nodes by their labels and their distance.

    k(x, y) = Σ c_{l, m, d}(x) c_{l, m, d}(y), c being the number of ordered pairs of different
    nodes with labels l and m whose shortest path has d edges. Pairs without a path are left out.

    References
    ----------
    Borgwardt, Kriegel, Shortest-path kernels on graphs, 2005.

    Examples
    --------
    >>> path = ([(0, 1), (1, 2)], 3)  # three nodes without labels
    >>> ShortestPath()(path, path)  # four ordered pairs at distance 1, two at distance 2
    20.0
    """

    def feature_rows(self, points: GraphPoints) -> FeatureRows:
        from mercer.structured.compiled.graphs import shortest_paths

        sizes = np.diff(points.starts)
        hashes = np.empty(int((sizes * (sizes - 1)).sum()), np.uint64)
        starts = np.empty(points.total + 1, np.int64)
        left, right = mixed(points.labels, salt=1), mixed(points.labels, salt=2)
        lengths = mixed(np.arange(sizes.max(initial=0)), salt=3)
        flat = points.starts, points.firsts, points.neighbours
        count = shortest_paths(*flat, left, right, lengths, starts, hashes)
        return FeatureRows.counted(starts, hashes[:count])


@dataclass(frozen=True, eq=False, repr=False)
class Graphlets(CountsOfGraphs):
    """The graphlet kernel, Σ_g c_g(x) c_g(y) over connected graphs g of a few nodes.

    c_g(x) counts the sets of nodes of x between which the edges form g. Labels are not looked at.

    Parameters
    ----------
    size : {3, 4, 5}, default=3
        Nodes of g: there are 2, 6 and 21 such graphs.

    References
    ----------
    Shervashidze, Vishwanathan, Petri, Mehlhorn, Borgwardt, Efficient graphlet kernels for large
    graph comparison, 2009.
    Wernicke, Efficient detection of network motifs, 2006.

    Examples
    --------
    >>> square, triangle = [(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 1), (1, 2), (2, 0)]
    >>> Graphlets(3)((square, 4), (square, 4))  # four open paths of three nodes
    16.0
    >>> Graphlets(3)((square, 4), (triangle, 3))
    0.0
    """

    size: int = 3

    def __post_init__(self) -> None:
        if self.size not in (3, 4, 5) or isinstance(self.size, bool):
            raise ValueError(f"Graphlets needs a size of 3, 4 or 5 nodes; got {self.size!r}.")

    def feature_rows(self, points: GraphPoints) -> FeatureRows:
        from mercer.structured.compiled.graphs import graphlets

        kinds = kinds_of_graphs(self.size)
        counts = np.zeros((points.total, int(kinds.max()) + 1))
        graphlets(points.starts, points.firsts, points.neighbours, self.size, kinds, counts)
        keys = np.arange(counts.shape[1], dtype=np.uint64)
        return FeatureRows(keys, scipy.sparse.csr_array(counts))


@cache
def kinds_of_graphs(size: int) -> np.ndarray:
    """The number of the kind of every graph on so many nodes, given by its edges as bits.

    Graphs are of one kind if renaming the nodes makes one of the other; bits are in the order
    (0, 1), (0, 2), (1, 2), (0, 3), …
    """
    pairs = [(i, j) for j in range(size) for i in range(j)]
    place = {pair: k for k, pair in enumerate(pairs)}
    graphs = np.arange(2 ** len(pairs))
    lowest = graphs.copy()
    for order in permutations(range(size)):
        renamed = np.zeros_like(graphs)
        for (i, j), k in place.items():
            moved = place[min(order[i], order[j]), max(order[i], order[j])]
            renamed |= ((graphs >> k) & 1) << moved
        lowest = np.minimum(lowest, renamed)
    return np.unique(lowest, return_inverse=True)[1]


# ---- walks ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class RandomWalk(StructuredKernel):
    """Common walks of two graphs, Σ_t λ^t · (pairs of walks of t steps with the same labels).

    In the product graph, whose nodes are the pairs of nodes with the same label and whose edges W
    are pairs of edges, this is Σ_t λ^t 1ᵀWᵗ1 = 1ᵀ(I − λW)⁻¹1. It is computed by eigenvalues where
    nodes have no labels, by conjugate gradients where they have; W itself is never stored.

    The sum converges for all pairs if λ < 1/ρ², ρ being the largest eigenvalue of an adjacency
    matrix of any graph; a graph that breaks this is refused, in training or later. With
    `by_degree`, each edge is divided by the root of the degrees of its ends, so that ρ ≤ 1 and any
    λ < 1 will do.

    Parameters
    ----------
    decay : float, default=0.01
        λ.
    steps : int or None, default=None
        The longest walks that count; None for all. A finite number admits any λ > 0.
    by_degree : bool, default=False
        Whether edges are divided by the degrees of their ends.

    References
    ----------
    Gärtner, Flach, Wrobel, On graph kernels: hardness results and efficient alternatives, 2003.
    Vishwanathan, Schraudolph, Kondor, Borgwardt, Graph kernels, 2010.

    Examples
    --------
    >>> edge = ([(0, 1)], 2)
    >>> k = RandomWalk(decay=0.25)  # two walks of each length: Σ 4·0.25ᵗ
    >>> round(k(edge, edge), 12) == round(4 / (1 - 0.25), 12)
    True
    >>> RandomWalk(decay=0.5, steps=2)(edge, edge) == 4 + 0.5 * 4 + 0.25 * 4
    True
    """

    decay: float = 0.01
    steps: int | None = None
    by_degree: bool = False
    kind = GraphPoints
    positive_definite = "it is a sum of inner products of counts of walks, with positive weights"

    def __post_init__(self) -> None:
        if self.steps is not None and not is_count(self.steps):
            raise ValueError(
                f"RandomWalk needs a whole number of steps ≥ 1, or None for all; got "
                f"{self.steps!r}."
            )
        check_positive(self, "decay", self.decay)
        if self.by_degree and self.steps is None:
            check_between(self, "decay", self.decay, 0.0, 1.0)

    def check_points(self, points: Any) -> None:
        if self.steps is not None or self.by_degree:
            return
        radii = points.prepared("radii", self._radii)
        broken = np.flatnonzero(self.decay * radii[points.chosen] ** 2 >= 1 - 1e-9)
        if len(broken):
            radius = float(radii[points.chosen[broken[0]]])
            raise bad_item(
                int(broken[0]),
                f"has an adjacency matrix with the eigenvalue {radius:.6g}, so the sum over walks "
                f"needs a decay below 1/{radius:.6g}² = {radius**-2:.3g}, and has {self.decay}: "
                "write a smaller decay, by_degree=True, or a number of steps",
            )

    @staticmethod
    def _radii(points: GraphPoints) -> np.ndarray:
        """The largest eigenvalue of the adjacency matrix of each graph, 0 for one without edges."""
        matrices = (points.adjacency(i) for i in range(points.total))
        return np.array([np.abs(np.linalg.eigvalsh(m)).max(initial=0.0) for m in matrices])

    def block(self, x: Any, y: Any) -> np.ndarray:
        check_alike(x, y)
        if x.labelled or y.labelled:
            return self._labelled(x, y)
        if self.steps is not None:
            return self.features(x) @ self.features(y).T
        return self._spectral(x, y)

    def features(self, x: Any) -> np.ndarray:
        """λ^{t/2} 1ᵀAᵗ1, t ≤ steps: how many walks there are, where nodes have no labels."""
        if self.steps is None or x.labelled:
            raise ValueError(
                "RandomWalk has a finite list of features for graphs without labels and a finite "
                "number of steps only."
            )
        counts = x.prepared(("walks", self.steps, self.by_degree), self._walks)[x.chosen]
        return counts * float(self.decay) ** (np.arange(self.steps + 1) / 2)

    def _walks(self, points: GraphPoints) -> np.ndarray:
        sources, targets = points.ends
        weights = self._edge_weights(points)
        reached: np.ndarray = np.ones(len(points.labels))
        counts = []
        for _ in range(int(self.steps or 0) + 1):
            counts.append(np.bincount(points.owners, reached, minlength=points.total))
            reached = np.bincount(sources, weights * reached[targets], minlength=len(reached))
        return np.stack(counts, axis=1)

    def _edge_weights(self, points: GraphPoints) -> np.ndarray:
        sources, targets = points.ends
        if not self.by_degree:
            return np.ones(len(sources))
        degrees = np.diff(points.firsts)
        return 1.0 / np.sqrt(degrees[sources] * degrees[targets])

    def _spectral(self, x: GraphPoints, y: GraphPoints) -> np.ndarray:
        from mercer.structured.compiled.graphs import spectral_walks

        sides = (
            (*side.prepared(("spectrum", self.by_degree), self._spectra), side.starts, side.chosen)
            for side in (x, y)
        )
        out = np.empty((len(x), len(y)))
        spectral_walks(*(array for side in sides for array in side), float(self.decay), out)
        return out

    def _spectra(self, points: GraphPoints) -> tuple[np.ndarray, np.ndarray]:
        """The eigenvalues of all graphs, and the squares of the sums of their eigenvectors."""
        values, weights = [np.empty(0)], [np.empty(0)]
        for i in range(points.total):
            matrix = points.adjacency(i)
            if self.by_degree:
                roots = np.sqrt(np.maximum(matrix.sum(axis=1), 1.0))
                matrix = matrix / np.outer(roots, roots)
            eigenvalues, vectors = np.linalg.eigh(matrix)
            values.append(eigenvalues)
            weights.append(vectors.sum(axis=0) ** 2)
        return np.concatenate(values), np.concatenate(weights)

    def _labelled(self, x: GraphPoints, y: GraphPoints) -> np.ndarray:
        from mercer.structured.compiled.graphs import labelled_walks

        left, right = (side.prepared(("walked", self.by_degree), self._flat) for side in (x, y))
        n, m = (int(np.diff(side.starts)[side.chosen].max(initial=0)) for side in (x, y))
        work, out = np.empty((6, n * m)), np.empty((len(x), len(y)))
        steps = -1 if self.steps is None else int(self.steps)
        labelled_walks(left, x.chosen, right, y.chosen, float(self.decay), steps, work, out)
        return out

    def _flat(self, points: GraphPoints) -> Any:
        from mercer.structured.compiled.graphs import FlatGraphs

        flat = points.starts, points.labels, points.firsts, points.neighbours
        return FlatGraphs(*flat, self._edge_weights(points))
