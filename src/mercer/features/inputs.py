"""Input of estimators and feature maps: parameters, kernels and points as users pass them.

Arrays of other libraries (tensors) are admitted and handed back here; the other modules of
`features` compute with what they are given.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from mercer.arrays import as_numpy, beside, is_tensor, on_device
from mercer.distributed import is_scattered
from mercer.distributed.methods import by_blocks
from mercer.evaluation.dispatch import program_of
from mercer.functions import RKHSFunction
from mercer.kernels.base import Kernel, parts
from mercer.kernels.conversion import as_kernel
from mercer.kernels.custom import Precomputed
from mercer.operators import Gram
from mercer.points import (
    DensePoints,
    PointSet,
    VectorPoints,
    as_objects,
    as_vectors,
    check_column_names,
    is_frame,
)
from mercer.runtime.threads import Span, run, single_threaded_blas, spans, thread_count
from mercer.structured.base import StructuredKernel


@dataclass(frozen=True)
class Tuning:
    """Sizes of inputs that are treated at once."""

    small: int = 4096  # numbers that are checked sooner than scikit-learn has looked at their type
    block_rows: int = 2048  # enough for a matrix product, few enough for all threads to have work
    foreign_rows: int = 1 << 18  # few launches on a GPU, with 1,000 columns two gigabytes


TUNING = Tuning()


KernelLike: TypeAlias = Kernel | str | Callable[..., Any]


class KernelInput:
    """A kernel, and points: vectors are checked by scikit-learn, other points by the kernel.

    `set_params` reaches into frozen objects: `kernel__lengthscale=2.0` makes a new kernel, where
    scikit-learn's own would set an attribute of the old one.
    """

    kernel: Any = None
    gamma: Any = None
    degree: Any = None
    coef0: Any = None
    kernel_params: Any = None
    device: Any = None
    _allow_indefinite = False  # whether "sigmoid" is accepted, as scikit-learn accepts it
    _allow_spline = False  # whether kernels as ThinPlate() are accepted
    _takes_clusters = False  # whether it is fitted to rows on a cluster
    _streams = False  # whether rows that do not fit on its device are brought there in blocks
    _instead_of_tensors = "KernelRidge, KernelRegressor and KernelClassifier take tensors."
    _instead_of_texts = (
        "kernel=table_kernel(X) of mercer.structured, kernel.on([...]) with the names of others"
    )

    def __init_subclass__(cls, **options: Any) -> None:
        """Methods of every estimator take arrays of Dask, and return arrays of Dask."""
        super().__init_subclass__(**options)
        by_blocks(cls)

    def set_params(self, **params: Any) -> Self:
        inner: dict[str, dict[str, Any]] = {}
        outer: dict[str, Any] = {}
        for name, value in params.items():
            first, _, rest = name.partition("__")
            owner = params.get(first, getattr(self, first, None))
            if rest and isinstance(owner, str):
                raise ValueError(
                    f"{first}={owner!r} of {type(self).__name__} is a name, which has no parameter "
                    f"{rest!r}. Write a kernel object, as kernel=Gaussian(lengthscale=1.0), and "
                    f"set {first}__{rest} of that; or set gamma, degree or coef0, which belong to "
                    "names."
                )
            if rest and hasattr(owner, "with_"):
                inner.setdefault(first, {})[rest] = value
            else:
                outer[name] = value
        super().set_params(**outer)  # type: ignore[misc]
        for name, changes in inner.items():
            setattr(self, name, getattr(self, name).with_(**changes))
        return self

    def _html_repr(self) -> str:
        """In a notebook: kernel, solver and certificate of a fitted model, above the diagram."""
        from mercer.features.notebook import fitted_html

        return fitted_html(self) + super()._html_repr()  # type: ignore[misc]

    # ---- the kernel --------------------------------------------------------------------------

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _check_square(self, X: Any) -> None:
        """Refuse a precomputed matrix in `fit` that is not K(X, X)."""
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"a precomputed kernel is a square matrix in fit; got shape {X.shape}. Pass "
                "K(X_train, X_train)."
            )

    def _resolved_kernel(self, X: Any, weights: Any = None) -> Kernel:
        """The kernel object that the parameters describe, for these training points."""
        if self._is_precomputed():
            return Precomputed(X)
        if isinstance(self.kernel, Kernel):
            self._refuse_ignored("a kernel object", "in the kernel, as Gaussian(lengthscale=2.0)")
            if not self._allow_spline and self.kernel.null_degree() is not None:
                raise ValueError(
                    f"{type(self).__name__} takes positive definite kernels, and {self.kernel!r} "
                    "is one off polynomials only: KernelRidge and KernelRidgeCV fit it, and "
                    "kernel.anchored(points) makes it positive definite."
                )
            return self.kernel.fitted(X)
        kernel = self.kernel
        if callable(kernel) and self.kernel_params:
            kernel = partial(kernel, **self.kernel_params)
        options = {"gamma": self.gamma, "weights": weights}
        if self.degree is not None:
            options["degree"] = self.degree
        if self.coef0 is not None:
            options["coef0"] = self.coef0
        return as_kernel(kernel, X=X, allow_indefinite=self._allow_indefinite, **options)

    def _refuse_ignored(self, what: str, where: str) -> None:
        """Refuse parameters of named kernels that another kind of kernel would ignore."""
        for name in ("gamma", "degree", "coef0", "kernel_params"):
            value, default = getattr(self, name), getattr(type(self), name, None)
            if not (value is default or (type(value) is type(default) and value == default)):
                raise ValueError(
                    f"{name} belongs to kernels given by name; got {name}={value!r} with {what}: "
                    f"say it {where}."
                )

    def _training_points(self, kernel: Kernel, X: Any, centres: Any = None) -> PointSet:
        """X as points; refused where a kernel with a formula leaves the range of floats."""
        if self._is_precomputed():
            if centres is not None:
                raise ValueError(
                    "centres are points, and a precomputed kernel has none: pass a kernel, or "
                    "select columns with mercer.features.Nystroem."
                )
            return kernel.points(np.arange(len(X)))
        points: PointSet
        has_formula = program_of(kernel) is not None
        if self._streams and isinstance(X, np.ndarray) and self.device is not None:
            from mercer.points.streamed import StreamedPoints  # torch is there

            points = StreamedPoints(X, None, self.device)
            kernel.check_points(points)
        elif has_formula and type(X) is np.ndarray:
            points = DensePoints(X)  # scikit-learn has checked its numbers
            kernel.check_points(points)
        else:
            points = kernel.points(X)
        if has_formula and points.home == "host":
            with np.errstate(over="ignore", invalid="ignore"):
                own = Gram(kernel, points).diagonal()
            if not np.isfinite(own).all():
                raise ValueError(
                    f"{kernel!r} overflows: k(x, x) is beyond {np.finfo(own.dtype).max:.1g}, the "
                    f"largest number of {own.dtype}. Scale the columns of X, as StandardScaler "
                    "does, or write kernel.normalised()."
                )
        return points

    def _on(self, device: Any) -> Self:
        """This fitted model with its function on a device, where it can be evaluated there."""
        f = getattr(self, "function_", None)
        able = self._takes_clusters and not self._instead_of_tensors
        if not (able and type(f) is RKHSFunction and isinstance(f.points, DensePoints)):
            return self
        centres = on_device(np.ascontiguousarray(f.points.rows), device)
        points = replace(as_vectors(centres), names=f.points.names)
        moved: Any = copy(self)
        moved.function_ = RKHSFunction(f.kernel, points, on_device(f.coefficients, device))
        if np.ndim(moved.intercept_):
            moved.intercept_ = on_device(moved.intercept_, device)
        return moved

    # ---- points ------------------------------------------------------------------------------

    def _checked(self, X: Any, *y: Any, reset: bool, **options: Any) -> Any:
        """X (and y) as scikit-learn checks them where X holds vectors; tensors stay tensors."""
        if not (reset or y) and self._is_known(X) and X.size <= TUNING.small:
            if np.isfinite(X).all():
                return X
        elif not isinstance(X, np.ndarray):
            if is_elsewhere(X):
                check = self._checked_tensors if is_tensor(X) else self._checked_scattered
                return check(X, *y, reset=reset)
            self._check_kind(X)
        if self._holds_objects(X):
            return self._checked_objects(X, *y, reset=reset)
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]} | options
        try:
            return validate_data(self, X, *y, reset=reset, **options)
        except ValueError as refusal:
            _name_columns(X, self._instead_of_texts, refusal)
            raise

    def _checked_objects(self, X: Any, *y: Any, reset: bool) -> Any:
        """A list of objects, or a table; the kernel checks them, and objects have no features."""
        if not length(X):
            raise ValueError(f"{type(self).__name__} needs at least one object; X has none.")
        if hasattr(X, "columns"):
            return validate_data(self, X, *y, reset=reset, skip_check_array=True)
        return (X, *y) if y else X

    def _check_kind(self, X: Any) -> None:
        """Refuse what scikit-learn would refuse in other words, or not at all."""
        if is_frame(X):
            check_column_names(X)
        if self._is_precomputed() and scipy.sparse.issparse(X):
            raise TypeError("Sparse precomputed kernels are not supported: write K.toarray().")

    def _is_known(self, X: Any) -> bool:
        """Whether X is rows of plain numbers, as many in each as in `fit`."""
        width = getattr(self, "n_features_in_", None)
        known = is_plain(X) and len(X) > 0 and X.shape[1] == width
        return known and not hasattr(self, "feature_names_in_")

    def _holds_objects(self, X: Any) -> bool:
        """Whether X is a list of things that are no numbers, for a kernel that takes those."""
        if not callable(self.kernel) or is_elsewhere(X):
            return False
        if isinstance(self.kernel, Kernel):
            if any(isinstance(part, StructuredKernel) for part in parts(self.kernel)):
                return True
            read = self.kernel._columns_read()
            if is_frame(X) or any(isinstance(column, str) for column in read):
                return bool(read)
            if isinstance(X, (list, tuple)):
                return not isinstance(self.kernel.points(X), VectorPoints)
        shape = (0,) if isinstance(X, (list, tuple)) else getattr(X, "shape", (0, 0, 0))
        if len(shape) != 1 and not (shape[1:] == (1,) and not _all_numbers(X)):
            return False
        objects = as_objects(X)  # refuses a column of texts, and says what to write
        return len(shape) == 1 and bool(objects) and not _all_numbers(objects[0])  # type: ignore[index]

    def _checked_tensors(self, X: Any, *y: Any, reset: bool) -> Any:
        """The checks of scikit-learn that tensors need; what they hold is checked as points."""
        if self._instead_of_tensors:
            raise ValueError(
                f"{type(self).__name__} computes on the CPU and takes arrays of NumPy: write "
                f"X.cpu().numpy(). {self._instead_of_tensors}"
            )
        if self._is_precomputed():
            raise ValueError('kernel="precomputed" takes NumPy arrays: write X.cpu().numpy().')
        points = as_vectors(X)
        self._check_width(points.width, reset)
        return (points.rows, _targets_of(X, y[0])) if y else points.rows

    def _checked_scattered(self, X: Any, *y: Any, reset: bool) -> Any:
        """Rows on a cluster, and targets beside them; what they hold is checked where they are."""
        from mercer.distributed.admission import admitted, names_of

        if not self._takes_clusters:
            raise ValueError(
                f"{type(self).__name__} is not fitted to rows on a cluster: write X.compute() "
                "where they fit into memory, or take KernelRidge, KernelRegressor or "
                "KernelClassifier with centres."
            )
        if self._is_precomputed():
            raise ValueError('kernel="precomputed" takes arrays of NumPy: write K.compute().')
        names, rows = names_of(X), admitted(X)
        if rows.ndim != 2:
            raise ValueError(f"X must have two dimensions; got shape {rows.shape}.")
        self._check_width(rows.shape[1], reset)
        if reset and names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif reset and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return (rows, admitted(y[0], beside=rows, what="y")) if y else rows

    def _check_width(self, width: int, reset: bool) -> None:
        if reset:
            self.n_features_in_ = width
        elif width != self.n_features_in_:
            raise ValueError(
                f"X has {width} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = not self._is_precomputed()
        tags.input_tags.pairwise = self._is_precomputed()
        return tags


def _name_columns(X: Any, advice: str, refusal: Exception) -> None:
    """Say which columns of a table hold no numbers, where there are some."""
    if not is_frame(X):
        return
    texts = [name for name in X.columns if not _all_numbers(np.asarray(X[name]))]
    if texts:
        raise ValueError(
            f"columns {texts} of the table hold no numbers: write {advice}, or leave them out."
        ) from refusal


def _targets_of(X: Any, y: Any) -> Any:
    """Targets of tensors: tensors on their device, or arrays of NumPy; one row for each of X."""
    if is_tensor(y) and y.device != X.device:
        raise ValueError(
            f"X and y must be on one device; got {X.device} and {y.device}: write "
            f"y.to({str(X.device)!r})."
        )
    targets = y.detach() if is_tensor(y) else np.asarray(y)
    if targets.ndim not in (1, 2) or len(targets) != len(X) or not len(X):
        raise ValueError(
            f"y must have one row for each of the {len(X)} rows of X; got shape "
            f"{tuple(targets.shape)}."
        )
    return targets


def _all_numbers(x: Any) -> bool:
    """Whether one thing, or a list of them, holds numbers only."""
    if scipy.sparse.issparse(x) or is_plain(x):
        return True
    try:
        return np.asarray(x).dtype.kind in "fiub" or np.asarray(x, np.float64).dtype.kind == "f"
    except (TypeError, ValueError):
        return False


def is_plain(X: Any) -> bool:
    """Whether X is rows of numbers as they are computed with."""
    return type(X) is np.ndarray and X.ndim == 2 and X.dtype in (np.float64, np.float32)


def dense(rows: Any) -> np.ndarray:
    """Rows as an array of NumPy, also those of a sparse matrix."""
    return rows.toarray() if scipy.sparse.issparse(rows) else np.asarray(rows)


def length(X: Any) -> int:
    """The number of rows of an array, a sparse matrix, a table or a list."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


