"""Rows on the workers of a Dask cluster, as one array: the only package that imports dask.

`Rows` is an array whose blocks of rows lie on workers. What is computed for each row stays there;
sums over rows come back as arrays of NumPy. `Placement` says which worker has which block, starts
tasks there, and adds up what they return in an order that is fixed by the numbers of the blocks.
"""

from mercer.distributed.admission import is_collection, is_scattered
from mercer.distributed.rows import Rows

__all__ = ["Rows", "is_collection", "is_scattered"]
