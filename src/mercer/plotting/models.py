"""Fitted models as pictures: components, validation curves, functions with bands, machines."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_between
from mercer.plotting.axes import BLUE, GREY, RED, axes, finished

BANDS = ("std", "interval", None)


@dataclass(eq=False)
class ComponentsDisplay:
    """Points by two of their kernel principal components.

    Parameters
    ----------
    coordinates : array of shape (n, 2)
    shares : pair of floats
        The variance that each explains.
    numbers : pair of int
        Which components, from 0.
    y : array, optional
        Colours: numbers on a scale, or labels, which a legend names.

    Examples
    --------
    >>> from mercer import KernelPCA
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> pca = KernelPCA(2, kernel="rbf").fit(X)
    >>> ComponentsDisplay.from_estimator(pca, X).ax_.get_xlabel()[:11]
    'component 0'
    """

    coordinates: np.ndarray
    shares: tuple[float, float]
    numbers: tuple[int, int] = (0, 1)
    y: Any = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, components: Any = (0, 1), ax: Any = None
    ) -> ComponentsDisplay:
        """Draw points in the components of a fitted `KernelPCA`."""
        check_is_fitted(estimator)
        first, second = components
        ratios = estimator.explained_variance_ratio_
        if not max(first, second) < len(ratios):
            raise ValueError(f"there are {len(ratios)} components; got {tuple(components)}.")
        values = np.asarray(estimator.transform(X))[:, [first, second]]
        shares = float(ratios[first]), float(ratios[second])
        return cls(values, shares, (first, second), y).plot(ax)

    def plot(self, ax: Any = None) -> ComponentsDisplay:
        """Draw on `ax`, or on axes of a new figure: `ax_` and `figure_` afterwards."""
        ax = axes(ax, (5.0, 4.2))
        labels = np.asarray(0.0 if self.y is None else self.y)
        named = labels.dtype.kind not in "fiub"
        if named:
            for label in np.unique(labels):
                ax.scatter(*self.coordinates[labels == label].T, s=12, label=str(label))
        else:
            colours = {"color": BLUE} if self.y is None else {"c": labels, "cmap": "viridis"}
            ax.scatter(*self.coordinates.T, s=12, **colours)
        pairs = zip(self.numbers, self.shares, strict=True)
        x, y = (f"component {k} ({100 * share:.1f} %)" for k, share in pairs)
        return finished(self, ax, x, y, legend=named)


@dataclass(eq=False)
class ValidationDisplay:
    """The leave-one-out error of `KernelRidgeCV` over α, one curve for each lengthscale.

    Parameters
    ----------
    alphas : array
    errors : array of shape (lengthscales, alphas)
    lengthscales : array or None

    Examples
    --------
    >>> from mercer import KernelRidgeCV
    >>> X = np.random.default_rng(0).normal(size=(20, 1))
    >>> shown = ValidationDisplay.from_estimator(KernelRidgeCV().fit(X, np.sin(X[:, 0])))
    >>> shown.errors.shape[1] == len(shown.alphas)
    True
    """

    alphas: np.ndarray
    errors: np.ndarray
    lengthscales: np.ndarray | None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> ValidationDisplay:
        """Draw what a fitted `KernelRidgeCV` chose among."""
        check_is_fitted(estimator)
        if not hasattr(estimator, "_candidate_alphas"):
            raise ValueError(
                "a validation curve is of what KernelRidgeCV tried; got "
                f"{type(estimator).__name__}."
            )
        alphas = estimator._candidate_alphas()
        return cls(alphas, estimator.cv_errors_, estimator.lengthscales_).plot(ax)

    def best(self) -> tuple[int, int]:
        """The row and column of the least error."""
        row, column = np.unravel_index(np.nanargmin(self.errors), self.errors.shape)
        return int(row), int(column)

    def plot(self, ax: Any = None) -> ValidationDisplay:
        """Draw on `ax`, or on new axes, both logarithmic: `ax_` and `figure_` afterwards."""
        import matplotlib as mpl

        ax = axes(ax)
        row, column = self.best()
        shades = mpl.colormaps["viridis"](np.linspace(0.0, 0.92, len(self.errors)))
        for k, (curve, shade) in enumerate(zip(self.errors, shades, strict=True)):
            label = None if self.lengthscales is None else f"ℓ = {self.lengthscales[k]:.2g}"
            ax.loglog(self.alphas, curve, color=shade, label=label)
        ax.loglog(self.alphas[column], self.errors[row, column], "*", color=RED, markersize=13)
        if self.lengthscales is not None:
            ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return finished(self, ax, "alpha", "leave-one-out mean squared error")


@dataclass(eq=False)
class FittedFunctionDisplay:
    """A fitted function of one column, its band, and the data.

    Parameters
    ----------
    places, values : arrays
    lower, upper : arrays or None
        The band.
    label : str
        What the band is.
    data : pair of arrays or None

    Examples
    --------
    >>> from mercer import KernelRidge
    >>> X = np.random.default_rng(0).normal(size=(20, 1))
    >>> model = KernelRidge(0.1, kernel="rbf").fit(X, np.sin(X[:, 0]))
    >>> shown = FittedFunctionDisplay.from_estimator(model, X, np.sin(X[:, 0]), band="std")
    >>> bool((shown.lower < shown.upper).all())
    True
    """

    places: np.ndarray
    values: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    label: str = ""
    data: tuple[Any, Any] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        band: str | None = "std",
        coverage: float = 0.9,
        places: Any = None,
        ax: Any = None,
    ) -> FittedFunctionDisplay:
        """Draw a fitted regressor over the range of X, with two deviations or an interval.

        `band` is "std" for ±2 posterior standard deviations of f, "interval" for
        `predict_interval(coverage)`, or None.
        """
        check_is_fitted(estimator)
        check_between("FittedFunctionDisplay", "coverage", coverage, 0.0, 1.0)
        if band not in BANDS:
            raise ValueError(f"band must be one of {list(BANDS)}; got {band!r}.")
        column = np.asarray(X, np.float64)
        if column.ndim != 2 or column.shape[1] != 1:
            raise ValueError(f"a curve needs points of one column; got shape {column.shape}.")
        if places is None:
            places = np.linspace(column.min(), column.max(), 400)
        grid = np.asarray(places, np.float64)[:, None]
        with _unnamed_columns():
            values = np.asarray(estimator.predict(grid))
            if values.ndim != 1:
                raise ValueError(
                    f"a curve is of one target; got {values.shape[1]}: fit one of them, as y[:, 0]."
                )
            lower, upper, label = _band(estimator, grid, band, coverage)
        data = None if y is None else (column[:, 0], np.asarray(y))
        return cls(grid[:, 0], values, lower, upper, label, data).plot(ax)

    def plot(self, ax: Any = None) -> FittedFunctionDisplay:
        """Draw on `ax`, or on axes of a new figure: `ax_` and `figure_` afterwards."""
        ax = axes(ax)
        if self.data is not None:
            ax.plot(*self.data, ".", color=GREY, markersize=4, label="data")
        if self.lower is not None:
            ax.fill_between(
                self.places, self.lower, self.upper, color=BLUE, alpha=0.18, linewidth=0,
                label=self.label,
            )  # fmt: skip
        ax.plot(self.places, self.values, color=BLUE, label="f")
        return finished(self, ax, "x", legend=True)


def _band(
    estimator: Any, grid: np.ndarray, band: str | None, coverage: float
) -> tuple[np.ndarray | None, np.ndarray | None, str]:
    """The lower and upper ends of a band, and what it is called."""
    if band is None:
        return None, None, ""
    known = inspect.signature(estimator.predict).parameters
    able = hasattr(estimator, "predict_interval") if band == "interval" else "return_std" in known
    if not able:
        raise ValueError(
            f"{type(estimator).__name__} has no band {band!r}: write band=None, or band='interval' "
            "for ConformalRegressor of it."
        )
    if band == "interval":
        return *estimator.predict_interval(grid, coverage), f"{100 * coverage:g} % interval"
    values, deviations = estimator.predict(grid, return_std=True)
    return values - 2.0 * deviations, values + 2.0 * deviations, "f ± 2 deviations"


@contextmanager
def _unnamed_columns() -> Iterator[None]:
    """Without scikit-learn's warning: places have the columns of X, in their order, not by name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


