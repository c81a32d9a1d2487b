"""The summary of a fitted model in a notebook, above scikit-learn's diagram."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel
from mercer.kernels.picture import (
    curves,
    escaped,
    kernel_picture,
    preformatted,
    short,
    side_by_side,
)
from mercer.points import VectorPoints

CERTIFIED_ROWS = 1000  # up to which a certificate takes less than half a second
CURVE_POINTS = 101  # at which a function of one column is drawn


def fitted_html(model: Any) -> str:
    """The kernel, how the solver ended, the certificate, and a picture; "" before `fit`."""
    kernel = getattr(model, "kernel_", None)
    if not isinstance(kernel, Kernel):
        return ""
    solution: Any = getattr(model, "solution_", None)
    lines = [f"<b>kernel</b> <code>{escaped(short(kernel))}</code>"]
    if hasattr(solution, "status"):
        lines.append(f"<b>solver</b> {escaped(solution.status)}")
    return f"<div>{'<br>'.join(lines)}{_picture(model, kernel)}{_certificate(model)}</div>"


def _picture(model: Any, kernel: Kernel) -> str:
    """The function, where it is one of one column, and the kernel."""
    function: Any = getattr(model, "function_", None)
    points = function.points if isinstance(function, RKHSFunction) else None
    if not isinstance(points, VectorPoints) or points.width != 1 or points.home != "host":
        return kernel_picture(kernel)
    seen = np.asarray(points.data, points.dtype)
    line = np.linspace(seen.min(), seen.max(), CURVE_POINTS, dtype=seen.dtype)
    if not line[-1] > line[0]:
        return kernel_picture(kernel)
    values = np.asarray(function(line[:, None]), np.float64).reshape(CURVE_POINTS, -1)
    intercept = np.asarray(getattr(model, "intercept_", 0.0))
    if hasattr(model, "predict") and intercept.ndim == 0:
        values = values + float(intercept)
    return side_by_side(curves(line, values.T[:3], "fitted function"), kernel_picture(kernel))


def _certificate(model: Any) -> str:
    """To unfold, where it is quickly computed; else how it is asked for."""
    if not hasattr(model, "certificate"):
        return ""
    asked = getattr(getattr(model, "solution_", None), "asked", None)
    if asked is not None and asked.rows > CERTIFIED_ROWS:
        solution = model.solution_
        text = (
            f"objective: {solution.objective:.4g}\ngap: {solution.gap:.2g}\n"
            "model.certificate() says the rest, which takes a while for so many rows."
        )
    else:
        try:
            text = str(model.certificate())
        except ValueError as reason:  # said where it is asked for; nothing to show here
            text = str(reason)
    return f"<details open><summary>certificate</summary>{preformatted(text)}</details>"
