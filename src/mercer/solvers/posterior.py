"""Error estimates of a ridge fit: its smoother, leave-one-out, and posterior variance.

Ridge regression is the mean of a Gaussian process: f has the prior covariance s²k, a target the
noise variance s²ρ/w_i around f(x_i) + b, and b a flat prior. Three things say all the rest:

- smoother weights w(x), with which f(x) + b = Σ_i w_i(x) y_i;
- leave-one-out residuals ℓ_i = y_i − f₋ᵢ(x_i) − b₋ᵢ, with f₋ᵢ(x) = f(x) − ℓ_i w_i(x);
- the variance v(x) of f(x) + b given the targets, in units of s².

On all points they come from one Cholesky factor of n rows, on centres or features from one of as
many rows as there are of those, and two passes over the points.

References: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapter 2;
Quiñonero-Candela and Rasmussen, A unifying view of sparse approximate Gaussian process regression,
2005 (the deterministic training conditional, DTC).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mercer import linalg
from mercer.arrays import Array, namespace, precision
from mercer.operators import BlockedGram, FeatureMatrix, Gram
from mercer.runtime.budget import in_words, memory_budget
from mercer.runtime.threads import spans
from mercer.solvers.on_centres import Basis
from mercer.solvers.problem import Problem, has_few_features, require_square_loss


@dataclass(frozen=True)
class Tuning:
    """Sizes of the batches of points whose posterior is computed."""

    batch_rows: int = 2048  # rows of features that are treated together
    batch_numbers: int = 3_000_000  # of K(X, x) at a time: memory below 32 MB is used again
    fewest_rows: int = 256  # new points for which a triangular solve is as fast as matrix products


TUNING = Tuning()


def posterior(problem: Problem, factor: linalg.Factor | None = None) -> Posterior:
    """The posterior of a ridge problem on all points, on centres or on features.

    `factor` is that of SKS + ρI in float64, where a solver kept it.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X, y = np.array([[0.0], [1.0]]), np.array([1.0, 3.0])
    >>> gram = Gaussian().gram(X)
    >>> known = posterior(Problem(gram, y, Squared(), 0.05))  # ρ = nλ = 0.1
    >>> hat = gram.dense() @ np.linalg.inv(gram.dense() + 0.1 * np.eye(2))
    >>> bool(np.allclose(known.smoother_weights(gram.x), hat))
    True
    """
    require_square_loss(Posterior, problem, null_space=True)
    if problem.null_space is not None:
        raise ValueError(
            "deviations, intervals and smoother weights are computed for positive definite "
            "kernels and a constant; got a null space of the penalty. SpectralPath gives "
            "leave-one-out predictions and degrees of freedom of splines."
        )
    if problem.on_all_points and not (problem.regularization and has_few_features(problem.gram)):
        return OnAllPoints(problem, factor)
    return OnFeatures(problem)


class Posterior:
    """Smoother weights, leave-one-out residuals, variances and likelihood of a ridge fit.

    New points are points of the kernel or, for a precomputed matrix, the array K(new, training).
    """

    factor: linalg.Factor
    log_constant = 0.0  # log 1ᵀ(K + ρW⁻¹)⁻¹1, where an intercept is no column of the factor
    energies: Array  # (y − b)ᵀ(K + ρW⁻¹)⁻¹(y − b) for each output
    leverages: Array  # the diagonal of the hat matrix, the intercept included
    leave_one_out_residuals: Array  # ℓ_i, a column for each output; NaN where i has no weight
    _smoother_rows: Callable[[Any], Array]  # w_i(x), one row for each of a few points x
    _spread: Callable[[Any, bool], Array]  # v(x), or in full the covariance between points

    def __init__(self, problem: Problem) -> None:
        self.problem, self.xp = problem, namespace(problem.y)
        self.weights = problem.sample_weights
        self.ridge = float(problem.regularization * self.xp.sum(self.weights))  # ρ = λΣw
        self.counted = self.weights > 0

    @property
    def memory(self) -> int:
        """Bytes of the factor."""
        return 8 * int(self.factor.lower.shape[0]) ** 2

    def smoother_weights(self, x: Any) -> Array:
        """w_i(x) with f(x) + b = Σ_i w_i(x) y_i, one row for each new point."""
        return self.xp.concat([self._smoother_rows(part) for part in self._parts(x)])

    def hat_matrix(self) -> Array:
        """The smoother weights at the training points, stored: n² numbers."""
        if isinstance(self.problem.operator, BlockedGram):
            raise ValueError("rows that come in blocks have no hat matrix: pass them as one array.")
        return self.smoother_weights(self.problem.operator.x)

    @property
    def degrees_of_freedom(self) -> float:
        """The trace of the hat matrix, the intercept included."""
        return float(self.xp.sum(self.leverages))

    def variances(self, x: Any) -> Array:
        """v(x), the variance of f(x) + b in units of s²: the power function squared as ρ → 0."""
        values = self.xp.concat([self._spread(part, False) for part in self._parts(x)])
        return self.xp.clip(values, min=0.0)

    def covariance(self, x: Any) -> Array:
        """The covariance of f + b between new points, in units of s²."""
        return self._spread(x, True)

    def leave_one_out_values(self, x: Any, values: Array, output: int = 0) -> Iterator[Array]:
        """f₋ᵢ(x) + b₋ᵢ for some new points after the other, a column for each i with weight.

        `values` are f(x) + b of one output.
        """
        residuals = self.leave_one_out_residuals[:, output][self.counted]
        start = 0
        for part in self._parts(x):
            influence = self._smoother_rows(part)[:, self.counted] * residuals
            stop = start + influence.shape[0]
            yield values[start:stop, None] - influence
            start = stop

    @property
    def observations(self) -> int:
        """Targets with weight, less one that the intercept takes."""
        count = int(self.xp.count_nonzero(self.counted))
        return count - 1 if self.problem.fit_intercept else count

    @cached_property
    def scales(self) -> Array:
        """ŝ² = (y − b)ᵀ(K + ρW⁻¹)⁻¹(y − b)/n for each output: it maximises the likelihood.

        With an intercept n − 1 takes the place of n, as in restricted maximum likelihood.
        """
        return self.energies / max(self.observations, 1)

    def log_marginal_likelihood(self, scale: float | None = None) -> Array:
        """log p(y) for each output under the prior s²k and noise s²ρ/w_i, at ŝ² where s² is None.

        With an intercept it is the restricted likelihood: b has a flat prior.
        """
        if not self.ridge > 0:
            raise ValueError("the marginal likelihood needs alpha > 0: without noise it has none.")
        squares = self.scales if scale is None else 0.0 * self.scales + scale
        terms = self.energies / squares + self.observations * self.xp.log(2.0 * math.pi * squares)
        return -0.5 * (terms + self.log_determinant)

    @cached_property
    def log_determinant(self) -> float:
        """log det(K + ρW⁻¹) and, with an intercept, + log 1ᵀ(K + ρW⁻¹)⁻¹1."""
        weights = self.weights[self.counted]
        beyond = int(weights.shape[0]) - int(self.factor.lower.shape[0])  # of the factor
        value = self.factor.log_determinant() + beyond * math.log(self.ridge)
        return value - float(self.xp.sum(self.xp.log(weights))) + self.log_constant

    def _parts(self, x: Any) -> Iterator[Any]:
        """New points, some after the other, so that K(X, x) takes little memory."""
        rows = max(TUNING.batch_numbers // self.problem.operator.shape[1], TUNING.fewest_rows)
        for start, stop in spans(len(x), rows) or [(0, 0)]:
            yield x.slice(start, stop) if hasattr(x, "slice") else x[start:stop]

    def _squares(self, columns: Array, full: bool = False) -> Array:
        """The squared lengths of columns, or in full their inner products."""
        return columns.T @ columns if full else self.xp.vecdot(columns, columns, axis=0)

    def _prior(self, x: Any, full: bool) -> Array:
        """k(x, x), or in full K(x, x)."""
        if not hasattr(x, "slice"):
            raise ValueError(
                "a precomputed matrix K(new, training) does not say k(x, x), which a variance "
                "needs: pass a kernel and points instead."
            )
        gram = Gram(self.problem.operator.kernel, x).astype("float64")
        return self.problem.array(gram.dense() if full else gram.diagonal())


class OnAllPoints(Posterior):
    """From the factor of A = SKS + ρI = LLᵀ, s = √w; an intercept borders A with s.

    With T = L⁻¹SK(X, x), t = L⁻¹s and r = 1 − Tᵀt: v = k(x, x) − ‖T‖² + r²/‖t‖², and the smoother
    weights are SL⁻ᵀ(T + t rᵀ/‖t‖²).
    """

    def __init__(self, problem: Problem, factor: linalg.Factor | None = None) -> None:
        super().__init__(problem)
        self.roots = self.xp.sqrt(self.weights)[:, None]
        wide = factor is not None and precision(factor.lower.dtype) == "float64"
        self.factor = factor if factor is not None and wide else self._factor()
        self.border: Array | None = None
        if problem.fit_intercept:
            self.border = self.factor.half_solve(self.roots)
            self.log_constant = math.log(self._size)

    def _factor(self) -> linalg.Factor:
        gram, n = self.problem.gram, self.problem.rows
        needed, limit = 16 * n * n, 4 * memory_budget(gram.memory)
        if gram.machine.uses_numpy and needed > limit:
            raise ValueError(
                f"the exact posterior of {n:,} rows takes {in_words(needed)} of memory, and "
                f"{in_words(limit)} are free. Fit with centres, as KernelRidge(centres=2000), "
                "whose posterior takes one pass over the rows."
            )
        matrix = self.problem.array(gram.astype("float64").dense())
        if self.problem.weights is not None:
            matrix = self.roots * matrix * self.roots.T
        return linalg.cholesky(linalg.shift_diagonal(matrix, self.ridge), overwrite=True)

    def _sides(self, x: Any) -> tuple[Array, Array | None]:
        """T and r."""
        ours = hasattr(x, "slice")  # or a matrix that was passed
        if ours:
            x = Gram(self.problem.gram.kernel, x, self.problem.gram.x).astype("float64").dense()
        cross = self.problem.array(x).T
        if self.problem.weights is not None:
            cross = self.roots * cross
        sides = self.factor.half_solve(cross, overwrite=ours)
        if self.border is None:
            return sides, None
        return sides, 1.0 - (self.border.T @ sides)[0, :]

    def _spread(self, x: Any, full: bool) -> Array:
        prior = self._prior(x, full)
        sides, rest = self._sides(x)
        values = prior - self._squares(sides, full)
        return values if rest is None else values + self._squares(rest[None, :], full) / self._size

    def _smoother_rows(self, x: Any) -> Array:
        sides, rest = self._sides(x)
        if rest is not None:
            sides = sides + self.border * (rest / self._size)
        return (self.roots * self.factor.other_half_solve(sides)).T

    @property
    def _size(self) -> float:
        """‖t‖² = sᵀA⁻¹s."""
        assert self.border is not None
        return float(self.xp.sum(self.border**2))

    @cached_property
    def _targets(self) -> Array:
        """L⁻¹S(y − b)."""
        sides = self.factor.half_solve(self.roots * self.problem.y_columns)
        if self.border is None:
            return sides
        return sides - self.border * (self.border.T @ sides) / self._size

    @cached_property
    def _inverse_diagonal(self) -> Array:
        """The diagonal of A⁻¹, bordered where there is an intercept."""
        squares = self.factor.inverse_diagonal()
        if self.border is None:
            return squares
        return squares - self.factor.other_half_solve(self.border)[:, 0] ** 2 / self._size

    @cached_property
    def leave_one_out_residuals(self) -> Array:
        dual = self.factor.other_half_solve(self._targets)
        below = self.roots * self._inverse_diagonal[:, None]
        return dual / self.xp.where(self.counted[:, None], below, self.xp.nan)

    @cached_property
    def energies(self) -> Array:
        return self._squares(self._targets)

    @cached_property
    def leverages(self) -> Array:
        return 1.0 - self.ridge * self._inverse_diagonal


class OnFeatures(Posterior):
    """From the factor of B = ZᵀWZ + ρI = LLᵀ for features z(x); an intercept is one without ρ.

    On centres z = L_M⁻¹k(C, x) with L_M L_Mᵀ = K_MM. With V = L⁻¹z(x): v = k(x, x) − ‖z‖² + ρ‖V‖²,
    where the first two terms are what the features do not see of the prior. Smoother weights are
    w_i z_iᵀB⁻¹z(x), leverages h_i = w_i z_iᵀB⁻¹z_i, and ℓ_i = (y_i − f(x_i) − b)/(1 − h_i).
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.basis = None if problem.on_all_points else Basis(problem)
        matrix: Any = 0.0  # ZᵀWZ
        moments: Any = 0.0  # ZᵀWy
        for rows, z in self._blocks():
            weighted = z * self.weights[rows, None]
            matrix = matrix + weighted.T @ z
            moments = moments + weighted.T @ problem.y_columns[rows]
        penalties = self.ridge * np.ones(matrix.shape[0])
        if problem.fit_intercept:
            penalties[-1] = 0.0
        matrix = matrix + self.problem.array(np.diag(penalties))
        self.factor = linalg.cholesky(matrix, overwrite=True)
        self.solved = self.factor.solve(moments)

    def _features(self, gram: Any) -> Array:
        """z of the rows of an operator, with the constant at the end."""
        if self.problem.on_all_points:
            z = self.problem.array(gram.kernel.features(gram.x))
        else:
            z = self.problem.array(gram.dense())
            if self.basis is not None and self.basis.factor is not None:
                z = self.basis.pull(z.T).T
        if not self.problem.fit_intercept:
            return z
        return self.xp.concat([z, self.xp.ones_like(z[:, :1])], axis=1)

    def _new(self, x: Any) -> Array:
        """z of new points."""
        operator = self.problem.operator
        if isinstance(operator, FeatureMatrix):
            return self._features(FeatureMatrix(operator.features, x.data))
        return self._features(Gram(operator.kernel, x, operator.y))

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        """z of all rows, some after the other."""
        operator = self.problem.operator
        parts = operator.parts() if isinstance(operator, BlockedGram) else [(0, operator)]
        for first, gram in parts:
            for start, stop in spans(gram.shape[0], TUNING.batch_rows):
                yield slice(first + start, first + stop), self._features(gram[start:stop])

    def _spread(self, x: Any, full: bool) -> Array:
        z = self._new(x)
        values = self.ridge * self._squares(self.factor.half_solve(z.T), full)
        if self.basis is None or self.basis.factor is None:
            return values
        seen = z[:, :-1] if self.problem.fit_intercept else z
        unseen = self._prior(x, full) - self._squares(seen.T, full)
        return values + (unseen if full else self.xp.clip(unseen, min=0.0))

    def _smoother_rows(self, x: Any) -> Array:
        right = self.factor.solve(self._new(x).T)
        parts = [(z @ right).T * self.weights[rows] for rows, z in self._blocks()]
        return self.xp.concat(parts, axis=1)

    @cached_property
    def _fit(self) -> tuple[Array, Array]:
        """What f + b misses of the targets, and the leverages."""
        gaps, leverages = [], []
        for rows, z in self._blocks():
            gaps.append(self.problem.y_columns[rows] - z @ self.solved)
            leverages.append(self.weights[rows] * self._squares(self.factor.half_solve(z.T)))
        return self.xp.concat(gaps), self.xp.concat(leverages)

    @cached_property
    def leave_one_out_residuals(self) -> Array:
        gaps, leverages = self._fit
        return gaps / self.xp.where(self.counted, 1.0 - leverages, self.xp.nan)[:, None]

    @cached_property
    def energies(self) -> Array:
        gaps, _ = self._fit
        weights = self.solved[:-1] if self.problem.fit_intercept else self.solved
        errors = self.xp.sum(self.weights[:, None] * gaps**2, axis=0)
        return errors / self.ridge + self.xp.sum(weights**2, axis=0)

    @property
    def leverages(self) -> Array:
        return self._fit[1]
