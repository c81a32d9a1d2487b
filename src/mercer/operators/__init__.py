"""Matrices to multiply by, most of them never stored: all that solvers see of data.

`Gram` is K(X, Y); around it stand a matrix in memory, one triangle of it, rows that come in blocks,
vectors in two precisions, the features of a feature map, and the identity. Each has `@`, `.T`,
`row_pass` and `dense`.
"""

from mercer.evaluation.execution import Affine, MappedRows, Plan, RowMap, RowPass
from mercer.operators.around import (
    BlockedGram,
    FeatureMatrix,
    HalfStoredGram,
    Identity,
    MixedPrecision,
    StoredGram,
    StoredMatrix,
    check_restartable,
    cross_gram,
    stored_if_small,
)
from mercer.operators.base import Operator, Transposed
from mercer.operators.gram import Gram
from mercer.runtime.machine import Machine

__all__ = [
    "Affine",
    "BlockedGram",
    "FeatureMatrix",
    "Gram",
    "HalfStoredGram",
    "Identity",
    "Machine",
    "MappedRows",
    "MixedPrecision",
    "Operator",
    "Plan",
    "RowMap",
    "RowPass",
    "StoredGram",
    "StoredMatrix",
    "Transposed",
    "check_restartable",
    "cross_gram",
    "stored_if_small",
]
