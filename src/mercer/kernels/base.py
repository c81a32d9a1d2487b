"""The base class of kernels: symmetric functions of two points, written down once.

A kernel gives its value on a pair: an `expression()` over the numbers of a pair where it has one, a
`block(x, y)` otherwise. It states its `facts` next to it. Gram matrices, products, functions,
gradients and tests are derived.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer.evaluation.expression import Expression, numbers_of
from mercer.functions import Coreset, RKHSFunction, coreset, mean_embedding
from mercer.kernels.facts import Facts
from mercer.kernels.laws import Check, check
from mercer.operators import Gram
from mercer.points import Column, PointSet, VectorPoints, as_vectors, is_frame, is_point_set
from mercer.runtime.budget import Memory
from mercer.values import Value

if TYPE_CHECKING:
    from mercer.kernels.algebra import Product, Scaled, Sum
    from mercer.kernels.input_maps import Columns


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Kernel(Value):
    """A positive definite kernel k(x, y).

    Subclasses are frozen dataclasses. They implement `expression`, or `block` and `diagonal` (and
    `points`, where points are not vectors), and `facts`, or `positive_definite = True`, or a
    sentence in its place that says why.
    Everything else is here.

    >>> from mercer.kernels import Gaussian, Linear
    >>> k = 2.0 * Gaussian(0.5) + Linear()
    >>> k([0.0, 0.0], [0.0, 0.0])
    2.0
    >>> k.gram([[0.0], [1.0]]).shape
    (2, 2)
    >>> k.with_(left__scale=3.0)
    3.0 * Gaussian(lengthscale=0.5) + Linear(bias=0.0)
    """

    symmetric: ClassVar[Any] = True
    """Whether k(x, y) = k(y, x), which is so for all kernels but a matrix that was given."""

    checks: ClassVar[tuple[tuple[str, Callable[[Any, str, Any], None]], ...]] = ()
    """Parameters that are checked when a kernel is made, and how: see `checked`."""

    def __post_init__(self) -> None:
        for name, check_one in self.checks:
            check_one(self, name, getattr(self, name))

    # ---- what a kernel implements -----------------------------------------------------------

    def expression(self) -> Expression | None:
        """The value as an expression over the numbers of a pair; None if there is none."""
        return None

    def block(self, x: PointSet, y: PointSet) -> np.ndarray:
        """All values k(x_i, y_j), stored."""
        if self.expression() is None:
            return self._block(x, y)
        return self._any_points(x, y).dense()

    def own_block(self, x: PointSet) -> np.ndarray:
        """All values k(x_i, x_j) of the same points, stored; a function of pairs has each once."""
        return self.block(x, x)

    def diagonal(self, x: PointSet) -> np.ndarray:
        """All values k(x_i, x_i)."""
        if self.expression() is None:
            return self._diagonal(x)
        return self._any_points(x, None).diagonal()

    def _any_points(self, x: PointSet, y: PointSet | None) -> Gram:
        """The Gram matrix by its expression; a constant takes points that are no vectors, too."""
        return Gram(self, x, y, precision=None if isinstance(x, VectorPoints) else "reference")

    def normalised_block(self, x: PointSet, y: PointSet) -> np.ndarray:
        """All k(x_i, y_j)/√(k(x_i, x_i) k(y_j, y_j)), for kernels without an expression.

        0/0 is 0, and 1 for points that are no vectors: an empty object is as similar to itself as
        any other.
        """
        rows, columns = (reciprocal_roots(self.diagonal(side)) for side in (x, y))
        return self._with_zeros(rows[:, None] * self.block(x, y) * columns, x, y)

    def _with_zeros(self, values: np.ndarray, x: PointSet, y: PointSet) -> np.ndarray:
        """Normalised values, with 0 (or 1 where both are zero objects) in place of 0/0."""
        rows, columns = (np.isneginf(self.log_diagonal(side)) for side in (x, y))
        values[rows] = values[:, columns] = 0.0
        if not isinstance(x, VectorPoints):
            values[np.ix_(rows, columns)] = 1.0
        return values

    def log_diagonal(self, x: PointSet) -> np.ndarray:
        """All log k(x_i, x_i), where k itself may overflow; −∞ where k(x, x) = 0."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.log(np.asarray(self.diagonal(x), np.float64))

    def derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        """∂k(x_i, y_j)/∂x_i as an array (n, m, columns)."""
        if self.expression() is None:
            return self._derivative(x, y)
        return Gram(self, x, y).gradient(np.eye(len(y)))

    def _block(self, x: PointSet, y: PointSet) -> np.ndarray:
        """The block where there is no expression; so the diagonal and the derivative below."""
        raise NotImplementedError(f"{type(self).__name__} implements neither expression nor block.")

    def _diagonal(self, x: PointSet) -> np.ndarray:
        points = (x.slice(i, i + 1) for i in range(len(x)))
        return np.array([self.block(point, point)[0, 0] for point in points], x.dtype)

    def _derivative(self, x: PointSet, y: PointSet) -> np.ndarray:
        raise ValueError(
            f"{self!r} has no known derivative: gradients need kernels on vectors whose derivative "
            "is known to mercer."
        )

    def facts(self, dimension: int | None = None) -> Facts:
        """The facts of this kernel on points with `dimension` columns, with their reasons.

        Without a dimension: for every number of columns that it accepts.

        >>> from mercer.kernels import Gaussian, Linear
        >>> (Gaussian() + Linear()).facts(dimension=2).universal
        yes: its space contains that of a universal summand
        """
        return Facts(self, dimension)

    def null_degree(self) -> int | None:
        """The degree of the polynomials off which alone k is positive definite; None for others.

        >>> from mercer.kernels import Gaussian, ThinPlate
        >>> (0.5 * ThinPlate() + Gaussian()).null_degree(), Gaussian().null_degree()
        (1, None)
        """
        for part in vars(self).values():
            if isinstance(part, Kernel) and part.null_degree() is not None:
                raise ValueError(
                    f"{part!r} is positive definite off polynomials only, which adds up and takes "
                    f"positive factors, but has no {type(self).__name__}: write "
                    "kernel.anchored(points) to make it positive definite first."
                )
        return None

    def anchored(self, points: Any) -> Kernel:
        """A positive definite kernel of a conditionally positive definite one: see `Anchored`.

        It is 0 at anchors that are chosen among the points, as many as determine the polynomials.

        >>> import numpy as np
        >>> from mercer.kernels import Polyharmonic
        >>> k = Polyharmonic(1).anchored([[0.0], [1.0], [2.0]])
        >>> k.check(np.linspace(-1.0, 3.0, 9)[:, None]).passed
        True
        """
        from mercer.kernels.conditional import Anchored, anchors_among

        if self.null_degree() is None:
            return self
        own: Any = self.points(points).host()
        return Anchored(self, np.asarray(own.take(anchors_among(self, own)).data))

    def columns_needed(self) -> int:
        """The least number of columns that the points must have.

        >>> from mercer.kernels import Gaussian
        >>> (
        ...     (Gaussian([1.0, 2.0]) + Gaussian()).columns_needed(),
        ...     Gaussian().on([0, 2]).columns_needed(),
        ... )
        (2, 3)
        """
        inner = (part.columns_needed() for part in self._parts())
        return max([np.size(getattr(self, "lengthscale", 1.0)), *inner])

    def feature_count(self, width: int) -> int | None:
        """The number of explicit features of k on points with so many columns; None if infinite."""
        return None

    def features(self, x: PointSet) -> np.ndarray:
        """Explicit features φ(x_i) as rows, k(x, y) = ⟨φ(x), φ(y)⟩, where there are finitely many.

        >>> import numpy as np
        >>> from mercer.kernels import Polynomial
        >>> k, X = Polynomial(degree=2), np.array([[1.0, 2.0], [3.0, 4.0]])
        >>> features = k.features(k.points(X))
        >>> bool(np.allclose(features @ features.T, k(X)))
        True
        """
        raise ValueError(f"{self!r} has no finite list of features.")

    def factors(self, x: PointSet, y: PointSet) -> tuple[Any, Any] | None:
        """Sparse A and B with K(X, Y) = A Bᵀ, for kernels with sparse features; None for others.

        Products with vectors then take time linear in the number of points.
        """
        return None

    def points(self, data: Any) -> PointSet:
        """The user's data as points of this kernel."""
        frame = not isinstance(data, np.ndarray) and is_frame(data)
        points = as_vectors(data, self._columns_read() if frame else ())
        self.check_points(points)
        return points

    def check_points(self, points: PointSet) -> None:
        """Refuse points that the kernel, or a kernel inside it, is not made for."""
        for part in vars(self).values():
            if isinstance(part, Kernel):
                part.check_points(points)

    def _parts(self) -> list[Kernel]:
        """The kernels that this one is made of."""
        return [part for part in vars(self).values() if isinstance(part, Kernel)]

    @property
    def parallel(self) -> bool:
        """Whether `block` may run in several threads at once: as the kernels inside may."""
        return all(part.parallel for part in self._parts())

    @property
    def takes_tensors(self) -> bool:
        """Whether `block` computes on tensors of torch as they are; otherwise they go to NumPy."""
        return self.expression() is not None

    def _columns_read(self) -> tuple[Column, ...]:
        """The columns that the kernel depends on, by name or number; none if it is all of them."""
        expression = self.expression()
        views = [number.view for number in numbers_of(expression)] if expression else []
        if any(view.columns is None for view in views):
            return ()
        return tuple(dict.fromkeys(column for view in views for column in view.columns or ()))

    # ---- what users do with it --------------------------------------------------------------

    def __call__(self, x: Any, y: Any = None) -> Any:
        """k(x, y) for two points, the matrix of all k(x_i, y_j) for two sets of points.

        >>> from mercer.kernels import Linear
        >>> Linear()([1.0, 2.0], [3.0, 4.0])
        11.0
        """
        if self.is_single(x):
            pair = (x, x if y is None else y)
            sets = (point[None] if hasattr(point, "__dlpack__") else [point] for point in pair)
            left, right = map(self.points, sets)
            return float(Gram(self, left, right).dense()[0, 0])
        return self.gram(x, y).dense()

    def is_single(self, x: Any) -> bool:
        """Whether x is one point rather than a set of points."""
        return not is_point_set(x) and np.ndim(x) < 2

    def gram(
        self, x: Any, y: Any = None, *, memory: Memory = None, precision: str | None = None
    ) -> Gram:
        """The matrix K(X, Y), lazily; K(X, X) where Y is not given, which uses symmetry."""
        points = self.points(x)
        return Gram(self, points, None if y is None else self.points(y), memory, precision)

    def fitted(self, data: Any) -> Kernel:
        """This kernel with parameters estimated from training points; estimators call it in `fit`.

        Most kernels learn nothing. Words of texts, or the scales of the columns of a table, are
        learned from training points alone, in each fold of a cross-validation anew.
        """
        learned = {}
        for name, part in vars(self).items():
            if isinstance(part, Kernel) and (fresh := part.fitted(data)) is not part:
                learned[name] = fresh
        return self.with_(**learned) if learned else self

    def learn(self, X: Any, y: Any, by: Any = None, *, sample_weight: Any = None) -> Kernel:
        """This kernel, measuring distances as the targets y ask for.

        `by` says how it is learned: an object of `mercer.learning`, by default
        `GradientRounds()`, which weighs columns by how much a fit varies along them.

        >>> import numpy as np
        >>> from mercer.kernels import Exponential
        >>> X = np.random.default_rng(0).standard_normal((200, 3))
        >>> k = Exponential().learn(X, np.sin(2 * X[:, 1]))
        >>> int(np.argmin(k.lengthscale))
        1
        """
        # Learning solves problems, which is above kernels: it is looked up when it is asked for.
        learning = importlib.import_module("mercer.learning")
        return learning.learn(self, X, y, by, sample_weight).kernel

    def function(self, centres: Any, coefficients: Any) -> RKHSFunction:
        """The function f = Σ α_i k(x_i, ·); centres may be functionals, as derivatives at points.

        >>> from mercer.kernels import Gaussian
        >>> from mercer.kernels.functionals import Derivative
        >>> f = Gaussian().function([Derivative([0.0])], [1.0])  # of which ⟨f, g⟩ = g′(0)
        >>> f([[1.0]]).round(6)
        array([0.606531])
        """
        from mercer.kernels.functionals import are_functionals

        space = self.on_functionals() if are_functionals(centres) else self
        return RKHSFunction(space, space.points(centres), coefficients)

    def on_functionals(self) -> Kernel:
        """This kernel on functionals: see `OnFunctionals`."""
        from mercer.kernels.functionals import OnFunctionals

        return self if isinstance(self, OnFunctionals) else OnFunctionals(self)

    def mean_embedding(self, x: Any, weights: Any = None) -> RKHSFunction:
        """The mean of k(x, ·) over points, with weights where given: ⟨μ, f⟩ is the mean of f.

        >>> import numpy as np
        >>> from mercer.kernels import Linear
        >>> mu = Linear().mean_embedding(np.array([[1.0], [2.0], [6.0]]))
        >>> mu([[2.0]])
        array([6.])
        """
        return mean_embedding(self, x, weights)

    def mercer(self, measure: Any, count: int = 50, *, random_state: Any = 0) -> Any:
        """The leading eigenvalues and eigenfunctions for a measure, or for the points of a sample.

        Measures of `mercer.kernels.mercer` have closed forms: `UniformCircle()` for periodic
        kernels, `Normal(deviation, columns)` for the Gaussian one, `UniformSphere(d)` for kernels
        of ⟨x, y⟩, `UniformCube(columns)` for the Brownian one. For points, the eigenvectors of
        their Gram matrix, which is not stored, are extended to functions.

        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> X = np.random.default_rng(0).standard_normal((200, 1))
        >>> expansion = Gaussian().mercer(X, count=20)
        >>> bool(np.allclose(expansion.approximation(X), Gaussian()(X), atol=1e-6))
        True
        """
        from mercer.kernels.mercer import decomposition

        return decomposition(self, measure, count, random_state)

    def thin(
        self, x: Any, count: int, *, method: str = "thinning", random_state: Any = None
    ) -> Coreset:
        """Choose `count` of the points, with a mean embedding near that of all: see `Coreset`.

        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> X = np.linspace(0.0, 1.0, 64)[:, None]
        >>> len(Gaussian(0.2).thin(X, 8, random_state=0).points)
        8
        """
        return coreset(self, x, count, method=method, random_state=random_state)

    def laws(self, dimension: int | None = None) -> Facts:
        """The facts of this kernel, to read; by default for as many columns as it needs.

        >>> from mercer.kernels import Gaussian, Linear
        >>> (Gaussian() + Linear()).laws()
        Gaussian(lengthscale=1.0) + Linear(bias=0.0) on points of 1 column
        positive definite  yes: a sum of positive definite kernels is one
        stationary         no: one summand is stationary, the other is not: k(x, x) grows ...
        ...
        """
        return self.facts(self.columns_needed() if dimension is None else int(dimension))

    def check(self, x: Any, *, tolerance: float | None = None) -> Check:
        """Test on points whether this is a kernel: finite, symmetric, no negative eigenvalue.

        >>> from mercer.kernels import Sigmoid
        >>> Sigmoid(bias=-1.0).check([[0.0], [1.0]])
        failed: vᵀKv = ... for the vector v of length 1 in `witness`
        """
        return check(self, x, tolerance=tolerance)

    # ---- algebra ------------------------------------------------------------------------------

    def __add__(self, other: Kernel | float) -> Sum:
        return _algebra().sum_of(self, other)

    def __radd__(self, other: float) -> Sum:
        return _algebra().sum_of(other, self)

    def __mul__(self, other: Kernel | float) -> Product | Scaled:
        return _algebra().product_of(self, other)

    def __rmul__(self, other: float) -> Scaled:
        return _algebra().product_of(other, self)

    def __pow__(self, power: int) -> Kernel:
        """k^r for a whole number r ≥ 0: its features are products of r features of k.

        >>> from mercer.kernels import Linear
        >>> (Linear() ** 2)([1.0, 2.0], [3.0, 4.0])
        121.0
        """
        if not isinstance(power, (int, np.integer)) or isinstance(power, bool) or power < 0:
            raise ValueError(
                f"a kernel has powers k**r for whole numbers r ≥ 0; got r = {power!r}: others need "
                "not be positive definite. A root of Gaussian(l) is Gaussian(l * 2**0.5)."
            )
        return self if power == 1 else _algebra().PolynomialOf(self, (0.0,) * int(power) + (1.0,))

    def exp(self) -> Kernel:
        """The kernel exp(k): its features are all powers of those of k."""
        return _algebra().Exponentiated(self)

    def normalised(self) -> Kernel:
        """The kernel k(x, y)/√(k(x, x) k(y, y)): features of length 1."""
        return _algebra().Normalised(self)

    def after(self, map_: Any) -> Kernel:
        """The kernel k(φ(x), φ(y)), for a matrix φ = A or a function φ of a block of points.

        >>> import numpy as np
        >>> from mercer.kernels import Linear
        >>> Linear().after(np.array([[1.0, 1.0]]))([1.0, 2.0], [3.0, 4.0])
        21.0
        """
        from mercer.kernels.input_maps import Composed, LinearMap

        return Composed(self, map_) if callable(map_) else LinearMap(self, map_)

    def on(self, columns: Column | slice | Sequence[Column]) -> Columns:
        """This kernel on some columns only, given by number or, for a DataFrame, by name.

        A slice has both ends, as slice(0, 3), or counts from the end, as slice(-2, None).

        >>> from mercer.kernels import Gaussian
        >>> Gaussian().on([0, 2])([1.0, 5.0, 2.0], [1.0, -7.0, 2.0])
        1.0
        """
        from mercer.kernels.input_maps import Columns

        if isinstance(columns, slice):
            columns = _numbers(columns)
        single = isinstance(columns, (str, int, np.integer))
        return Columns(self, (columns,) if single else tuple(columns))  # type: ignore[arg-type]

    # ---- a value like any other -----------------------------------------------------------------

    def __repr__(self) -> str:
        fields = (f"{f.name}={_shown(getattr(self, f.name))}" for f in dataclasses.fields(self))
        return f"{type(self).__name__}({', '.join(fields)})"

    def _repr_html_(self) -> str:
        """In a notebook: values on a line, the Gram matrix of the line, and the facts."""
        from mercer.kernels.picture import kernel_html

        return kernel_html(self)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented if not isinstance(other, Kernel) else False
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))

    def _identity(self) -> tuple[Any, ...]:
        return tuple(_hashable(getattr(self, f.name)) for f in dataclasses.fields(self))


