"""Functions for losses that neither overflow nor lose digits, and roots inside a bracket."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mercer.arrays import Array, floating, namespace

HALVINGS = 120  # of a bracket, at most; Newton's steps make it fewer than ten where smooth
OMEGA_STEPS = 6  # of Newton's method from the bound below, for all 53 digits


def aligned(y: Array, f: Array) -> tuple[Array, Array]:
    """Both in one shape, and in the library and precision of f.

    >>> y, f = aligned([1, -1], [0.5, 2.0])
    >>> (y * f).tolist()
    [0.5, -2.0]
    """
    f = floating(f)
    xp, y = namespace(f), like(y, f)
    if y.ndim != f.ndim and y.ndim and f.ndim:
        raise ValueError(
            f"targets and predictions must have one shape; got {tuple(y.shape)} and "
            f"{tuple(f.shape)}, which would be paired all with all. Write y[:, None] or f[:, 0]."
        )
    return (y, f) if y.shape == f.shape else tuple(xp.broadcast_arrays(y, f))


def like(values: Array, f: Array) -> Array:
    """Values as an array of the library, precision and device of f."""
    if isinstance(values, (bool, int, float, list, tuple)):
        return namespace(f).asarray(values, dtype=f.dtype, device=f.device)
    xp = namespace(f, values)
    return values if values.dtype == f.dtype else xp.astype(values, f.dtype, copy=False)


def exponential(x: Array) -> Array:
    """e^x, and +∞ without a warning where that is too large to be written.

    >>> exponential([-1e4, 0.0, 1e4]).tolist()
    [0.0, 1.0, inf]
    """
    x = floating(x)
    xp = namespace(x)
    kind = xp.finfo(x.dtype)
    limit = math.log(float(kind.max)) * (1.0 - float(kind.eps))
    return xp.where(x > limit, math.inf, xp.exp(xp.clip(x, max=limit)))


def sigmoid(x: Array) -> Array:
    """1/(1 + e^{−x}), with all digits on both sides."""
    xp = namespace(x)
    small = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1.0, small) / (1.0 + small)


def softplus(x: Array) -> Array:
    """log(1 + e^x)."""
    xp = namespace(x)
    return xp.logaddexp(x, xp.zeros_like(x))


def negative_entropy(p: Array) -> Array:
    """p log p for p ≥ 0, which is 0 at 0."""
    xp = namespace(p)
    return p * xp.log(xp.where(p > 0, p, 1.0))


def log_omega(t: Array) -> Array:
    """The root v of v + e^v = t: the logarithm of Wright's ω(t), which is Lambert's W(e^t).

    Newton's method from the right, where v ≤ min(t, log max(t, 1)): it falls to the root.
    """
    xp = namespace(t)
    v = xp.minimum(t, xp.log(xp.clip(t, min=1.0)))
    for _ in range(OMEGA_STEPS):
        w = xp.exp(v)
        v = v - (v - t + w) / (1.0 + w)
    return v


def exponential_root(a: Array, step: Array, level: Array) -> Array:
    """The root z of z + step·e^{z − level} = a, which is a − ω(a − level + log step).

    One step of Newton's method in z gives back the digits that a difference of logarithms loses.
    """
    xp = namespace(a)
    offset = xp.log(step) - level
    z = log_omega(a + offset) - offset
    w = step * xp.exp(z - level)
    return z - (z - a + w) / (1.0 + w)


def increasing_root(
    function: Callable[[Array], tuple[Array, Array]], low: Array, high: Array
) -> Array:
    """The root of increasing functions, entry by entry: Newton's method inside a bracket.

    `function` gives value and derivative, and the value 0 where there is only rounding left.
    Steps end at the bracket, and one that is more than half as long as the one before is replaced
    by the middle of the bracket; so jumps and bad starts cost halvings, and nothing diverges. A
    jump across 0 is a root.
    """
    xp = namespace(low)
    eps, huge = float(xp.finfo(low.dtype).eps), float(xp.finfo(low.dtype).max)
    z, last = low + 0.5 * (high - low), 2 * (high - low)  # the first step may go anywhere
    for _ in range(HALVINGS):
        value, derivative = function(z)
        low, high = xp.where(value <= 0, z, low), xp.where(value >= 0, z, high)
        newton = xp.clip(z - value / xp.clip(derivative, max=huge), low, high)
        shrinks = 2 * xp.abs(newton - z) <= last
        following = xp.where(shrinks, newton, low + 0.5 * (high - low))
        z, last = following, xp.abs(following - z)
        if xp.all(last <= 2 * eps * xp.abs(z)):
            break
    return z


def beyond_noise(values: Array, noise: Array) -> Array:
    """Values, with 0 for those that are only noise."""
    xp = namespace(values)
    return xp.where(xp.abs(values) <= noise, 0.0, values)


def implicit_step(
    slope: Callable[[Array], Array], curvature: Callable[[Array], Array], f: Array, step: Array
) -> Array:
    """The root z of z − f + step·slope(z), for an increasing slope: the proximal map at f.

    As the slope increases, the root lies between f and f − step·slope(f).
    """
    xp = namespace(f)
    eps, explicit = float(xp.finfo(f.dtype).eps), f - step * slope(f)

    def function(z: Array) -> tuple[Array, Array]:
        value, noise = z - f + step * slope(z), 4 * eps * (xp.abs(z) + xp.abs(f))
        return beyond_noise(value, noise), 1.0 + step * curvature(z)

    with np.errstate(over="ignore"):  # an infinite slope tells on which side the root is
        return increasing_root(function, xp.minimum(f, explicit), xp.maximum(f, explicit))
