"""The random walk kernel of graphs: common walks, with weights that decay with their length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer.checks import check_between, check_positive, is_count
from mercer.structured.base import StructuredKernel, bad_item
from mercer.structured.graphs.points import GraphPoints, check_alike


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
        radii = points.prepared("radii", _radii)
        broken = np.flatnonzero(self.decay * radii[points.chosen] ** 2 >= 1 - 1e-9)
        if len(broken):
            radius = float(radii[points.chosen[broken[0]]])
            raise bad_item(
                int(broken[0]),
                f"has an adjacency matrix with the eigenvalue {radius:.6g}, so the sum over walks "
                f"needs a decay below 1/{radius:.6g}² = {radius**-2:.3g}, and has {self.decay}: "
                "write a smaller decay, by_degree=True, or a number of steps",
            )

    def block(self, x: Any, y: Any) -> np.ndarray:
        check_alike(x, y)
        if x.labelled or y.labelled:
            return self._labelled(x, y)
        if self.steps is not None:
            return self.features(x) @ self.features(y).T
        return self._spectral(x, y)

    def diagonal(self, x: Any) -> np.ndarray:
        def own(points: GraphPoints) -> np.ndarray:
            graphs = (points.slice(i, i + 1) for i in range(points.total))
            return np.array([self.block(graph, graph)[0, 0] for graph in graphs])

        return x.prepared((self, "diagonal"), own)[x.chosen]

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


def _radii(points: GraphPoints) -> np.ndarray:
    """The largest eigenvalue of the adjacency matrix of each graph, 0 for one without edges."""
    matrices = (points.adjacency(i) for i in range(points.total))
    return np.array([np.abs(np.linalg.eigvalsh(m)).max(initial=0.0) for m in matrices])
