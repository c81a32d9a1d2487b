"""Dual ascent: every loss with a conjugate, with a duality gap to show for it."""

from mercer.solvers.dual.solver import DualAscent

__all__ = ["DualAscent"]
