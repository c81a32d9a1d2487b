"""Measures of optimality: duality gaps, residuals and gradient norms.

All of them are computed from scratch in float64, of the problem that was asked. With p = w/Σw the
dual of the problem with the penalty (λ/2)vᵀPv is

    max over u of  −Σ p_i ℓ*(y_i, u_i) − zᵀP⁻¹z/(2λ),   z = Aᵀ(pu),   Bᵀ(pu) + c = 0,

so that every u of its domain bounds the least objective from below. For given v and b the gap is a
sum of terms none of which is negative,

    Σ p_i [ℓ(y_i, f_i) + ℓ*(y_i, u_i) − u_i f_i] + ‖λPv + z‖²_{P⁻¹}/(2λ),    f = Av + Bb,

and it is computed so: the difference of both objectives would lose all digits of a small gap. Two
points u belong to v: the slopes u_i = ℓ'(y_i, f_i), for which the first sum vanishes, and on all
points u = −λv/p moved into the domain, for which the second term nearly does. Both are optimal
where v is, the second also at kinks; the better bound counts.

A gap carries a bound of its own rounding, and claims nothing below it. Values f = Kv are sums of
rounded terms, with errors of at most unit·√k_ii √(Σ_j k_jj v_j²), and as each term of the gap is
convex in f_i its largest value over that interval is at one of its ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, beside, identity, inner, namespace
from mercer.losses import Logistic, Loss, Multinomial, Poisson, Squared
from mercer.losses.numerics import beyond_noise, increasing_root
from mercer.operators import Identity, MixedPrecision
from mercer.runtime.machine import float64_is_slow
from mercer.runtime.threads import spans
from mercer.solvers.penalties import L1, NormPenalty
from mercer.solvers.problem import Problem, over_rows, require_plain_intercept

Multiply = Callable[[Array], Array]

EPS = float(np.finfo(np.float64).eps)
UNATTAINED = (Logistic, Multinomial, Poisson)  # whose infimum may lie at infinity


@dataclass(frozen=True)
class Tuning:
    """Numbers of the certificates."""

    # The error of (Kv)_i in float64 is taken for (unit + growth·√n)·√k_ii √(Σ_j k_jj v_j²):
    # rounding errors of values and sums are independent, and add up like their squares. Against 64
    # binary digits the factor was at most 3 for n = 50 and 6 for n = 4,000 units in the last place
    # (Gaussian, Matérn, linear, polynomial of degree 4; columns of size 1 to 1,000).
    unit: float = 8.0 * EPS
    growth: float = EPS / 8.0

    zero_sum: float = 1e-12  # how far from 0 a sum Σ p_i u_i may be, relative to the sizes that
    # were added
    doublings: int = 1100  # of a bracket of a root: more than there are exponents
    centring_steps: int = 100  # Newton steps for the constants of several classes; ten are usual
    negligible: float = 64.0 * EPS  # objectives below this share of the risk of f = 0 are rounding:
    # a relative gap is taken relative to no less
    rows: int = 1 << 18  # rows of losses and conjugates that are computed together on the host

    # On a card a ridge residual is computed on so many rows, on fewer where points have more than
    # so many coordinates, but at least on the last number: its standard error is one or two
    # hundredths of it.
    sampled_rows: int = 20_000
    narrow: int = 100
    fewest_rows: int = 2048


TUNING = Tuning()


@dataclass(frozen=True)
class Gap:
    """The objective, how far above the least it may be, and how much of that is rounding.

    >>> Gap(2.0, 1.0).relative, Gap(2.0, 0.0, rounding=0.5).absolute
    (0.5, 0.5)
    """

    objective: float
    difference: float
    rounding: float = 0.0
    scale: float = 0.0

    @property
    def absolute(self) -> float:
        """The certified gap: the difference of primal and dual objective, plus its rounding."""
        return max(self.difference, 0.0) + self.rounding

    @property
    def bound(self) -> float:
        """A lower bound on the least objective."""
        return self.objective - self.absolute

    @property
    def relative(self) -> float:
        """The gap as a share of the objective, or of the bound where that is larger."""
        if not math.isfinite(self.absolute):
            return math.inf
        scale = max(abs(self.objective), abs(self.bound), self.scale)
        return self.absolute / scale if scale > 0 else self.absolute

    def __str__(self) -> str:
        rounding = ", most of it rounding" if self.rounding > max(self.difference, 0.0) else ""
        return f"relative duality gap {self.relative:.1e}{rounding}"


# ---- duality gaps --------------------------------------------------------------------------------


def certified_gap(
    problem: Problem,
    coefficients: Any,
    intercept: Any = 0.0,
    multiply: Multiply | None = None,
    multiplier: float = 0.0,
    fitted: Array | None = None,
) -> Gap:
    """The objective and the duality gap at v and b: two products with A.

    Parameters
    ----------
    problem : Problem
    coefficients, intercept :
        v and b.
    multiply : callable, optional
        V ↦ KV in float64, where the solver of a problem on all points has a stored K.
    multiplier : float, default=0.0
        λ > 0 where v solves the problem with (λ/2)‖f‖² in place of another penalty: −λv/p is a
        dual point, too.
    fitted : array, optional
        Av in float64, where it is known.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Hinge
    >>> gram, y = Linear().gram([[1.0], [-1.0]]), np.array([1.0, -1.0])
    >>> problem = Problem(gram, y, Hinge(), regularization=0.5, fit_intercept=True)
    >>> certified_gap(problem, np.array([0.5, -0.5])).absolute < 1e-14  # f(x) = x is best
    True
    """
    require_plain_intercept("certified_gap", problem)
    v, xp = problem.array(coefficients), namespace(problem.y)
    if fitted is None:
        fitted = problem.operator @ v if multiply is None else multiply(v)
    b = xp.zeros_like(problem.y[0, ...]) + problem.array(intercept)
    at = Evaluation(problem, v, b, fitted)
    if problem.on_all_points and not isinstance(problem.penalty, L1):
        return _gap_on_all_points(at, multiply or problem.operator.__matmul__, multiplier)
    u = slopes(problem, at.values)
    if problem.fit_intercept:
        u = centred_slopes(problem, u, at.values if problem.loss.is_smooth else None)
    return _gap_off_points(at, u)


def duality_gap(problem: Problem, coefficients: Any, intercept: Any = 0.0) -> float:
    """An upper bound of J − min J at v, which is rounding only at the minimiser where λ > 0.

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Hinge
    >>> problem = Problem(Linear().gram([[1.0]]), np.array([1.0]), Hinge(), regularization=2.0)
    >>> duality_gap(problem, np.array([0.5])) < 1e-14  # w = ½ is best
    True
    """
    return certified_gap(problem, coefficients, intercept).absolute


class Evaluation:
    """A problem at v and b: the values f = Av + b, how far rounding may have moved them, J."""

    def __init__(
        self,
        problem: Problem,
        v: Array,
        b: Array,
        fitted: Array,
        *,
        errors: Array | None = None,
        squares: list[float] | None = None,
        loss: Loss | None = None,
    ) -> None:
        self.problem, self.v, self.b, self.fitted = problem, v, b, fitted
        self.y = namespace(fitted).reshape(problem.y, fitted.shape)
        self.loss = problem.loss if loss is None else loss
        self.values = fitted + b
        self.errors = value_errors(problem, v) if errors is None else errors
        self.squares = problem.norms(v, fitted) if squares is None else squares
        risk = float(self.loss.risk(self.y, self.values, problem.sample_weights))
        self.penalty = problem.penalty.value(v, self.squares)
        self.objective = risk + problem.cost(b) + self.penalty

    def gap(self, u: Array, distance: float = 0.0, noise: float = 0.0) -> Gap:
        """The gap at a dual point u, given ‖λPv + Aᵀ(pu)‖²_{P⁻¹}/(2λ) and how rounded that is."""
        difference, rounding = self.fenchel(u)
        return Gap(
            self.objective, difference + distance, rounding + noise + self._unbalance(u), self.scale
        )

    def squared_norm_gap(self, u: Array, g: Array, image: Array) -> Gap:
        """The gap at u on all points, where g = λv + pu and Kg is given."""
        problem, xp = self.problem, namespace(u)
        ridge = float(problem.regularization)
        roots = over_rows(xp.sqrt(xp.abs(problem.diagonal)), u)
        sizes = xp.abs(ridge * self.v) + xp.abs(over_rows(problem.shares, u) * u)
        noise = 2.0 * EPS * inner(sizes, xp.abs(image))
        noise += float(xp.sum(sum_error(roots * g) * xp.linalg.vector_norm(roots * g, axis=0)))
        return self.gap(u, max(inner(g, image), 0.0) / (2.0 * ridge), noise / (2.0 * ridge))

    @property
    def scale(self) -> float:
        """The least objective that is more than rounding."""
        return TUNING.negligible * abs(sum(map(self._risk_of_zero, self._parts())))

    def _risk_of_zero(self, rows: slice | EllipsisType) -> float:
        y, p = self.y[rows], self.problem.shares[rows]
        xp = namespace(y)
        losses = _row_sums(self.loss.value(y, xp.zeros_like(y)))
        return float(xp.sum(p * xp.where(p > 0, losses, 0.0)))

    def _parts(self) -> list[slice | EllipsisType]:
        """Rows that are looked at together: of NumPy's arrays not all, as their terms take memory.

        Other libraries have room for all rows where these are, and a part would have to be fetched.
        """
        if not isinstance(self.values, np.ndarray):
            return [...]
        return [slice(*span) for span in spans(self.values.shape[0], TUNING.rows)]

    def fenchel(self, u: Array) -> tuple[float, float]:
        """Σ p_i [ℓ(y_i, f_i) + ℓ*(y_i, u_i) − u_i f_i], and a bound of its rounding."""
        parts = [self._fenchel(rows, u[rows]) for rows in self._parts()]
        total, rounding = (sum(part[i] for part in parts) for i in range(2))
        return (max(total, 0.0), rounding) if math.isfinite(total) else (math.inf, 0.0)

    def _fenchel(self, rows: slice | EllipsisType, u: Array) -> tuple[float, float]:
        """The same for some rows."""
        xp, y, p = namespace(u), self.y[rows], self.problem.shares[rows]
        values, errors = self.values[rows], self.errors[rows]
        conjugate = _row_sums(self.loss.conjugate(y, u))

        def terms(f: Array) -> tuple[Array, Array]:
            loss, product = _row_sums(self.loss.value(y, f)), _row_sums(u * f)
            sizes = xp.abs(loss) + xp.abs(conjugate) + xp.abs(product)
            return loss + conjugate - product, sizes

        here, sizes = terms(values)
        ends = [terms(values + sign * errors)[0] for sign in (-1.0, 1.0)]
        counted = p > 0  # what has no weight may be infinite
        total = float(xp.sum(p * xp.where(counted, here, 0.0)))
        if not math.isfinite(total):
            return math.inf, 0.0
        here, largest = (xp.where(counted, part, 0.0) for part in (here, xp.maximum(*ends)))
        rounding = xp.clip(largest - here, min=0.0) + 4.0 * EPS * xp.where(counted, sizes, 0.0)
        return total, float(xp.sum(p * rounding))

    def _unbalance(self, u: Array) -> float:
        """The error of a gap where Σ p_i u_i = 0 only up to rounding: (|f| + |b|)|Σ p_i u_i|."""
        if not self.problem.fit_intercept:
            return 0.0
        xp = namespace(u)
        left = xp.abs(xp.sum(over_rows(self.problem.shares, u) * u, axis=0))
        size = xp.max(xp.abs(self.values)) + xp.abs(self.b)
        return float(xp.sum(left * size)) if math.isfinite(float(xp.sum(size))) else math.inf


def value_errors(problem: Problem, v: Array) -> Array:
    """How far rounding may have moved (Av)_i; √k(x, x) of centres bounds that of other rows."""
    xp = namespace(problem.y)
    columns = xp.sqrt(xp.abs(problem.value_sizes))
    rows = columns if problem.on_all_points else xp.max(columns) + 0.0 * problem.shares
    shape = (-1,) + (1,) * (v.ndim - 1)
    return xp.reshape(rows, shape) * sum_error(xp.reshape(columns, shape) * v)


def sum_error(terms: Array) -> Array:
    """How far rounding may move sums of such terms times numbers of size 1, column by column."""
    unit = TUNING.unit + TUNING.growth * math.sqrt(terms.shape[0])
    return unit * namespace(terms).linalg.vector_norm(terms, axis=0)


def _gap_off_points(at: Evaluation, u: Array) -> Gap:
    """The gap on centres or features, or for ℓ1: with Aᵀ(pu), and P factored for ‖·‖_{P⁻¹}."""
    problem, xp = at.problem, namespace(u)
    push = over_rows(problem.shares, u) * u
    if isinstance(problem.penalty, L1):
        pull = problem.operator.T @ push
        sizes = xp.abs(pull)
        if problem.on_all_points:  # a bound that rounding alone would break is none
            sizes = sizes + value_errors(problem, push)
        largest = problem.penalty.strength / (float(xp.max(sizes)) or math.inf)
        scale = largest if largest < 1.0 else 1.0
        if isinstance(at.loss, Squared):  # the best multiple of u: −Σ p(yu + u²/2) is a parabola
            best = -inner(push, problem.y) / (inner(push, u) or math.inf)
            scale = max(min(best, largest), -largest)
        return _plain_gap(at, scale * u, scale * push, scale * pull)
    ridge = float(problem.regularization)
    image = problem.penalty_operator @ at.v
    g = xp.reshape(problem.operator.T @ push + ridge * image, (problem.size, -1))
    if not isinstance(problem.penalty_operator, Identity):
        matrix = problem.array(problem.penalty_operator.astype("float64").dense())
        g = linalg.cholesky(matrix, overwrite=True).half_solve(g)
    return at.gap(u, inner(g, g) / (2.0 * ridge))


def _gap_on_all_points(at: Evaluation, multiply: Multiply, multiplier: float = 0.0) -> Gap:
    """The smallest gap among the dual points of v; that of u = 0 is always there."""
    problem, xp = at.problem, namespace(at.v)
    zero, p = xp.zeros_like(problem.y), over_rows(problem.shares, at.v)
    if problem.has_one_ridge:  # ‖λPv‖²/(2λ) is the penalty
        gaps, ridge = [at.gap(zero, at.penalty)], float(problem.regularization)
    else:
        gaps, ridge = [_plain_gap(at, zero, zero, zero)], 0.0
    points = list(_dual_points(at, ridge or multiplier))
    if not points:
        return gaps[0]
    gradients = [ridge * at.v + p * u for u in points]
    shape, width = (problem.rows, problem.outputs), problem.outputs
    images = multiply(xp.concat([xp.reshape(g, shape) for g in gradients], axis=1))
    for i, (u, g) in enumerate(zip(points, gradients, strict=True)):
        image = xp.reshape(images[:, i * width : (i + 1) * width], g.shape)
        if ridge > 0:
            gaps.append(at.squared_norm_gap(u, g, image))
            continue
        scale = _admitted_share(problem, inner(g, image))
        gaps.append(_plain_gap(at, scale * u, scale * g, scale * image))
    return min(gaps, key=lambda gap: gap.absolute)


def _admitted_share(problem: Problem, square: float) -> float:
    """By which a dual point is shrunk, so that the conjugate of the penalty is finite there."""
    if not isinstance(problem.penalty, NormPenalty) or square <= 0:
        return 1.0
    return min(1.0, problem.penalty.largest_pull() / math.sqrt(square))


def _plain_gap(at: Evaluation, u: Array, push: Array, image: Array) -> Gap:
    """Objective less dual objective for any other penalty, with the rounding of both."""
    problem, xp = at.problem, namespace(u)
    squares = xp.sum(push * image, axis=0)
    each = [float(squares)] if push.ndim == 1 else [float(q) for q in squares]
    conjugates = _row_sums(problem.loss.conjugate(problem.y, u))
    p = problem.shares
    risk = float(xp.sum(p * xp.where(p > 0, conjugates, 0.0)))
    penalty = problem.penalty.conjugate(image, each)
    sizes = abs(at.objective) + abs(risk) + penalty
    slope = float(xp.sum(over_rows(p, u) * xp.abs(u) * at.errors))
    difference = at.objective + risk + penalty
    return Gap(at.objective, difference, 4.0 * EPS * sizes + slope + at._unbalance(u), at.scale)


def _dual_points(at: Evaluation, ridge: float) -> Iterator[Array]:
    """The points of the dual's domain that belong to v on all points, as a solution for a ridge."""
    problem, loss, xp = at.problem, at.loss, namespace(at.v)
    y, p = problem.y, over_rows(problem.shares, at.v)
    if problem.has_one_ridge and ridge == 0:
        return
    if ridge > 0 and not (loss.is_multiclass and problem.fit_intercept):
        own = xp.where(p > 0, -ridge * at.v / xp.where(p > 0, p, 1.0), 0.0)
        if not loss.is_multiclass:
            own = xp.clip(own, *loss.domain(y))
        yield centred(problem, own) if problem.fit_intercept else own
    if not problem.fit_intercept:
        yield slopes(problem, at.values)
    elif loss.is_smooth and has_best_intercept(problem):
        best = centring_intercept(problem, at.fitted, at.b)
        u = slopes(problem, at.fitted + best)
        total, sizes = xp.sum(p * u, axis=0), xp.sum(xp.abs(p * u), axis=0)
        if bool(xp.all(xp.abs(total) <= TUNING.zero_sum * sizes + 4.0 * EPS)):
            yield u


