"""scikit-learn's base classes, with types: theirs have none, and would hide those of ours.

A dataclass derived from a class that a type checker does not know takes any argument in its eyes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "ClassifierMixin",
    "MultiOutputMixin",
    "OutlierMixin",
    "RegressorMixin",
    "TransformerMixin",
]

if TYPE_CHECKING:

    class _Tagged:
        def __sklearn_tags__(self) -> Any: ...

    class BaseEstimator(_Tagged):
        """Parameters, metadata routing and a representation."""

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...

        def set_params(self, **params: Any) -> Self: ...

        def get_metadata_routing(self) -> Any: ...

        def set_callbacks(self, *callbacks: Any) -> Self: ...

    class _Scored(_Tagged):
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

        def set_fit_request(self, *, sample_weight: bool | str | None = ...) -> Self: ...

        def set_score_request(self, *, sample_weight: bool | str | None = ...) -> Self: ...

    class ClassifierMixin(_Scored):
        """The share of right labels as a score."""

    class RegressorMixin(_Scored):
        """R² as a score."""

    class MultiOutputMixin(_Tagged):
        """Several targets."""

    class OutlierMixin(_Tagged):
        """Labels 1 and −1."""

        def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> Any: ...

    class TransformerMixin(_Tagged):
        """`fit_transform`, and frames as output."""

        def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any: ...

        def set_output(self, *, transform: str | None = None) -> Self: ...

    class ClassNamePrefixFeaturesOutMixin:
        """Names of features that start with that of the class."""

        def get_feature_names_out(self, input_features: Any = None) -> Any: ...

else:
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        MultiOutputMixin,
        OutlierMixin,
        RegressorMixin,
        TransformerMixin,
    )
