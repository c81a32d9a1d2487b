"""What a loss is: a convex function of the prediction, with all that solvers ask of it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

from mercer.arrays import Array, namespace
from mercer.checks import check_one_each, check_step, finite_targets
from mercer.losses.numerics import aligned, implicit_step, like
from mercer.values import Value


@dataclasses.dataclass(frozen=True)
class Loss(Value):
    """A loss ℓ(y, f), convex in f, entry by entry.

    Subclasses are frozen dataclasses. They owe `value`, `slope`, `curvature` and `conjugate`, and
    say how fast they grow; the proximal map, the risk and the rest are derived. Losses of the
    residual f − y or of the margin yf are shorter still as `ResidualLoss` or `MarginLoss`.

    Targets y and predictions f have one shape, or either is a single number. Answers have the
    precision of f.
    """

    is_classification: ClassVar[bool] = False
    """Whether targets are labels of classes."""
    is_multiclass: ClassVar[bool] = False
    """Whether a prediction is a row with one score for each class."""

    # ---- what a loss owes -------------------------------------------------------------------

    def value(self, y: Array, f: Array) -> Array:
        """ℓ(y, f)."""
        raise NotImplementedError(f"{type(self).__name__} does not implement value.")

    def slope(self, y: Array, f: Array) -> Array:
        """∂ℓ/∂f, a subgradient at kinks."""
        raise NotImplementedError(f"{type(self).__name__} does not implement slope.")

    def curvature(self, y: Array, f: Array) -> Array:
        """∂²ℓ/∂f², 0 at kinks and where the loss is straight."""
        raise NotImplementedError(f"{type(self).__name__} does not implement curvature.")

    def conjugate(self, y: Array, u: Array) -> Array:
        """ℓ*(y, u) = sup_f uf − ℓ(y, f), +∞ outside its domain."""
        raise NotImplementedError(f"{type(self).__name__} does not implement conjugate.")

    def domain(self, y: Array) -> tuple[Any, Any]:
        """The least and the largest u with ℓ*(y, u) < ∞, as numbers or like y."""
        return -self.lipschitz, self.lipschitz

    @property
    def lipschitz(self) -> float:
        """L with |ℓ(y, f) − ℓ(y, g)| ≤ L|f − g|, for all targets; ∞ where there is none."""
        return math.inf

    @property
    def smoothness(self) -> float:
        """The Lipschitz constant of the slope, the largest curvature; ∞ where there is none."""
        return math.inf

    def check_targets(self, y: Array) -> None:
        """Refuse targets the loss is not made for, with a sentence that says what to do."""
        finite_targets(self, y)

    # ---- what follows -------------------------------------------------------------------------

    def curvature_product(self, y: Array, f: Array, v: Array) -> Array:
        """(∂²ℓ/∂f²) v."""
        return self.curvature(y, f) * v

    def proximal(self, y: Array, f: Array, step: Array) -> Array:
        """The z that minimises ℓ(y, z) + (z − f)²/(2·step), for one step or one for each entry."""
        check_step(self, step)
        _, y, f = aligned(y, f)
        return implicit_step(
            lambda z: self.slope(y, z), lambda z: self.curvature(y, z), f, like(step, f)
        )

    def risk(self, y: Array, f: Array, weights: Array | None = None) -> Array:
        """(1/Σw) Σ_i w_i ℓ(y_i, f_i), summed over outputs where a target has several.

        >>> import numpy as np
        >>> from mercer.losses import Absolute
        >>> y, f = np.array([0.0, 1.0]), np.array([3.0, 2.0])
        >>> float(Absolute().risk(y, f, weights=np.array([1.0, 3.0])))
        1.5
        """
        losses = self.value(y, f)
        xp = namespace(losses)
        if losses.ndim > 1:
            losses = xp.sum(losses, axis=tuple(range(1, losses.ndim)))
        if weights is None:
            return xp.mean(losses)
        weights = like(weights, losses)
        check_one_each("weights", weights, losses.shape[0])
        counted = xp.where(weights > 0, losses, 0.0)  # what has no weight may be infinite
        return xp.sum(weights * counted) / xp.sum(weights)