def slopes(problem: Problem, values: Array, loss: Loss | None = None) -> Array:
    """ℓ'(y, f), 0 where there is no weight."""
    xp = namespace(values)
    u = (problem.loss if loss is None else loss).slope(problem.y, values)
    return xp.where(over_rows(problem.shares, u) > 0, u, 0.0)


def centred(problem: Problem, u: Array) -> Array:
    """A point of the dual's domain near u with Σ_i p_i u_i = 0 in each column."""
    if problem.loss.is_multiclass:
        return _centred_probabilities(problem, u)
    y = namespace(u).reshape(problem.y, u.shape)
    return balanced(u, *problem.loss.domain(y), problem.shares)


def centred_slopes(problem: Problem, u: Array, values: Array | None = None) -> Array:
    """Slopes near the given ones, in the domain of ℓ*, with Σ_i p_i u_i = 0 in each column.

    Where the values f_i + b of a smooth loss are given, they are those at the best constant, up to
    rounding: that costs as much as b is worse than the best one. Otherwise slopes of one sign are
    scaled down: what is 0 stays 0, where a shift would cost first order.
    """
    xp, p = namespace(u), over_rows(problem.shares, u)
    if isinstance(problem.loss, Squared):
        return u - xp.sum(p * u, axis=0)
    if values is not None and has_best_intercept(problem):
        values = xp.reshape(values, problem.y.shape)
        u = xp.reshape(slopes(problem, values + centring_intercept(problem, values)), u.shape)
    if problem.loss.is_multiclass:
        return _centred_probabilities(problem, u)
    up = xp.sum(p * xp.clip(u, min=0.0), axis=0)
    down = -xp.sum(p * xp.clip(u, max=0.0), axis=0)
    least = xp.minimum(up, down)
    scales = [xp.where(part > 0, least / xp.where(part > 0, part, 1.0), 0.0) for part in (up, down)]
    return xp.where(u > 0, scales[0], scales[1]) * u


