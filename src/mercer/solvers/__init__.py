"""Problems, the solvers that solve them, and the solutions they return."""

from mercer.solvers.problem import Problem, Solver
from mercer.solvers.solution import Solution, Status

__all__ = ["Problem", "Solution", "Solver", "Status"]
