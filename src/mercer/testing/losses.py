"""Contracts of losses: one function for each, one sentence where it fails.

A contract takes a loss on targets and predictions (`LossCase`). A function marked `@contract` joins
`LOSS_CONTRACTS` and runs on every loss. Contracts use no derivative but the loss's own: a slope is
right if it supports the values, a curvature if it is what differences of slopes tend to. So they
hold at kinks too, and need not know where those are.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

import mercer.losses
from mercer.losses import Loss, one_hot

TARGETS = 24  # targets, each with several predictions
CLASSES = 3
ROUNDING_SLACK = 64 * float(np.finfo(np.float64).eps)  # relative, for sums of a few rounded terms
LARGE = 1e4  # predictions at which nothing may overflow
PROXIMAL_STEPS = (1e-2, 1.0, 50.0)  # of the proximal map

LOSS_CONTRACTS: dict[str, Callable[[LossCase], None]] = {}


def check_loss(loss: Loss, y: Any = None, *, random_state: int = 0) -> None:
    """Run every contract on a loss; an `AssertionError` says which one fails, and where.

    Parameters
    ----------
    loss : Loss
        What is checked.
    y : array of shape (n,), optional
        Targets. By default the first of these that the loss accepts: real numbers, counts, labels
        ±1; labels 0, 1, 2 and rows of probabilities for a loss of several classes.
    random_state : int, default=0
        Draws the predictions.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from mercer.losses import Squared
    >>> check_loss(Squared())
    >>> @dataclass(frozen=True)
    ... class Halved(Squared):
    ...     def slope(self, y, f):
    ...         return 0.5 * (f - y)
    >>> check_loss(Halved())
    Traceback (most recent call last):
    AssertionError: Halved(): the slope is no subgradient, ...
    """
    for case in loss_cases(loss, y, random_state):
        for check in LOSS_CONTRACTS.values():
            check(case)


def contract(function: Callable[[LossCase], None]) -> Callable[[LossCase], None]:
    """Run a function on every loss."""
    LOSS_CONTRACTS[function.__name__] = function
    return function


# ---- a convex function and its derivatives ------------------------------------------------------


@contract
def shapes(case: LossCase) -> None:
    """One value for each target; slopes and proximal points like predictions."""
    z = case.loss.proximal(case.y, case.f, 1.0)
    if case.value.shape != case.f.shape[:1]:
        case.refuse(f"{len(case.f)} predictions have values of shape {case.value.shape}")
    for name, array in {"slope": case.slope, "proximal": z}.items():
        if array.shape != case.f.shape:
            case.refuse(f"{name} has shape {array.shape} for predictions of {case.f.shape}")
    case.require(np.isfinite(case.value), "the value is not finite")


@contract
def slope_supports(case: LossCase) -> None:
    """ℓ(f + h) ≥ ℓ(f) + h ℓ'(f) for small and large h of both signs: a subgradient everywhere.

    Small h squeeze the slope between the difference quotients on both sides, so that it is the
    derivative where there is one.
    """
    along = case.inner(case.slope, case.direction)
    for h in (1e-6, -1e-6, 1e-4, -1e-4, 1e-2, -1e-2, 1.0, -1.0):
        moved = case.loss.value(case.y, case.f + h * case.direction)
        noise = case.value_noise + ROUNDING_SLACK * np.abs(moved)
        case.require(
            moved - case.value - h * along >= -noise,
            "the slope is no subgradient, between the difference quotients on both sides",
        )


@contract
def convexity(case: LossCase) -> None:
    """ℓ((1 − t)f + tg) ≤ (1 − t)ℓ(f) + tℓ(g) along lines."""
    random = np.random.default_rng(case.seed)
    for t in (0.1, 0.5, 0.8):
        g = case.f + 3.0 * random.standard_normal(case.f.shape)
        end = case.loss.value(case.y, g)
        between = case.loss.value(case.y, (1 - t) * case.f + t * g)
        noise = case.value_noise + ROUNDING_SLACK * (np.abs(end) + case.size)
        chord = (1 - t) * case.value + t * end
        case.require(between <= chord + noise, "the value is not convex: it is above a chord")


@contract
def curvature_is_slope_of_slope(case: LossCase) -> None:
    """ℓ'' is between what differences of slopes tend to on both sides, except where slopes jump."""
    curvature = case.loss.curvature_product(case.y, case.f, case.direction)
    along = case.inner(curvature, case.direction)
    coarse, fine = (_quotients(case, h) for h in (2e-5, 1e-5))
    noise = 1e-7 * (1 + case.lengths(case.slope) + np.abs(fine).max(axis=0))
    bend = 2 * np.abs(coarse - fine).max(axis=0)
    jumps = np.abs(fine).max(axis=0) * 1e-5 > 1e-2 + 1e-4 * case.lengths(case.slope)
    above = along >= fine.min(axis=0) - bend - noise
    below = along <= fine.max(axis=0) + bend + noise
    case.require(jumps | (above & below), "the curvature is not the derivative of the slope")


def _quotients(case: LossCase, h: float) -> np.ndarray:
    """(ℓ'(f ± h) − ℓ'(f))/(±h), on the right and on the left."""
    moved = [case.loss.slope(case.y, case.f + s * h * case.direction) for s in (1, -1)]
    right, left = (case.inner(slope - case.slope, case.direction) / h for slope in moved)
    return np.stack([right, -left])


@contract
def curvature_product(case: LossCase) -> None:
    """`curvature_product` multiplies by the curvature, which is nonnegative and symmetric."""
    C, v = case.loss.curvature(case.y, case.f), case.direction
    product = case.loss.curvature_product(case.y, case.f, v)
    if case.loss.is_multiclass:
        expected, quadratic = np.einsum("nij,nj->ni", C, v), np.einsum("ni,nij,nj->n", v, C, v)
        case.require(
            np.abs(C - np.swapaxes(C, 1, 2)) <= ROUNDING_SLACK, "the curvature is not symmetric"
        )
    else:
        expected, quadratic = C * v, C
    case.require(quadratic >= -ROUNDING_SLACK, "the curvature is negative")
    near = np.abs(product - expected) <= ROUNDING_SLACK * (1 + np.abs(expected))
    case.require(near, "curvature_product is not the product with the curvature")


# ---- the conjugate ------------------------------------------------------------------------------


@contract
def fenchel_young(case: LossCase) -> None:
    """ℓ(f) + ℓ*(u) ≥ uf, for u inside and outside the domain and for f near and far."""
    u = case.dual_points()
    conjugate = case.loss.conjugate(case.y, u)
    case.require(conjugate > -math.inf, "the conjugate is −∞ or no number")
    finite = np.where(np.isfinite(conjugate), conjugate, 0.0)
    for f in (case.f, case.f[::-1], LARGE * np.sign(u), -LARGE * np.sign(u)):
        value, product = case.loss.value(case.y, f), case.inner(u, f)
        with np.errstate(invalid="ignore"):
            noise = ROUNDING_SLACK * (
                np.abs(value) + np.abs(finite) + (1 + case.lengths(f)) * case.size
            )
            holds = (conjugate == math.inf) | (value == math.inf)
            holds |= value + finite - product >= -noise
        case.require(holds, "value + conjugate < uf for some u, against the inequality of Fenchel")


@contract
def fenchel_equality(case: LossCase) -> None:
    """ℓ(f) + ℓ*(u) = uf at u = ℓ'(f)."""
    conjugate = case.loss.conjugate(case.y, case.slope)
    case.require(np.isfinite(conjugate), "the conjugate is not finite at the slope")
    product = case.inner(case.slope, case.f)
    gap = np.abs(case.value + conjugate - product)
    noise = case.value_noise + ROUNDING_SLACK * (np.abs(conjugate) + np.abs(product))
    case.require(gap <= noise, "value + conjugate is not uf at the slope u")