def balanced(u: Array, low: Any, high: Any, p: Array) -> Array:
    """The nearest point to u of the box with Σ_i p_i u_i = 0: u − t, cut off at the box.

    >>> import numpy as np
    >>> balanced(np.array([0.0, 1.0]), -1.0, 1.0, np.array([0.5, 0.5])).tolist()
    [-0.5, 0.5]
    """
    xp, rows = namespace(u), over_rows(p, u)
    low, high = u * 0.0 + low, u * 0.0 + high
    size = float(xp.max(xp.abs(u))) + 1.0 if u.shape[0] else 1.0

    def excess(t: Array) -> tuple[Array, Array]:
        moved = xp.clip(u - t, low, high)
        free = xp.astype((moved > low) & (moved < high), u.dtype)
        noise = 0.5 * EPS * xp.sum(rows * xp.abs(moved), axis=0)
        return beyond_noise(-xp.sum(rows * moved, axis=0), noise), xp.sum(rows * free, axis=0)

    start = xp.zeros_like(u[0, ...])
    return xp.clip(u - _bracketed_root(excess, start, size), low, high)


def _centred_probabilities(problem: Problem, u: Array) -> Array:
    """(1 − τ)P + τq has the mean of y, for the least τ with which q is a probability."""
    xp, y, p = namespace(u), problem.y, problem.shares[:, None]
    probabilities = u + y
    mean, wanted = xp.sum(p * probabilities, axis=0), xp.sum(p * y, axis=0)
    share = xp.where(mean > 0, (mean - wanted) / xp.where(mean > 0, mean, 1.0), 0.0)
    mixing = min(max(float(xp.max(share)), 0.0), 1.0)
    if mixing == 0.0:
        return u
    rest = xp.clip(mean + (wanted - mean) / mixing, min=0.0)
    return (1.0 - mixing) * probabilities + mixing * rest / xp.sum(rest) - y