def checked(**checks: Callable[[Any, str, Any], None]) -> Any:
    """The checks of a kernel's parameters, as in `checks = checked(length=check_count)`."""
    return tuple(checks.items())


def _numbers(columns: slice) -> tuple[int, ...]:
    """The numbers of a slice of columns, whose total is not known yet."""
    start, stop, step = columns.start, columns.stop, columns.step
    whole = all(end is None or isinstance(end, (int, np.integer)) for end in (start, stop, step))
    start, step = 0 if start is None else start, 1 if step is None else step
    if whole and stop is None and start < 0:
        stop = 0
    numbers = tuple(range(start, stop, step)) if whole and stop is not None and step > 0 else ()
    if not numbers or (start < 0) != (numbers[-1] < 0):
        raise ValueError(
            f"columns are not known from {columns!r} before there are points: write both ends, as "
            "kernel.on(slice(0, 3)), or count from the end, as kernel.on(slice(-2, None))."
        )
    return numbers


def reciprocal_roots(values: np.ndarray) -> np.ndarray:
    """1/√v, and 0 where v is not positive."""
    return np.divide(1.0, np.sqrt(values), out=np.zeros_like(values), where=values > 0)


def _shown(value: Any) -> str:
    """A value in a repr: functions by name, which says more than their address."""
    if isinstance(value, Value) or not callable(value):
        return repr(value)
    return getattr(value, "__qualname__", repr(value))


def _algebra() -> Any:
    """The module of sums, products and functions of kernels, which is made of this one."""
    from mercer.kernels import algebra

    return algebra


def _hashable(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim > 1:
        return value.shape, value.tobytes()
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(_hashable(item) for item in value)
    return value


def parts(kernel: Kernel) -> Iterator[Kernel]:
    """A kernel and all kernels inside it.

    >>> from mercer.kernels import Gaussian, Linear
    >>> len(list(parts(2.0 * Gaussian() + Linear())))
    4
    """
    yield kernel
    for part in kernel._parts():
        yield from parts(part)
