"""Kernels on texts through the vectorizers of scikit-learn: words, n-grams, TF-IDF."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
import scipy.sparse

from mercer.structured.base import Same, StructuredPoints, as_items, bad_item
from mercer.structured.sparse import FeatureRows, SparseKernel


@dataclass(frozen=True, eq=False)
class TextPoints(StructuredPoints):
    """Texts."""

    parts = ("texts",)
    texts: np.ndarray  # of str, one for each object

    @classmethod
    def read(cls, data: Any) -> Self:
        texts = as_items(data, "texts")
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise bad_item(i, f"is a {type(text).__name__}; a text is a str")
        chosen, starts = np.arange(len(texts)), np.arange(len(texts) + 1)
        return cls(chosen, starts, np.array(list(map(str, texts)), object))

    @staticmethod
    def is_object(x: Any) -> bool:
        return isinstance(x, str)

    def restored(self, i: int) -> str:
        return self.texts[i]


@dataclass(frozen=True, eq=False, repr=False)
class Text(SparseKernel):
    """⟨v(x), v(y)⟩ for the sparse features v(x) that a vectorizer of scikit-learn makes of a text.

    A vectorizer that learns (`TfidfVectorizer`, `CountVectorizer`) is fitted on training texts by
    the `fit` of an estimator, in each fold anew, or by `kernel.fitted(texts)`. One that does not
    (`HashingVectorizer`) can be used at once. Rows are sparse all the way.

    Parameters
    ----------
    vectorizer : vectorizer of scikit-learn or None, default=None
        v; None for TfidfVectorizer(), whose rows have unit length, so that values are cosines. For
        n-grams of characters write TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).

    References
    ----------
    Joachims, Text categorization with support vector machines, 1998.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    >>> texts = ["the cat sat", "the cat the cat", "a dog"]
    >>> k = Text(CountVectorizer()).fitted(texts)
    >>> k(texts[0], texts[1])  # the: 1·2, cat: 1·2
    4.0
    >>> V = TfidfVectorizer().fit_transform(texts)
    >>> bool(np.allclose(Text().fitted(texts)(texts), (V @ V.T).toarray()))
    True
    """

    vectorizer: Any = None
    kind = TextPoints
    positive_definite = "it is the inner product of the features of a vectorizer"

    def __post_init__(self) -> None:
        if self.vectorizer is not None and not hasattr(self.vectorizer, "transform"):
            raise ValueError(
                f"Text needs a vectorizer of scikit-learn, as TfidfVectorizer(); got "
                f"{self.vectorizer!r}."
            )

    def fitted(self, data: Any) -> Text:
        """This kernel with its vectorizer fitted on training texts."""
        return Text(self._fresh_vectorizer().fit(self.points(data).texts))

    def _fresh_vectorizer(self) -> Any:
        from sklearn.base import clone
        from sklearn.feature_extraction.text import TfidfVectorizer

        return TfidfVectorizer() if self.vectorizer is None else clone(self.vectorizer)

    def feature_rows(self, points: TextPoints) -> FeatureRows:
        from sklearn.exceptions import NotFittedError

        try:
            if self.vectorizer is None:
                raise NotFittedError
            rows = self.vectorizer.transform(points.texts)
        except NotFittedError:
            raise ValueError(
                f"{self!r} learns its words from training texts: write kernel.fitted(texts), or "
                "pass it to an estimator, whose fit does that; HashingVectorizer needs no fitting."
            ) from None
        rows = scipy.sparse.csr_array(rows, dtype=np.float64)
        rows.sum_duplicates()
        return FeatureRows(_columns(rows.shape[1]), rows)

    def with_(self, **changes: Any) -> Self:
        """A copy with other fields; those of the vectorizer are reached as vectorizer__min_df."""
        inner = {k: v for k, v in changes.items() if k.startswith("vectorizer__")}
        kernel = super().with_(**{k: v for k, v in changes.items() if k not in inner})
        if not inner:
            return kernel
        vectorizer = kernel._fresh_vectorizer()
        vectorizer.set_params(**{k.partition("__")[2]: v for k, v in inner.items()})
        return super(Text, kernel).with_(vectorizer=vectorizer)

    def _identity(self) -> tuple[Any, ...]:
        """A key for equality: the parameters of the vectorizer and its fitted attributes."""
        if self.vectorizer is None:
            return (None,)
        words = getattr(self.vectorizer, "vocabulary_", {})
        weights = np.asarray(getattr(self.vectorizer, "idf_", ()))
        return repr(self.vectorizer), tuple(sorted(words.items())), weights.tobytes()

    def _key(self) -> Any:
        return Same(self.vectorizer)


@lru_cache(maxsize=8)
def _columns(count: int) -> np.ndarray:
    """The keys of all columns, one array for all points, so that they are known to be the same."""
    return np.arange(count, dtype=np.uint64)
