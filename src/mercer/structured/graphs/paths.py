"""Graph kernels that count parts of a graph: shortest paths, small connected subgraphs, walks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from mercer.checks import check_between, check_positive, is_count
from mercer.structured.base import StructuredKernel, bad_item
from mercer.structured.graphs.points import CountsOfGraphs, GraphPoints, check_alike
from mercer.structured.hashing import mixed
from mercer.structured.sparse import FeatureRows


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

    >>> len(set(kinds_of_graphs(4).tolist()))  # connected or not
    11
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

    def _flat(self, points: GraphPoints) -> FlatGraphs:
        flat = points.starts, points.labels, points.firsts, points.neighbours
        return FlatGraphs(*flat, self._edge_weights(points))


class FlatGraphs(NamedTuple):
    """Graphs as compiled code takes them."""

    starts: np.ndarray
    labels: np.ndarray
    firsts: np.ndarray
    neighbours: np.ndarray
    weights: np.ndarray
