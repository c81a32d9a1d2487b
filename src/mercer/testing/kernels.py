"""Contracts of kernels: one function for each, one sentence where it fails.

A contract takes a kernel on points (`Case`). A function marked `@contract` joins
`KERNEL_CONTRACTS`, and from then on every kernel is checked for it; one marked `@contract_once` is
run on the first set of points only.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

import mercer.kernels
from mercer.evaluation import reference
from mercer.kernels import Kernel
from mercer.kernels.base import parts
from mercer.kernels.facts import Facts
from mercer.operators import Gram
from mercer.points import DensePoints, PointSet, VectorPoints
from mercer.testing.rounding import kernel_bound

DIMENSIONS = (1, 2, 5)
TRUSTED = 256.0  # units in the last place of its largest value: a kernel's own block function
RAGGED = (1, 7, 8, 9, 47, 49)  # around the steps of compiled code

KERNEL_CONTRACTS: dict[str, Callable[[Case], None]] = {}
_ONCE: set[str] = set()  # contracts that need no second set of points


def check_kernel(kernel: Kernel, points: Any = None, *, random_state: int = 0) -> None:
    """Run every contract on a kernel; an `AssertionError` says which one fails, and where.

    What the kernel states of itself, as `positive_definite=True`, is tested among them.

    Parameters
    ----------
    kernel : Kernel
        What is checked.
    points : points of the kernel, optional
        By default vectors in dimension 1, 2 and 5: plain, duplicated, far from the origin, tiny,
        integer-valued. Kernels on other points, or on a fixed number of columns, need some.
    random_state : int, default=0
        Draws the points and the numbers that are multiplied with.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import BlockKernel
    >>> minus_distance = BlockKernel(lambda X, Y: -np.abs(X - Y.T))
    >>> check_kernel(minus_distance, [[0.0], [1.0]])
    Traceback (most recent call last):
    AssertionError: ...
    """
    for number, case in enumerate(cases(kernel, points, random_state)):
        for name, check in KERNEL_CONTRACTS.items():
            if number == 0 or name not in _ONCE:
                check(case)


def contract(check: Callable[[Case], None]) -> Callable[[Case], None]:
    """Run a function on every kernel and every set of points."""
    KERNEL_CONTRACTS[check.__name__] = check
    return check


def contract_once(check: Callable[[Case], None]) -> Callable[[Case], None]:
    """Run a function on every kernel, on the first set of points: it is dear, or needs none."""
    _ONCE.add(check.__name__)
    return contract(check)


# ---- a symmetric function of two points ---------------------------------------------------------


@contract_once
def equality_and_hash(case: Case) -> None:
    """Equal parameters make equal kernels with equal hashes."""
    kernel, twin = case.kernel, copy.copy(case.kernel)
    if kernel != twin or hash(kernel) != hash(twin):
        case.refuse("a copy is not equal to it, or has another hash")
    if kernel in (2.0 * kernel, kernel + kernel, repr(kernel)):
        case.refuse("it is equal to something else")


@contract
def input_untouched(case: Case) -> None:
    """Evaluation does not write into the user's points."""
    before = copy.deepcopy(case.data)
    points = case.kernel.points(case.data)
    case.gram(points).dense()
    case.gram(points, case.y) @ case.random(len(case.y))
    if not same_data(before, case.data):
        case.refuse("evaluation changed the points it was given; compute on a copy")


@contract
def single_pair(case: Case) -> None:
    """k(x, y) of two points is the entry of their block."""
    x, y = case.x.slice(0, 1), case.y.slice(0, 1)
    value = case.kernel(_first(case.x), _first(case.y))
    both = x.concatenated(y)  # products of features round as k(x, x) and k(y, y) do
    allowed = 2 * case.bound(both, both)[:1, 1:]
    case.agree([[value]], case.block[:1, :1], allowed, "k(x, y) and its entry in a block")


@contract
def symmetry(case: Case) -> None:
    """k(x, y) = k(y, x)."""
    mirrored = case.gram(case.y, case.x).dense().T
    allowed = 2 * case.block_slack
    case.agree(case.block, mirrored, allowed, "k(x, y) and k(y, x)")
    case.agree(case.dense, case.dense.T, 2 * case.slack, "K(X, X) and its transpose")


