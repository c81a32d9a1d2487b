"""Problems on few centres for many points: one pass over the rows a step, K_nM never stored.

>>> import numpy as np
>>> from mercer.kernels import Gaussian
>>> from mercer.losses import Squared
>>> from mercer.solvers import CentresNewton, Problem
>>> from mercer.solvers.centres import passes
>>> k, X = Gaussian(0.2), np.linspace(0.0, 1.0, 500)[:, None]
>>> rows = passes(k, k.points(X), k.points(X[::25]))
>>> problem = Problem.on_centres(rows, np.sin(6 * X[:, 0]), Squared(), regularization=1e-6)
>>> CentresNewton().solve(problem).status.converged
True
"""

from mercer.solvers.centres.passes import (
    BlockPasses,
    Passes,
    PointPasses,
    StoredPasses,
    passes,
)
from mercer.solvers.centres.path import PathPoint, centres_path
from mercer.solvers.centres.solver import CentresNewton

__all__ = [
    "BlockPasses",
    "CentresNewton",
    "Passes",
    "PathPoint",
    "PointPasses",
    "StoredPasses",
    "centres_path",
    "passes",
]
