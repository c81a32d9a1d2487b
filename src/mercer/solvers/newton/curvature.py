"""The curvature of the risk: D as something to multiply by, with the constant taken out."""

from __future__ import annotations

import numpy as np

from mercer.losses import Loss


class Curvature:
    """V ↦ DV, block by block: p_i times the curvature of row i.

    With an intercept, the constant follows the direction: D(V + β) with the β that makes its
    columns sum to 0, which is D less a matrix of the rank of the outputs.
    """

    def __init__(
        self, loss: Loss, y: np.ndarray, values: np.ndarray, p: np.ndarray, *, fit_intercept: bool
    ) -> None:
        self.fit_intercept = fit_intercept
        self.rows = p if y.ndim == 1 else p[:, None]
        self.probability: np.ndarray | None = None
        self.diagonal: np.ndarray | None = None
        if loss.is_multiclass:
            self.probability = loss.slope(y, values) + y
        else:
            self.diagonal = self.rows * np.where(self.rows > 0, loss.curvature(y, values), 0.0)
        if fit_intercept:
            self.total = self._total()

    def astype(self, dtype: np.dtype) -> Curvature:
        """The same in another precision."""
        for name in ("rows", "probability", "diagonal"):
            value = getattr(self, name)
            if value is not None:
                setattr(self, name, value.astype(dtype, copy=False))
        return self

    def __call__(self, v: np.ndarray) -> np.ndarray:
        if self.fit_intercept:
            v = v + self.constant(v).astype(v.dtype)
        return self._plain(v)

    def curvatures(self) -> np.ndarray:
        """p·ℓ'', entry by entry, for losses that have it so."""
        if self.diagonal is None:
            raise ValueError("the curvature of several classes is not diagonal.")
        return self.diagonal

    def constant(self, v: np.ndarray) -> np.ndarray:
        """The β with Σ_i D_i (v_i + β) = 0; 0 without an intercept."""
        if not self.fit_intercept:
            return np.zeros(v.shape[1:])
        pushed = self._plain(v).sum(axis=0, dtype=np.float64)
        if self.probability is not None:
            return -(self.total @ pushed)
        return -np.divide(pushed, self.total, out=np.zeros_like(pushed), where=self.total > 0)

    def _plain(self, v: np.ndarray) -> np.ndarray:
        if self.probability is None:
            return self.curvatures() * v
        q = self.probability
        return self.rows * (q * (v - np.einsum("ij,ij->i", q, v)[:, None]))

    def _total(self) -> np.ndarray:
        """Σ_i D_i, or for classes its pseudo-inverse: constants alike for all classes are free."""
        if self.probability is None:
            return np.asarray(self.curvatures().sum(axis=0))
        q = self.probability
        total = np.diag((self.rows * q).sum(axis=0)) - (self.rows * q).T @ q
        return np.linalg.pinv(total, rcond=1e-13, hermitian=True)
