"""What estimators share: checked input, and whether they are fitted."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from mercer.features.inputs import KernelInput

__all__ = ["KernelEstimator"]


class KernelEstimator(KernelInput):
    """An estimator with a kernel; a fitted one has a `function_`."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "function_")

    def _forget(self) -> None:
        """Drop what an earlier fit left, so that an interrupted one leaves nothing half done."""
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)

    def _check_fitted(self) -> None:
        check_is_fitted(self)
