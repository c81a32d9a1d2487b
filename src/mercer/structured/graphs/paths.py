"""Graph kernels that count parts of a graph: shortest paths and small connected subgraphs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import scipy.sparse

from mercer.structured.graphs.points import GraphPoints, check_alike
from mercer.structured.hashing import mixed
from mercer.structured.sparse import FeatureRows, SparseKernel


class _Counts(SparseKernel):
    """Kernels whose features count parts of a graph."""

    kind = GraphPoints

    positive_definite = "it is the inner product of counts of parts of the graphs"

    def check_pair(self, x: Any, y: Any) -> None:
        check_alike(x, y)


@dataclass(frozen=True, eq=False, repr=False)
class ShortestPath(_Counts):
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
class Graphlets(_Counts):
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
