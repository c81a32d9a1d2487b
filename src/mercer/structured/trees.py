"""Kernels on ordered trees, such as parse trees: subtrees, subset trees and partial trees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mercer.checks import check_positive
from mercer.kernels.base import checked
from mercer.structured.base import (
    Coder,
    Hashes,
    StructuredKernel,
    StructuredPoints,
    as_items,
    bad_item,
    check_share,
    mixed,
    offsets,
)
from mercer.structured.sparse import FeatureRows, SparseKernel

Step = tuple[str, Any]  # ("open", label), ("leaf", label) or ("close", None)


@dataclass(frozen=True, eq=False)
class TreePoints(StructuredPoints):
    """Ordered trees with labels: the nodes of all trees, children before their parents.

    A tree is a text with brackets, as "(S (NP she) (VP runs))", a nested tuple or list, as
    ("S", ("NP", "she"), ("VP", "runs")), or an object with `label()` and children, as of NLTK. The
    empty text or tuple is the empty tree.
    """

    parts = ("labels", "parents", "depths")
    labels: np.ndarray
    parents: np.ndarray  # counted from the start of the tree, −1 for the root
    depths: np.ndarray

    @classmethod
    def read(cls, data: Any) -> Self:
        coder, trees = Coder(), []
        for i, item in enumerate(as_items(data, "trees")):
            try:
                steps = _bracketed(item) if isinstance(item, str) else _nested(item)
                trees.append(_nodes(steps, coder))
            except (TypeError, ValueError) as error:
                raise bad_item(i, f"is no tree: {error}") from None
        nodes = np.array([node for tree in trees for node in tree], np.int64).reshape(-1, 3)
        starts = offsets([len(tree) for tree in trees])
        return cls(np.arange(len(trees)), starts, *nodes.T.copy(), tokens=coder.tokens)

    @staticmethod
    def is_object(x: Any) -> bool:
        return isinstance(x, (str, tuple)) or _is_labelled(x)

    def restored(self, i: int) -> Any:
        """The tree as nested tuples; a leaf is its label."""
        span = slice(self.starts[i], self.starts[i + 1])
        children: dict[int, list[Any]] = {}
        tree: Any = ()
        for node, (label, parent) in enumerate(
            zip(self.labels[span].tolist(), self.parents[span].tolist(), strict=True)
        ):
            below = children.pop(node, [])
            name = self.tokens.get(label, label)
            tree = (name, *below)
            leaf = not below and not isinstance(name, tuple)
            children.setdefault(parent, []).append(name if leaf else tree)
        return tree

    # ---- what kernels need of all trees -------------------------------------------------------

    def children(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The children of all nodes in order, where those of each node start, their parents."""
        parents = np.where(self.parents < 0, -1, self.parents + self.starts[:-1][self.owners])
        order = np.argsort(parents, kind="stable")
        order = order[np.count_nonzero(parents < 0) :]
        return order, offsets(np.bincount(parents[order], minlength=len(parents))), parents[order]

    def productions(self) -> Hashes:
        """A hash of the label of each node and those of its children, in order; 0 for leaves."""
        children, firsts, parents = self.children()
        ranks = np.arange(len(children)) - firsts[parents]
        total = mixed(self.labels)
        np.add.at(total, parents, mixed(self.labels[children], salt=ranks + 1))
        inside = np.diff(firsts) > 0
        return np.where(inside, mixed(total), np.uint64(0))

    def subtrees(self) -> tuple[Hashes, np.ndarray]:
        """A hash of the whole tree below each node, and the number of nodes with children in it."""
        children, firsts, parents = self.children()
        ranks = np.arange(len(children)) - firsts[parents]
        hashes, sizes = mixed(self.labels), (np.diff(firsts) > 0).astype(np.int64)
        for depth in range(self.depths.max(initial=0), -1, -1):  # from the deepest nodes upwards
            finished = self.depths == depth
            hashes[finished] = mixed(hashes[finished])
            here = finished[children]
            nodes, above = children[here], parents[here]
            np.add.at(hashes, above, mixed(hashes[nodes], salt=ranks[here] + 1))
            np.add.at(sizes, above, sizes[nodes])
        return hashes, sizes


BRACKETS = re.compile(r"\(\s*([^\s()]*)|\)|[^\s()]+")


def _nodes(steps: Iterable[Step], coder: Coder) -> list[list[int]]:
    """Label, parent and depth of the nodes of one tree, children before their parents."""
    nodes: list[list[int]] = []
    open_ones: list[tuple[int, list[int]]] = []  # labels and children of nodes not yet closed
    for step, label in steps:
        if nodes and not open_ones:
            raise ValueError("it goes on behind its end: there is one root, in brackets that match")
        if step == "open":
            open_ones.append((coder.code(label), []))
            continue
        if step == "close" and not open_ones:
            raise ValueError("a bracket is closed that was not opened")
        code, children = open_ones.pop() if step == "close" else (coder.code(label), [])
        for child in children:
            nodes[child][1] = len(nodes)
        if open_ones:
            open_ones[-1][1].append(len(nodes))
        nodes.append([code, -1, len(open_ones)])
    if open_ones:
        raise ValueError(f"{len(open_ones)} of its brackets are not closed")
    return nodes


def _is_labelled(item: Any) -> bool:
    """Whether it is a node as of NLTK: with label() and its children as elements."""
    return callable(getattr(item, "label", None)) and hasattr(item, "__iter__")


def _bracketed(text: str) -> Iterator[Step]:
    if text.strip() in ("", "()"):
        return
    for match in BRACKETS.finditer(text):
        word = match.group()
        if word.startswith("("):
            yield "open", match.group(1)
        else:
            yield ("close", None) if word == ")" else ("leaf", word)


