"""Regret: what a stream cost beyond the best function of a ball, and what theory promises.

The best function in hindsight minimises Σ_t w_t ℓ(y_t, f(x_t)) over ‖f‖ ≤ U.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts are loaded where they are used

from mercer import linalg
from mercer.checks import check_positive
from mercer.functions import RKHSFunction
from mercer.losses import Loss
from mercer.online.algorithm import Algorithm
from mercer.online.state import FEATURES, UNBOUNDED
from mercer.online.stream import Recorded
from mercer.operators import Gram
from mercer.solvers.schedules import Constant, InverseTime
from mercer.theory.bounds import online_deviation
from mercer.theory.certificate import Assumption, Certificate, Statement


@dataclass(frozen=True)
class Tuning:
    """Numbers of the search for the best function of a ball."""

    steps: int = 4000  # of splitting at most; a few hundred are usual
    check_every: int = 20  # steps between two evaluations of the gap, which costs as much as a step
    apart: float = 5.0  # primal and dual residuals further apart double or halve the stiffness


@dataclass(frozen=True, eq=False)
class Regret:
    """Cumulative losses of a stream, of the best f with ‖f‖ ≤ U, and the bound between them.

    Attributes
    ----------
    online, best : arrays of shape (rounds,)
        Sums of the losses up to each round: of the predictions, each made before its sample was
        learned, and of the best function of the ball in hindsight.
    bound : array or None
        What online − best cannot exceed; None where nothing is proved.
    reason : str
        Which bound it is, or why there is none.
    regularised : bool
        Whether losses include (λ/2)‖f‖², as the bound needs with λ > 0.
    function : RKHSFunction
        The best function.
    gap : float
        By how much the least sum of losses may be lower than that of `function`, by duality.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> from mercer.online import OnlineKernelMachine, regret, schedules
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> machine = OnlineKernelMachine(
    ...     Gaussian(), regularization=0.0, step=schedules.Constant(0.3), record=True
    ... ).partial_fit(X, np.where(X[:, 0] > 0.5, 1, -1), classes=[-1, 1])
    >>> curve = regret(machine, radius=2.0)
    >>> bool((curve.regret <= curve.bound).all())
    True
    """

    online: np.ndarray
    best: np.ndarray
    bound: np.ndarray | None
    reason: str
    regularised: bool
    radius: float
    function: RKHSFunction
    gap: float

    @property
    def regret(self) -> np.ndarray:
        return self.online - self.best


def regret(machine: Any, radius: float) -> Regret:
    """The regret of a machine that recorded its rounds, against ‖f‖ ≤ radius.

    It takes the eigendecomposition of the Gram matrix of all rounds: a few thousand at most.

    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> from mercer.online import OnlineKernelMachine, schedules
    >>> m = OnlineKernelMachine(
    ...     Gaussian(),
    ...     loss=Squared(),
    ...     regularization=0.0,
    ...     record=True,
    ...     step=schedules.Constant(0.5),
    ... )
    >>> curve = regret(m.partial_fit([[0.0], [1.0], [0.0]], [1.0, -1.0, 1.0]), radius=2.0)
    >>> bool((curve.regret <= curve.bound).all())
    True
    """
    check_positive("regret", "radius", radius)
    recorded = getattr(machine, "recorded_", None)
    if recorded is None:
        raise ValueError(
            "the regret needs the rounds of the stream, which this machine did not keep: make it "
            "with record=True, and let it learn."
        )
    algorithm: Algorithm = machine.stream_.algorithm
    bound, reason = regret_bound(machine, radius)
    ridge = float(algorithm.regularization) if bound is not None else 0.0
    best = best_in_ball(
        Gram(machine.kernel_, recorded.points),
        recorded.targets,
        recorded.weights,
        algorithm.loss,
        radius,
        regularization=ridge * len(recorded.targets),
    )
    online, losses = recorded.losses, best.losses
    if ridge:
        online = online + 0.5 * ridge * recorded.norms
        losses = losses + 0.5 * ridge * best.squared_norm
    return Regret(
        np.cumsum(online),
        np.cumsum(losses),
        bound,
        reason,
        bool(ridge),
        float(radius),
        best.function,
        best.gap,
    )


def regret_bound(machine: Any, radius: float) -> tuple[np.ndarray | None, str]:
    """The bound of a machine that recorded, up to each round, with its name; or None, and why."""
    policy, algorithm = machine.stream_.rules.policy, machine.stream_.algorithm
    recorded: Recorded = machine.recorded_
    if policy == FEATURES:
        return None, "no bound: f moves in the span of features, not in the ball of the kernel."
    if policy != UNBOUNDED:
        return None, "no bound: bumps that a budget drops are not paid for in the proof."
    step, ridge, gradients = algorithm.step, float(algorithm.regularization), recorded.gradients
    if isinstance(step, Constant):
        bound = radius**2 / (2.0 * step.size) + 0.5 * step.size * np.cumsum(gradients)
        return bound, "U²/(2η) + (η/2) Σ‖g_t‖²"
    strong = isinstance(step, InverseTime) and ridge > 0 and step.offset == 0
    if strong and math.isclose(step.scale * ridge, 1.0, rel_tol=1e-9):  # 1/λ was rounded
        rounds = np.arange(1, len(gradients) + 1)
        return np.cumsum(gradients / (2.0 * ridge * rounds)), "Σ‖g_t‖²/(2λt)"
    return None, (
        "no bound: it is proved for a constant step, and for η = 1/(λt) on the regularised loss."
    )


# ---- the best function of a ball -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Hindsight:
    """The best f of the ball, its losses, and how far from the least their sum can be."""

    function: RKHSFunction
    losses: np.ndarray
    squared_norm: float
    gap: float


def best_in_ball(
    gram: Gram,
    targets: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    radius: float,
    regularization: float = 0.0,
    tolerance: float = 1e-4,
    tuning: Tuning = Tuning(),
) -> Hindsight:
    """Minimise Σ w_t ℓ(y_t, f(x_t)) + (λ/2)‖f‖² over ‖f‖ ≤ U, for any loss with a proximal map.

    By splitting v = f(X) from f: the proximal map of the loss for v, and for f the projection on
    the ball, which after one eigendecomposition of K is a search for one multiplier. The gap is
    that of Fenchel's dual: for any β, the least sum is at least
    −Σ w_t ℓ*(y_t, β_t/w_t) − max over ‖f‖ ≤ U of (−Σ β_t f(x_t) − (λ/2)‖f‖²).

    It is not `solvers.Constrained`, which seeks the multiplier by solving problem after problem: in
    a ball that holds nearly all f they are nearly unregularised, and dual ascent takes minutes.

    References
    ----------
    S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, Distributed optimization and statistical
    learning via the alternating direction method of multipliers, 2011.
    """
    check_positive("best_in_ball", "radius", radius)
    ball = _Ball(gram, targets, weights, loss, float(radius), float(regularization))
    steps = weights if loss.is_multiclass else weights[:, None]
    free, dual, stiffness = np.zeros_like(targets), np.zeros_like(targets), 1.0
    best, least, bound = np.zeros_like(targets), math.inf, -math.inf
    for number in range(1, tuning.steps + 1):
        place = ball.nearest(free - dual, stiffness)
        values, before = ball.vectors @ place, free
        free = np.asarray(loss.proximal(targets, values + dual, steps / stiffness))
        dual = dual + values - free
        if number % tuning.check_every and number < tuning.steps:
            continue
        bound = max(bound, ball.dual_value(stiffness * dual))
        total = float(ball.losses(values).sum()) + 0.5 * regularization * ball.squared_norm(place)
        if total < least:
            best, least = place, total
        if least - bound <= tolerance * max(abs(least), 1e-12):
            break
        if number < tuning.steps // 2:  # a stiffness that changes for ever need not converge
            primal, moved = np.linalg.norm(values - free), np.linalg.norm(free - before)
            change = 2.0 if primal > tuning.apart * moved else 1.0
            change = 0.5 if moved > tuning.apart * primal else change
            stiffness, dual = stiffness * change, dual / change
    return Hindsight(
        RKHSFunction(gram.kernel, gram.x, ball.vectors @ (best / ball.eigenvalues[:, None])),
        ball.losses(ball.vectors @ best),
        ball.squared_norm(best),
        least - bound,
    )


class _Ball:
    """Functions f with f(X) = Qs and ‖f‖² = Σ s²/λ_i ≤ U² in the eigenbasis K = QΛQᵀ."""

    def __init__(
        self,
        gram: Gram,
        targets: np.ndarray,
        weights: np.ndarray,
        loss: Loss,
        radius: float,
        regularization: float,
    ) -> None:
        self.targets, self.weights, self.loss = targets, weights, loss
        self.radius, self.regularization = radius, regularization
        values, vectors = map(np.asarray, linalg.eigen(gram.dense().astype(np.float64)))
        used = values > len(values) * np.finfo(np.float64).eps * values[-1]
        self.eigenvalues, self.vectors = values[used], np.ascontiguousarray(vectors[:, used])

    def nearest(self, target: np.ndarray, stiffness: float) -> np.ndarray:
        """The s that minimises (ρ/2)‖Qs − target‖² + (λ/2)Σ s²/λ_i over the ball."""
        goal = self.vectors.T @ target
        size = (goal**2).sum(axis=1) * self.eigenvalues
        start = self.eigenvalues + self.regularization / stiffness

        def excess(shift: float) -> float:
            return float((size / (start + shift) ** 2).sum()) - self.radius**2

        shift = 0.0
        if excess(0.0) > 0:
            most = 2.0 * math.sqrt(float(size.sum())) / self.radius
            shift = scipy.optimize.brentq(excess, 0.0, most, xtol=1e-15 * most)
        return goal * (self.eigenvalues / (start + shift))[:, None]

    def squared_norm(self, place: np.ndarray) -> float:
        return float(((place**2).sum(axis=1) / self.eigenvalues).sum())

    def losses(self, f: np.ndarray) -> np.ndarray:
        """w_t ℓ(y_t, f_t), summed over outputs."""
        return self.weights * _row_sums(self.loss.value(self.targets, f))

    def dual_value(self, slopes: np.ndarray) -> float:
        """Fenchel's lower bound at β = slopes (of w ℓ), moved into the domain of the conjugate."""
        u = slopes / self.weights[:, None]
        if not self.loss.is_multiclass:
            low, high = self.loss.domain(self.targets)
            u = np.clip(u, np.asarray(low), np.asarray(high))
        conjugates = self.weights * _row_sums(self.loss.conjugate(self.targets, u))
        # the largest value of −Σ β f(x) − (λ/2)‖f‖² over the ball
        inner = self.vectors.T @ (u * self.weights[:, None])
        size = math.sqrt(float(((inner**2).sum(axis=1) * self.eigenvalues).sum()))
        ridge, norm = self.regularization, self.radius
        if ridge * norm > size:
            norm = size / ridge
        return float(-conjugates.sum()) - norm * size + 0.5 * ridge * norm**2


