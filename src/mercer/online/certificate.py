"""Bounds of a stream: the mistakes on new samples, and the regret."""

from __future__ import annotations

from typing import Any

from mercer.checks import check_positive
from mercer.online.regret import regret_bound
from mercer.theory.bounds import online_deviation
from mercer.theory.certificate import Assumption, Certificate, Statement


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
