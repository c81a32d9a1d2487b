"""Points that are rows of a torch tensor, on any device; imported only where torch is loaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from mercer.arrays import beside
from mercer.points.kinds import (
    AS_IT_IS,
    DOUBLE,
    FIRST_COLUMN,
    SINGLE,
    DensePoints,
    SparsePoints,
    VectorPoints,
    View,
    refuse_values,
)
from mercer.runtime.machine import CARD, TENSORS, Machine

FLOATS = (torch.float32, torch.float64)


@dataclass(frozen=True, eq=False)
class TensorPoints(VectorPoints):
    """Rows of a two-dimensional tensor. Kernel values on them are computed on their device."""

    @property
    def dtype(self) -> np.dtype:
        return SINGLE if str(self.rows.dtype).endswith("float32") else DOUBLE

    @property
    def device(self) -> Any:
        return self.rows.device

    @property
    def home(self) -> str:  # type: ignore[override]
        return str(self.device)

    @property
    def machine(self) -> Machine:  # type: ignore[override]
        return CARD if self.device.type == "cuda" else TENSORS

    def vector(self, values: Any) -> torch.Tensor:
        """Numbers of any library as a tensor on the device of the points."""
        return beside(values, self.rows)

    def admitted(self, values: Any, dtype: np.dtype) -> tuple[torch.Tensor, Any]:
        check_beside(values, self.device)
        tensor = torch.as_tensor(values, device=self.device).detach()
        if tensor.is_complex() or tensor.ndim not in (1, 2):
            refuse_values(tensor)
        wide = dtype == np.float64 or tensor.dtype == torch.float64
        columns = tensor[:, None] if tensor.ndim == 1 else tensor
        columns = columns.to(torch.float64 if wide else torch.float32).contiguous()
        return columns, FIRST_COLUMN if tensor.ndim == 1 else AS_IT_IS

    def free_memory(self) -> int:
        """Bytes that are free on the device, those included that torch holds for itself."""
        if self.device.type != "cuda":
            return super().free_memory()
        # The counters as torch keeps them: flattened, as most of its functions have them, they take
        # 0.2 ms, which at a hundred calls is a tenth of a fit.
        counters = torch.cuda.memory_stats_as_nested_dict(self.device)
        reserved, taken = (
            counters.get(name, {}).get("all", {}).get("current", 0)
            for name in ("reserved_bytes", "allocated_bytes")
        )
        return int(torch.cuda.mem_get_info(self.device)[0]) + int(reserved - taken)

    def take(self, indices: Any) -> Self:
        return replace(self, rows=self.rows[torch.as_tensor(indices, device=self.device)])

    def concatenated(self, other: Any) -> TensorPoints:
        return TensorPoints(torch.cat([self.rows, other.rows]), self.names)

    def made_of(self, rows: Any, names: tuple[str, ...] | None = None) -> TensorPoints:
        return TensorPoints(rows, names)

    def host(self) -> DensePoints:  # type: ignore[override]
        """The same points as a NumPy array; without a copy where they are on the CPU."""
        return DensePoints(self.rows.detach().cpu().numpy(), self.names)

    def as_sparse(self) -> SparsePoints:
        raise ValueError("tensors and sparse matrices do not mix: convert one side first.")

    def seen(self, view: View, dtype: Any, centre: Any = None) -> Any:
        """The rows in a view, as a tensor; `centre` is taken off first."""
        rows = self.rows
        if view.columns is not None:
            rows = rows[:, torch.as_tensor(self.positions(view.columns), device=self.device)]
        rows = rows.to(_torch_dtype(dtype))
        if centre is not None:
            rows = rows - centre.to(rows.dtype)
        return self._viewed(rows, view)

    def moved(self, centre: Any, view: View) -> Any:
        """A point of the columns of a view, as the view sees it, in float64."""
        return self._viewed(centre.to(torch.float64)[None, :], view)[0]

    def _viewed(self, rows: Any, view: View) -> Any:
        if view.matrix is not None:  # in float64: torch may be allowed to round float32 products
            matrix = torch.tensor(view.matrix, dtype=torch.float64, device=self.device)
            rows = (rows.to(torch.float64) @ matrix.T).to(rows.dtype)
        if view.scales is not None:
            rows = rows * torch.tensor(view.scales, dtype=rows.dtype, device=self.device)
        if view.unit:
            rows = _unit_rows(rows)
        return rows

    def centre(self, view: View, sample: int = 1024) -> Any:
        """The middle of the columns of a view: the mean of evenly spaced rows, in float64."""
        step = max(1, len(self) // sample)
        rows = replace(self, rows=self.rows[::step][:sample])
        return rows.seen(View(view.columns), torch.float64).mean(0)

    def squared_norms(self, view: View) -> Any:
        """‖x‖² of every row in a view, in float64."""
        starts = range(0, max(1, len(self)), 1 << 20)
        blocks = (self.slice(i, i + (1 << 20)).seen(view, torch.float64) for i in starts)
        return torch.cat([block.square().sum(1) for block in blocks])


def tensor_points(data: Any) -> TensorPoints:
    """A tensor as points; what is not finite or not real numbers is refused."""
    check_plain(data, "points")
    if data.dtype not in FLOATS:
        if data.is_floating_point() or data.is_complex():
            raise ValueError(
                f"points are computed in float32 or float64; got {data.dtype}: convert them."
            )
        data = data.to(torch.float64)
    if data.ndim != 2:
        raise ValueError(
            f"points must be a two-dimensional tensor, one row for each point; got shape "
            f"{tuple(data.shape)}. Write X.reshape(-1, 1) for points on the line."
        )
    if not bool(torch.isfinite(data.sum(dtype=torch.float64))) and not bool(
        torch.isfinite(data).all()
    ):
        what = "NaN" if bool(torch.isnan(data).any()) else "infinity"
        raise ValueError(f"the points contain {what}: remove those rows, or fill them in first.")
    return TensorPoints(data.detach())


def check_plain(data: Any, what: str) -> None:
    """Refuse tensors that are sparse, or whose gradients would be lost."""
    if data.layout != torch.strided:
        raise ValueError(
            f"{what} must be a dense tensor; got one of layout {data.layout}: write .to_dense(), "
            "or pass a CSR matrix of SciPy."
        )
    if data.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"{what} require gradients, and kernels are not differentiated by autograd: write "
            ".detach(), and f.gradient(x) for the gradient of a function."
        )


def check_beside(values: Any, device: Any) -> None:
    """Refuse tensors on another device, and such that `check_plain` refuses."""
    if not isinstance(values, torch.Tensor):
        return
    check_plain(values, "values")
    if values.device != device:
        raise ValueError(
            f"points and values must be on one device; got {device} and {values.device}: write "
            f"V.to({str(device)!r})."
        )


def _torch_dtype(dtype: Any) -> Any:
    if isinstance(dtype, torch.dtype):
        return dtype
    return torch.float32 if np.dtype(dtype) == np.float32 else torch.float64


def _unit_rows(rows: Any) -> Any:
    """The rows divided by their lengths, by the largest number first: see `kinds._make_unit`."""
    largest = rows.abs().amax(1, keepdim=True)
    rows = rows / torch.where(largest == 0, torch.ones_like(largest), largest)
    return rows / rows.square().sum(1, keepdim=True).sqrt().clamp(min=1)
