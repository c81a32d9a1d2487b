"""Functions in reproducing kernel Hilbert spaces."""

from mercer.functions.embeddings import Coreset, coreset, mean_embedding
from mercer.functions.function import (
    FeatureFunction,
    Features,
    Polynomials,
    RKHSFunction,
    SplineFunction,
)

__all__ = [
    "Coreset",
    "FeatureFunction",
    "Features",
    "Polynomials",
    "RKHSFunction",
    "SplineFunction",
    "coreset",
    "mean_embedding",
]
