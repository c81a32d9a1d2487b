"""Derivatives of kernels, with or without a program."""

from __future__ import annotations

import numpy as np

from mercer.evaluation.gradients import gradient
from mercer.kernels.base import Kernel
from mercer.points import PointSet


def derivative_of(kernel: Kernel, x: PointSet, y: PointSet) -> np.ndarray:
    """∂k(x_i, y_j)/∂x_i, shape (n, m, columns), with or without a program."""
    if kernel.expression() is None:
        return kernel.derivative(x, y)
    return gradient(kernel, x, y, np.eye(len(y)))
