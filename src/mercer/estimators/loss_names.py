"""Losses from what users type: the names of scikit-learn, or objects."""

from __future__ import annotations

from typing import Any

from mercer.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)

FOR_CLASSES: dict[str, type[Loss]] = {
    "log_loss": Logistic,
    "multinomial": Multinomial,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "squared_error": Squared,
}
FOR_NUMBERS: dict[str, type[Loss]] = {
    "squared_error": Squared,
    "absolute_error": Absolute,
    "huber": Huber,
    "quantile": Quantile,
    "epsilon_insensitive": EpsilonInsensitive,
    "poisson": Poisson,
}


def as_loss(loss: Any, names: dict[str, type[Loss]]) -> Loss:
    """A loss from a name or an object.

    >>> as_loss("hinge", FOR_CLASSES), as_loss(Huber(2.0), FOR_NUMBERS)
    (Hinge(), Huber(delta=2.0))
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in names:
        return names[loss]()
    hint = f" Write {loss.__name__}()." if isinstance(loss, type) else ""
    raise ValueError(
        f"loss must be a loss of mercer.losses, or one of {list(names)}; got {loss!r}.{hint}"
    )
