"""Kernels on trees against their definition on all small trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from mercer.structured import PartialTrees, SubsetTrees, Subtrees
from mercer.structured.trees import TreePoints
from mercer.testing import check_kernel, strategies
from structured_oracles import gram, partial_trees, subset_trees, subtrees, trees

SMALL = [(), *(tree for size in (1, 2, 3, 4) for tree in trees("ab", size))]
SENTENCES = [
    "(S (NP (D the) (N cat)) (VP (V saw) (NP (D the) (N dog))))",
    "(S (NP (D the) (N dog)) (VP (V saw) (NP (D a) (N cat))))",
    "(S (NP she) (VP (V runs)))",
    "",
]
KERNELS = {
    "subtrees": (Subtrees(), lambda t: subtrees(t, 1.0)),
    "subtrees-decayed": (Subtrees(0.5), lambda t: subtrees(t, 0.5)),
    "subset": (SubsetTrees(1.0), lambda t: subset_trees(t, 1.0)),
    "subset-decayed": (SubsetTrees(0.4), lambda t: subset_trees(t, 0.4)),
    "partial": (PartialTrees(1.0, 1.0), lambda t: partial_trees(t, 1.0, 1.0)),
    "partial-decayed": (PartialTrees(0.7, 0.4), lambda t: partial_trees(t, 0.7, 0.4)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_values_are_those_of_the_definition(name):
    kernel, features = KERNELS[name]
    exact = gram(features, SMALL)
    np.testing.assert_allclose(kernel(SMALL), exact, rtol=1e-12)
    np.testing.assert_allclose(kernel.gram(SMALL).diagonal(), np.diagonal(exact), rtol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_sentences(name):
    kernel, features = KERNELS[name]
    nested = [as_tuples(tree) for tree in kernel.points(SENTENCES)]
    exact = gram(features, nested)
    np.testing.assert_allclose(kernel(SENTENCES), exact, rtol=1e-12)
    np.testing.assert_allclose(kernel(SENTENCES[:2], SENTENCES[1:]), exact[:2, 1:], rtol=1e-12)


def as_tuples(tree):
    """Leaves as tuples too."""
    if not isinstance(tree, tuple):
        return (tree,)
    return (tree[0], *(as_tuples(child) for child in tree[1:])) if tree else ()


def test_features_of_subtrees():
    kernel = Subtrees(0.5)
    phi = kernel.features(kernel.points(SMALL))
    np.testing.assert_allclose((phi @ phi.T).toarray(), kernel(SMALL), rtol=1e-12)


@pytest.mark.parametrize("kernel", [Subtrees(), SubsetTrees(), PartialTrees().normalised()])
def test_contract(kernel):
    check_kernel(kernel, SENTENCES)


@settings(max_examples=10)
@given(strategies.trees())
def test_contract_on_random_trees(X):
    check_kernel(SubsetTrees().normalised(), X)
    check_kernel(PartialTrees(), X)


class Node(list):
    """A tree as of NLTK: a list of children with a label."""

    def __init__(self, label, children):
        super().__init__(children)
        self._label = label

    def label(self):
        return self._label


def test_forms_of_a_tree_agree():
    forms = [
        "(S (NP she) (VP runs))",
        "( S(NP  she)\n(VP runs) )",
        ("S", ("NP", "she"), ("VP", ("runs",))),
        ["S", ["NP", "she"], ["VP", "runs"]],
        Node("S", [Node("NP", ["she"]), Node("VP", ["runs"])]),
    ]
    points = TreePoints.read(forms)
    assert points.data == [("S", ("NP", "she"), ("VP", "runs"))] * 5
    assert (SubsetTrees()(forms) == SubsetTrees()(forms[0], forms[0])).all()
    assert TreePoints.read(["", "()", (), [], "word", "(A)", "((A b))"]).data == [
        (), (), (), (), ("word",), ("A",), ("", ("A", "b")),
    ]  # fmt: skip


def test_parts_and_unions_of_points():
    points = TreePoints.read(SENTENCES)
    few = points.take([2, 0])
    assert few.compact().data == few.data == [points.data[2], points.data[0]]
    both = few.concatenated(TreePoints.read(["(X y)"]))
    kernel = SubsetTrees()
    expected = kernel([SENTENCES[2], SENTENCES[0], "(X y)"])
    np.testing.assert_array_equal(kernel(both), expected)


def test_trees_deeper_than_the_stack_of_python():
    deep = "(a " * 2000 + "b" + ")" * 2000
    assert Subtrees()(deep, deep) == 2000
    assert Subtrees()(Subtrees().points([deep]).data[0], deep) == 2000


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("(S)", "must be a list of trees"),
        (["(S a)", "(S (NP she)"], "item 1 is no tree: 1 of its brackets are not closed"),
        (["(S a))"], "item 0 is no tree: it goes on behind its end"),
        ([")"], "item 0 is no tree: a bracket is closed that was not opened"),
        (["(A) (B)"], "item 0 is no tree: it goes on behind its end"),
        ([("S", ())], r"item 0 is no tree: a node is \(label, child, child"),
        ([("S", object())], "item 0 is no tree: .* cannot be a symbol"),
    ],
)
def test_bad_trees_are_named(X, message):
    with pytest.raises(ValueError, match=message):
        Subtrees().points(X)
