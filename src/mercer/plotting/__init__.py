"""Pictures of kernels and fitted models; matplotlib is imported when one is drawn."""

from mercer.plotting.learning import HistoryDisplay, MetricDisplay, RegretDisplay
from mercer.plotting.models import (
    ComponentsDisplay,
    FittedFunctionDisplay,
    SupportVectorsDisplay,
    ValidationDisplay,
)
from mercer.plotting.spectrum import EigenfunctionsDisplay, GramDisplay, SpectrumDisplay

__all__ = [
    "ComponentsDisplay",
    "EigenfunctionsDisplay",
    "FittedFunctionDisplay",
    "GramDisplay",
    "HistoryDisplay",
    "MetricDisplay",
    "RegretDisplay",
    "SpectrumDisplay",
    "SupportVectorsDisplay",
    "ValidationDisplay",
]
