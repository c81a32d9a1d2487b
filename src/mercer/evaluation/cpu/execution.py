"""The execution of kernels with an expression on the host: fused compiled tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.evaluation import reference
from mercer.evaluation.cpu.tiles import FusedTiles
from mercer.evaluation.program import EvaluableKernel, Program
from mercer.evaluation.tiled import Tiled
from mercer.points import PointSet, SparsePoints
from mercer.runtime.budget import Memory


class Cpu(Tiled):
    """K(X, Y) of a program: compiled code turns pair numbers into values and reduces them."""

    name = "fused on the CPU"

    def __init__(
        self,
        kernel: EvaluableKernel,
        program: Program,
        x: PointSet,
        y: PointSet,
        dtype: Any,
        memory: Memory = None,
    ) -> None:
        super().__init__(kernel, x, y, dtype, memory)
        self.program = program

    def _tiles(self) -> FusedTiles:
        x: Any = self.x
        y: Any = self.y
        if isinstance(x, SparsePoints) or isinstance(y, SparsePoints):
            x, y = x.as_sparse(), y.as_sparse()  # a sparse side is never made dense
        return FusedTiles(self.program, x, y, self.dtype)

    def _transposed(self) -> Cpu:
        return Cpu(self.kernel, self.program, self.y, self.x, self.dtype, self.memory)

    def diagonal(self) -> np.ndarray:
        return reference.diagonal(self.kernel.expression(), self.x)  # type: ignore[arg-type]