@contract
def conjugate_domain(case: LossCase) -> None:
    """Slopes are inside the domain, and ℓ* = +∞ outside."""
    targets = case.rows() if case.loss.is_multiclass else case.y
    low, high = (np.broadcast_to(edge, case.f.shape) for edge in case.loss.domain(targets))
    slack = ROUNDING_SLACK * (1 + np.abs(case.slope))
    inside = (case.slope >= low - slack) & (case.slope <= high + slack)
    case.require(inside, "the slope is outside the domain of the conjugate")
    for edge, sign in ((low, -1), (high, 1)):
        bounded = np.isfinite(edge)
        u = np.where(bounded, edge + sign * 1e-2 * (1 + np.abs(edge)), 0.0)
        outside = case.loss.conjugate(case.y, u) == math.inf
        bounded = bounded.any(axis=1) if case.loss.is_multiclass else bounded
        case.require(outside | ~bounded, "the conjugate is not +∞ outside its domain")


# ---- the proximal map ---------------------------------------------------------------------------


@contract
def proximal_is_optimal(case: LossCase) -> None:
    """(f − z)/step is a subgradient at z, for z up to a few units in the last place."""
    for step in PROXIMAL_STEPS:
        z = case.loss.proximal(case.y, case.f, step)
        noise = ROUNDING_SLACK * (case.size + case.lengths(z))
        if case.loss.is_multiclass:
            residual = z - case.f + step * case.loss.slope(case.y, z)
            holds = case.lengths(residual) <= (1 + step) * noise
        else:  # z − f + step·ℓ'(z), which increases, changes its sign right at z
            below, above = (
                z + d - case.f + step * case.loss.slope(case.y, z + d) for d in (-noise, noise)
            )
            holds = (below <= noise) & (above >= -noise)
        case.require(holds, f"the proximal point of step {step:g} does not solve its equation")


