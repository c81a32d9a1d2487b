"""Functions in reproducing kernel Hilbert spaces."""

from mercer.functions.embeddings import Coreset, coreset, mean_embedding
from mercer.functions.feature_function import FeatureFunction, Features
from mercer.functions.function import RKHSFunction
from mercer.functions.spline import Polynomials, SplineFunction

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
