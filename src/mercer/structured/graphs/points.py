"""Graphs as points."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from mercer.structured.base import FlatPoints, as_items, bad_item, gathered, offsets
from mercer.structured.hashing import Coder
from mercer.structured.sparse import SparseKernel


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
class GraphPoints(FlatPoints):
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
    tokens: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, data: Any) -> Self:
        coder = Coder()
        parts = [_graph(i, item, coder) for i, item in enumerate(as_items(data, "graphs"))]
        some = [(i, part) for i, part in enumerate(parts) if len(part.labels)]
        for what in ("labelled", "width"):
            for i, part in some:
                first, other = some[0]
                if getattr(part, what) != getattr(other, what):
                    raise bad_item(i, f"{part.shown(what)}, and item {first} {other.shown(what)}")
        width = some[0][1].width if some else 0
        starts = offsets([len(part.labels) for part in parts])
        firsts, neighbours, edge_labels = _neighbours(starts, parts)
        return cls(
            np.arange(len(parts)),
            starts,
            np.concatenate([np.empty(0, np.int64), *(part.labels for part in parts)]),
            firsts,
            neighbours,
            edge_labels,
            np.concatenate([np.empty((0, width)), *(part.attributes for _, part in some)]),
            some[0][1].labelled if some else False,
            coder.tokens,
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
        labels = [self.tokens.get(code, code) for code in self.labels[a:b].tolist()]
        kinds = [self.tokens.get(c, c) for c in self.edge_labels[span][once].tolist()]
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


class _Part(NamedTuple):
    """One graph in arrays."""

    labels: np.ndarray
    edges: np.ndarray
    edge_labels: np.ndarray
    attributes: np.ndarray
    labelled: bool

    @property
    def width(self) -> int:
        return int(self.attributes.shape[1])

    def shown(self, what: str) -> str:
        if what == "labelled":
            return "has labels" if self.labelled else "has no labels"
        return f"has {self.width} attributes"


def _is_networkx(item: Any) -> bool:
    return hasattr(item, "nodes") and hasattr(item, "edges")


def _graph(i: int, item: Any, coder: Coder) -> _Part:
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
        return _flat(Graph(*item), coder)
    except (TypeError, ValueError) as error:
        raise bad_item(i, f"is no graph: {error}") from None


def _flat(graph: Graph, coder: Coder) -> _Part:
    edges = np.asarray(graph.edges)
    edges = edges.reshape(-1, 2) if edges.size == 0 else edges
    if edges.ndim != 2 or edges.shape[1] != 2 or (edges.size and edges.dtype.kind not in "iu"):
        raise ValueError(
            f"edges are pairs of node numbers, an array of shape (m, 2); got shape {edges.shape} "
            f"of {edges.dtype}"
        )
    edges = edges.astype(np.int64)
    labels, n = _node_labels(graph, edges, coder)
    if edges.size and (edges.min() < 0 or edges.max() >= n):
        outside = edges[(edges < 0) | (edges >= n)]
        raise ValueError(f"an edge leads to node {outside[0]}; there are {n} nodes")
    labelled = not isinstance(graph.labels, (int, np.integer, type(None)))
    kinds = _edge_labels(graph, edges, coder)
    return _Part(labels, edges, kinds, _attributes(graph, n), labelled)


def _neighbours(
    starts: np.ndarray, parts: list[_Part]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the neighbours of each node start, the neighbours, and the labels of these edges.

    Edges go in both directions, each once, and the neighbours of a node are in order.
    """
    nodes = int(starts[-1])
    counts = [len(part.edges) for part in parts]
    edges = np.concatenate([np.empty((0, 2), np.int64), *(part.edges for part in parts)])
    kinds = np.concatenate([np.empty(0, np.int64), *(part.edge_labels for part in parts)])
    begin = np.repeat(starts[:-1], counts)
    left, right = edges.T + begin
    keys = np.concatenate([left * nodes + right, right * nodes + left])
    keys, first = np.unique(keys, return_index=True)
    firsts = offsets(np.bincount(keys // max(nodes, 1), minlength=nodes))
    return firsts, keys % max(nodes, 1) - np.tile(begin, 2)[first], np.tile(kinds, 2)[first]


def _node_labels(graph: Graph, edges: np.ndarray, coder: Coder) -> tuple[np.ndarray, int]:
    if graph.labels is None:
        n = int(edges.max(initial=-1)) + 1
        return np.zeros(n, np.int64), n
    if isinstance(graph.labels, (int, np.integer)):
        if graph.labels < 0:
            raise ValueError(f"the number of nodes is ≥ 0; got {graph.labels}")
        return np.zeros(int(graph.labels), np.int64), int(graph.labels)
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
