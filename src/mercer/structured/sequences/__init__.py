"""Kernels on sequences: words inside them, subsequences with gaps, alignments."""