def _bracketed_root(
    function: Callable[[Array], tuple[Array, Array]], start: Array, size: float
) -> Array:
    """The root of increasing functions near a start; a bracket is looked for first."""
    xp = namespace(start)
    low, high, step = start - size, start + size, size
    for _ in range(TUNING.doublings):
        below, above = function(low)[0] <= 0, function(high)[0] >= 0
        if bool(xp.all(below & above)):
            break
        step *= 2.0
        low, high = xp.where(below, low, start - step), xp.where(above, high, start + step)
    tiny = float(np.finfo(np.float64).tiny)

    def with_slope(t: Array) -> tuple[Array, Array]:
        """Value and derivative; a step over a flat piece is left to the bracket."""
        value, derivative = function(t)
        return value, xp.where(derivative > 0, derivative, tiny)

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return increasing_root(with_slope, low, high)


def _row_sums(array: Array) -> Array:
    xp = namespace(array)
    return array if array.ndim == 1 else xp.sum(array, axis=1)


# ---- the constant --------------------------------------------------------------------------------


def centring_intercept(problem: Problem, fitted: Array, start: Any = 0.0) -> Array:
    """The b that minimises Σ p_i ℓ(y_i, f_i + b) for a smooth loss: the slopes sum to 0 there.

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> y = np.array([1.0, 2.0, 6.0])
    >>> problem = Problem(Linear().gram(np.zeros((3, 1))), y, Squared(), 1.0, fit_intercept=True)
    >>> float(centring_intercept(problem, np.zeros(3)))
    3.0
    """
    loss, y, p, xp = problem.loss, problem.y, problem.shares, namespace(problem.y)
    if not has_best_intercept(problem):
        raise ValueError(
            f"with targets of one kind only, {type(loss).__name__} has no best intercept: it goes "
            "to infinity. Give samples of every class (or counts that are not all 0) a weight > 0, "
            "or write fit_intercept=False."
        )
    start = xp.zeros_like(y[0, ...]) + problem.array(start)
    if loss.is_multiclass:
        return _centred_classes(loss, y, fitted, p, start)
    rows = over_rows(p, y)

    def sums(b: Array) -> tuple[Array, Array]:
        slope, curvature = loss.slope_and_curvature(y, fitted + b)
        u, bend = xp.where(rows > 0, slope, 0.0), xp.where(rows > 0, curvature, 0.0)
        noise = EPS * xp.clip(xp.sum(rows * xp.abs(u), axis=0), max=1.0)
        total = xp.clip(xp.sum(rows * u, axis=0), -1e300, 1e300)
        return beyond_noise(total, noise), xp.clip(xp.sum(rows * bend, axis=0), 0.0, 1e300)

    return _bracketed_root(sums, start, 1.0)


