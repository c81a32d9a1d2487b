"""An online algorithm as a value: what is minimised, with which steps, on which budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.kernels.measures import Seed
from mercer.losses import Loss
from mercer.online.budgets import Budget
from mercer.online.losses import Novelty, kind_of
from mercer.online.state import (
    ADAPTIVE,
    AGGRESSIVE,
    FOREIGN,
    GIVEN,
    LEAST_LOSS,
    SCALAR,
    SOFT_AGGRESSIVE,
    Rules,
)
from mercer.solvers.schedules import (
    Adaptive,
    Aggressive,
    Average,
    InverseSquareRoot,
    step_sizes,
)


@dataclass(frozen=True)
class Algorithm:
    """An online algorithm: Pegasos, NORMA, the perceptron and all others are choices of these."""

    loss: Loss
    regularization: float = 0.0
    step: Any = field(default=InverseSquareRoot(1.0))
    budget: Budget | None = None
    averaging: Average | None = None
    random_state: Seed = None
    record: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.step, (Adaptive, Aggressive)) or hasattr(self.step, "step")):
            raise ValueError(
                f"step must be a schedule; got {self.step!r}. Write schedules.Constant(0.1), "
                "InverseTime(scale), InverseSqrt(scale), Adaptive(scale) or Aggressive(limit)."
            )
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
        compares = self.budget is not None and self.budget.policy == LEAST_LOSS
        if compares and kind_of(self.loss) == FOREIGN:
            raise ValueError(
                f"LeastLoss compares losses in compiled code, which does not know {self.loss!r}: "
                "choose another budget, as Smallest or Project."
            )

    def rules(self, policy: int, size: int) -> Rules:
        """The algorithm as compiled code reads it, but for the address of the loss: `compiled`."""
        step, number = GIVEN, 0.0
        if isinstance(self.step, Adaptive):
            step, number = ADAPTIVE, float(self.step.scale)
        elif isinstance(self.step, Aggressive):
            step, number = SOFT_AGGRESSIVE if self.step.soft else AGGRESSIVE, float(self.step.limit)
        return Rules(
            loss=kind_of(self.loss),
            loss_address=0,
            loss_numbers=np.array([getattr(self.loss, "margin", 0.0)]),
            share=self.loss.share if isinstance(self.loss, Novelty) else 0.0,
            step=step,
            step_number=number,
            regularization=float(self.regularization),
            policy=policy,
            size=size,
            labels=self.loss.is_classification,
        )

    def compiled(self, rules: Rules) -> Rules:
        """The rules with the code of the loss, whose address holds in this process only."""
        if rules.loss != SCALAR:
            return rules
        from mercer.losses.compiled import compiled_loss

        code = compiled_loss(self.loss)
        assert code is not None
        return rules._replace(loss_address=code.address, loss_numbers=code.parameters)

    def steps(self, first: int, count: int) -> np.ndarray:
        """η_t for t = first, …; zeros where the losses met decide."""
        if isinstance(self.step, (Adaptive, Aggressive)):
            return np.zeros(count)
        return step_sizes(self.step, first, count)

    def shares(self, first: int, count: int) -> np.ndarray:
        """The weights of the iterates in the average."""
        if self.averaging is None:
            return np.zeros(count)
        return np.array([self.averaging.weight(t) for t in range(first, first + count)])

    def check_steps(self, steps: np.ndarray, sizes: np.ndarray) -> None:
        """Refuse steps under which f turns round or blows up; `sizes` are weights times k(x, x)."""
        if not len(steps):
            return
        ridge, curvature = float(self.regularization), float(self.loss.smoothness)
        if steps.max() * ridge > 1.0 + 1e-9:  # λ·(1/λ) is 1 up to rounding
            raise ValueError(
                f"the step {steps.max():g} turns f round: 1 − ηλ = {1 - steps.max() * ridge:.3g}. "
                f"Take steps of at most 1/λ = {1 / ridge:.3g}, as InverseTime(1/λ) does."
            )
        if not math.isinf(self.loss.lipschitz) or math.isinf(curvature):
            return
        product = steps * (curvature * sizes + ridge)
        if product.max() >= 2.0:
            worst = int(product.argmax())
            limit = 2.0 / (curvature * sizes[worst] + ridge)
            raise ValueError(
                f"the step {steps[worst]:g} is too long for a loss with unbounded slope: learning "
                f"is stable below {limit:.3g} at this sample. Write a smaller scale."
            )
