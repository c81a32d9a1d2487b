"""Kernels on texts against scikit-learn's vectorizers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from mercer import KernelRidge
from mercer.kernels import laws
from mercer.structured import Text
from mercer.testing import check_kernel

TEXTS = ["the cat sat", "the cat the cat", "a dog sat down", "", "cat dog", "unrelated words"]
NEW = ["the new cat", "unseen", ""]
VECTORIZERS = {
    "counts": CountVectorizer(),
    "tf-idf": TfidfVectorizer(),
    "characters": TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)),
    "pairs of words": CountVectorizer(ngram_range=(1, 2)),
    "hashed": HashingVectorizer(n_features=2**12),
}


@pytest.mark.parametrize("name", VECTORIZERS)
def test_values_are_those_of_the_vectorizer(name):
    kernel = Text(VECTORIZERS[name]).fitted(TEXTS)
    peer = clone(VECTORIZERS[name]).fit(TEXTS)
    V, W = peer.transform(TEXTS), peer.transform(NEW)
    np.testing.assert_allclose(kernel(TEXTS), (V @ V.T).toarray(), atol=1e-14)
    np.testing.assert_allclose(kernel(NEW, TEXTS), (W @ V.T).toarray(), atol=1e-14)
    cosines = cosine_similarity(V)
    cosines[3, 3] = 1.0  # the empty text
    np.testing.assert_allclose(kernel.normalised()(TEXTS), cosines, atol=1e-14)
    phi = kernel.features(kernel.points(TEXTS))
    assert abs(phi - V).max() < 1e-14


@pytest.mark.parametrize("name", ["tf-idf", "hashed"])
def test_contract(name):
    check_kernel(Text(VECTORIZERS[name]).fitted(TEXTS), TEXTS)
    check_kernel(Text(VECTORIZERS[name]).fitted(TEXTS).normalised(), TEXTS)


def test_vectorizers_that_learn_are_fitted_first():
    assert Text(HashingVectorizer())("a cat", "cat") > 0
    for kernel in (Text(), Text(CountVectorizer())):
        with pytest.raises(
            ValueError, match=r"write kernel\.fitted\(texts\), or pass it to an esti"
        ):
            kernel(TEXTS)
    with pytest.raises(ValueError, match="Text needs a vectorizer of scikit-learn"):
        Text("tfidf")
    with pytest.raises(ValueError, match="item 1 is a int; a text is a str"):
        Text().fitted(["a", 5])


def test_estimators_fit_the_vectorizer():
    y = np.arange(6.0)
    model = KernelRidge(kernel=0.5 * Text().normalised() + Text(CountVectorizer())).fit(TEXTS, y)
    kernel = 0.5 * Text().fitted(TEXTS).normalised() + Text(CountVectorizer()).fitted(TEXTS)
    assert model.kernel_ == kernel
    expected = kernel(NEW, TEXTS) @ np.linalg.solve(kernel(TEXTS) + np.eye(6), y)
    np.testing.assert_allclose(model.predict(NEW), expected)
    assert not hasattr(model.kernel.right.vectorizer, "vocabulary_")


def test_kernels_on_texts_are_values():
    kernel = Text(TfidfVectorizer())
    changed = kernel.with_(vectorizer__min_df=2, vectorizer__norm=None)
    assert changed.vectorizer.min_df == 2
    assert changed != kernel
    assert kernel.vectorizer.min_df == 1
    fitted = kernel.fitted(TEXTS)
    assert pickle.loads(pickle.dumps(fitted)) == fitted != kernel
    assert fitted != kernel.fitted(TEXTS[:3])
    assert laws.positive_definite(kernel).yes
