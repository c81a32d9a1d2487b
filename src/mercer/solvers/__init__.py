"""Problems, the solvers that solve them, and the solutions they return."""

from mercer.solvers import schedules
from mercer.solvers.centres import CentresNewton, CentresProblem
from mercer.solvers.constrained import Constrained
from mercer.solvers.descent import (
    Discrepancy,
    HeldOut,
    KernelGradientDescent,
    StochasticFunctionalGradient,
    SubgradientDescent,
    duality_gap,
    gradient_norm,
)
from mercer.solvers.direct import Direct
from mercer.solvers.doubly import DoublyStochastic
from mercer.solvers.filters import CutOff, IteratedTikhonov, Landweber, NuMethod, Tikhonov
from mercer.solvers.interpolation import interpolant
from mercer.solvers.iterative import ConjugateGradient
from mercer.solvers.minibatch import FeatureProblem, MiniBatch
from mercer.solvers.path import SpectralPath
from mercer.solvers.problem import Problem, Solver
from mercer.solvers.solution import Solution, Status

__all__ = [
    "CentresNewton",
    "CentresProblem",
    "ConjugateGradient",
    "Constrained",
    "CutOff",
    "Direct",
    "Discrepancy",
    "DoublyStochastic",
    "FeatureProblem",
    "HeldOut",
    "IteratedTikhonov",
    "KernelGradientDescent",
    "Landweber",
    "MiniBatch",
    "NuMethod",
    "Problem",
    "Solution",
    "Solver",
    "SpectralPath",
    "Status",
    "StochasticFunctionalGradient",
    "SubgradientDescent",
    "Tikhonov",
    "duality_gap",
    "gradient_norm",
    "interpolant",
    "schedules",
]
