"""The problem that every solver solves, in one form for all points, centres and features.

    min over v, b of  (1/Σw) Σ_i w_i ℓ(y_i, (Av + Bb)_i) + cᵀb + penalty(v)

    ====================  ============  ======  =====================================
    f is sought           A             P       as
    ====================  ============  ======  =====================================
    on all points         K             K       f = Σ_i v_i k(x_i, ·)
    on centres            K_nM          K_MM    f = Σ_j v_j k(c_j, ·)
    on features           Z             I       f = ⟨v, z(·)⟩
    ====================  ============  ======  =====================================

P gives the norm ‖f‖² = vᵀPv, of which the penalty is (λ/2)‖f‖² unless it is said otherwise. B is
nothing, a column of ones for an intercept, or any other null space of the penalty; c prices b, as
ν does in ν-machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from mercer.arrays import Array, as_numpy, beside, floating, namespace, to_precision
from mercer.checks import check_object, check_weights, is_number
from mercer.functions import FeatureFunction, Polynomials, RKHSFunction, SplineFunction
from mercer.losses import Loss, Perceptron, Squared, one_hot
from mercer.operators import FeatureMatrix, Gram, Identity, MixedPrecision
from mercer.runtime.machine import float64_is_slow
from mercer.solvers import admission
from mercer.solvers.penalties import Penalty, SquaredNorm
from mercer.solvers.solution import Asked, Solution


@dataclass(frozen=True, eq=False)
class Problem:
    """Regularised empirical risk: (1/Σw) Σ_i w_i ℓ(y_i, f(x_i) + b) + (λ/2)‖f‖².

    Parameters
    ----------
    operator : Gram or another operator
        A: `kernel.gram(X)` for f on all points.
    targets : array of shape (n,) or (n, outputs)
        y. Solvers compute in the library of this array, and so are their answers.
    loss : Loss
        ℓ.
    regularization : float, array of shape (outputs,), or Penalty
        λ ≥ 0, for all outputs or one for each; or in place of (λ/2)‖f‖² the constraint
        `Ball(radius)`, a function of the norm as `PowerOfNorm(strength, power)` or `OfNorm(R, R′)`,
        `L1(strength)`, or an object with `value` and `conjugate` of your own.
    weights : array of shape (n,), optional
        w ≥ 0, not all zero; 1 where nothing is given.
    fit_intercept : bool, default=False
        Whether b is free and unpenalised, or 0.
    penalty_operator : operator, optional
        P, where it is not A; see `on_centres` and `on_features`.
    null_space : array of shape (n, k), optional
        B, where it is not ones. For kernels that are positive definite off polynomials only, as
        `ThinPlate()`, it is these polynomials, and v is orthogonal to them: Bᵀv = 0.
    intercept_cost : float or array of shape (k,), optional
        c; 0 where nothing is given.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.losses import Squared
    >>> gram = Linear().gram([[1.0], [2.0]])
    >>> Problem(gram, np.array([0.0, 2.0]), Squared(), regularization=0.0).objective(np.zeros(2))
    1.0
    """

    operator: Any
    targets: Array
    loss: Loss
    regularization: Any
    weights: Array | None = None
    fit_intercept: bool = False
    penalty_operator: Any = None
    null_space: Array | None = None
    intercept_cost: Any = None
    rows: int = field(init=False)  # n, the number of samples
    size: int = field(init=False)  # the number of coefficients of each output
    on_all_points: bool = field(init=False)  # whether A = P = K, so that Av serves for both
    penalty: Penalty = field(init=False)  # what is added to the risk
    has_one_ridge: bool = field(init=False)  # whether the penalty is (λ/2)‖f‖² with one number λ
    has_several_ridges: bool = field(init=False)  # whether there is one λ for each output
    polynomials: Polynomials | None = field(init=False)  # of which B is made, for splines

    def __post_init__(self) -> None:
        given = self.regularization
        # Numbers of Python and NumPy have a `conjugate`, as penalties have.
        number = isinstance(given, (int, float, np.generic, np.ndarray, list, tuple))
        number = number or not hasattr(given, "conjugate")
        kernel: Any = getattr(self.operator, "kernel", None)
        degree = kernel.null_degree() if hasattr(kernel, "null_degree") else None
        derived = {
            "rows": int(self.operator.shape[0]),
            "size": int(self.operator.shape[1]),
            "on_all_points": self.penalty_operator is None,
            "penalty": SquaredNorm(given) if number else given,
            "has_one_ridge": number and np.ndim(given) == 0,
            "has_several_ridges": number and np.ndim(given) == 1,
            "polynomials": None if degree is None else self._unpenalised(degree),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        if self.on_all_points and self.operator.x is not self.operator.y:
            raise ValueError(
                "a problem on all points needs kernel.gram(X), with the same points twice; for "
                "a cross Gram matrix write Problem.on_centres(...)."
            )
        if self.polynomials is not None:
            object.__setattr__(self, "null_space", self.polynomials(self.operator.x))
            object.__setattr__(self, "fit_intercept", False)  # constants are polynomials
        check_object("Problem", "loss", self.loss)
        for name in ("targets", "weights"):
            values = getattr(self, name)
            if values is not None and not isinstance(values, np.ndarray):
                object.__setattr__(self, name, admission.read(values, self.operator))
        self.loss.check_targets(self.targets)
        if np.ndim(self.targets) not in (1, 2) or np.shape(self.targets)[0] != self.rows:
            raise ValueError(
                f"targets must have one row for each of the {self.rows} points; got shape "
                f"{tuple(np.shape(self.targets))}."
            )
        if self.weights is not None:
            check_weights(floating(self.weights), self.rows)

    def _unpenalised(self, degree: int) -> Polynomials:
        """The polynomials off which alone the kernel is positive definite."""
        if self.penalty_operator is not None:
            raise ValueError(
                f"{self.operator.kernel!r} is positive definite off polynomials only, and is "
                "fitted on all points: leave centres out, or use kernel.anchored(points)."
            )
        return Polynomials.around(self.operator.x, degree)

    @classmethod
    def on_centres(
        cls,
        cross: Any,
        targets: Array,
        loss: Loss,
        regularization: Any,
        weights: Array | None = None,
        fit_intercept: bool = False,
    ) -> Problem:
        """The problem over f = Σ_j v_j k(c_j, ·) with few centres: A = K_nM and P = K_MM.

        >>> import numpy as np
        >>> from mercer.kernels import Linear
        >>> from mercer.losses import Squared
        >>> cross = Linear().gram([[1.0], [2.0]], [[1.0]])
        >>> problem = Problem.on_centres(cross, np.array([0.0, 2.0]), Squared(), 1.0)
        >>> problem.objective(np.array([1.0]))  # f(x) = x: ½(½·1² + ½·0²) + ½
        0.75
        """
        if not (is_number(regularization) and regularization > 0):
            raise ValueError(
                f"a problem on centres needs regularization > 0; got {regularization!r}."
            )
        own = Gram(cross.kernel, cross.y, memory=cross.memory).astype(np.float64)
        return cls(cross, targets, loss, regularization, weights, fit_intercept, own)

    @classmethod
    def on_features(
        cls,
        features: Any,
        points: Any,
        targets: Array,
        loss: Loss,
        regularization: Any,
        weights: Array | None = None,
        fit_intercept: bool = False,
    ) -> Problem:
        """The problem over f = ⟨v, φ(·)⟩ for a fitted feature map φ: A = Z and P = I.

        >>> import numpy as np
        >>> from mercer.features import Nystroem
        >>> from mercer.losses import Squared
        >>> X = np.array([[0.0], [1.0], [2.0]])
        >>> phi = Nystroem(n_components=2).fit(X)
        >>> problem = Problem.on_features(phi, X, X[:, 0], Squared(), 0.1)
        >>> round(problem.objective(np.zeros(2)), 9)  # ½ mean y²
        0.833333333
        """
        operator = FeatureMatrix(features, points)
        own = Identity(operator.shape[1])
        return cls(operator, targets, loss, regularization, weights, fit_intercept, own)

    @classmethod
    def one_class(cls, gram: Gram, nu: float, weights: Array | None = None) -> Problem:
        """Novelty: min over f, ρ of (Σw)⁻¹½‖f‖² − νρ + (1/Σw) Σ_i w_i max(ρ − f(x_i), 0).

        It is the loss max(−yz, 0) of z = f(x) + b with y = 1, b = −ρ and c = ν.
        """
        w = np.ones(gram.shape[0]) if weights is None else as_numpy(weights)
        return cls(
            gram,
            np.ones(len(w)),
            Perceptron(),
            1.0 / float(w.sum()),
            w,
            fit_intercept=True,
            intercept_cost=nu,
        )

    @classmethod
    def nu_classifier(
        cls, gram: Gram, labels: Array, nu: float, weights: Array | None = None
    ) -> Problem:
        """The ν-machine: (Σw)⁻¹½‖f‖² − νρ + (1/Σw) Σ_i w_i max(ρ − y_i(f(x_i) + b), 0).

        It is the loss max(−yz, 0) of z = f(x) + b − yρ: B has the columns 1 and −y, c = (0, −ν).
        """
        y = as_numpy(labels)
        w = np.ones(len(y)) if weights is None else as_numpy(weights)
        return cls(
            gram,
            y,
            Perceptron(),
            1.0 / float(w.sum()),
            w,
            null_space=np.stack([np.ones(len(y)), -y], axis=1),
            intercept_cost=np.array([0.0, -nu]),
        )

    # ---- shapes and homes ------------------------------------------------------------------------

    @property
    def gram(self) -> Gram:
        """K, for solvers of problems on all points."""
        if not self.on_all_points:
            raise ValueError(
                f"this solver takes problems on all points, Problem(kernel.gram(X), ...); this one "
                f"is on {self.size} centres or features: write Newton()."
            )
        return self.operator

    @cached_property
    def y(self) -> Array:
        """The targets in float64 where the operator computes; labels of classes as rows of 0, 1."""
        y = admission.at_home(self.targets, self.operator)
        if self.loss.is_multiclass and y.ndim == 1:
            return to_precision(one_hot(y, int(namespace(y).max(y)) + 1), "float64")
        return y

    @property
    def single(self) -> bool:
        """Whether coefficients are a vector, and the intercept a number."""
        return bool(self.y.ndim == 1)

    @property
    def y_columns(self) -> Array:
        """y with a column for each output."""
        return namespace(self.y).reshape(self.y, (self.rows, -1))

    @property
    def outputs(self) -> int:
        """The number of columns of coefficients."""
        return 1 if self.y.ndim == 1 else int(self.y.shape[1])

    @property
    def asked(self) -> Asked | None:
        """The problem in a few numbers; None for several outputs, another penalty or null space."""
        shifted = self.null_space is not None or self.intercept_cost is not None
        if self.y.ndim > 1 or not self.has_one_ridge or shifted:
            return None
        w = None if self.weights is None else floating(self.weights)
        return Asked(
            self.rows,
            self.loss,
            float(self.regularization),
            w is None or bool((w == w[0]).all()),
            self.on_all_points,
            self.fit_intercept,
        )

    @cached_property
    def sample_weights(self) -> Array:
        """The weights w in float64, 1 where none were given."""
        if self.weights is None:
            return namespace(self.y).ones_like(self.y if self.y.ndim == 1 else self.y[:, 0])
        return self.array(self.weights)

    @cached_property
    def shares(self) -> Array:
        """p = w/Σw."""
        w = self.sample_weights
        return w / namespace(w).sum(w)

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of P: k(x, x) of all points or centres, 1 for features."""
        return self.array(
            (self.operator if self.on_all_points else self.penalty_operator).diagonal()
        )

    @cached_property
    def value_sizes(self) -> Array:
        """s_i with |k(x_i, x_j)| ≤ √(s_i s_j): the diagonal, or for splines the largest value seen.

        Off the diagonal, of which a spline has 0; on evenly spaced rows.
        """
        if self.polynomials is None:
            return self.diagonal
        rows = np.unique(np.linspace(0, self.rows - 1, min(self.rows, 16)).astype(int))
        some = as_numpy(self.operator[rows, :].dense())
        return 0.0 * self.shares + float(np.abs(some).max())

    def array(self, values: Any) -> Array:
        """Values in float64, in the library of the targets and beside them."""
        return to_precision(beside(values, self.y), "float64")

    def stored(self, coefficients: Array) -> Array:
        """Coefficients as they are handed back: in the precision of the points if that is enough.

        Where f in float32 would be off by what shows beside the targets, they stay in float64, in
        which f is then evaluated.
        """
        dtype = self.operator.dtype
        if dtype == np.float32 and not isinstance(self.operator, FeatureMatrix):
            v = as_numpy(coefficients)
            if loses_digits(as_numpy(self.value_sizes), v, self._target_size):
                return to_precision(coefficients, "float64")
        return to_precision(coefficients, dtype.name)

    @cached_property
    def _target_size(self) -> float:
        """The scale of differences of f: 1 for labels ±1, else the deviation of the targets."""
        if self.loss.is_classification:
            return 1.0
        y = as_numpy(self.y_columns)
        return float(y.std(axis=0).max()) or float(np.abs(y).max()) or 1.0

    # ---- the objective ---------------------------------------------------------------------------

    def fitted(self, v: Array) -> Array:
        """A v in float64; on a card the values of A are in float32, its sums in float64."""
        dear = float64_is_slow(self.operator)
        return (MixedPrecision(self.operator) if dear else self.operator) @ self.array(v)

    def constants(self, intercept: Any) -> Array:
        """B b: what is added to Av."""
        b = self.array(intercept)
        return b if self.null_space is None else self.array(self.null_space) @ b

    def norms(self, v: Array, fitted: Array | None = None) -> list[float]:
        """‖f_k‖² = v_kᵀPv_k for each output k; on all points Av is used again."""
        v, xp = self.array(v), namespace(self.y)
        if self.on_all_points and fitted is not None:
            image = fitted
        else:
            image = (self.operator if self.on_all_points else self.penalty_operator) @ v
        squares = xp.sum(v * image, axis=0)
        return [float(squares)] if v.ndim == 1 else [float(q) for q in squares]

    def objective(
        self, coefficients: Any, intercept: Any = 0.0, fitted: Array | None = None
    ) -> float:
        """The objective at v and b in float64, recomputed from scratch where Av is not given."""
        v = self.array(coefficients)
        fitted = self.fitted(v) if fitted is None else fitted
        values = fitted + self.constants(intercept)
        risk = float(self.loss.risk(self.y, values, self.sample_weights))
        return risk + self.cost(intercept) + self.penalty.value(v, self.norms(v, fitted))

    def cost(self, intercept: Any) -> float:
        """cᵀb."""
        if self.intercept_cost is None:
            return 0.0
        return float(np.sum(np.asarray(self.intercept_cost) * as_numpy(intercept)))

    def function(self, solution: Solution) -> Any:
        """f of a solution, which can be evaluated anywhere.

        Without the intercept, but with the polynomial of a spline.
        """
        if isinstance(self.operator, FeatureMatrix):
            features: Any = self.operator.features
            return FeatureFunction(features, as_numpy(solution.coefficients))
        if self.polynomials is not None:
            trend = self.polynomials, solution.intercept
            return SplineFunction(
                self.operator.kernel, self.operator.y, solution.coefficients, *trend
            )
        return RKHSFunction(self.operator.kernel, self.operator.y, solution.coefficients)

    def each_output(self) -> Iterator[Problem]:
        """Problems of one output each, with the λ of that output."""
        y = admission.at_home(self.targets, self.operator)
        ridges = np.broadcast_to(np.asarray(self.regularization, np.float64), y.shape[1])
        for k, ridge in enumerate(ridges.tolist()):
            yield replace(self, targets=y[:, k], regularization=ridge)


