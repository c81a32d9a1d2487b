"""A kernel made of one other, on the points of that one."""

from __future__ import annotations

from typing import Any

from mercer.kernels.base import Kernel
from mercer.points import PointSet


class Wrapped(Kernel):
    """What wraps a kernel without changing its points; subclasses have a field `kernel`."""

    kernel: Kernel

    def points(self, data: Any) -> PointSet:
        return self.kernel.points(data)

    def is_single(self, x: Any) -> bool:
        return self.kernel.is_single(x)

    @property
    def parallel(self) -> bool:
        return self.kernel.parallel
