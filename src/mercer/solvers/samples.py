"""Targets as problems take them."""

from __future__ import annotations

from mercer.arrays import Array
from mercer.checks import check_rows
from mercer.losses import Loss, one_hot


def check_targets(targets: Array, loss: Loss, rows: int) -> None:
    """Refuse targets that the loss does not take, or that are not one row for each point."""
    loss.check_targets(targets)
    check_rows("targets", targets, rows)


def target_columns(targets: Array, loss: Loss) -> Array:
    """Targets as a column for each output; labels of several classes become rows of 0 and 1.

    >>> import numpy as np
    >>> from mercer.losses import Multinomial
    >>> target_columns(np.array([0.0, 2.0]), Multinomial()).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if loss.is_multiclass and targets.ndim == 1:
        return one_hot(targets, int(targets.max()) + 1)
    return targets.reshape(len(targets), -1)