NOTICED = 3e-3  # of the size of targets: the tolerance of solvers leaves about as much


def loses_digits(sizes: np.ndarray, coefficients: np.ndarray, unit: float) -> bool:
    """Whether Σ_j v_j k(x, x_j) in float32 is off by what shows beside numbers of a size.

    Rounding moves it by about 2⁻²⁴ √(Σ_j v_j² k(x_j, x_j) max k(x, x)); `sizes` are k(x_j, x_j).
    Polynomials of columns that are not scaled, and tiny ridges, have large terms that cancel.

    >>> loses_digits(np.ones(100), np.ones(100), 1.0)
    False
    >>> loses_digits(np.full(100, 1e6), np.ones(100), 1.0)
    True
    """
    if not len(coefficients):
        return False
    columns = np.asarray(coefficients, np.float64).reshape(len(coefficients), -1)
    sizes = np.asarray(sizes, np.float64)
    terms = np.sqrt((sizes[:, None] * columns**2).sum(axis=0)).max() * np.sqrt(sizes.max())
    return bool(2.0**-24 * terms > NOTICED * unit)


class Solver(Protocol):
    """A dataclass of its settings that turns a problem into a solution.

    >>> from mercer.solvers import Direct
    >>> solver: Solver = Direct()
    >>> callable(solver.solve)
    True
    """

    def solve(self, problem: Problem) -> Solution:
        """The solution, and how far from optimal it is."""