@contract
def proximal_of_many_steps(case: LossCase) -> None:
    """One step for each entry is what each step gives alone."""
    steps = np.where(np.arange(len(case.f)) % 2, PROXIMAL_STEPS[0], PROXIMAL_STEPS[1])
    together = case.loss.proximal(case.y, case.f, steps)
    alone = [case.loss.proximal(case.y, case.f, step) for step in PROXIMAL_STEPS[:2]]
    expected = np.where(case.wide(steps) == PROXIMAL_STEPS[0], *alone)
    near = np.abs(together - expected) <= ROUNDING_SLACK * case.wide(case.size)
    case.require(near, "steps given as an array give another proximal point")


# ---- how fast it grows --------------------------------------------------------------------------


@contract
def lipschitz_bound(case: LossCase) -> None:
    """|ℓ(f) − ℓ(g)| ≤ L‖f − g‖."""
    for g in _others(case):
        gap = np.abs(case.loss.value(case.y, g) - case.value)
        noise = case.value_noise + ROUNDING_SLACK * np.abs(case.loss.value(case.y, g))
        limit = case.loss.lipschitz * np.maximum(case.lengths(g - case.f), 1e-300)
        case.require(
            gap <= limit * (1 + ROUNDING_SLACK) + noise, "the value grows faster than `lipschitz`"
        )


@contract
def smoothness_bound(case: LossCase) -> None:
    """‖ℓ'(f) − ℓ'(g)‖ ≤ smoothness·‖f − g‖."""
    for g in _others(case):
        gap = case.lengths(case.loss.slope(case.y, g) - case.slope)
        limit = case.loss.smoothness * np.maximum(case.lengths(g - case.f), 1e-300)
        noise = ROUNDING_SLACK * (1 + case.lengths(case.slope)) * case.size
        case.require(
            gap <= limit * (1 + ROUNDING_SLACK) + noise,
            "the slope changes faster than `smoothness`",
        )


def _others(case: LossCase) -> list[np.ndarray]:
    return [case.f + h * case.direction for h in (1e-4, -1e-4, 0.5, -0.5, 5.0, -5.0)]


# ---- digits -------------------------------------------------------------------------------------


@contract
def single_precision(case: LossCase) -> None:
    """float32 predictions give float32 answers, near those in float64."""
    unit = 64 * float(np.finfo(np.float32).eps)
    f, step = case.f.astype(np.float32), 0.5
    answers = case.answers(f, step)
    answers["conjugate"] = case.loss.conjugate(case.y, case.slope.astype(np.float32))
    for name, answer in answers.items():
        if answer.dtype != np.float32:
            case.refuse(f"{name} of float32 predictions is {answer.dtype}")
    h, z = unit * case.wide(case.size), case.loss.proximal(case.y, case.f, step)
    # a slope is compared with those close by: at kinks it may be on the other side
    slopes = [case.loss.slope(case.y, case.f + d) for d in (-h, 0.0, h)]
    slack = h * (1 + np.abs(case.slope))
    near = {
        "value": np.abs(answers["value"] - case.value) <= unit * case.value_noise / ROUNDING_SLACK,
        "proximal": np.abs(answers["proximal"] - z) <= h * (1 + np.abs(z)),
        "slope": (answers["slope"] >= np.minimum.reduce(slopes) - slack)
        & (answers["slope"] <= np.maximum.reduce(slopes) + slack),
    }
    for name, holds in near.items():
        case.require(holds, f"{name} in float32 is far from what it is in float64")


