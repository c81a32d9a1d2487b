"""Certificates of fitted models: `certificate` is a method of each."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sklearn.utils.validation import check_is_fitted

from mercer.kernels.conversion import is_from_data
from mercer.theory.certificate import Certificate, Statement, certify


def certificate(
    self: Any,
    probability: float = 0.95,
    target_bound: float | None = None,
    chosen: Collection[str] = (),
) -> Certificate:
    """Bounds and exact statements on the fitted function, with the assumptions of each.

    Parameters
    ----------
    probability : float, default=0.95
        With which a bound holds, each on its own.
    target_bound : float, optional
        Y with |y| ≤ Y for all targets, also those to come. Bounds for regression need it.
    chosen : collection of "kernel" and "regularization", default=()
        What you chose by looking at these samples, as in a grid search: bounds that do not hold
        after it say so. Choices of the estimator itself are taken into account.

    Returns
    -------
    Certificate
        Readable when printed; `certificate["norm"].value` is one number of it.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelClassifier
    >>> from mercer.kernels import Gaussian
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    >>> model = KernelClassifier("hinge", 0.1, kernel=Gaussian()).fit(X, X[:, 0] > 0)
    >>> model.certificate()["mean loss"].value < 0.5
    True
    """
    check_is_fitted(self)
    if hasattr(getattr(self, "function_", None), "tree"):
        raise ValueError(
            "a certificate speaks of one function in the space of the kernel, and this model has "
            "one in each leaf of a tree: fit it with local=False."
        )
    many = getattr(self, "solutions_", None)
    if many is not None and len(many) > 1:
        return _of_pairs(many)
    largest = getattr(self, "_largest_target", lambda: None)  # where targets are codes of classes
    by_itself = getattr(self, "_chosen", lambda: from_data(self))
    return certify(
        self.function_,
        self.solution_ if many is None else many[0],
        probability=probability,
        target_bound=target_bound,
        largest_target=largest(),
        chosen={*chosen, *by_itself()},
    )


def from_data(estimator: Any) -> set[str]:
    """Choices that `fit` made from the samples: the kernel, if its lengthscale is theirs."""
    kernel, gamma = estimator.kernel, getattr(estimator, "gamma", None)
    return {"kernel"} if is_from_data(kernel, gamma) else set()


def _of_pairs(solutions: list[Any]) -> Certificate:
    """The certificate of a machine for each pair of classes."""
    worst = max(solutions, key=lambda one: one.gap)
    return Certificate(
        (
            Statement(
                "objective", sum(s.objective for s in solutions), "The sum over pairs of classes."
            ),
            Statement("gap", worst.gap, f"The largest of {len(solutions)}. {worst.status}"),
            Statement(
                "risk",
                None,
                "Bounds are known for one function, and there is one for each pair of classes.",
            ),
        )
    )