# ---- arrays of other libraries -------------------------------------------------------------------


def is_elsewhere(X: Any) -> bool:
    """Whether X is a tensor or on a cluster, where its rows are checked."""
    return is_tensor(X) or is_scattered(X)


def is_foreign(X: Any) -> bool:
    """Whether X is an array of another library than NumPy, which computes with it where it is."""
    return is_tensor(X)


def from_tensor(X: Any) -> Any:
    """A tensor as an array of NumPy; everything else as it is."""
    return as_numpy(X) if is_tensor(X) else X


def placed_like(values: Any, X: Any) -> Any:
    """Numbers as an array of the library of X, where X is; of NumPy's where X is no array."""
    return beside(values, X) if is_tensor(X) else as_numpy(values)


def over_rows(points: PointSet, parallel: bool, work: Callable[[Span], None]) -> None:
    """Call `work` on (start, stop) of every block of rows of some points.

    Where they are arrays of NumPy it runs in threads, with BLAS held to one; other libraries have
    threads of their own, and get large blocks. Blocks depend on nothing else, so that results do
    not depend on the number of threads.
    """
    if points.home != "host":
        run(work, spans(len(points), TUNING.foreign_rows), 1)
        return
    with single_threaded_blas():
        run(work, spans(len(points), TUNING.block_rows), thread_count() if parallel else 1)