@dataclass(eq=False)
class SupportVectorsDisplay:
    """The decision function of a machine on two columns, its margin, and its support vectors.

    Parameters
    ----------
    horizontal, vertical, levels : arrays
        A grid, and the decision function on it.
    X, y : arrays
        The data.
    support : array
        Row numbers of the support vectors.

    Examples
    --------
    >>> from mercer import SVC
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> labels = X[:, 0] > 0
    >>> shown = SupportVectorsDisplay.from_estimator(SVC().fit(X, labels), X, labels)
    >>> shown.ax_ is not None
    True
    """

    horizontal: np.ndarray
    vertical: np.ndarray
    levels: np.ndarray
    X: np.ndarray
    y: np.ndarray
    support: np.ndarray

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, resolution: int = 150, ax: Any = None
    ) -> SupportVectorsDisplay:
        """Draw a fitted `SVC` of two classes on its training data, which has two columns."""
        check_is_fitted(estimator)
        rows, labels = np.asarray(X, np.float64), np.asarray(y)
        if rows.ndim != 2 or rows.shape[1] != 2 or len(np.unique(labels)) != 2:
            raise ValueError(
                "a picture of support vectors needs two columns and two classes; got shape "
                f"{rows.shape} and {len(np.unique(labels))} classes."
            )
        low, high = rows.min(axis=0), rows.max(axis=0)
        margin = 0.1 * (high - low)
        left, right = (
            np.linspace(a - m, b + m, resolution) for a, b, m in zip(low, high, margin, strict=True)
        )
        grid = np.stack(np.meshgrid(left, right), axis=-1).reshape(-1, 2)
        with _unnamed_columns():
            levels = np.asarray(estimator.decision_function(grid)).reshape(resolution, resolution)
        return cls(left, right, levels, rows, labels, np.asarray(estimator.support_)).plot(ax)

    def plot(self, ax: Any = None) -> SupportVectorsDisplay:
        """Draw on `ax`, or on axes of a new figure: `ax_` and `figure_` afterwards."""
        ax = axes(ax, (5.0, 4.2))
        place = self.horizontal, self.vertical, self.levels
        most = float(np.abs(self.levels).max())
        ax.contourf(*place, levels=np.linspace(-most, most, 21), cmap="RdBu", alpha=0.35)
        styles, widths = ["--", "-", "--"], [0.8, 1.6, 0.8]
        ax.contour(
            *place, levels=[-1.0, 0.0, 1.0], colors=GREY, linestyles=styles, linewidths=widths
        )
        for label, colour in zip(np.unique(self.y), (RED, BLUE), strict=True):
            ax.plot(*self.X[self.y == label].T, ".", color=colour, markersize=5)
        ax.plot(*self.X[self.support].T, "o", mfc="none", mec="black", markersize=7, mew=0.7)
        title = f"{len(self.support)} support vectors of {len(self.X)} points"
        return finished(self, ax, title=title)
