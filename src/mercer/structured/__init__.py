"""Kernels on things that are not vectors: sets, text, sequences, trees, graphs, images, tables.

Points are the plain Python objects people have. They are read and checked once, and held in flat
arrays on which compiled code runs.

>>> from mercer.structured import Spectrum
>>> Spectrum(2)(["kernel", "kern", "space"]).tolist()
[[5.0, 3.0, 0.0], [3.0, 3.0, 0.0], [0.0, 0.0, 4.0]]
"""

from mercer.structured.graphs import (
    Graph,
    Graphlets,
    PropagatedAttributes,
    RandomWalk,
    ShortestPath,
    WeisfeilerLehman,
    WeisfeilerLehmanAssignment,
    from_networkx,
)
from mercer.structured.images import VisualWords
from mercer.structured.sequences import (
    AllSubsequences,
    BlendedSpectrum,
    CommonSubsequences,
    EditSimilarity,
    EmpiricalMap,
    GapWeighted,
    GlobalAlignment,
    MismatchSpectrum,
    Spectrum,
    WeightedDegree,
    WildcardSpectrum,
)
from mercer.structured.sets import GaussianOfMeans, Intersection, Jaccard, MeanMap
from mercer.structured.tables import Category, Match, OfColumn, Table, table_kernel
from mercer.structured.text import Text
from mercer.structured.trees import PartialTrees, SubsetTrees, Subtrees

__all__ = [
    "AllSubsequences",
    "BlendedSpectrum",
    "Category",
    "CommonSubsequences",
    "EditSimilarity",
    "EmpiricalMap",
    "GapWeighted",
    "GaussianOfMeans",
    "GlobalAlignment",
    "Graph",
    "Graphlets",
    "Intersection",
    "Jaccard",
    "Match",
    "MeanMap",
    "MismatchSpectrum",
    "OfColumn",
    "PartialTrees",
    "PropagatedAttributes",
    "RandomWalk",
    "ShortestPath",
    "Spectrum",
    "SubsetTrees",
    "Subtrees",
    "Table",
    "Text",
    "VisualWords",
    "WeightedDegree",
    "WeisfeilerLehman",
    "WeisfeilerLehmanAssignment",
    "WildcardSpectrum",
    "from_networkx",
    "table_kernel",
]
