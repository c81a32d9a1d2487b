"""Certificates of fitted models."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from mercer.solvers.solution import Solution
from mercer.theory.certificate import Certificate, certify


class Certified:
    """Estimators that say what is proved of what they learned."""

    def certificate(
        self, probability: float = 0.95, target_bound: float | None = None
    ) -> Certificate:
        """Bounds and exact statements on the fitted function, with the assumptions of each.

        Parameters
        ----------
        probability : float, default=0.95
            With which a bound holds, each on its own.
        target_bound : float, optional
            Y with |y| ≤ Y for all targets, also those to come. Bounds for regression need it.

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
        return certify(
            self.function_,  # type: ignore[attr-defined]
            self._certified(),
            probability=probability,
            target_bound=target_bound,
        )

    def _certified(self) -> Solution:
        """The solution that the certificate is about."""
        many = getattr(self, "solutions_", None)
        if many is None:
            return self.solution_  # type: ignore[attr-defined]
        if len(many) > 1:
            raise ValueError(
                f"a certificate is about one function, and this {type(self).__name__} has one for "
                f"each of {len(many)} pairs of classes: fit two classes, or use KernelClassifier."
            )
        return many[0]
