"""Problems, the solvers that solve them, and the solutions they return."""

from mercer.solvers.direct import Direct
from mercer.solvers.problem import Problem, Solver
from mercer.solvers.solution import Solution, Status

__all__ = ["Direct", "Problem", "Solution", "Solver", "Status"]