@contract
def large_predictions(case: LossCase) -> None:
    """No NaN and no floating-point error for |f| = 10⁴, in both precisions."""
    for dtype in (np.float32, np.float64):
        for sign in (1, -1):
            f = (sign * LARGE * np.sign(case.direction)).astype(dtype)
            try:
                with np.errstate(over="raise", invalid="raise", divide="raise"):
                    answers = case.answers(f, 1.0)
            except FloatingPointError as error:
                case.refuse(f"for |f| = {LARGE:g} there is an {error}")
            for name, answer in answers.items():
                case.require(~np.isnan(answer), f"{name} is NaN for |f| = {LARGE:g} in {f.dtype}")


# ---- targets, weights, arguments ----------------------------------------------------------------


@contract
def targets_are_checked(case: LossCase) -> None:
    """`check_targets` accepts these targets, and refuses NaN."""
    case.loss.check_targets(case.targets)
    spoilt = case.targets.astype(np.float64)
    spoilt[-1] = np.nan
    if accepts(case.loss, spoilt):
        case.refuse("check_targets accepts NaN")


@contract
def weighted_risk(case: LossCase) -> None:
    """The risk is the weighted mean of the values: a weight counts how often a sample is there."""
    weights = np.arange(len(case.f)) % 4
    repeated = np.repeat(np.arange(len(case.f)), weights)
    once = case.loss.risk(case.y, case.f, weights)
    expected = {
        "repetitions": np.mean(case.value[repeated]),
        "repeated samples": case.loss.risk(case.y[repeated], case.f[repeated]),
        "the same weights times 3": case.loss.risk(case.y, case.f, 3.0 * weights),
    }
    for name, risk in expected.items():
        if not abs(once - risk) <= ROUNDING_SLACK * len(case.f) * np.mean(
            np.abs(case.value[repeated])
        ):
            case.refuse(f"weights give the risk {once}, but {name} give {risk}")


@contract
def inputs_untouched(case: LossCase) -> None:
    """Nothing is written into the user's arrays, and answers do not share memory with them."""
    y, f = case.y.copy(), case.f.copy()
    for answer in (*case.answers(case.f, 1.0).values(), case.loss.conjugate(case.y, case.f)):
        answer += 1.0
    if not (np.array_equal(y, case.y) and np.array_equal(f, case.f)):
        case.refuse("it writes into its arguments, or answers with a view of them")


@contract
def value_like_any_other(case: LossCase) -> None:
    """Copies, pickles, `with_` and `repr` give an equal loss with an equal hash."""
    loss = case.loss
    names = {**vars(mercer.losses), type(loss).__name__: type(loss), "np": np}
    twins = {
        "copying": copy.copy(loss),
        "pickling": pickle.loads(pickle.dumps(loss)),
        "with_(**get_params())": loss.with_(**loss.get_params()),
        "evaluating its repr": eval(repr(loss), names),
    }
    for way, twin in twins.items():
        if twin != loss or hash(twin) != hash(loss):
            case.refuse(f"{way} gives another loss, {twin!r}")


