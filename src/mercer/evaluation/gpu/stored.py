"""Products of a stored matrix with a few columns on a GPU, at the speed at which it is read.

The matrix products of vendors are made for many columns: ten columns of K for 60,000 points take
them twice as long as reading K.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

ROWS, COLUMNS = 64, 64  # of a tile


def multiply(matrix: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """M V in float32: tiles of M times V, in three products of their leading parts."""
    width = columns.shape[1]
    n, m = matrix.shape
    together = max(16, triton.next_power_of_2(width))  # the narrowest matrix product there is
    padded = columns.new_zeros((m, together))
    padded[:, :width] = columns
    out = matrix.new_empty((n, together))
    sizes = {"n": n, "m": m, "stride": matrix.stride(0), "T": together, "BM": ROWS, "BN": COLUMNS}
    grid = (-(-n // ROWS),)
    if matrix.device.type == "cuda":
        with torch.cuda.device(matrix.device):
            _multiply[grid](matrix, padded, out, **sizes, num_warps=4, num_stages=4)
    else:
        _multiply[grid](matrix, padded, out, **sizes)
    return out[:, :width]


@triton.jit(do_not_specialize=["n", "m"])
def _multiply(  # type: ignore[no-untyped-def]
    M, V, OUT, n, m, stride, T: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    i = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    t = tl.arange(0, T)
    total = tl.zeros((BM, T), tl.float32)
    for start in range(0, m, BN):
        j = start + tl.arange(0, BN)
        inside = j < m
        block = tl.load(
            M + i[:, None] * stride + j[None, :], mask=(i < n)[:, None] & inside[None, :], other=0.0
        )
        values = tl.load(V + j[:, None] * T + t[None, :], mask=inside[:, None], other=0.0)
        total += tl.dot(block, values, input_precision="tf32x3")
    tl.store(OUT + i[:, None] * T + t[None, :], total, mask=(i < n)[:, None])
