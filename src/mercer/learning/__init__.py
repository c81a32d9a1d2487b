"""Kernels that learn from data how to measure: metrics, parameters, weights of sums."""

from typing import Any

from mercer.kernels.base import Kernel
from mercer.learning.candidates import CANDIDATES, Race, TargetTransform, raced
from mercer.learning.local import LocalFunction
from mercer.learning.metric import Metric
from mercer.learning.parameters import LearnedParameters, LeaveOneOut, MarginalLikelihood
from mercer.learning.rounds import GradientRounds, LearnedKernel, Round

__all__ = [
    "CANDIDATES",
    "GradientRounds",
    "LearnedKernel",
    "LearnedParameters",
    "LeaveOneOut",
    "LocalFunction",
    "MarginalLikelihood",
    "Metric",
    "Race",
    "Round",
    "TargetTransform",
    "raced",
]


def learn(kernel: Kernel, X: Any, y: Any, by: Any = None, sample_weight: Any = None) -> Any:
    """Learn a kernel by the method `by`; see `Kernel.learn`."""
    return (GradientRounds() if by is None else by).learn(kernel, X, y, sample_weight)
