"""Derivatives of kernels, with or without a program."""

from __future__ import annotations

import numpy as np

from mercer.evaluation.dispatch import execution_for
from mercer.kernels.base import Kernel
from mercer.points import PointSet


def derivative_of(kernel: Kernel, x: PointSet, y: PointSet) -> np.ndarray:
    """∂k(x_i, y_j)/∂x_i, shape (n, m, columns), with or without a program."""
    if kernel.expression() is None:
        return kernel.derivative(x, y)
    return execution_for(kernel, x, y, np.float64).gradient(np.eye(len(y)))
