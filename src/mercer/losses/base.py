"""The contract of a loss: a convex function of the prediction, with all that solvers ask of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mercer.arrays import Array, floating, namespace
from mercer.checks import check_one_each, check_step, refuse_targets
from mercer.evaluation.expression import Expression, absolute
from mercer.losses.expressions import Code, F, U, Y, code_of, has_kinks, simplified, slope_of
from mercer.losses.numerics import aligned, implicit_step, like
from mercer.values import Value


class QuadraticConjugate(NamedTuple):
    """ℓ*(y, u) = uy + kink·|u| + ½·curvature·u² on its domain.

    Losses that consist of straight lines and parabolas have such a conjugate. Their proximal map
    and the steps of dual ascent are closed forms.

    >>> from mercer.losses import Squared
    >>> Squared().quadratic_conjugate
    QuadraticConjugate(kink=0.0, curvature=1.0)
    """

    kink: float = 0.0
    curvature: float = 0.0


@dataclass(frozen=True)
class Loss(Value):
    """A loss ℓ(y, f), convex in f, entry by entry.

    Subclasses are frozen dataclasses. A loss has its `expression` and its conjugate, either as a
    `quadratic_conjugate` or as a `conjugate_expression`; it says how fast it grows by `lipschitz`
    and `smoothness`. Value, slope, curvature, proximal map, risk and compiled code are derived.
    Losses of the residual f − y or of the margin yf are shorter still as `ResidualLoss` or
    `MarginLoss`. A loss that is no such expression, as that of several classes, has its own methods
    `value`, `slope`, `curvature` and `conjugate`.

    Targets y and predictions f have one shape, or either is a single number. Answers have the
    precision of f.

    >>> from mercer.losses import Hinge
    >>> Hinge().value([1.0, -1.0], [0.25, 0.25]), Hinge().lipschitz
    (array([0.75, 1.25]), 1.0)
    """

    is_classification: ClassVar[bool] = False
    """Whether targets are labels of classes."""
    is_multiclass: ClassVar[bool] = False
    """Whether a prediction is a row with one score for each class."""

    # ---- what a loss implements -------------------------------------------------------------

    def expression(self, y: Expression, f: Expression) -> Expression | None:
        """ℓ(y, f), in the language of `mercer.losses.expressions`."""
        return None

    @property
    def quadratic_conjugate(self) -> QuadraticConjugate | None:
        """The conjugate, where it is linear and quadratic."""
        return None

    def conjugate_expression(self, y: Expression, u: Expression) -> Expression | None:
        """ℓ*(y, u) = sup_f uf − ℓ(y, f) for u of the domain."""
        form = self.quadratic_conjugate
        if form is None:
            return None
        return u * y + form.kink * absolute(u) + (0.5 * form.curvature) * u**2

    @property
    def lipschitz(self) -> float:
        """L with |ℓ(y, f) − ℓ(y, g)| ≤ L|f − g|, for all targets; ∞ where there is none."""
        return math.inf

    @property
    def smoothness(self) -> float:
        """The Lipschitz constant of the slope, the largest curvature; ∞ where there is none."""
        return math.inf

    @property
    def is_smooth(self) -> bool:
        """Whether the slope has no jumps, so that Newton's method is made for the loss."""
        if math.isfinite(self.smoothness):
            return True
        value = self.expression(Y, F)
        return value is not None and not has_kinks(value)

    def domain(self, y: Array) -> tuple[Any, Any]:
        """The least and the largest u with ℓ*(y, u) < ∞, as numbers or like y."""
        return -self.lipschitz, self.lipschitz

    @property
    def follows_expression(self) -> bool:
        """Whether value and slope are those of the expression, as compiled code needs it."""
        kind = type(self)
        own = kind.value is not Loss.value or kind.slope is not Loss.slope
        return not own and self.expression(Y, F) is not None

    def check_targets(self, y: Any) -> Array:
        """Targets as real numbers; those the loss is not made for are refused, with what to do."""
        y = y if hasattr(y, "dtype") else np.asarray(y)
        xp = namespace(y)
        if not xp.isdtype(y.dtype, ("bool", "integral", "real floating")):
            raise ValueError(
                f"{type(self).__name__} needs targets that are numbers; got an array of {y.dtype}. "
                "Names of classes are turned into numbers first, as by numpy.unique(y, "
                "return_inverse=True)[1]."
            )
        numbers = floating(y)
        finite = xp.isfinite(numbers)
        if not xp.all(finite):
            refuse_targets(self, numbers, ~finite, "finite targets", "Leave such rows out.")
        return numbers

    # ---- the loss and its derivatives -----------------------------------------------------------

    def value(self, y: Array, f: Array) -> Array:
        """ℓ(y, f)."""
        return _codes(self)[0](*aligned(y, f))

    def slope(self, y: Array, f: Array) -> Array:
        """∂ℓ/∂f, a subgradient at kinks."""
        return _codes(self)[1](*aligned(y, f))

    def curvature(self, y: Array, f: Array) -> Array:
        """∂²ℓ/∂f², 0 at kinks and where the loss is straight."""
        return _codes(self)[2](*aligned(y, f))

    def slope_and_curvature(self, y: Array, f: Array) -> tuple[Array, Array]:
        """∂ℓ/∂f and ∂²ℓ/∂f²; what their expressions share is computed once."""
        kind = type(self)
        if kind.slope is not Loss.slope or kind.curvature is not Loss.curvature:
            return self.slope(y, f), self.curvature(y, f)
        slope, curvature = _codes(self)[3].evaluate(*aligned(y, f))
        return slope, curvature

    def curvature_product(self, y: Array, f: Array, v: Array) -> Array:
        """(∂²ℓ/∂f²) v."""
        return self.curvature(y, f) * v

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

    # ---- duality --------------------------------------------------------------------------------

    def conjugate(self, y: Array, u: Array) -> Array:
        """ℓ*(y, u) = sup_f uf − ℓ(y, f), +∞ outside its domain."""
        y, u = aligned(y, u)
        xp, (low, high) = namespace(u), self.domain(y)
        inside = xp.clip(u, low, high)
        return xp.where(u == inside, _conjugate_code(self)(y, inside), math.inf)

    def proximal(self, y: Array, f: Array, step: Array) -> Array:
        """The z that minimises ℓ(y, z) + (z − f)²/(2·step), for one step or one for each entry."""
        check_step(self, step)
        y, f = aligned(y, f)
        step = like(step, f)
        if self.quadratic_conjugate is not None:
            return self._closed_proximal(y, f, step, *self.quadratic_conjugate)
        return implicit_step(lambda z: self.slope(y, z), lambda z: self.curvature(y, z), f, step)

    def _closed_proximal(
        self, y: Array, f: Array, step: Array, kink: float, curvature: float
    ) -> Array:
        """z = f − step·u, where u minimises ½step·u² − fu + ℓ*(y, u), which is piecewise quadratic.

        With r = f − y, u is the part of r beyond ±kink over step + curvature, brought into the
        domain. Where that changes nothing, z is written without the difference from f, so that it
        keeps its digits and kinks are met exactly.
        """
        xp, (low, high) = namespace(f), self.domain(y)
        near = xp.clip(f - y, min=-kink, max=kink)
        beyond = (f - y) - near
        free = beyond / (step + curvature)
        u = xp.clip(free, low, high)
        return xp.where(u == free, y + (near + curvature * free), f - step * u)