def _row_sums(values: Any) -> np.ndarray:
    return np.asarray(values).reshape(len(values), -1).sum(axis=1)


# ---- the certificate -----------------------------------------------------------------------------


def certified(machine: Any, probability: float, radius: float) -> Certificate:
    """The certificate of a machine that has learned, see `OnlineMachine.certificate`."""
    check_positive("certificate", "radius", radius)
    T = machine.n_samples_seen_
    statements = [
        Statement("norm", float(machine.function_.norm()), "‖f‖ of the function learned so far."),
        Statement(
            "mean loss",
            machine.cumulative_loss_ / T,
            f"Of {T:,} predictions, each made before the step that learned its sample.",
        ),
    ]
    if machine._is_classifier():
        statements.append(_error_rate(machine, T, probability))
    return Certificate((*statements, _regret(machine, radius)))


def _error_rate(machine: Any, T: int, probability: float) -> Statement:
    share = machine.mistakes_ / T
    return Statement(
        "error rate",
        min(1.0, share + online_deviation(T, probability=probability)),
        f"With probability {probability} the functions on the way, one drawn at random, "
        f"misclassify at most so many new samples; {share:.4g} were wrong on the way.",
        (
            Assumption("the samples are independent, and new ones are of the same distribution"),
            Assumption(
                "each sample was learned once", None if machine.stream_.passes == 1 else False
            ),
        ),
    )


def _regret(machine: Any, radius: float) -> Statement:
    against = f"The loss beyond that of the best function with ‖f‖ ≤ {radius:.4g}"
    if machine.recorded_ is None:
        return Statement("regret", None, f"{against}: a bound needs rounds, write record=True.")
    bound, reason = regret_bound(machine, radius)
    if bound is None:
        return Statement("regret", None, f"{against}: {reason}")
    return Statement(
        "regret",
        float(bound[-1]),
        f"{against} is at most so large, summed over all rounds: {reason}. It holds for every "
        "sequence of samples.",
        (
            Assumption("the loss is convex", True),
            Assumption("f began at 0, and no bump was removed", True),
        ),
    )
