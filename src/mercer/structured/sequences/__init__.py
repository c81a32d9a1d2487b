"""Kernels on sequences: words inside them, subsequences with gaps, alignments."""

from mercer.structured.sequences.alignment import EditSimilarity, EmpiricalMap, GlobalAlignment
from mercer.structured.sequences.points import SequencePoints, SeriesPoints
from mercer.structured.sequences.spectra import (
    BlendedSpectrum,
    MismatchSpectrum,
    Spectrum,
    WeightedDegree,
    WildcardSpectrum,
)
from mercer.structured.sequences.subsequences import (
    AllSubsequences,
    CommonSubsequences,
    GapWeighted,
)

__all__ = [
    "AllSubsequences",
    "BlendedSpectrum",
    "CommonSubsequences",
    "EditSimilarity",
    "EmpiricalMap",
    "GapWeighted",
    "GlobalAlignment",
    "MismatchSpectrum",
    "SequencePoints",
    "SeriesPoints",
    "Spectrum",
    "WeightedDegree",
    "WildcardSpectrum",
]
