"""Sets of points: dense rows, sparse rows, memory maps, lists of objects, row numbers.

Kernels turn what the user typed into a `PointSet` once; everything behind them only asks for its
length, for a slice and for a selection.
"""

from mercer.points.kinds import (
    ALL_COLUMNS,
    Column,
    DensePoints,
    HostedPoints,
    HostPoints,
    IndexPoints,
    ObjectPoints,
    PointSet,
    SparsePoints,
    VectorPoints,
    View,
    check_finite,
    is_point_set,
)
from mercer.points.reading import as_objects, as_points, as_vectors, check_column_names, is_frame

__all__ = [
    "ALL_COLUMNS",
    "Column",
    "DensePoints",
    "HostPoints",
    "HostedPoints",
    "IndexPoints",
    "ObjectPoints",
    "PointSet",
    "SparsePoints",
    "VectorPoints",
    "View",
    "as_objects",
    "as_points",
    "as_vectors",
    "check_column_names",
    "check_finite",
    "is_frame",
    "is_point_set",
]
