"""Centres: a few points that stand for all of them.

Each way to choose is a small object with `choose(kernel, points)`. What it returns knows its trace
error, trace(K − K̂)/trace(K), so that you see whether a choice helps.

>>> import numpy as np
>>> from mercer.features.centres import RandomlyPivoted, Uniform
>>> from mercer.kernels import Gaussian
>>> X = np.random.default_rng(0).standard_normal((300, 2))
>>> k = Gaussian(0.5)
>>> pivoted = RandomlyPivoted(60, random_state=0).choose(k, X)
>>> pivoted.trace_error < Uniform(60, random_state=0).choose(k, X).trace_error
True
"""

from mercer.features.centres.choice import Centres, Choice
from mercer.features.centres.pivoted import Greedy, RandomlyPivoted
from mercer.features.centres.sampling import Given, KMeansPlusPlus, LeverageScores, Uniform

__all__ = [
    "Centres",
    "Choice",
    "Given",
    "Greedy",
    "KMeansPlusPlus",
    "LeverageScores",
    "RandomlyPivoted",
    "Uniform",
]
