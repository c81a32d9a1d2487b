"""Rounds of a stream: what is minimised, with which steps, what was met, and what is recorded."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.losses import Loss
from mercer.online.budgets import Budget
from mercer.online.losses import code_of as loss_code
from mercer.online.schedules import Average, Constant, InverseSquareRoot, InverseTime
from mercer.online.schedules import code_of as step_code
from mercer.online.state import (
    FOREIGN,
    GIVEN,
    LEAST_LOSS,
    LOSS_SUM,
    MISTAKES,
    OFFSET,
    ROUNDS,
    UNBOUNDED,
    Block,
    Rules,
)
from mercer.points import PointSet

ROUNDING = 1.0 + 1e-9  # of λ times 1/λ


@dataclass(frozen=True)
class Settings:
    """What an online machine minimises, and how: the parameters behind every named algorithm."""

    loss: Loss
    regularization: float
    step: Any
    budget: Budget | None = None
    averaging: Average | None = None
    random_state: Any = None
    record: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss):
            raise ValueError(f"loss must be a loss of mercer.losses; got {self.loss!r}.")
        step_code(self.step)
        if not (math.isfinite(self.regularization) and self.regularization >= 0):
            raise ValueError(
                f"regularization must be nonnegative and finite; got {self.regularization!r}."
            )
        if not (self.budget is None or isinstance(self.budget, Budget)):
            raise ValueError(
                f"budget must be None or one of mercer.online.budgets, as Merge(200); got "
                f"{self.budget!r}."
            )
        if not (self.averaging is None or hasattr(self.averaging, "weight")):
            raise ValueError(f"averaging must be None or Average(); got {self.averaging!r}.")
        if isinstance(self.budget, Budget) and self.budget.policy == LEAST_LOSS:
            self._refuse_foreign()

    def _refuse_foreign(self) -> None:
        if loss_code(self.loss)[0] == FOREIGN:
            raise ValueError(
                f"LeastLoss compares losses in compiled code, which does not know {self.loss!r}: "
                "choose another budget, as Smallest or Project."
            )

    @property
    def stable_below(self) -> float:
        """The curvature that limits steps, where slopes are unbounded; 0 where they are not."""
        bent = math.isinf(self.loss.lipschitz) and math.isfinite(self.loss.smoothness)
        return float(self.loss.smoothness) if bent else 0.0


@dataclass
class Recorded:
    """The rounds of a stream, kept for a look at the regret."""

    points: list[PointSet] = field(default_factory=list)
    targets: list[np.ndarray] = field(default_factory=list)
    weights: list[np.ndarray] = field(default_factory=list)
    losses: list[np.ndarray] = field(default_factory=list)
    gradients: list[np.ndarray] = field(default_factory=list)
    norms: list[np.ndarray] = field(default_factory=list)

    def add(self, points: PointSet, block: Block) -> None:
        self.points.append(points)
        self.targets.append(block.targets)
        self.weights.append(block.weights)
        self.losses.append(block.losses)
        self.gradients.append(block.gradients)
        self.norms.append(block.norms)

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self.points)

    def cut(self, blocks: int) -> None:
        """Forget what came after so many blocks."""
        for name in ("points", "targets", "weights", "losses", "gradients", "norms"):
            del getattr(self, name)[blocks:]


class Rounds:
    """The steps of a stream and what they met: shared by machines on centres and on features."""

    settings: Settings
    rules: Rules
    arrays: Any
    recorded: Recorded | None

    def begin(self, settings: Settings, policy: int) -> None:
        """Take the settings in, as compiled code reads them."""
        self.settings = settings
        code, numbers = loss_code(settings.loss)
        step, number = step_code(settings.step)
        self.rules = Rules(
            loss=code,
            loss_numbers=numbers,
            step=step,
            step_number=number,
            regularization=float(settings.regularization),
            policy=policy,
            size=int(settings.budget.size) if settings.budget else 0,
            kept_norm=policy == UNBOUNDED,
            labels=settings.loss.is_classification,
        )
        self.recorded = Recorded() if settings.record else None

    # ---- steps ----------------------------------------------------------------------------------

    def _steps(self, n: int) -> np.ndarray:
        if self.rules.step != GIVEN:
            return np.zeros(n)
        first, step = self.rounds + 1, self.settings.step
        times = np.arange(first, first + n)
        if type(step) is Constant:
            return np.full(n, float(step.size))
        if type(step) is InverseSquareRoot:
            return float(step.scale) / np.sqrt(times)
        if type(step) is InverseTime:
            return float(step.scale) / (times + float(step.offset))
        return np.array([step.step(t) for t in range(first, first + n)])

    def _averaging(self, n: int) -> np.ndarray:
        if self.settings.averaging is None:
            return np.zeros(n)
        first = self.rounds + 1
        return np.array([self.settings.averaging.weight(t) for t in range(first, first + n)])

    def _check_steps(self, steps: np.ndarray, sizes: np.ndarray) -> None:
        """Refuse steps under which f turns round or blows up, before anything is learned."""
        ridge = self.rules.regularization
        if self.rules.step != GIVEN or not len(steps):
            return
        if steps.max() * ridge > ROUNDING:
            raise ValueError(
                f"the step {steps.max():g} turns f round: 1 − ηλ = {1 - steps.max() * ridge:.3g}. "
                f"Take steps of at most 1/λ = {1 / ridge:.3g}, as InverseTime(1/λ) does."
            )
        curvature = self.settings.stable_below
        product = steps * (curvature * sizes + ridge)
        if curvature and product.max() >= 2.0:
            worst = int(product.argmax())
            limit = 2.0 / (curvature * sizes[worst] + ridge)
            raise ValueError(
                f"the step {steps[worst]:g} is too long for a loss with unbounded slope: learning "
                f"is stable below {limit:.3g} at this sample. Write a smaller scale."
            )

    @property
    def rounds(self) -> int:
        return int(self.arrays.integers[ROUNDS])

    @property
    def cumulative_loss(self) -> float:
        return float(self.arrays.reals[LOSS_SUM])

    @property
    def mistakes(self) -> int:
        return int(self.arrays.integers[MISTAKES])

    @property
    def offset(self) -> float:
        return float(self.arrays.reals[OFFSET])