@contract
def diagonal(case: Case) -> None:
    """`diagonal()` is the diagonal of the dense matrix."""
    allowed = 2 * np.diagonal(case.slack)
    case.agree(
        case.gram(case.x).diagonal(),
        np.diagonal(case.dense),
        allowed,
        "diagonal() and the diagonal of the dense matrix",
    )


@contract
def cauchy_schwarz(case: Case) -> None:
    """|k(x, y)|² ≤ k(x, x) k(y, y)."""
    own = np.diagonal(case.dense).astype(np.float64) + np.diagonal(case.slack)
    limit = np.sqrt(np.outer(np.maximum(own, 0.0), np.maximum(own, 0.0)))
    excess = np.abs(case.dense) - limit * (1 + 4 * case.unit) - case.slack
    if not excess.max() <= 0:
        i, j = np.unravel_index(np.argmax(excess), excess.shape)
        case.refuse(
            f"the Cauchy–Schwarz inequality |k(x, y)|² ≤ k(x, x) k(y, y) fails for the pair "
            f"({i}, {j}): |k(x, y)| is {abs(case.dense[i, j]):.3g}, {excess[i, j]:.2g} too large"
        )


@contract
def positive_semidefinite(case: Case) -> None:
    """vᵀKv ≥ 0 for all v: no eigenvalue of K is negative beyond rounding."""
    K = case.dense.astype(np.float64)
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    rounding = len(K) * case.unit * np.abs(values).sum() + float(np.linalg.norm(case.slack))
    if not values[0] >= -rounding:
        claim = ", though it is stated to be" if case.facts.positive_definite.yes else ""
        case.refuse(
            f"the Gram matrix is not positive semi-definite{claim}: its smallest eigenvalue is "
            f"{values[0]:.3g} (rounding explains {-rounding:.2g}), with the witness v = "
            f"{np.array2string(vectors[:, 0], precision=3, threshold=8)}"
        )


@contract_once
def stated_facts(case: Case) -> None:
    """Stated facts hold here: k(x, x) ≤ R², and no shift or motion changes a value."""
    facts, own = case.facts, np.diagonal(case.dense).astype(np.float64)
    if facts.bounded.yes and facts.bounded.payload is not None:
        excess = own - facts.bounded.payload * (1 + 4 * case.unit) - np.diagonal(case.slack)
        if excess.max(initial=0.0) > 0:
            case.refuse(
                f"k(x, x) is {own.max():.6g}, above the stated R² = {facts.bounded.payload}"
            )
    if not isinstance(case.x, DensePoints):
        return
    rows = _roundable(case.x.rows)
    shift = np.arange(1.0, 1.0 + rows.shape[1])
    moves = {"stationary": rows + shift, "isotropic": _turned(rows) + shift}
    for name, moved in moves.items():
        if getattr(facts, name).yes:
            x, y = case.kernel.points(rows), case.kernel.points(moved)
            allowed = 2 * (case.bound(x, x, np.float64) + case.bound(y, y, np.float64))
            what = f"values before and after a motion, k being stated to be {name},"
            case.agree(case.gram(y).dense(), case.gram(x).dense(), allowed, what)


def _roundable(rows: np.ndarray) -> np.ndarray:
    """Points nearby, of which shifts by whole numbers and the turn below are exact."""
    return 5.0 * np.round(rows.astype(np.float64) * 2.0**6 / 5.0) / 2.0**6


def _turned(rows: np.ndarray) -> np.ndarray:
    """The points reflected, and their first two columns turned by the angle with cosine 3/5."""
    turned = -rows
    if rows.shape[1] > 1:
        turned[:, :2] = rows[:, :2] @ np.array([[0.6, 0.8], [-0.8, 0.6]])
        turned = np.round(turned * 2.0**6) / 2.0**6  # which they are, but for the rounding of 3/5
    return turned


