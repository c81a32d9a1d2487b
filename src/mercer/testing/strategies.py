"""Hypothesis strategies for random points of kernels on objects. Needs the package `hypothesis`.

Each strategy draws a list of objects, among them empty ones, repeated ones and very small ones:
where kernels go wrong.

>>> from hypothesis import given, settings
>>> from mercer.structured import GapWeighted
>>> from mercer.testing import check_kernel
>>> from mercer.testing.strategies import texts
>>> @settings(max_examples=3, deadline=None)
... @given(texts())
... def test_my_kernel(X):
...     check_kernel(GapWeighted(2), X)
>>> test_my_kernel()
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

__all__ = [
    "bags",
    "graphs",
    "images",
    "sequences",
    "series",
    "sets",
    "tables",
    "texts",
    "trees",
    "weighted_sets",
]

Strategy = st.SearchStrategy[list[Any]]
MOST = 8  # objects in a list


def _lists(objects: Any, least: int = 1) -> Strategy:
    return st.lists(objects, min_size=least, max_size=MOST)


def _numbers() -> st.SearchStrategy[float]:
    return st.floats(-4.0, 4.0, allow_subnormal=False).map(lambda value: round(value, 3))


def texts(alphabet: str = "abc", longest: int = 8) -> Strategy:
    """Lists of texts over an alphabet.

    >>> from hypothesis import find
    >>> find(texts(), lambda drawn: "ab" in drawn)
    ['ab']
    """
    return _lists(st.text(alphabet, max_size=longest))


def sequences(longest: int = 6) -> Strategy:
    """Lists of sequences of tokens: words and whole numbers.

    >>> from hypothesis import find
    >>> len(find(sequences(), lambda drawn: len(drawn) > 1))
    2
    """
    token = st.sampled_from(["to", "be", "or", "not"]) | st.integers(0, 3)
    return _lists(st.lists(token, max_size=longest).map(tuple))


def sets(symbols: Any = ("a", "b", "c", "d", 1, 2)) -> Strategy:
    """Lists of sets.

    >>> from hypothesis import find
    >>> len(find(sets(), lambda drawn: len(drawn) > 1))
    2
    """
    return _lists(st.frozensets(st.sampled_from(list(symbols))))


def weighted_sets(symbols: Any = ("a", "b", "c", 1)) -> Strategy:
    """Lists of dictionaries from symbols to weights.

    >>> from hypothesis import find
    >>> len(find(weighted_sets(), lambda drawn: len(drawn) > 1))
    2
    """
    weight = st.sampled_from([0.0, 0.25, 1.0, 2.0, 10.0])
    return _lists(st.dictionaries(st.sampled_from(list(symbols)), weight))


@st.composite
def _arrays(draw: Any, width: int, longest: int) -> np.ndarray:
    rows = draw(st.integers(0, longest))
    values = draw(st.lists(_numbers(), min_size=rows * width, max_size=rows * width))
    return np.array(values, float).reshape(rows, width)


def bags(width: int = 2, longest: int = 4) -> Strategy:
    """Lists of bags of vectors with so many columns.

    >>> from hypothesis import find
    >>> find(bags(width=3), lambda drawn: len(drawn[0]) > 0)[0].shape[1]
    3
    """
    return _lists(_arrays(width, longest))


def series(longest: int = 6) -> Strategy:
    """Lists of series of numbers.

    >>> from hypothesis import find
    >>> len(find(series(), lambda drawn: len(drawn) > 1))
    2
    """
    return _lists(_arrays(1, longest).map(lambda rows: rows[:, 0]))


def trees(labels: str = "ab", most: int = 6) -> Strategy:
    """Lists of trees as nested tuples, the empty tree too.

    >>> from hypothesis import find
    >>> len(find(trees(), lambda drawn: len(drawn) > 1))
    2
    """
    leaf = st.sampled_from(labels).map(lambda label: (label,))

    def node(children: Any) -> Any:
        below = st.lists(children, min_size=1, max_size=3)
        return st.tuples(st.sampled_from(labels), below).map(lambda pair: (pair[0], *pair[1]))

    tree = st.recursive(leaf, node, max_leaves=most)
    return _lists(st.just(()) | tree)


@st.composite
def _graph(draw: Any, labels: str | None, width: int, most: int) -> Any:
    n = draw(st.integers(0, most))
    pairs = [(u, v) for v in range(n) for u in range(v + 1)]  # loops too
    edges = draw(st.lists(st.sampled_from(pairs), max_size=2 * n)) if pairs else []
    names = n if labels is None else draw(st.lists(st.sampled_from(labels), min_size=n, max_size=n))
    if not width:
        return edges, names
    values = draw(st.lists(_numbers(), min_size=n * width, max_size=n * width))
    return edges, names, np.array(values, float).reshape(n, width)


def graphs(labels: str | None = "CNO", width: int = 0, most: int = 6) -> Strategy:
    """Lists of graphs as (edges, labels), with attributes of so many columns if there are any.

    >>> from hypothesis import find
    >>> len(find(graphs(), lambda drawn: len(drawn) > 1))
    2
    """
    return _lists(_graph(labels, width, most))


def images(side: int = 8) -> Strategy:
    """Lists of images of up to so many pixels in height and width.

    >>> from hypothesis import find
    >>> find(images(), lambda drawn: True)[0].ndim
    2
    """
    size = st.integers(0, side)
    pixels = st.tuples(size, size, st.integers(0, 1000))
    return _lists(pixels.map(lambda p: np.random.default_rng(p[2]).integers(0, 9, p[:2]) / 8.0))


def tables(most: int = MOST) -> st.SearchStrategy[dict[str, list[Any]]]:
    """Tables as dictionaries of columns: numbers, categories and missing values of both.

    >>> from hypothesis import find
    >>> isinstance(find(tables(), lambda drawn: True), dict)
    True
    """
    number = st.none() | _numbers()
    category = st.none() | st.sampled_from(["Bonn", "Rome", "Oslo"])
    row = st.tuples(number, number, category, st.booleans())
    names = "height", "weight", "town", "married"
    return st.lists(row, min_size=2, max_size=most).map(
        lambda rows: dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    )
