"""The figures of large problems: centres, the whole matrix, several classes, the automatic choice.

Land or sea comes from the PyPI package `global-land-mask`, household power from
`tables/household_power.npz` (X, y) in the folder MERCER_DATA, made from the PyPI package
`household-electric-power` without Global_intensity; where it is missing, the earth's elevation
takes its place. That, kin40k and MNIST come from the same folder. What is missing is said, and its
rows are not measured.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.data import MissingData, elevations, household_split, mnist, path, table
from benchmarks.measure import Effort, Groups, Row
from mercer import KernelClassifier, KernelRidge, KernelRidgeCV
from mercer.features.centres import Uniform
from mercer.kernels import Gaussian
from mercer.linalg import cholesky
from mercer.solvers import ConjugateGradient, Direct
from mercer.solvers.automatic import choose

SPHERE_GAMMA, SPHERE_RIDGE, SPHERE_CENTRES = 20.0, 1e-7, 2000


def gaussian(gamma: float) -> Gaussian:
    return Gaussian((0.5 / gamma) ** 0.5)


def _typed(model: Any) -> str:
    """What a user types to make a model, in one line."""
    return " ".join(repr(model).split())


def on_centres(kernel: Any, X: Any, y: Any, ridge: float, count: int) -> tuple[Any, float]:
    """`KernelRidge` on so many uniform centres, and seconds; α = nλ."""
    model = KernelRidge(ridge * len(X), kernel=kernel, centres=Uniform(count, 0))
    return measure.timed(lambda: model.fit(X, y))


# ---- land or sea ---------------------------------------------------------------------------------


def sphere(n: int, seed: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Uniform points of the globe, +1 on land and −1 at sea."""
    from global_land_mask import globe

    X = np.random.default_rng(seed).standard_normal((n, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    latitude = np.degrees(np.arcsin(np.clip(X[:, 2], -1, 1)))
    longitude = np.clip(np.degrees(np.arctan2(X[:, 1], X[:, 0])), -180, 179.999)
    return X.astype(dtype), np.where(globe.is_land(latitude, longitude), 1.0, -1.0)


def land_or_sea_in_float32(effort: Effort) -> Iterator[Row]:
    yield from land_or_sea(effort, np.float32, floor=4.0)


def land_or_sea_in_float64(effort: Effort) -> Iterator[Row]:
    yield from land_or_sea(effort, np.float64, floor=6.0)


def land_or_sea(effort: Effort, dtype: Any, floor: float) -> Iterator[Row]:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline

    n, count = effort.size(100_000), effort.size(SPHERE_CENTRES)
    X, y = sphere(n, 0, dtype)
    new, truth = sphere(n, 1, dtype)
    kernel = gaussian(SPHERE_GAMMA)
    on_centres(kernel, X[:5000], y[:5000], SPHERE_RIDGE, 500)  # code is loaded
    model, ours = on_centres(kernel, X, y, SPHERE_RIDGE, count)
    theirs = make_pipeline(
        Nystroem(n_components=count, gamma=SPHERE_GAMMA, random_state=0), RidgeClassifier()
    )
    _, peer = measure.timed(lambda: theirs.fit(X, y))
    errors = [
        float(np.mean(np.sign(model.predict(new)) != truth)),
        float(np.mean(theirs.predict(new) != truth)),
    ]
    name = np.dtype(dtype).name
    yield measure.faster(
        f"land or sea, {n:,} rows, M = {count:,}, {name}: fit",
        {"mercer": ours, "Nystroem + RidgeClassifier": peer},
        "Nystroem + RidgeClassifier",
        floor=floor,
        note=f"`{_typed(model)}.fit(X, y)`; misclassified: ours {100 * errors[0]:.2f} %, theirs "
        f"{100 * errors[1]:.2f} %; {model.solution_.status}",
    )
    yield measure.smaller(
        f"the same: our error over theirs, {name}", errors[0] / errors[1], floor=1.0
    )


def million(effort: Effort) -> Iterator[Row]:
    n, fifth = effort.size(1_000_000), effort.size(200_000)
    count = effort.size(SPHERE_CENTRES)
    sphere(2, 0, np.float32)
    small = measure.in_a_process(sphere_fit, fifth, count)
    large = measure.in_a_process(sphere_fit, n, count)
    yield measure.memory(
        f"land or sea, {n:,} rows, M = {count:,}, float32: memory beyond the data",
        large["extra"],
        500.0,
        ours_ms=1e3 * large["seconds"],
        note=f"peak of the process less its size before the fit; {100 * large['error']:.2f} % "
        f"misclassified; {large['status']}",
    )
    ratio = (large["seconds"] / n) / (small["seconds"] / fifth)
    yield measure.smaller(
        f"time for a row at {n:,} rows over that at {fifth:,}, M = {count:,}",
        ratio,
        "×",
        floor=1.1,
        note=f"{small['seconds']:.1f} s and {large['seconds']:.1f} s",
    )


def sphere_fit(n: int, count: int) -> dict[str, Any]:
    """One fit in a process of its own: seconds, memory, error."""
    X, y = sphere(n, 0, np.float32)
    kernel = gaussian(SPHERE_GAMMA)
    on_centres(kernel, X[:5000], y[:5000], SPHERE_RIDGE, 200)
    model, measures = measured_fit(kernel, X, y, SPHERE_RIDGE, count)
    new, truth = sphere(100_000, 1, np.float32)
    return measures | {"error": float(np.mean(np.sign(model.predict(new)) != truth))}


# ---- from disk -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Large:
    """A table that is fitted in memory and from disk: standardised targets, γ and λ."""

    name: str
    X: np.ndarray
    y: np.ndarray
    gamma: float
    ridge: float


def household() -> Large:
    """Household power without Global_intensity, standardised."""
    X, y = table("household_power")
    X = ((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)).astype(np.float32)
    return Large("household power", X, (y - y.mean()) / y.std(), 0.5 / X.shape[1], 1e-6)


def elevation() -> Large:
    """The earth's elevation on a grid, in its stead: unit vectors, standardised."""
    X, y = elevations()
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order].astype(np.float32), y[order]
    return Large("elevation", X, (y - y.mean()) / y.std(), 100.0, 1e-7)


def of_its_shape() -> Large:
    """Random rows, as many and as wide as those of household power; of their noise 0.1 remains."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000_000, 10), dtype=np.float32)
    y = np.sin(X[:, 0] + X[:, 1]) + 0.5 * np.cos(X[:, 2]) * X[:, 3]
    return Large("random rows", X, y / y.std() + 0.1 * rng.standard_normal(len(y)), 0.05, 1e-6)


def outside_memory(effort: Effort) -> Iterator[Row]:
    """Household power; without it, a smaller table that is at hand and random rows of its shape."""
    try:
        yield from three_ways(household(), effort)
    except MissingData as missing:
        yield Row("household power, 1.8 million rows, M = 4,000", None, "", note=str(missing))
        yield from three_ways(elevation(), effort)
        yield from three_ways(of_its_shape(), effort)


def three_ways(large: Large, effort: Effort) -> Iterator[Row]:
    """The same fit in memory, within 500 MB, and from a memory map; each in its own process."""
    n, count = effort.size(len(large.y)) * 9 // 10, effort.size(4000)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "rest.npz", X=large.X[n:][:50_000], y=large.y[n:][:50_000])
        np.save(Path(folder) / "X.npy", large.X[:n])
        np.save(Path(folder) / "y.npy", large.y[:n])
        task = folder, large.gamma, large.ridge, count
        alone = measure.in_a_process(disk_fit, *task, False)
        os.environ["MERCER_MEMORY"], old = "500MB", os.environ.get("MERCER_MEMORY")
        try:
            within = measure.in_a_process(disk_fit, *task, False)
            read = measure.in_a_process(disk_fit, *task, True)
        finally:
            os.environ.pop("MERCER_MEMORY")
            if old is not None:
                os.environ["MERCER_MEMORY"] = old
    yield Row(
        f"{large.name}, {n:,} rows, M = {count:,}, float32: RMSE of held-out rows",
        alone["rmse"],
        " standard deviations",
        ours_ms=1e3 * alone["seconds"],
        note=f"{alone['extra'] / measure.MEGABYTE:.0f} MB beyond the data; {alone['status']}",
    )
    for what, other in (("MERCER_MEMORY=500MB", within), ("a memory map and 500 MB", read)):
        yield measure.smaller(
            f"the same with {what}: time over that in memory",
            other["seconds"] / alone["seconds"],
            "×",
            ours_ms=1e3 * other["seconds"],
            floor=1.5,
            error=measure.relative_error(other["values"], alone["values"]),
            note=f"RMSE {other['rmse']:.4f}; the error is that of predictions against those of the "
            f"fit in memory; {other['extra'] / measure.MEGABYTE:.0f} MB beyond the data"
            + (", with the pages of the map" if other is read else ""),
        )


def disk_fit(folder: str, gamma: float, ridge: float, count: int, mapped: bool) -> dict[str, Any]:
    """One fit in a process of its own: seconds, memory, predictions of held-out rows."""
    X = np.load(Path(folder) / "X.npy", mmap_mode="r" if mapped else None)
    y, kernel = np.load(Path(folder) / "y.npy"), gaussian(gamma)
    on_centres(kernel, X[:5000], y[:5000], ridge, 200)
    model, measures = measured_fit(kernel, X, y, ridge, count)
    with np.load(Path(folder) / "rest.npz") as rest:
        values = model.predict(rest["X"])
        return measures | {"values": values, "rmse": _rmse(values, rest["y"])}


def measured_fit(
    kernel: Any, X: Any, y: Any, ridge: float, count: int
) -> tuple[Any, dict[str, Any]]:
    """The model on centres; seconds, bytes by which the process grew at most, and the status."""
    (model, seconds), extra = measure.growth(lambda: on_centres(kernel, X, y, ridge, count))
    status = f"`{_typed(model)}.fit(X, y)`: {model.solution_.status}"
    return model, {"seconds": seconds, "extra": extra, "status": status}


# ---- through the estimator -----------------------------------------------------------------------


def household_centres(effort: Effort) -> Iterator[Row]:
    """`KernelRidge(1e-8 * n, kernel=Gaussian(2.0), centres=4000, random_state=0).fit(X, y)`."""
    path("tables", "household_power.npz")
    n, count = effort.size(1_844_333), effort.size(4000)
    fit = measure.in_a_process(household_fit, n, count)
    work = f"household power, {n:,} × 11, M = {count:,}, λ = 1e-8, float32, KernelRidge"
    note = (
        f"RMSE {fit['rmse']:.4f} of all test rows; {fit['status']}; foreseen: {fit['foreseen']}; "
        "KernelRidge(1e-8 * n, kernel=Gaussian(2.0), centres=4000, random_state=0).fit(X, y)"
    )
    yield measure.taken(f"{work}: fit", fit["seconds"], floor=120.0, goal=60.0, note=note)
    yield measure.memory(f"{work}: memory beyond the data", fit["extra"], 500.0)


def household_fit(n: int, count: int) -> dict[str, Any]:
    """One fit in a process of its own: seconds, memory, RMSE of the test rows."""
    X, y, new, truth = household_split()
    X, y, new = X[:n].astype(np.float32), y[:n], new.astype(np.float32)
    kernel = Gaussian(2.0)
    KernelRidge(1e-4, kernel=kernel, centres=100, random_state=0).fit(X[:5000], y[:5000])
    model = KernelRidge(1e-8 * n, kernel=kernel, centres=count, random_state=0)
    (_, seconds), extra = measure.growth(lambda: measure.timed(lambda: model.fit(X, y)))
    chosen: Any = model.choice_
    return {
        "seconds": seconds,
        "extra": extra,
        "rmse": _rmse(model.predict(new), truth),
        "status": str(model.solution_.status),
        "foreseen": chosen.explain().splitlines()[-2].strip(),
    }


def ridge_path(effort: Effort) -> Iterator[Row]:
    """Seven λ judged on held-out rows and the fit for the best, against one fit."""
    X, y, new, truth = household_split()
    n, count = effort.size(100_000), effort.size(1000)
    chosen = np.random.default_rng(0).permutation(len(X))[:n]
    X, y = X[chosen].astype(np.float32), y[chosen]
    same: Any = {"kernel": Gaussian(2.0), "centres": count, "random_state": 0}
    alphas = n * np.logspace(-10, -4, 7)
    one = KernelRidge(1e-8 * n, **same)
    search: Any = KernelRidgeCV(alphas, lengthscales=None, validation_fraction=0.1, **same)
    works = {"one": lambda: one.fit(X, y), "search": lambda: search.fit(X, y)}
    times = measure.interleaved(works, effort.repeats(3))
    alone, whole = times["one"], times["search"]
    errors = ", ".join(f"{error**0.5:.4f}" for error in search.cv_errors_[0])
    yield measure.over(
        f"household power, {n:,} rows, M = {count:,}: seven λ and the best one's fit, over one fit",
        whole,
        alone,
        "KernelRidge.fit",
        floor=3.0,
        goal=2.0,
        note=f"held-out RMSE for λ = 1e-10, …, 1e-4: {errors}; of test rows "
        f"{_rmse(search.predict(new.astype(np.float32)), truth):.4f}, with λ = 1e-8 "
        f"{_rmse(one.predict(new.astype(np.float32)), truth):.4f}",
    )


# ---- the whole matrix ----------------------------------------------------------------------------


def kin40k() -> tuple[np.ndarray, np.ndarray]:
    X, y = table("uci_kin40k")
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def their_ridge(X: Any, y: Any, gamma: float, alpha: float) -> tuple[Any, float]:
    """The coefficients of scikit-learn's KernelRidge, and seconds."""
    from sklearn.kernel_ridge import KernelRidge as Theirs

    Theirs(alpha=alpha, kernel="rbf", gamma=gamma).fit(X[:500], y[:500])
    model, seconds = measure.timed(lambda: Theirs(alpha=alpha, kernel="rbf", gamma=gamma).fit(X, y))
    return model.dual_coef_, seconds


def without_wide_vectors(work: Callable[..., Any], *arguments: Any) -> Any:
    """In a process of its own, where OpenBLAS takes the processor for one with 256-bit vectors.

    With 512 bits and several threads its factorisation of 16,000 rows ends in a segmentation fault.
    """
    os.environ["OPENBLAS_CORETYPE"] = "Haswell"
    try:
        return measure.in_a_process(work, *arguments)
    finally:
        del os.environ["OPENBLAS_CORETYPE"]


def whole_matrix(effort: Effort) -> Iterator[Row]:
    X, y = kin40k()
    gamma, alpha, n = 0.1, 1e-2, effort.size(20_000)
    new, kernel = X[36_000:], gaussian(gamma)
    KernelRidge(alpha, kernel=kernel, solver=ConjugateGradient()).fit(X[:2500], y[:2500])
    model = KernelRidge(alpha, kernel=kernel)
    _, ours = measure.timed(lambda: model.fit(X[:n], y[:n]))
    theirs, peer = without_wide_vectors(their_ridge, X[:n], y[:n], gamma, alpha)
    yield measure.faster(
        f"ridge on {n:,} rows of kin40k, γ = {gamma}, α = {alpha}, float64, solver='auto'",
        {"mercer": ours, "KernelRidge": peer},
        "KernelRidge",
        floor=3.0,
        error=measure.relative_error(model.predict(new), kernel.function(X[:n], theirs)(new)),
        note=(
            "scikit-learn runs with OPENBLAS_CORETYPE=Haswell, since without it its fit ends in a "
            "segmentation fault of OpenBLAS at this size; predictions are compared; "
            f"{model.explain()}"
        ).replace("\n", "; "),
    )
    K = kernel.gram(X[:n]).dense()
    K.flat[:: n + 1] += alpha
    _, factored = measure.timed(lambda: cholesky(K, overwrite=True))
    yield measure.faster(
        "the same, against a float64 Cholesky factorisation in panels alone",
        {"mercer": ours, "mercer.linalg.cholesky": factored},
        "mercer.linalg.cholesky",
    )


ALPHAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
COUNTS = (1000, 2000, 4000, 8000)


@dataclass(frozen=True)
class Tuned:
    """An α chosen on held-out training rows, and what the fit on all training rows then does."""

    alpha: float
    rmse: float
    seconds: float
    solution: Any

    def __str__(self) -> str:
        return f"{self.rmse:.4f} (α = {self.alpha:.0e})"


def exact_or_centres(effort: Effort) -> Iterator[Row]:
    X, y = kin40k()
    gamma, alpha, n = 0.1, 1e-2, effort.size(36_000)
    new, truth, kernel = X[36_000:], y[36_000:], gaussian(gamma)
    kept = n * 8 // 9

    def fitted(value: float, rows: int, **given: Any) -> tuple[Any, float]:
        model = KernelRidge(value, kernel=kernel, **given)
        return measure.timed(lambda: model.fit(X[:rows], y[:rows]))

    def tuned(value: float, **given: Any) -> Tuned:
        model, seconds = fitted(value, n, **given)
        return Tuned(value, _rmse(model.predict(new), truth), seconds, model.solution_)

    def best(**given: Any) -> float:
        """The last α, from the largest on, that lowered the error of held-out rows."""
        found, least = ALPHAS[0], np.inf
        for value in ALPHAS:
            model, _ = fitted(value, kept, **given)
            error = _rmse(model.predict(X[kept:n]), y[kept:n])
            if error >= least:
                break
            found, least = value, error
        return float(found)

    def on_some(count: int) -> Tuned:
        centres = Uniform(count, 0)
        return tuned(best(centres=centres), centres=centres)

    first = tuned(alpha)
    yield measure.smaller(
        f"whole ridge on {n:,} rows of kin40k, γ = {gamma}, α = {alpha}: true relative residual",
        first.solution.gap,
        ours_ms=1e3 * first.seconds,
        floor=1e-6,
        note=f"RMSE {first.rmse:.4f} of {len(truth):,} rows that no fit saw; "
        f"{first.solution.status}",
    )
    chosen, search = measure.timed(best)
    exact = tuned(chosen)
    found = {count: on_some(count) for count in map(effort.size, COUNTS)}
    listed = ", ".join(f"{count:,}: {one}" for count, one in found.items())
    yield measure.smaller(
        "the same with α chosen: RMSE over the best on 1,000 … 8,000 centres with α chosen",
        exact.rmse / min(one.rmse for one in found.values()),
        "×",
        ours_ms=1e3 * exact.seconds,
        floor=1.0,
        error=exact.solution.gap,
        note=f"γ = {gamma} for all; each α is chosen from 10⁻¹, 10⁻², … 10⁻⁶ by fits on {kept:,} "
        f"of the training rows and their error on the other {n - kept:,}, down to the first rise, "
        f"and then fitted on all {n:,}; RMSE of {len(truth):,} rows no fit saw: whole {exact}, "
        f"on uniform centres {listed}; the search on the whole matrix took {search:.0f} s; the "
        "time is that of the fit at the chosen α, the error its true relative residual; "
        f"{exact.solution.status}",
    )


def _rmse(values: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((values - truth) ** 2)))


