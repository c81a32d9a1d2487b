"""Speed and memory of the machine that computes with points, as far as solvers plan with them.

A solver asks what a kernel value costs, how many rows to take at a time, whether float64 is slow;
it never asks where the points are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.runtime.budget import Memory


@dataclass(frozen=True)
class Machine:
    """Figures of one kind of machine; those of `CPU` are from two cores, of `CARD` from an H200.

    Parameters
    ----------
    uses_numpy : bool
        Whether arrays are NumPy's, so that compiled code and LAPACK compute in place.
    entry, coordinate : float
        Multiply-adds that take as long as a kernel value in a product in float64, and what one
        coordinate adds. Gaussian: 0.9 ns against 0.03 ns; on the card 0.3 ps at d = 10, 8.6 ps at
        d = 784, against 0.04 ps in float32.
    float32_share : float
        Of these that a value in float32 takes.
    stored_entry : float
        The same for a value of a stored K. It is read in 1 ps on the card, but columns are then
        chosen on the CPU, which takes as long as their arithmetic.
    stored_width : float
        Coordinates from which a stored K is read faster than it is computed.
    stored_share : float
        Of the free memory that a stored K may take.
    stored_seconds : float
        Of each value of a stored K in a product.
    float64_factor : float
        Times as long as in float32 takes a pass in float64: the card computes 3.1·10¹² Gaussian
        values a second in float32, 0.5·10¹² in float64 where distances are matrix products
        (d = 11), 0.26·10¹² where they are differences. Only a factor of many changes a plan.
    mixed_pays : bool
        Whether a factorisation in float32 with refinement is faster than one in float64; a card
        for computing has float64 products as fast.
    symmetric_share : float
        Of the time of K(X, Y)v that K(X, X)v takes, as each pair is computed once: on the card 0.78
        for 65,536 points, 0.67 for 1.8 million.
    rows_bytes : int
        Of rows that are multiplied at a time: they stay in a cache of the CPU; on the card they are
        many enough that launches take no time.
    sample_bytes : int
        Of a block of sampled rows.
    values_rows : float
        For which values are computed at a time where only sums of their squares are wanted:
        those of all rows would take more memory than the rows, unless they are elsewhere.
    keeps_rows : bool
        Whether main memory may hold what was computed for each row, to read it again: not where
        rows are elsewhere.
    pairs_rows : bool
        Whether K of all rows with all rows is computed; otherwise f is sought on centres.
    pool_rows : float
        Rows for each centre, of a pool that stands for all rows where these are elsewhere.
    rank_per_root : float
        Columns of a preconditioner, at most, for each √n, where memory admits more than ever pay.
    copies : float
        Times the memory of those columns that is taken for them.
    blocks : int
        Blocks of rows in the same memory beside the columns.
    factor_copies : float
        Times the memory of K that its factorisation takes.
    fetching_is_slow : bool
        Whether a kernel value takes longer to come to main memory than to be computed: 1 ns from
        the card, where it takes 9 ps for d = 784.
    threads : float
        Of the host that give it work at a time: as Python's lock lets one of them launch, more wait
        for each other (45 machines on an H200: two threads take 2.2 s, sixteen 2.9).
    launch : float
        Seconds that a factorisation takes beside its arithmetic: operations that wait for others.
    probe, order : int
        Points on which kernel values are timed, and the order of a matrix product that is timed; a
        card needs much work to be busy.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> Gaussian().gram(np.zeros((3, 2))).machine.uses_numpy
    True
    """

    uses_numpy: bool = True
    entry: float = 28.0
    coordinate: float = 1.0
    float32_share: float = 0.5
    stored_entry: float = 28.0
    stored_width: float = math.inf
    stored_share: float = 0.4
    stored_seconds: float = math.inf
    float64_factor: float = 1.0
    mixed_pays: bool = True
    symmetric_share: float = 0.5
    rows_bytes: int = 16 << 20
    sample_bytes: int = 32 << 20
    values_rows: float = 1 << 18
    keeps_rows: bool = True
    pairs_rows: bool = True
    pool_rows: float = math.inf
    rank_per_root: float = math.inf
    copies: float = 1.0
    blocks: int = 3
    factor_copies: float = 1.1
    fetching_is_slow: bool = False
    threads: float = math.inf
    launch: float = 0.0
    probe: int = 1024
    order: int = 1024


CPU = Machine()
CARD = Machine(
    uses_numpy=False,
    entry=4.0,
    coordinate=0.27,
    float32_share=1.0,
    stored_entry=12.0,
    stored_width=64,
    stored_seconds=1.5e-12,
    float64_factor=6.0,
    mixed_pays=False,
    symmetric_share=0.75,
    rows_bytes=2 << 30,
    sample_bytes=1 << 30,
    values_rows=math.inf,
    keeps_rows=False,
    rank_per_root=20.0,
    copies=1.1,
    blocks=0,
    factor_copies=2.2,
    fetching_is_slow=True,
    threads=2,
    launch=0.015,
    probe=1 << 15,
    order=4096,
)
CLUSTER = replace(  # rows on workers, the rest is here
    CPU, values_rows=math.inf, keeps_rows=False, pairs_rows=False, pool_rows=20
)
TENSORS = replace(  # on the CPU, where torch computes
    CARD,
    symmetric_share=1.0,
    fetching_is_slow=False,
    threads=math.inf,
    probe=CPU.probe,
    order=CPU.order,
)


def float64_is_slow(operator: Any) -> bool:
    """Whether products in float64 take many times as long as in the operator's own float32."""
    return operator.dtype == np.float32 and operator.machine.float64_factor > 2.0


def stores_faster(gram: Any) -> bool:
    """Whether a stored K is read faster than it is computed, and there is memory for it."""
    machine, width = gram.machine, getattr(gram.x, "width", 0)
    if gram.dtype != np.float32 or width < machine.stored_width:
        return False
    return 4 * gram.shape[0] * gram.shape[1] <= machine.stored_share * gram.x.free_memory()


def value_cost(gram: Any, dtype: Any = np.float64) -> float:
    """Multiply-adds that take as long as a value of K in a product in some precision."""
    machine, width = gram.machine, getattr(gram.x, "width", 0)
    if stores_faster(gram):
        return machine.stored_entry
    share = machine.float32_share if np.dtype(dtype) == np.float32 else 1.0
    return share * (machine.entry + machine.coordinate * width)


def column_memory(gram: Any) -> Memory:
    """The memory budget for columns of K: half of what is free on a card, if none was set."""
    if gram.memory is not None or gram.machine.uses_numpy:
        return gram.memory
    return gram.x.free_memory() // 2