# ---- targets and predictions ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LossCase:
    """A loss on targets; predictions are drawn around them, on kinks too, in steps of float32."""

    loss: Loss
    targets: np.ndarray
    seed: int = 0

    @cached_property
    def y(self) -> np.ndarray:
        """The targets, once for each prediction."""
        return self._pairs[0]

    @cached_property
    def f(self) -> np.ndarray:
        return self._pairs[1]

    @cached_property
    def direction(self) -> np.ndarray:
        """Where predictions move to; 1 where a prediction is a single number."""
        if not self.loss.is_multiclass:
            return np.ones_like(self.f)
        return np.random.default_rng(self.seed + 1).standard_normal(self.f.shape)

    @cached_property
    def size(self) -> np.ndarray:
        """The size of the numbers in y and f, entry by entry, and at least 1."""
        return 1.0 + self.lengths(self.f) + (np.abs(self.y) if self.y.ndim == 1 else 1.0)

    @cached_property
    def value(self) -> np.ndarray:
        return self.loss.value(self.y, self.f)

    @cached_property
    def slope(self) -> np.ndarray:
        return self.loss.slope(self.y, self.f)

    @cached_property
    def value_noise(self) -> np.ndarray:
        """How far rounding may move the values."""
        return ROUNDING_SLACK * (np.abs(self.value) + (1 + self.lengths(self.slope)) * self.size)

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(self.seed)
        if self.loss.is_multiclass:
            y = np.concatenate([self.targets] * 4)
            scales = random.choice([0.0, 0.3, 3.0, 10.0], (len(y), 1))
            classes = max(CLASSES, int(y.max()) + 1) if y.ndim == 1 else y.shape[1]
            f = scales * random.standard_normal((len(y), classes))
        else:
            # Losses may have kinks at y, one beside it, and each parameter beside it.
            numbers = [v for v in self.loss.get_params().values() if isinstance(v, (int, float))]
            offsets = [0.0, *(sign * float(v) for v in (1.0, *numbers) for sign in (-1, 1))]
            near = [np.full(TARGETS, offset) for offset in offsets]
            far = [scale * random.standard_normal(TARGETS) for scale in (0.1, 1.0, 5.0)]
            shifts = near + far
            y = np.concatenate([self.targets[:TARGETS]] * len(shifts))
            f = y + np.concatenate([shift[: len(self.targets)] for shift in shifts])
        return y, f.astype(np.float32).astype(np.float64)

    def inner(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """⟨u, v⟩ of each prediction."""
        return np.sum(u * v, axis=-1) if self.loss.is_multiclass else u * v

    def lengths(self, u: np.ndarray) -> np.ndarray:
        """‖u‖ of each prediction."""
        return np.linalg.norm(u, axis=-1) if self.loss.is_multiclass else np.abs(u)

    def wide(self, numbers: np.ndarray) -> np.ndarray:
        """One number for each prediction, against its entries."""
        return numbers[:, None] if self.loss.is_multiclass else numbers

    def dual_points(self) -> np.ndarray:
        """Points u inside the domain of the conjugate, on its edge, and outside."""
        random = np.random.default_rng(self.seed + 2)
        if self.loss.is_multiclass:
            rows = random.dirichlet(np.ones(self.f.shape[1]), len(self.f))
            return rows - self.rows()
        low, high = (np.broadcast_to(edge, self.f.shape) for edge in self.loss.domain(self.y))
        u = random.uniform(np.maximum(low, -5.0) - 0.5, np.minimum(high, 5.0) + 0.5)
        return np.where(random.random(u.shape) < 0.5, np.clip(u, low, high), u)

    def answers(self, f: np.ndarray, step: float) -> dict[str, np.ndarray]:
        """Value and derivatives of the loss at predictions, by name."""
        return {
            "value": self.loss.value(self.y, f),
            "slope": self.loss.slope(self.y, f),
            "curvature": self.loss.curvature(self.y, f),
            "proximal": self.loss.proximal(self.y, f, step),
        }

    def rows(self) -> np.ndarray:
        """Targets of several classes as rows."""
        return self.y if self.y.ndim == 2 else one_hot(self.y, self.f.shape[1])

    def require(self, holds: Any, sentence: str) -> None:
        """Refuse unless it holds everywhere, and name the first pair where it does not."""
        holds = np.asarray(holds)
        holds = holds.reshape(len(holds), -1).all(axis=1) if holds.ndim else holds
        if not holds.all():
            i = int(np.argmin(holds))
            self.refuse(f"{sentence}, as at y = {self.y[i]}, f = {self.f[i]}")

    def refuse(self, sentence: str) -> NoReturn:
        raise AssertionError(f"{self.loss!r}: {sentence}.")


def loss_cases(loss: Loss, y: Any = None, seed: int = 0) -> Iterator[LossCase]:
    """The given targets, or some that the loss accepts."""
    if y is not None:
        yield LossCase(loss, np.asarray(y), seed)
        return
    candidates = _numbers(seed)
    if loss.is_multiclass:
        rows = np.random.default_rng(seed).dirichlet(np.ones(CLASSES), TARGETS)
        candidates = [np.arange(TARGETS) % CLASSES, rows]
    accepted = [targets for targets in candidates if accepts(loss, targets)]
    if not accepted:
        raise ValueError(
            f"{loss!r} refuses real targets, counts and labels: pass targets it is made for, "
            "check_loss(loss, y)."
        )
    for targets in accepted if loss.is_multiclass else accepted[:1]:
        yield LossCase(loss, targets, seed)


def _numbers(seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    reals = np.concatenate([[0.0, 1.0, -1.0, 2.5], 2.0 * random.standard_normal(TARGETS - 4)])
    counts = np.concatenate([[0.0, 1.0], random.poisson(3.0, TARGETS - 2)])
    labels = np.where(np.arange(TARGETS) % 2, 1.0, -1.0)
    return [reals.astype(np.float32).astype(np.float64), counts, labels]


def accepts(loss: Loss, targets: np.ndarray) -> bool:
    """Whether `check_targets` lets targets pass."""
    try:
        loss.check_targets(targets)
    except ValueError:
        return False
    return True
