"""Functions in reproducing kernel Hilbert spaces."""

from mercer.functions.coresets import Coreset, coreset
from mercer.functions.embedding import mean_embedding
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