@contract
def reproducing_property(case: Case) -> None:
    """f(x) = ⟨f, k(x, ·)⟩."""
    coefficients = case.random(len(case.y)).astype(np.float64)
    f = case.kernel.function(case.y, coefficients)
    few = case.x.slice(0, 3)
    inner = [f.inner(case.kernel.function(few.slice(i, i + 1), [1.0])) for i in range(len(few))]
    slack = case.bound(few, case.y, np.float64) + _summing(case.block[: len(few)], np.float64)
    case.agree(inner, f(few), 2 * slack @ np.abs(coefficients), "⟨f, k(x, ·)⟩ and f(x)")


# ---- one definition, several executions ---------------------------------------------------------


@contract
def fused_is_reference(case: Case) -> None:
    """A kernel with an expression runs fused, and gives the values of the reference."""
    expression = case.kernel.expression()
    if expression is None or not isinstance(case.x, VectorPoints):
        return
    execution = case.gram(case.x).plan().execution
    if "fused" not in execution:
        case.refuse(f"it has an expression, but would be evaluated as {execution!r}")
    exact = reference.block(expression, case.x, case.x)
    case.agree(case.dense, exact, 2 * case.slack, "the fused value and the reference")


@contract
def float32_near_float64(case: Case) -> None:
    """On points in float32, the values in float32 are those in float64, rounded."""
    if not isinstance(case.x, VectorPoints) or not _only_numbers(case.x):
        return
    if case.dtype == np.float32:
        return
    single = case.kernel.points(case.x.rows.astype(np.float32))
    double = case.kernel.points(single.data.astype(np.float64))
    exact = case.gram(double).dense()
    if np.abs(exact).max(initial=0.0) > np.finfo(np.float32).max / 4:
        return  # beyond what float32 can hold
    allowed = 2 * case.bound(single, single, np.float32)
    if case.kernel.expression() is None:  # its own function: half of the digits
        allowed = np.sqrt(np.finfo(np.float32).eps) * np.abs(exact).max(initial=0.0)
    case.agree(case.gram(single).dense(), exact, allowed, "values in float32 and float64")


@contract
def product(case: Case) -> None:
    """gram @ v and gram @ V, symmetric or not, are products with the dense matrix."""
    for gram, K, slack in (
        (case.gram(case.x), case.dense, case.slack),
        (case.gram(case.x, case.y), case.block, case.block_slack),
    ):
        slack = slack + _summing(K, case.dtype)
        for V in (case.random(K.shape[1]), case.random(K.shape[1], 3)):
            case.agree(gram @ V, K @ V, 2 * slack @ np.abs(V), "gram @ V and dense() @ V")


@contract
def transposed_product(case: Case) -> None:
    """gram.T @ W and W.T @ gram are products with the transposed dense matrix."""
    gram, W = case.gram(case.x, case.y), case.random(len(case.x), 2)
    slack = case.bound(case.y, case.x) + _summing(case.block.T, case.dtype)
    allowed = 2 * slack @ np.abs(W)
    case.agree(gram.T @ W, case.block.T @ W, allowed, "gram.T @ W and dense().T @ W")
    case.agree((W.T @ gram).T, case.block.T @ W, allowed, "W.T @ gram and W.T @ dense()")


@contract
def normal_product(case: Case) -> None:
    """gram.normal_matmul(V, W) is Kᵀ(K V + W)."""
    K, V, W = case.block, case.random(len(case.y), 2), case.random(len(case.x), 2)
    slack = case.block_slack + _summing(K, case.dtype)
    inner = K @ V + W
    size = np.abs(K) @ np.abs(V) + np.abs(W)
    allowed = np.abs(K).T @ (slack @ np.abs(V)) + (slack + _summing(K.T, case.dtype).T).T @ size
    computed = case.gram(case.x, case.y).normal_matmul(V, W)
    case.agree(computed, K.T @ inner, 2 * allowed, "normal_matmul(V, W) and Kᵀ(K V + W)")


@contract
def chosen_columns(case: Case) -> None:
    """gram.columns(indices) are columns of the dense matrix."""
    indices = [len(case.y) - 1, 0]
    columns = case.gram(case.x, case.y).columns(indices)
    allowed = 2 * case.block_slack[:, indices]
    case.agree(columns, case.block[:, indices], allowed, "columns() and columns of dense()")


