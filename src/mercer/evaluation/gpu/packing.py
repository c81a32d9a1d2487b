"""Code for a GPU that is the same for all kernels: packing of rows, products of a stored matrix.

Rows are packed into operands of matrix products, one pass over them each: norms, and split parts.
float32 operands are cut into a leading part with 11 bits and a following part with 11 more, and
three products of parts add up to what one product in float32 would give. The parts are float16,
which a card multiplies twice as fast as tf32, wherever the rows are of similar size.

A stored matrix is multiplied by a few columns at the speed at which it is read: the matrix products
of vendors are made for many, and ten columns of K for 60,000 points take them twice as long.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from mercer.evaluation.gpu.plan import PADDING

ROWS, COLUMNS = 64, 64  # of a tile of a stored matrix


def pad(rows: torch.Tensor) -> torch.Tensor:
    """The rows, the last one repeated up to a multiple of `PADDING`."""
    missing = -rows.shape[0] % PADDING
    if not missing:
        return rows.contiguous()
    return torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])


def in_blocks(rows: torch.Tensor) -> torch.Tensor:
    """Blocks of `PADDING` rows, column by column in each: (blocks, columns, rows of a block)."""
    blocks = pad(rows).reshape(-1, PADDING, rows.shape[1])
    return blocks.transpose(1, 2).contiguous()


def pad_zeros(values: torch.Tensor) -> torch.Tensor:
    """The rows, zeros up to the length of padded operands."""
    missing = -values.shape[0] % PADDING
    return torch.nn.functional.pad(values, (0, 0, 0, missing)) if missing else values


@triton.jit
def _centred(ROWS, CENTRE, row, stride, D: tl.constexpr, KB: tl.constexpr):  # type: ignore[no-untyped-def]
    k = tl.arange(0, KB)
    inside = k < D
    rows = tl.load(ROWS + row[:, None] * stride + k[None, :], mask=inside[None, :], other=0.0)
    return rows - tl.load(CENTRE + k, mask=inside, other=0.0)[None, :]


@triton.jit(do_not_specialize=["n"])
def norms_kernel(  # type: ignore[no-untyped-def]
    ROWS, CENTRE, OUT, n, stride, D: tl.constexpr, KB: tl.constexpr, BM: tl.constexpr
):
    """‖x − c‖² of a block of rows."""
    i = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    rows = _centred(ROWS, CENTRE, tl.minimum(i, n - 1), stride, D, KB)
    tl.store(OUT + i, tl.sum(rows * rows, 1))


@triton.jit(do_not_specialize=["n"])
def parts_kernel(  # type: ignore[no-untyped-def]
    ROWS,
    CENTRE,
    FIRST,
    SECOND,
    THIRD,
    n,
    stride,
    factor,
    D: tl.constexpr,
    KB: tl.constexpr,
    WIDTH: tl.constexpr,
    STORED: tl.constexpr,
    EXTENDED: tl.constexpr,
    RIGHT: tl.constexpr,
    HALF: tl.constexpr,
    THREE: tl.constexpr,
    BM: tl.constexpr,
):
    """(−2x, ‖x‖², 1) on the left, (y, 1, ‖y‖²) on the right, in a leading and a following part.

    Where three parts lie side by side they are (following, leading, leading) on the left and
    (leading, following, leading) on the right.
    """
    i = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    rows = _centred(ROWS, CENTRE, tl.minimum(i, n - 1), stride, D, KB) * factor
    k = tl.arange(0, KB)[None, :]
    if EXTENDED:
        norms = tl.sum(rows * rows, 1)[:, None]
        if RIGHT:
            rows = tl.where(k == D, 1.0, tl.where(k == D + 1, norms, rows))
        else:
            rows = tl.where(k == D, norms, tl.where(k == D + 1, 1.0, -2.0 * rows))
    if HALF:
        leading = rows.to(tl.float16)
        following = (rows - leading.to(tl.float32)).to(tl.float16)
    else:
        bits = rows.to(tl.int32, bitcast=True) & -8192
        leading = bits.to(tl.float32, bitcast=True)
        following = rows - leading
    place = i[:, None] * STORED + k
    if THREE:
        present = k < WIDTH
        if RIGHT:
            tl.store(FIRST + place, leading, mask=present)
            tl.store(SECOND + place, following, mask=present)
        else:
            tl.store(FIRST + place, following, mask=present)
            tl.store(SECOND + place, leading, mask=present)
        tl.store(THIRD + place, leading, mask=present)
    else:
        present = k < STORED
        tl.store(FIRST + place, leading, mask=present)
        tl.store(SECOND + place, following, mask=present)


def _shape(rows: torch.Tensor, width: int) -> tuple[int, int, int]:
    """Padded rows, a power of two that holds the columns, and rows that are read together."""
    block = max(16, triton.next_power_of_2(width))
    return rows.shape[0] + -rows.shape[0] % PADDING, block, max(4, min(64, 4096 // block))


def _launch(kernel: Any, count: int, together: int, rows: torch.Tensor, **given: Any) -> None:
    grid = (-(-count // together),)
    if rows.device.type != "cuda":
        kernel[grid](ROWS=rows, n=rows.shape[0], stride=rows.stride(0), BM=together, **given)
        return
    with torch.cuda.device(rows.device):
        kernel[grid](ROWS=rows, n=rows.shape[0], stride=rows.stride(0), BM=together, **given)


def norms(rows: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """‖x − c‖² of every row, padded."""
    count, block, together = _shape(rows, rows.shape[1])
    out = torch.empty(count, dtype=torch.float32, device=rows.device)
    _launch(norms_kernel, count, together, rows, CENTRE=centre, OUT=out, D=rows.shape[1], KB=block)
    return out


def parts(
    rows: torch.Tensor,
    centre: torch.Tensor,
    factor: float,
    stored: int,
    *,
    right: bool,
    extended: bool,
    half: bool,
    three: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The leading and the following parts of factor·(x − c), or all three side by side, twice."""
    width = rows.shape[1] + (2 if extended else 0)
    count, block, together = _shape(rows, max(width, stored) if not three else width)
    dtype = torch.float16 if half else torch.float32
    first = torch.zeros((count, stored), dtype=dtype, device=rows.device)
    if three:
        flat = first.view(-1)
        places = first, flat[width:], flat[2 * width :]
    else:
        second = torch.zeros_like(first)
        places = first, second, second
    _launch(
        parts_kernel,
        count,
        together,
        rows,
        CENTRE=centre,
        FIRST=places[0],
        SECOND=places[1],
        THIRD=places[2],
        factor=float(factor),
        D=rows.shape[1],
        KB=block,
        WIDTH=width,
        STORED=stored,
        EXTENDED=extended,
        RIGHT=right,
        HALF=half,
        THREE=three,
    )
    return first, (first if three else places[1])


# ---- a stored matrix -----------------------------------------------------------------------------


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
