"""Kernels on sequences: words inside them, subsequences with gaps, alignments."""

from mercer.structured.sequences.dynamic_programs import (
    AllSubsequences,
    CommonSubsequences,
    EditSimilarity,
    EmpiricalMap,
    GapWeighted,
    GlobalAlignment,
)
from mercer.structured.sequences.points import SequencePoints, SeriesPoints
from mercer.structured.sequences.spectra import (
    BlendedSpectrum,
    MismatchSpectrum,
    Spectrum,
    WeightedDegree,
    WildcardSpectrum,
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