def _nested(item: Any) -> Iterator[Step]:
    """With a stack of its own, since trees may be deeper than Python's."""
    waiting: list[Any] = [item] if _is_labelled(item) or (item != () and item != []) else []
    closing = object()
    while waiting:
        node = waiting.pop()
        if node is closing:
            yield "close", None
        elif _is_labelled(node):
            yield "open", node.label()
            waiting += [closing, *reversed(list(node))]
        elif isinstance(node, (tuple, list)):
            if not node or isinstance(node[0], list):
                raise ValueError(f"a node is (label, child, child, …); got {node!r}")
            yield "open", node[0]
            waiting += [closing, *reversed(node[1:])]
        else:
            yield "leaf", node


@dataclass(frozen=True, eq=False, repr=False)
class Subtrees(SparseKernel):
    """Whole subtrees, Σ_t λ^{|t|} c_t(x) c_t(y).

    A subtree t is a node that has children with all that is below it; c_t(x) counts how often it
    occurs in x, and |t| its nodes with children. Features are found in linear time.

    Parameters
    ----------
    decay : float, default=1.0
        0 < λ ≤ 1.

    References
    ----------
    Vishwanathan, Smola, Fast kernels for string and tree matching, 2002.

    Examples
    --------
    >>> k = Subtrees()
    >>> k("(S (NP she) (VP runs))", "(S (NP she) (VP sleeps))")  # (NP she)
    1.0
    """

    decay: float = 1.0
    kind = TreePoints
    positive_definite = "it is the inner product of weighted counts of subtrees"
    checks = checked(decay=check_share)

    def feature_rows(self, points: TreePoints) -> FeatureRows:
        hashes, sizes = points.subtrees()
        inside = sizes > 0
        starts = offsets(np.bincount(points.owners[inside], minlength=points.total))
        weights = float(self.decay) ** (sizes[inside] / 2)
        return FeatureRows.counted(starts, hashes[inside], weights)


class _NodePairs(StructuredKernel):
    """A kernel that sums over pairs of nodes with equal keys."""

    kind = TreePoints
    decay: float

    def keys(self, points: TreePoints) -> Hashes:
        """The key of every node."""
        raise NotImplementedError

    def block(self, x: Any, y: Any) -> np.ndarray:
        from mercer.structured.compiled.trees import tree_kernel

        left, right = (side.prepared(type(self), self._flat) for side in (x, y))
        out = np.empty((len(x), len(y)))
        sizes = [int(np.diff(side.starts)[side.chosen].max(initial=1)) for side in (x, y)]
        row = np.empty(int(np.diff(right.firsts).max(initial=0)) + 1)
        gap, partial = float(getattr(self, "gap_decay", 1.0)), hasattr(self, "gap_decay")
        work = np.empty(sizes), row
        tree_kernel(left, x.chosen, right, y.chosen, float(self.decay), gap, partial, *work, out)
        return out

    def _flat(self, points: TreePoints) -> Any:
        from mercer.structured.compiled.trees import FlatTrees

        keys = self.keys(points)
        children, firsts, _ = points.children()
        return FlatTrees(points.starts, keys, np.lexsort((keys, points.owners)), firsts, children)


@dataclass(frozen=True, eq=False, repr=False)
class SubsetTrees(_NodePairs):
    """Subset trees: fragments that keep all children of a node or none of them.

    k(x, y) = Σ Δ(u, v) over nodes u of x and v of y, where Δ = 0 unless u and v have the same
    production (label and labels of the children), and else Δ(u, v) = λ Π_j (1 + Δ(u_j, v_j)) over
    their children, leaves having Δ = 0. It is Σ_t λ^{|t|} c_t(x) c_t(y) over all fragments t with
    |t| productions. Only nodes of the same production are visited.

    Parameters
    ----------
    decay : float, default=0.4
        0 < λ ≤ 1.

    References
    ----------
    Collins, Duffy, Convolution kernels for natural language, 2001.
    Moschitti, Making tree kernels practical for natural language learning, 2006.

    Examples
    --------
    >>> k = SubsetTrees(decay=1.0)
    >>> k("(S (NP she) (VP runs))", "(S (NP she) (VP sleeps))")  # NP, S → NP VP, and both together
    3.0
    """

    decay: float = 0.4
    positive_definite = "it is the inner product of weighted counts of fragments"
    checks = checked(decay=check_share)

    def keys(self, points: TreePoints) -> Hashes:
        return points.productions()


@dataclass(frozen=True, eq=False, repr=False)
class PartialTrees(_NodePairs):
    """Partial trees: fragments that keep any of the children of a node.

    k(x, y) = Σ Δ(u, v), where Δ = 0 unless the labels agree, and else Δ(u, v) = μ(λ² + Σ λ^{s + s'}
    Π Δ) over pairs of equally long subsequences of the children of u and v, s and s' being the
    stretches that they take. Nodes of the same label are visited, leaves too.

    Parameters
    ----------
    decay : float, default=0.4
        0 < μ, for each node of a fragment.
    gap_decay : float, default=0.4
        0 < λ ≤ 1, for each child that a fragment passes over or takes.

    References
    ----------
    Moschitti, Efficient convolution kernels for dependency and constituent syntactic trees, 2006.

    Examples
    --------
    >>> PartialTrees(1.0, 1.0)("(S she runs)", "(S she sleeps)")  # S, she, (S she)
    3.0
    """

    decay: float = 0.4
    gap_decay: float = 0.4
    positive_definite = "it is the inner product of weighted counts of fragments"
    checks = checked(decay=check_positive, gap_decay=check_share)

    def keys(self, points: TreePoints) -> Hashes:
        hashes = mixed(points.labels)
        return np.where(hashes == 0, np.uint64(1), hashes)
