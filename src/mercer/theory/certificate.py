"""Certificates: figures and bounds of a fitted function, with their assumptions, checked or not."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from mercer.checks import check_between, check_positive
from mercer.functions import RKHSFunction
from mercer.kernels import laws
from mercer.losses import Hinge, Logistic, Squared
from mercer.operators import Gram
from mercer.solvers.solution import Asked, Solution
from mercer.theory import bounds
from mercer.theory.spectrum import effective_dimension

DECOMPOSED_ROWS = 3000  # for which an eigendecomposition is made
CHOICES = ("kernel", "regularization")


@dataclass(frozen=True)
class Assumption:
    """An assumption of a statement; `holds` is True or False where it was checked, else None.

    >>> Assumption("the samples are independent").holds is None
    True
    """

    text: str
    holds: bool | None = None

    def __str__(self) -> str:
        words = {True: "checked", False: "broken", None: "not checked"}
        return f"{self.text} ({words[self.holds]})"


@dataclass(frozen=True)
class Statement:
    """A number with its meaning; None where it is not known, and `meaning` says why.

    >>> Statement("norm", 2.0, "‖f‖").value
    2.0
    """

    name: str
    value: float | None
    meaning: str
    assumptions: tuple[Assumption, ...] = ()

    def __str__(self) -> str:
        value = "unknown" if self.value is None else f"{self.value:.4g}"
        lines = [f"{self.name}: {value}. {self.meaning}"]
        return "\n".join([*lines, *(f"    if {a}" for a in self.assumptions)])


@dataclass(frozen=True)
class Certificate:
    """Statements about a fitted function, by name, and remarks on the fit as a whole.

    >>> certificate = Certificate((Statement("norm", 2.0, "‖f‖."),))
    >>> certificate["norm"].value
    2.0
    """

    statements: tuple[Statement, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Statement:
        for statement in self.statements:
            if statement.name == name:
                return statement
        raise KeyError(f"{name!r}; there are {[s.name for s in self.statements]}")

    def __contains__(self, name: object) -> bool:
        return any(statement.name == name for statement in self.statements)

    def __iter__(self) -> Iterator[Statement]:
        return iter(self.statements)

    def __str__(self) -> str:
        return "\n".join([*self.notes, *map(str, self.statements)])

    def beside(self, *statements: Statement, notes: Collection[str] = ()) -> Certificate:
        """The certificate with other statements and remarks before its own.

        >>> one = Certificate((Statement("norm", 2.0, "‖f‖."),))
        >>> [s.name for s in one.beside(Statement("held-out error", 0.1, "On new rows."))]
        ['held-out error', 'norm']
        """
        return replace(
            self, statements=(*statements, *self.statements), notes=(*notes, *self.notes)
        )


def certify(
    function: RKHSFunction,
    solution: Solution,
    *,
    probability: float = 0.95,
    target_bound: float | None = None,
    largest_target: float | None = None,
    chosen: Collection[str] = (),
) -> Certificate:
    """Figures and bounds of the solution of a regularised problem.

    Objective, gap, norm and mean loss are computed. Bounds on the expected risk hold with the given
    probability, each on its own, or in expectation over the samples; what depends on the unknown
    target f* is shown as unknown. `model.certificate()` calls it.

    Parameters
    ----------
    function : RKHSFunction
    solution : Solution
        As an estimator keeps it, with what was asked.
    probability : float, default=0.95
    target_bound : float, optional
        Y ≥ |y| for all targets, which bounds for regression need.
    largest_target : float, optional
        The largest |y| that there can be, where that is known, as for codes ±1 of classes: Y is
        then checked, and is this number where no other is given.
    chosen : collection of "kernel" and "regularization", default=()
        What was chosen with the help of the same samples. A bound that needs it fixed before they
        are seen has a broken assumption.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge
    >>> model = KernelRidge(kernel="rbf").fit(np.eye(4), np.ones(4))
    >>> certificate = certify(model.function_, model.solution_)
    >>> bool(np.isclose(certificate["norm"].value, model.function_.norm()))
    True
    """
    check_between("certify", "probability", probability, 0.0, 1.0)
    if target_bound is not None:
        check_positive("certify", "target_bound", target_bound)
    if isinstance(chosen, str) or not set(chosen) <= set(CHOICES):
        raise ValueError(
            'chosen names what was chosen on the samples: write chosen=["kernel"], '
            f'chosen=["regularization"] or both; got {chosen!r}.'
        )
    asked = solution.asked
    statements = [
        Statement("objective", solution.objective, "Mean loss and penalty at f."),
        Statement("gap", solution.gap, f"How far f may be from optimal. {solution.status}"),
    ]
    if asked is None or np.ndim(function.coefficients) != 1:
        reason = "Only for one output and the penalty (λ/2)‖f‖² bounds are known here."
        return Certificate((*statements, Statement("risk", None, reason)))
    facts = _Facts(function, solution, asked, target_bound, largest_target, chosen)
    statements += [
        Statement("norm", facts.norm, "‖f‖ in the space of the kernel."),
        Statement("mean loss", facts.mean_loss, f"{asked.loss!r} on the {asked.rows} samples."),
    ]
    if isinstance(asked.loss, Squared):
        statements += _of_ridge(function, asked, facts.mean_loss)
    return Certificate((*statements, *_risk(facts, probability)))


class _Facts:
    """The numbers on which the bounds depend."""

    def __init__(
        self,
        function: RKHSFunction,
        solution: Solution,
        asked: Asked,
        target_bound: float | None,
        largest_target: float | None,
        chosen: Collection[str],
    ) -> None:
        self.asked, self.loss, self.chosen = asked, asked.loss, frozenset(chosen)
        self.norm, self.intercept = float(function.norm()), float(solution.intercept)
        self.mean_loss = solution.objective - 0.5 * asked.regularization * self.norm**2
        self.gap = solution.gap
        known = laws.bounded(function.kernel)
        self.radius_known = bool(known.yes and known.payload is not None)
        seen = function.kernel.diagonal(function.points.host())
        self.radius = math.sqrt(float(known.payload if self.radius_known else np.max(seen)))
        self.targets = largest_target if target_bound is None else target_bound
        self.targets_hold = None
        if self.targets is not None and largest_target is not None:
            self.targets_hold = largest_target <= self.targets

    def at_zero(self) -> float | None:
        """ℓ₀ ≥ ℓ(y, 0) for all targets."""
        if self.loss.is_classification:
            return float(np.max(self.loss.value(np.array([-1.0, 1.0]), np.zeros(2))))
        if self.targets is None:
            return None
        ends = np.array([-self.targets, self.targets])
        return float(np.max(self.loss.value(ends, np.zeros(2))))

    def lipschitz(self, reach: float) -> float:
        """G for predictions up to `reach`: the square loss has no other."""
        if isinstance(self.loss, Squared) and self.targets is not None:
            return self.targets + reach
        return float(self.loss.lipschitz)

    def common(self, fixed: Collection[str] = CHOICES) -> tuple[Assumption, ...]:
        """The assumptions of all bounds; `fixed` choices must not depend on the samples."""
        names = "the kernel and λ were" if "regularization" in fixed else "the kernel was"
        of_kernel = "for all x" if self.radius_known else "at all x, as at the centres of f"
        broken = False if self.chosen.intersection(fixed) else None
        common = (
            Assumption("the samples are independent, and new ones are of the same distribution"),
            Assumption(f"{names} chosen without the samples", broken),
            Assumption(f"√k(x, x) ≤ {self.radius:.4g} {of_kernel}", self.radius_known or None),
            Assumption("all samples have the same weight", self.asked.equal_weights),
        )
        if self.targets is None:
            return common
        return (*common, Assumption(f"|y| ≤ {self.targets:.4g}", self.targets_hold))


def _risk(facts: _Facts, probability: float) -> list[Statement]:
    """Bounds on the expected loss."""
    zero = facts.at_zero()
    if zero is None or not math.isfinite(facts.lipschitz(0.0)):
        reason = (
            "A bound needs a bound of the targets: write certificate(target_bound=…)."
            if facts.targets is None and not facts.loss.is_classification
            else f"{facts.loss!r} is not Lipschitz, so these bounds do not apply."
        )
        return [Statement("risk", None, reason)]
    if not facts.asked.equal_weights:
        return [Statement("risk", None, "Samples have different weights: no bound is known here.")]
    statements = [_by_ball(facts, zero, probability)]
    if math.isfinite(facts.loss.lipschitz):
        statements += _by_stability(facts, zero, probability)
    if isinstance(facts.loss, (Hinge, Logistic)):
        statements.append(_error_rate(facts, statements))
    return statements


def _by_ball(facts: _Facts, zero: float, probability: float) -> Statement:
    """By Rademacher complexity; an intercept b is the function b of the kernel k + 1."""
    b = facts.intercept if facts.asked.fit_intercept else 0.0
    norm, radius = math.hypot(facts.norm, b), facts.radius
    if facts.asked.fit_intercept:
        radius = math.hypot(radius, 1.0)
    ball, share = bounds.ball_around(norm)
    holds = 1.0 - (1.0 - probability) * share
    lipschitz = facts.lipschitz(ball * radius)
    extra = bounds.deviation_on_ball(lipschitz, ball, radius, facts.asked.rows, zero, holds)
    return Statement(
        "risk by Rademacher complexity",
        facts.mean_loss + extra,
        f"The expected loss is at most so large, with probability {probability}: the mean loss and "
        f"{extra:.4g} for all functions of norm up to {ball:.4g}, by a union over norms 2^j.",
        facts.common(fixed=["kernel"]),
    )


def _by_stability(facts: _Facts, zero: float, probability: float) -> list[Statement]:
    asked, lipschitz = facts.asked, float(facts.loss.lipschitz)
    if asked.fit_intercept or not asked.on_all_points or asked.regularization <= 0:
        reason = "Stability is proved for all points, λ > 0 and no intercept."
        return [Statement("risk by stability", None, reason)]
    numbers = lipschitz, facts.radius, asked.regularization, asked.rows
    extra = bounds.stability_deviation(*numbers, zero, probability)
    # the computed f is within √(2 gap/λ) of the minimiser, which moves each loss by GR times that
    moved = 2.0 * lipschitz * facts.radius * math.sqrt(2.0 * facts.gap / asked.regularization)
    gamma = bounds.stability(*numbers)
    return [
        Statement(
            "risk by stability",
            facts.mean_loss + extra + moved,
            f"The expected loss is at most so large, with probability {probability}.",
            facts.common(),
        ),
        Statement(
            "excess over the regularised optimum",
            gamma,
            "In expectation over samples the risk is at most so far above the regularised optimum, "
            "inf over f of R(f) + (λ/2)‖f‖².",
            facts.common(),
        ),
        Statement("regularised optimum", None, "It depends on the unknown target f*."),
    ]


def _error_rate(facts: _Facts, statements: list[Statement]) -> Statement:
    """The share of wrong signs, which the loss over its value at margin 0 bounds."""
    risks = {s.value: s for s in statements if s.name.startswith("risk") and s.value is not None}
    best = risks[min(risks)]
    at_margin_zero = float(facts.loss.value(np.array([1.0]), np.zeros(1))[0])
    value = min(1.0, min(risks) / at_margin_zero)
    meaning = f"The share of new samples that are misclassified is at most so large; {best.name}."
    return Statement("error rate", value, meaning, best.assumptions)


def _of_ridge(function: RKHSFunction, asked: Asked, mean_loss: float) -> list[Statement]:
    """Degrees of freedom and leave-one-out errors, where they cost little.

    The latter need nλα = y − f, which other coefficients of the same function do not have.
    """
    if not asked.on_all_points or asked.rows > DECOMPOSED_ROWS or not asked.equal_weights:
        return []
    K = np.asarray(Gram(function.kernel, function.points.host()).dense(), np.float64)
    statements = [
        Statement(
            "degrees of freedom",
            effective_dimension(K, asked.regularization),
            "trace K(K + nλ)⁻¹: about how many parameters were fitted.",
        ),
        Statement(
            "variance",
            effective_dimension(K, asked.regularization, power=2) / asked.rows,
            "df₂/n: times the variance of the noise, what noise adds to the expected squared error "
            "at the samples. The bias depends on the unknown target f*.",
            (Assumption("noise is independent with one variance, at fixed points"),),
        ),
    ]
    if asked.fit_intercept or asked.regularization <= 0:
        return statements
    alpha = np.asarray(function.coefficients, np.float64)
    risk = 0.5 * float(np.mean((asked.rows * asked.regularization * alpha) ** 2))
    penalty = 0.5 * asked.regularization * float(alpha @ (K @ alpha))
    if abs(risk - mean_loss) > 0.01 * (abs(mean_loss) + 1e-4 * abs(penalty)):
        return statements
    inverse = np.linalg.inv(K + asked.rows * asked.regularization * np.eye(asked.rows))
    residuals = alpha / np.diag(inverse)
    root = float(np.sqrt(np.mean(residuals**2)))
    meaning = "Root mean square of y − f where f is fitted without the sample, exactly."
    return [*statements, Statement("leave-one-out error", root, meaning)]
