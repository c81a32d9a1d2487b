"""Kernels on graphs: labels that take in their neighbours, paths, graphlets and walks."""

from mercer.structured.graphs.labels import (
    PropagatedAttributes,
    WeisfeilerLehman,
    WeisfeilerLehmanAssignment,
)
from mercer.structured.graphs.paths import Graphlets, RandomWalk, ShortestPath
from mercer.structured.graphs.points import Graph, GraphPoints, from_networkx

__all__ = [
    "Graph",
    "GraphPoints",
    "Graphlets",
    "PropagatedAttributes",
    "RandomWalk",
    "ShortestPath",
    "WeisfeilerLehman",
    "WeisfeilerLehmanAssignment",
    "from_networkx",
]
