"""Which execution serves tensors: fused Triton code, or blocks in torch."""

from __future__ import annotations

import os
from typing import Any

import torch

from mercer.evaluation.expression import Expression
from mercer.evaluation.gpu import blocks
from mercer.evaluation.program import EvaluableKernel


def dtype_of(name: Any) -> torch.dtype:
    """The type of torch for a precision of NumPy."""
    return torch.float32 if str(name) in ("float32", "torch.float32") else torch.float64


def triton_is_there() -> bool:
    """Whether Triton can be imported; it comes with torch on Linux."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def too_old(device: Any) -> bool:
    """Whether a card is older than what Triton compiles for (compute capability 7.0)."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device)[0] < 7


def is_host(device: Any) -> bool:
    """Whether a device is the CPU, and Triton does not interpret there."""
    return device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1"


def runs_fused_code(device: Any) -> bool:
    """Whether Triton is there and compiles for a device, or interprets."""
    return not is_host(device) and triton_is_there() and not too_old(device)


def execution(
    kernel: EvaluableKernel, x: Any, y: Any, dtype: torch.dtype, precision: str | None
) -> Any:
    """Something with `matmul` and `dense` for K(X, Y)."""
    if x.rows.device != y.rows.device:
        raise ValueError(
            f"both sides must be on one device; got {x.rows.device} and {y.rows.device}: write "
            f"Y.to({str(x.rows.device)!r})."
        )
    expression = kernel.expression()
    if expression is None:
        return blocks.BlockProduct(_block_of(kernel), x, y, dtype)
    if not runs_fused_code(x.rows.device):
        return blocks.BlockProduct(lambda a, b: blocks.values(expression, a, b, dtype), x, y, dtype)
    return _fused(expression, x, y, dtype, precision)


def _fused(
    expression: Expression, x: Any, y: Any, dtype: torch.dtype, precision: str | None
) -> Any:
    from mercer.evaluation.gpu.product import FusedProduct

    return FusedProduct(expression, x, y, dtype, precision or "float32")


def values(expression: Expression, x: Any, y: Any, dtype: torch.dtype) -> torch.Tensor:
    """All values of an expression, stored: by fused code where it runs, else in plain torch."""
    if runs_fused_code(x.rows.device):
        return _fused(expression, x, y, dtype, None).dense()
    return blocks.values(expression, x, y, dtype)


def _block_of(kernel: EvaluableKernel) -> Any:
    """The kernel's own function of two blocks, on tensors or, where it needs NumPy, on the host."""
    if getattr(kernel, "takes_tensors", False):
        return kernel.block
    return lambda x, y: kernel.block(x.host(), y.host())


Kept = dict[Any, Any]  # executions with their operands, from one product to the next


def _kept(
    kept: Kept, kernel: EvaluableKernel, x: Any, y: Any, dtype: torch.dtype, precision: str | None
) -> Any:
    key = id(x), id(y), dtype
    if key not in kept:
        kept[key] = execution(kernel, x, y, dtype, precision)
    return kept[key]


def matmul(
    kernel: EvaluableKernel, x: Any, y: Any, values: torch.Tensor, precision: str | None, kept: Kept
) -> torch.Tensor:
    """K(X, Y) V."""
    return _kept(kept, kernel, x, y, values.dtype, precision).matmul(values)


def normal_matmul(
    kernel: EvaluableKernel,
    x: Any,
    y: Any,
    values: torch.Tensor,
    shift: Any,
    precision: str | None,
    kept: Kept,
) -> torch.Tensor:
    """K(Y, X)(K(X, Y) V + W): values are computed twice, which costs less than to store them."""
    inner = _kept(kept, kernel, x, y, values.dtype, precision).matmul(values)
    if shift is not None:
        inner += shift
    return _kept(kept, kernel, y, x, values.dtype, precision).matmul(inner)


def row_pass(
    kernel: EvaluableKernel,
    x: Any,
    y: Any,
    values: torch.Tensor,
    middle: Any,
    precision: str | None,
    kept: Kept,
) -> torch.Tensor:
    """K(Y, X) M(K(X, Y) V): values are computed twice, and M gets all rows at once."""
    inner = _kept(kept, kernel, x, y, values.dtype, precision).matmul(values)
    outer = middle(0, len(x), inner).to(values.dtype).contiguous()
    return _kept(kept, kernel, y, x, values.dtype, precision).matmul(outer)


def free_memory(device: Any) -> int:
    """Bytes that are free on a card, those included that torch keeps for itself."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + int(kept)


def dense(
    kernel: EvaluableKernel, x: Any, y: Any, dtype: torch.dtype, precision: str | None
) -> Any:
    """K(X, Y), stored on the device."""
    size = len(x) * len(y) * dtype.itemsize
    if x.rows.device.type == "cuda" and size > free_memory(x.rows.device):
        raise MemoryError(
            f"a dense matrix of {len(x)} × {len(y)} takes {size / 2**30:.1f} GB, more than is "
            "free on the device: multiply by the Gram matrix instead (gram @ v), which never "
            "stores it."
        )
    return execution(kernel, x, y, dtype, precision).dense()


def diagonal(kernel: EvaluableKernel, x: Any) -> torch.Tensor:
    """All k(x_i, x_i)."""
    dtype = dtype_of(x.dtype)
    expression = kernel.expression()
    if expression is None:
        points = x if getattr(kernel, "takes_tensors", False) else x.host()
        return torch.as_tensor(kernel.diagonal(points), dtype=dtype, device=x.rows.device)
    return blocks.diagonal(expression, x, dtype)