# ---- checks --------------------------------------------------------------------------------------


def require_plain_intercept(name: str, problem: Problem, *, null_space: bool = False) -> None:
    """Refuse B and c where only an intercept b·1 without a cost is solved for.

    With `null_space` B is solved for, too.
    """
    if problem.intercept_cost is not None:
        raise ValueError(
            f"{name} takes problems whose constant is an intercept without a cost; got "
            "intercept_cost. DualAscent() solves Problem.one_class(...) and "
            "Problem.nu_classifier(...)."
        )
    if problem.null_space is None or null_space:
        return
    what, advice = "null_space", ""
    if problem.polynomials is not None:
        what = f"the polynomials that {problem.operator.kernel!r} does not penalise"
        advice = ", or kernel.anchored(points), which is positive definite"
    raise ValueError(
        f"{name} has no place for {what}, only for an intercept: write Direct() or "
        f"ConjugateGradient() for the square loss{advice}."
    )


def require_square_loss(solver: type, problem: Problem, *, null_space: bool = False) -> None:
    """Refuse another loss than the square in a solver of linear equations."""
    if problem.intercept_cost is not None or problem.null_space is not None:
        require_plain_intercept(solver.__name__, problem, null_space=null_space)
    if not isinstance(problem.loss, Squared):
        other = "Newton()" if problem.loss.is_smooth else "DualAscent()"
        raise ValueError(
            f"{solver.__name__} solves the square loss; got {problem.loss!r}. Write {other}, or "
            'solver="auto" in an estimator.'
        )


def require_squared_norm(solver: Any, problem: Problem) -> None:
    """Refuse another penalty than (λ/2)‖f‖² with one λ."""
    if not problem.has_one_ridge:
        raise ValueError(
            f"{type(solver).__name__} takes the penalty (λ/2)‖f‖² with one λ; got "
            f"regularization={problem.regularization!r}."
        )


def has_few_features(gram: Gram) -> bool:
    """Whether the kernel has explicit features on these points, fewer than half of the points.

    >>> from mercer.kernels import Gaussian, Linear
    >>> X = [[float(i)] for i in range(5)]
    >>> has_few_features(Linear().gram(X)), has_few_features(Gaussian().gram(X))
    (True, False)
    """
    width = getattr(gram.x, "width", None)
    count = None if width is None else getattr(gram.kernel, "feature_count", lambda w: None)(width)
    if count is None or 2 * count >= gram.shape[0]:
        return False
    return gram.machine.uses_numpy  # explicit features are arrays of NumPy


def over_rows(vector: Array, like: Array) -> Array:
    """A vector with one number for each row, ready to multiply the rows of an array."""
    return vector if like.ndim == 1 else vector[:, None]