def has_best_intercept(problem: Problem) -> bool:
    """Whether the best constant is finite: not where all targets are of one kind."""
    loss, y, xp = problem.loss, problem.y, namespace(problem.y)
    if not isinstance(loss, UNATTAINED):
        return True
    counted = xp.astype(problem.shares > 0, y.dtype)
    total = xp.sum(over_rows(counted, y) * y, axis=0)
    if isinstance(loss, Logistic):
        return not bool(xp.any(xp.abs(total) == xp.sum(counted)))
    return not bool(xp.any(total == 0))


def _centred_classes(loss: Loss, y: Array, fitted: Array, p: Array, start: Array) -> Array:
    """Newton's method with halved steps for the constants of all classes, whose sum is 0."""
    xp = namespace(y)
    b = start - xp.mean(start)
    risk = float(loss.risk(y, fitted + b, p))
    for _ in range(TUNING.centring_steps):
        probability = loss.slope(y, fitted + b) + y
        slope = p @ (probability - y)
        if float(xp.max(xp.abs(slope))) <= 1e-17:
            break
        bend = curvature_of_constants(p[:, None] * probability, probability)
        step = -linalg.symmetric_solve(bend, slope[:, None], cutoff=1e-14)[0][:, 0]
        fall, length = float(slope @ step), 1.0
        after = float(loss.risk(y, fitted + b + step, p))
        while after > risk + 1e-4 * length * fall and -length * fall > 1e-14 * abs(risk):
            length *= 0.5
            after = float(loss.risk(y, fitted + b + length * step, p))
        b, risk = b + length * step, after
        if float(xp.max(xp.abs(step))) <= 1e-14 * (1.0 + float(xp.max(xp.abs(b)))):
            break
    return b - xp.mean(b)