# ---- several classes -----------------------------------------------------------------------------


def digits(effort: Effort) -> Iterator[Row]:
    X, y, new, truth = mnist(effort.size(60_000))
    X, new, count = X.astype(np.float32), new.astype(np.float32), effort.size(4000)
    kernel = Gaussian(5.0)
    model = KernelClassifier(
        "log_loss", 1e-7, kernel=kernel, centres=Uniform(count, 0), fit_intercept=False
    )
    _, seconds = measure.timed(lambda: model.fit(X, y))
    error = 100 * float(np.mean(model.predict(new) != truth))
    yield measure.smaller(
        f"multinomial logistic on MNIST, {len(X):,} rows, M = {count:,}: error",
        error,
        " %",
        ours_ms=1e3 * seconds,
        floor=1.8,
        note=f"`{_typed(model)}.fit(X, y)` in {seconds:.0f} s; {model.solution_.status}",
    )


# ---- the automatic choice ------------------------------------------------------------------------

CELLS = tuple(
    (n, d, m)
    for n, m in (
        (2_500, None),
        (5_000, None),
        (9_000, None),
        (50_000, 500),
        (100_000, 1000),
        (200_000, 500),
    )
    for d in (3, 20)
)


def automatic(effort: Effort) -> Iterator[Row]:
    forecasts = measure.Forecasts()
    for n, d, count in CELLS:
        n = effort.size(n)
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d))
        y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)
        kernel = Gaussian((d / 2) ** 0.5)
        points = kernel.points(X)
        KernelRidge(1.0, kernel=kernel, centres=50).fit(X[:500], y[:500])
        chosen = choose(kernel, points, centres=count, ridge=1e-6 * n).chosen
        found = {
            name: min(_seconds_of(name, kernel, X, y, count) for _ in range(3))
            for name in (["Newton"] if count else ["Direct", "ConjugateGradient"])
        }
        forecasts.add(f"{n:,}, {d}, {count or 'all'}", chosen, found)
    yield from forecasts.rows()


def _seconds_of(name: str, kernel: Any, X: Any, y: Any, count: int | None) -> float:
    if name == "Newton":
        return on_centres(kernel, X, y, 1e-6, count or 1)[1]
    solver: Any = Direct() if name == "Direct" else ConjugateGradient()
    return measure.timed(
        lambda: KernelRidge(1e-6 * len(X), kernel=kernel, solver=solver).fit(X, y)
    )[1]


GROUPS: Groups = {
    "sphere32": land_or_sea_in_float32,
    "sphere64": land_or_sea_in_float64,
    "million": million,
    "disk": outside_memory,
    "household": household_centres,
    "path": ridge_path,
    "whole": whole_matrix,
    "exact": exact_or_centres,
    "classes": digits,
    "automatic": automatic,
}


run = partial(measure.measured, "Scale", GROUPS)
