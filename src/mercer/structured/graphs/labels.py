"""Graph kernels by refinement: a node takes in its neighbours, round after round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.checks import is_count
from mercer.kernels.base import Kernel
from mercer.kernels.facts import Facts
from mercer.kernels.radial import Gaussian
from mercer.structured.base import StructuredKernel, bad_item, gathered
from mercer.structured.graphs.points import CountsOfGraphs, GraphPoints, check_alike
from mercer.structured.hashing import Hashes, mixed
from mercer.structured.sets import MeanMap, check_inner, segment_means
from mercer.structured.sparse import FeatureRows, MinimumKernel


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

    def __post_init__(self) -> None:
        _check_rounds(self, self.rounds)

    def feature_rows(self, points: GraphPoints) -> FeatureRows:
        labels = np.stack(refined_labels(points, self.rounds), axis=1)  # node by node
        return FeatureRows.counted(points.starts * (self.rounds + 1), labels.reshape(-1))


def _check_rounds(owner: Any, rounds: Any) -> None:
    if not is_count(rounds) and (rounds != 0 or isinstance(rounds, bool)):
        raise ValueError(
            f"{type(owner).__name__} needs a whole number of rounds ≥ 0; got {rounds!r}."
        )


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

    def __post_init__(self) -> None:
        _check_rounds(self, self.rounds)
        check_inner(self, self.kernel)

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