def curvature_of_constants(weighted: Array, probability: Array) -> Array:
    """Σ_i p_i(diag(q_i) − q_i q_iᵀ) of rows p_i q_i and q_i, and a multiple of 11ᵀ.

    It is the Laplacian of a graph on the classes, whose links are Σ_i p_i q_ia q_ib: sums of them
    have all digits where the differences q − q² have none. Constants alike for all classes bend
    nothing, which rounding would hide: their eigenvalue is lifted to the mean of the others.

    >>> import numpy as np
    >>> q = np.array([[0.5, 0.5]])
    >>> curvature_of_constants(q, q)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    xp, eye = namespace(probability), identity(probability.shape[1], probability)
    links = (1.0 - eye) * (weighted.T @ probability)
    degrees = xp.sum(links, axis=0)
    return eye * degrees - links + xp.sum(degrees) / max(1, len(degrees) * (len(degrees) - 1))


# ---- residuals and gradients ---------------------------------------------------------------------


@dataclass(frozen=True)
class Residual:
    """An upper bound on the relative residual, its rounding error, and the objective.

    The error is of rounding. Where the residual was computed in float64 on a sample of the rows,
    `rows` says how many, and the error is twice the standard error.
    """

    claimed: float
    error: float
    objective: float
    rows: int | None = None

    def __str__(self) -> str:
        if self.rows is None:
            return f"relative residual {self.claimed:.1e}"
        return (
            f"relative residual {self.claimed - self.error:.1e} ± {self.error:.0e}, in float64 on "
            f"{self.rows} rows"
        )


def ridge_residual(
    problem: Problem,
    v: Array,
    intercept: Any = 0.0,
    single: Any = None,
    *,
    sampled: bool = False,
) -> Residual:
    """‖S(Kα + b − y) + ρS⁻¹α‖/‖Sy‖ of ridge regression, S = √w and ρ = λΣw, the worst column.

    Columns with y = 0 are measured against 1. Without ρ it is the slope ‖SKS r‖/(trace K ‖Sy‖),
    r = S(y − Kα − b), which is 0 where the error is least. Where products in float64 are dear, they
    are computed for a sample of the rows. The objective comes with it, of Kα as it can be had: from
    K in float32 then, which is `single` where it is at hand, as a stored matrix may be. With
    `sampled` no product with all rows is computed, and the objective is that of the sample, too.
    """
    xp = namespace(problem.y)
    y = xp.reshape(problem.y, (problem.rows, -1))
    alpha = xp.reshape(problem.array(v), y.shape)
    weights, b = problem.sample_weights, problem.array(intercept)
    if problem.null_space is not None:
        b = xp.reshape(problem.array(problem.null_space) @ b, y.shape)
    roots, total = xp.sqrt(weights)[:, None], float(xp.sum(weights))
    ridge = problem.regularization * total
    sizes = xp.linalg.vector_norm(roots * y, axis=0)
    sizes = xp.where(sizes > 0, sizes, 1.0)
    pull = ridge * xp.where(roots > 0, alpha / xp.where(roots > 0, roots, 1.0), 0.0)
    if sampled and ridge > 0 and problem.rows > _sample_size(problem):
        return _sampled_residual(problem, alpha, b, pull, sizes)
    dear = float64_is_slow(problem.gram)
    low = problem.gram if single is None else single
    fitted = (MixedPrecision(low) if dear else problem.gram) @ alpha
    misses = roots * (fitted + b - y)
    risk, square = float(xp.sum(misses**2)) / total, float(xp.sum(alpha * fitted))
    objective = 0.5 * (risk + problem.regularization * square)
    if ridge > 0 and dear:
        return _sampled_residual(problem, alpha, b, pull, sizes, objective)
    rest, errors = misses + pull, roots * value_errors(problem, alpha)
    if ridge == 0:
        trace = float(xp.sum(xp.abs(problem.diagonal))) or 1.0
        rest = roots * (problem.gram @ (roots * misses)) / trace
    computed = float(xp.max(xp.linalg.vector_norm(rest, axis=0) / sizes))
    rounding = float(xp.max(xp.linalg.vector_norm(errors, axis=0) / sizes))
    if problem.null_space is not None:
        computed += _off_balance(problem, alpha)
    return Residual(computed + rounding, rounding, objective)


def _off_balance(problem: Problem, alpha: Array) -> float:
    """How far α is from orthogonal to the null space, relative to the sizes that are added."""
    xp, columns = namespace(alpha), problem.array(problem.null_space)
    left = xp.abs(columns.T @ alpha)
    sizes = xp.linalg.vector_norm(columns, axis=0)[:, None] * xp.linalg.vector_norm(alpha, axis=0)
    return float(xp.max(left / xp.where(sizes > 0, sizes, 1.0)))


def _sample_size(problem: Problem) -> int:
    """Rows of K in float64 that a certificate takes."""
    width = max(getattr(problem.gram.x, "width", 1), TUNING.narrow)
    return max(TUNING.fewest_rows, TUNING.sampled_rows * TUNING.narrow // width)


def _sampled_residual(
    problem: Problem,
    alpha: Array,
    b: Array,
    pull: Array,
    sizes: Array,
    objective: float | None = None,
) -> Residual:
    """The residual from random rows of K in float64: their mean square stands for that of all."""
    xp, n, gram = namespace(problem.y), problem.rows, problem.gram
    count = _sample_size(problem)
    rows = np.sort(np.random.default_rng(0).choice(n, min(n, count), replace=False))
    some = beside(rows, alpha)
    roots = xp.sqrt(problem.sample_weights)[some][:, None]
    values = gram[rows, :].astype(np.float64) @ alpha
    b = b if problem.null_space is None else b[some]
    misses = roots * (values + b - problem.y_columns[some])
    if objective is None:  # sums over rows, as those of the residual are
        risk = float(xp.sum(misses**2)) / float(xp.sum(problem.sample_weights))
        square = float(xp.sum(alpha[some] * values))
        objective = 0.5 * n / len(rows) * (risk + problem.regularization * square)
    squares = (misses + pull[some]) ** 2
    residuals = xp.sqrt(n * xp.mean(squares, axis=0)) / sizes
    worst = int(xp.argmax(residuals))
    residual, spread = float(residuals[worst]), float(xp.std(squares[:, worst]))
    if len(rows) == n or not residual:
        return Residual(residual, 0.0, objective, len(rows))
    error = n * spread / math.sqrt(len(rows)) / (2.0 * residual * float(sizes[worst]) ** 2)
    return Residual(residual + 2.0 * error, 2.0 * error, objective, len(rows))


def gradient_norm(
    problem: Problem, coefficients: Any, intercept: Any = 0.0, rounding: bool = False
) -> float:
    """‖∇J‖ = √(gᵀKg) in the space, g = w·ℓ'/Σw + λα, from scratch in float64.

    With an intercept, whose partial derivative is Σg, it is √(gᵀKg + (Σ w·ℓ'/Σw)²). Where λ > 0 and
    there is no intercept, J − min J ≤ ‖∇J‖²/(2λ).
    With `rounding` it is no less than what rounding may hide.

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> problem = Problem(Linear().gram([[2.0]]), np.array([2.0]), Squared(), regularization=0.0)
    >>> gradient_norm(problem, [0.0]), gradient_norm(problem, [0.5])  # of ½(2 − 2w)² in w
    (4.0, 0.0)
    """
    require_plain_intercept("gradient_norm", problem)
    xp, alpha = namespace(problem.y), problem.array(coefficients)
    values = problem.gram @ alpha + problem.array(intercept)
    push = over_rows(problem.shares, alpha) * slopes(problem, values)
    g = push + problem.regularization * alpha
    square = max(inner(g, problem.gram @ g), 0.0)
    if rounding:
        roots = over_rows(xp.sqrt(xp.abs(problem.diagonal)), g)
        square += float(xp.sum(sum_error(roots * g) * xp.linalg.vector_norm(roots * g, axis=0)))
        moved = over_rows(problem.shares, g) * value_errors(problem, alpha)  # of values, so of g
        moved = problem.loss.smoothness * roots * moved
        square += float(xp.sum(xp.linalg.vector_norm(moved, axis=0) ** 2))
    if problem.fit_intercept:
        square += float(xp.sum(xp.sum(push, axis=0) ** 2))
    return math.sqrt(square)
