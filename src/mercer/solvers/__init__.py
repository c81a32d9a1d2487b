"""Problems, the solvers that solve them, and the solutions they return."""

from mercer.solvers import schedules
from mercer.solvers.automatic import default_solver
from mercer.solvers.block_coordinates import BlockCoordinateDescent
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.constrained import Constrained
from mercer.solvers.descent import Discrepancy, KernelGradientDescent, SubgradientDescent
from mercer.solvers.direct import Direct
from mercer.solvers.dual import DualAscent
from mercer.solvers.early_stopping import HeldOut
from mercer.solvers.filters import CutOff, IteratedTikhonov, Landweber, NuMethod, Tikhonov
from mercer.solvers.interpolation import interpolant
from mercer.solvers.newton import Newton
from mercer.solvers.optimality import Gap, certified_gap, duality_gap, gradient_norm
from mercer.solvers.path import PathPoint, regularization_path
from mercer.solvers.penalties import L1, Ball, OfNorm, PowerOfNorm
from mercer.solvers.problem import Problem, Solver
from mercer.solvers.root import Cholesky, Eigen, Features, PivotedCholesky, Root
from mercer.solvers.solution import Solution, Status
from mercer.solvers.sparse import SparseExpansion
from mercer.solvers.spectral import SpectralPath
from mercer.solvers.splitting import Splitting
from mercer.solvers.stochastic import (
    DoublyStochastic,
    MiniBatch,
    StochasticFunctionalGradient,
)

__all__ = [
    "L1",
    "Ball",
    "BlockCoordinateDescent",
    "Cholesky",
    "ConjugateGradient",
    "Constrained",
    "CutOff",
    "Direct",
    "Discrepancy",
    "DoublyStochastic",
    "DualAscent",
    "Eigen",
    "Features",
    "Gap",
    "HeldOut",
    "IteratedTikhonov",
    "KernelGradientDescent",
    "Landweber",
    "MiniBatch",
    "Newton",
    "NuMethod",
    "OfNorm",
    "PathPoint",
    "PivotedCholesky",
    "PowerOfNorm",
    "Problem",
    "Root",
    "Solution",
    "Solver",
    "SparseExpansion",
    "SpectralPath",
    "Splitting",
    "Status",
    "StochasticFunctionalGradient",
    "SubgradientDescent",
    "Tikhonov",
    "certified_gap",
    "default_solver",
    "duality_gap",
    "gradient_norm",
    "interpolant",
    "regularization_path",
    "schedules",
]