# ---- sizes --------------------------------------------------------------------------------------


@contract
def ragged_tiles(case: Case) -> None:
    """Sizes that fill no tile give the same values and products."""
    for n, m in zip(RAGGED, RAGGED[::-1], strict=True):
        (x, i), (y, j) = case.resized(n), case.resized(m)
        K, slack = case.dense[np.ix_(i, j)], case.slack[np.ix_(i, j)]
        gram, v = case.gram(x, y), case.random(m)
        case.agree(gram.dense(), K, 2 * slack, f"entries of a block of {n} × {m} and of K(X, X)")
        allowed = 2 * (slack + _summing(K, case.dtype)) @ np.abs(v)
        case.agree(gram @ v, K @ v, allowed, f"products with a block of {n} × {m} and with K(X, X)")


@contract
def no_rows(case: Case) -> None:
    """Without rows there are no values; without columns all sums are zero."""
    none, n = case.x.slice(0, 0), len(case.x)
    below, beside = case.gram(none, case.x), case.gram(case.x, none)
    case.agree(below.dense(), np.empty((0, n)), 0, "dense() without rows and no values")
    case.agree(below @ np.ones(n), np.empty(0), 0, "gram @ v without rows and no values")
    case.agree(beside @ np.ones(0), np.zeros(n), 0, "gram @ v without columns and zero")
    case.agree(beside @ np.ones((0, 2)), np.zeros((n, 2)), 0, "gram @ V without columns and zero")
    case.agree(case.gram(none).diagonal(), np.empty(0), 0, "diagonal() without rows and no values")


@contract_once
def several_stripes(case: Case) -> None:
    """More rows than two stripes of tiles: where symmetry and partial sums come in."""
    x, i = case.resized(2 * case.gram(case.x).plan().tile[0] + 1)
    v = case.random(len(x))
    folded = np.bincount(i, v, minlength=len(case.x))
    size = np.bincount(i, np.abs(v), minlength=len(case.x))
    exact = case.dense.astype(np.float64) @ folded
    allowed = 2 * (case.slack + len(x) * case.unit * np.abs(case.dense)) @ size
    y = x.slice(0, len(x))
    for gram, what in ((case.gram(x), "symmetric"), (case.gram(x, y), "general")):
        case.agree(gram @ v, exact[i], allowed[i], f"a {what} product over stripes and K v")


# ---- calculus -----------------------------------------------------------------------------------


@contract
def gradient(case: Case) -> None:
    """∇f is what central differences of f tend to, where the kernel knows its derivative."""
    if not isinstance(case.x, DensePoints) or not _only_numbers(case.x):
        return
    rows = case.x.rows.astype(np.float64)
    spread = float(rows.std(axis=0).max()) or 1.0
    f = case.kernel.function(rows, np.random.default_rng(1).standard_normal(len(rows)))
    weights = np.random.default_rng(case.seed).dirichlet(np.full(len(rows), 0.5), 5)
    z = weights @ rows  # away from kinks, and wherever points may lie if that is convex
    try:
        slopes = f.gradient(z)
    except ValueError as error:
        if "no known derivative" in str(error):
            return
        raise
    (coarse, _, _), (fine, ahead, width) = (_differences(f, z, h * spread) for h in (2e-5, 1e-5))
    points = case.kernel.points(ahead)
    values = case.gram(points, f.points).dense()
    slack = case.bound(points, f.points, np.float64) + _summing(values, np.float64)
    rounding = (4 * slack @ np.abs(f.coefficients)).reshape(z.shape) / width
    allowed = np.abs(coarse - fine) + rounding
    case.agree(slopes, fine, allowed, "∇f and central differences of f")