@lru_cache(maxsize=1024)
def _codes(loss: Loss) -> tuple[Code, Code, Code, Code]:
    """Value, slope, curvature, and the last two together."""
    value = loss.expression(Y, F)
    if value is None:
        raise NotImplementedError(
            f"{type(loss).__name__} does not implement value, slope and curvature: write "
            "expression(self, y, f), from which all three are derived."
        )
    slope = slope_of(value, F)
    curvature = slope_of(slope, F)
    return code_of(simplified(value)), code_of(slope), code_of(curvature), code_of(slope, curvature)


@lru_cache(maxsize=1024)
def _conjugate_code(loss: Loss) -> Code:
    conjugate = loss.conjugate_expression(Y, U)
    if conjugate is None:
        raise NotImplementedError(
            f"{type(loss).__name__} does not implement conjugate: write "
            "conjugate_expression(self, y, u)."
        )
    return code_of(simplified(conjugate), variables=(Y, U))


@dataclass(frozen=True)
class ResidualLoss(Loss):
    """A loss ψ(r) of the residual r = f − y. Subclasses say what ψ is, and ψ*.

    The conjugate is ℓ*(y, u) = uy + ψ*(u).

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class DoubledSquare(ResidualLoss):
    ...     smoothness = 2.0
    ...     quadratic_conjugate = QuadraticConjugate(curvature=0.5)
    ...
    ...     def of_residual(self, r):
    ...         return r**2
    >>> DoubledSquare().slope([1.0], [4.0])
    array([6.])
    """

    def of_residual(self, r: Expression) -> Expression:
        """ψ(r)."""
        raise NotImplementedError(f"{type(self).__name__} does not implement of_residual.")

    def conjugate_of(self, u: Expression) -> Expression | None:
        """ψ*(u), for u of the domain, unless it is a `quadratic_conjugate`."""
        return None

    def expression(self, y: Expression, f: Expression) -> Expression:
        return self.of_residual(f - y)

    def conjugate_expression(self, y: Expression, u: Expression) -> Expression | None:
        own = self.conjugate_of(u)
        return super().conjugate_expression(y, u) if own is None else u * y + own


@dataclass(frozen=True)
class MarginLoss(Loss):
    """A decreasing loss φ(m) of the margin m = yf, for labels y = ±1. Subclasses say φ and φ*.

    As y² = 1, the conjugate is φ*(yu), for −lipschitz ≤ yu ≤ 0.

    >>> from mercer.losses import Logistic
    >>> isinstance(Logistic(), MarginLoss)
    True
    """

    is_classification: ClassVar[bool] = True

    def of_margin(self, m: Expression) -> Expression:
        """φ(m)."""
        raise NotImplementedError(f"{type(self).__name__} does not implement of_margin.")

    def conjugate_of(self, v: Expression) -> Expression | None:
        """φ*(v), for v of the domain, unless it is a `quadratic_conjugate`."""
        return None

    def expression(self, y: Expression, f: Expression) -> Expression:
        return self.of_margin(y * f)

    def conjugate_expression(self, y: Expression, u: Expression) -> Expression | None:
        own = self.conjugate_of(y * u)
        return super().conjugate_expression(y, u) if own is None else own

    def domain(self, y: Array) -> tuple[Any, Any]:
        y = floating(y)
        xp, zero = namespace(y), 0.0 * y
        far = xp.full_like(y, self.lipschitz)
        return xp.where(y > 0, -far, zero), xp.where(y > 0, zero, far)

    def check_targets(self, y: Any) -> Array:
        y = super().check_targets(y)
        refuse_targets(
            self, y, (y != 1) & (y != -1), "labels −1 and +1", "Write 2*y − 1 for labels 0 and 1."
        )
        return y
