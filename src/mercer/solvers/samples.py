"""What every problem asks of its targets and weights, and refuses in words."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.losses import Loss, one_hot


def check_targets(targets: Array, loss: Loss, rows: int) -> None:
    """Refuse targets that the loss does not take, or that are not one row for each point."""
    loss.check_targets(targets)
    if np.ndim(targets) not in (1, 2) or np.shape(targets)[0] != rows:
        raise ValueError(
            f"targets must have one row for each of the {rows} points; got shape "
            f"{tuple(np.shape(targets))}."
        )


def check_weights(weights: np.ndarray, rows: int) -> None:
    """Refuse weights that are not one number ≥ 0 for each point, or all zero."""
    if weights.shape != (rows,):
        raise ValueError(
            f"weights must be one number for each of the {rows} points; got shape {weights.shape}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("weights must be finite and nonnegative, and not all zero.")


def target_columns(targets: Array, loss: Loss) -> Array:
    """Targets as a column for each output; labels of several classes become rows of 0 and 1.

    >>> from mercer.losses import Multinomial
    >>> target_columns(np.array([0.0, 2.0]), Multinomial()).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if loss.is_multiclass and targets.ndim == 1:
        return one_hot(targets, int(targets.max()) + 1)
    return targets.reshape(len(targets), -1)