def _differences(f: Any, z: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Central differences of f at z in every column, their upper points, and how far apart."""
    moves = step * np.eye(z.shape[1])
    ahead, behind = z[:, None] + moves, z[:, None] - moves
    width = np.diagonal(ahead - behind, axis1=1, axis2=2)
    ahead, behind = ahead.reshape(-1, z.shape[1]), behind.reshape(-1, z.shape[1])
    return (f(ahead) - f(behind)).reshape(z.shape) / width, ahead, width


# ---- a value like any other ---------------------------------------------------------------------


@contract_once
def pickling(case: Case) -> None:
    """A kernel survives pickling."""
    try:
        restored = pickle.loads(pickle.dumps(case.kernel))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        case.refuse(f"it cannot be pickled ({error}); define its functions in a module")
    if restored != case.kernel:
        case.refuse(f"pickling gives back another kernel, {restored!r}")


@contract_once
def rebuilding(case: Case) -> None:
    """`get_params` and `with_` rebuild the kernel."""
    kernel, params = case.kernel, case.kernel.get_params(deep=False)
    leaves = {k: v for k, v in kernel.get_params().items() if not isinstance(v, Kernel)}
    for way, twin in {
        "its class with get_params(deep=False)": type(kernel)(**params),
        "with_(**get_params(deep=False))": kernel.with_(**params),
        "with_(**get_params())": kernel.with_(**leaves),
    }.items():
        if twin != kernel:
            case.refuse(f"{way} gives another kernel, {twin!r}")


@contract_once
def readable_repr(case: Case) -> None:
    """`repr` is an expression for an equal kernel, if its parameters can be written down."""
    kernel = case.kernel
    values = [v for v in kernel.get_params().values() if not isinstance(v, Kernel)]
    learned = any(hasattr(v, "fit") or hasattr(v, "learned") for v in values)  # is not written
    if learned or any(callable(v) or np.ndim(v) > 1 for v in values):
        return
    names = {type(part).__name__: type(part) for part in parts(kernel)}
    written = eval(repr(kernel), {**vars(mercer.kernels), **names, "array": np.array, "np": np})
    if written != kernel:
        case.refuse(f"repr evaluates to another kernel, {written!r}")


# ---- points, and what the contracts ask of them --------------------------------------------------


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel on points that have a name; values are computed once."""

    kernel: Kernel
    data: Any
    name: str
    seed: int = 0

    @cached_property
    def x(self) -> PointSet:
        return self.kernel.points(self.data)

    @cached_property
    def y(self) -> PointSet:
        """Some of the points in another order, so that rows and columns differ."""
        return self.x.take(np.arange(len(self.x))[::-1][: max(1, len(self.x) - 2)])

    @cached_property
    def dtype(self) -> np.dtype:
        return self.x.dtype

    @cached_property
    def unit(self) -> float:
        return float(np.finfo(self.dtype).eps)

    @cached_property
    def dense(self) -> np.ndarray:
        """K(X, X)."""
        return self.gram(self.x).dense()

    @cached_property
    def block(self) -> np.ndarray:
        """K(X, Y)."""
        return self.gram(self.x, self.y).dense()

    @cached_property
    def facts(self) -> Facts:
        """The facts of the kernel on these points."""
        return self.kernel.facts(getattr(self.x, "width", None))

    @cached_property
    def slack(self) -> np.ndarray:
        """By how much rounding may move K(X, X)."""
        return self.bound(self.x, self.x)

    @cached_property
    def block_slack(self) -> np.ndarray:
        """By how much rounding may move K(X, Y)."""
        return self.bound(self.x, self.y)

    def gram(self, x: PointSet, y: PointSet | None = None) -> Gram:
        return Gram(self.kernel, x, y)

    def bound(self, x: PointSet, y: PointSet, dtype: Any = None) -> np.ndarray:
        """By how much rounding may move K(X, Y), entry by entry."""
        dtype = np.dtype(dtype or self.dtype)
        expression = self.kernel.expression()
        if expression is None or not isinstance(x, VectorPoints):
            size = float(np.abs(self.gram(x, y).dense()).max(initial=0.0))
            return np.full((len(x), len(y)), TRUSTED * float(np.finfo(dtype).eps) * size)
        expanded = "products" in self.gram(x, y).plan().distances
        return kernel_bound(expression, x, y, dtype, expanded)  # type: ignore[arg-type]

    def random(self, *shape: int) -> np.ndarray:
        """The same normal numbers for the same shape, in the precision of the points."""
        return np.random.default_rng(self.seed).standard_normal(shape).astype(self.dtype)

    def resized(self, size: int) -> tuple[PointSet, np.ndarray]:
        """So many points, repeated in turn where there are too few, and their numbers."""
        indices = np.arange(size) % len(self.x)
        return self.x.take(indices), indices

    def agree(self, left: Any, right: Any, allowed: Any, what: str) -> None:
        """Refuse numbers that are further apart than rounding explains."""
        left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
        if left.shape != right.shape:
            self.refuse(f"{what} have shapes {left.shape} and {right.shape}")
        with np.errstate(invalid="ignore"):
            gap = np.abs(left - right)
            excess = np.where(gap <= allowed, 0.0, np.where(np.isfinite(gap), gap, np.inf))
        if excess.any():
            worst = np.unravel_index(np.argmax(excess), excess.shape)
            limit = np.broadcast_to(allowed, gap.shape)[worst]
            self.refuse(
                f"{what} are {left[worst]:.17g} and {right[worst]:.17g} at index "
                f"{', '.join(str(int(i)) for i in worst)}, "
                f"{gap[worst]:.2g} apart; rounding explains {limit:.2g}"
            )

    def refuse(self, sentence: str) -> None:
        raise AssertionError(f"{self.kernel!r} on {self.name}: {sentence}.")


def cases(kernel: Kernel, points: Any, seed: int) -> Iterator[Case]:
    """The given points, or vectors of several dimensions and kinds that the kernel accepts."""
    if points is not None:
        yield Case(kernel, points, "the given points", seed)
        return
    accepted = [d for d in DIMENSIONS if _accepts(kernel, d)]
    if not accepted:
        raise ValueError(
            f"{kernel!r} refuses vectors of dimension {', '.join(map(str, DIMENSIONS))}: pass "
            "points it is made for, check_kernel(kernel, points)."
        )
    for dimension in accepted:
        for name, data in vectors(dimension, seed).items():
            yield Case(kernel, data, f"{name} points in dimension {dimension}", seed)


def _accepts(kernel: Kernel, dimension: int) -> bool:
    try:
        kernel.gram(np.zeros((1, dimension))).dense()
    except ValueError:
        return False
    return True


def vectors(dimension: int, seed: int = 0, size: int = 17) -> dict[str, np.ndarray]:
    """Points on which kernels often fail, by name.

    >>> sorted(vectors(2))
    ['duplicated', 'far', 'integer', 'plain', 'tiny']
    """
    random = np.random.default_rng(seed)
    plain = random.standard_normal((size, dimension))
    return {
        "plain": plain,
        "duplicated": plain[random.integers(size // 3, size=size)],
        "far": plain + 1e4,
        "tiny": 1e-4 * plain,
        "integer": random.integers(-3, 4, size=(size, dimension)),
    }


def _summing(K: np.ndarray, dtype: Any) -> np.ndarray:
    """A bound on the rounding of the sum over a row of K, for each entry."""
    return (K.shape[1] + 2) * float(np.finfo(dtype).eps) * np.abs(K.astype(np.float64))


def _first(points: PointSet) -> Any:
    """The first point as a user would write it."""
    data = points.data
    return data[:1].toarray()[0] if scipy.sparse.issparse(data) else data[0]


def _only_numbers(points: PointSet) -> bool:
    """Whether points have no columns of objects beside their numbers."""
    return not hasattr(points, "objects")


def same_data(before: Any, after: Any) -> bool:
    """Whether data is unchanged."""
    if scipy.sparse.issparse(before):
        return all(
            np.array_equal(getattr(before, part), getattr(after, part))
            for part in ("data", "indices", "indptr", "row", "col")
            if hasattr(before, part)
        )
    if hasattr(before, "equals"):  # DataFrames
        return bool(before.equals(after))
    if isinstance(before, (list, tuple)):  # of numbers, arrays, or any objects
        pairs = zip(before, after, strict=False)
        return len(before) == len(after) and all(same_data(a, b) for a, b in pairs)
    if hasattr(before, "__array__"):
        return np.array_equal(np.asarray(before), np.asarray(after))
    if "__eq__" not in {name for kind in type(before).__mro__[:-1] for name in vars(kind)}:
        return True  # objects that are equal to themselves only tell nothing
    return bool(before == after)
