"""Functions in the space of a kernel."""

from mercer.functions.function import RKHSFunction

__all__ = ["RKHSFunction"]
