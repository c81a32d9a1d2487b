"""Problems, the solvers that solve them, and the solutions they return."""

from mercer.solvers.direct import Direct
from mercer.solvers.filters import CutOff, IteratedTikhonov, Landweber, NuMethod, Tikhonov
from mercer.solvers.interpolation import interpolant
from mercer.solvers.path import SpectralPath
from mercer.solvers.problem import Problem, Solver
from mercer.solvers.solution import Solution, Status

__all__ = [
    "CutOff",
    "Direct",
    "IteratedTikhonov",
    "Landweber",
    "NuMethod",
    "Problem",
    "Solution",
    "Solver",
    "SpectralPath",
    "Status",
    "Tikhonov",
    "interpolant",
]
