"""Arrays of any library: which one they come from, so that one code serves them all."""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""An array of NumPy, torch, or any library that follows the array-API standard."""


def namespace(*arrays: Array) -> Any:
    """The array-API namespace that all of `arrays` share.

    Numerics written as ``xp = namespace(x)`` and ``xp.sum(x)`` run unchanged on NumPy arrays, torch
    tensors, and every library of the array-API standard (https://data-apis.org/array-api). A
    library that computes with NumPy's arrays beside its own, as rows on a cluster do, says so by
    `takes_numpy`, and is the one that both share.

    Examples
    --------
    >>> import numpy
    >>> namespace(numpy.ones(3), numpy.zeros((2, 2))) is numpy
    True
    """
    if not arrays:
        raise TypeError("namespace() expects at least one array and got none: write namespace(x).")
    first: Any = None
    for array in arrays:
        xp = np if isinstance(array, np.ndarray) else _namespace_of(array)
        if first is not None and xp is not first:
            if getattr(first, "takes_numpy", False) and xp is np:
                continue
            if getattr(xp, "takes_numpy", False) and first is np:
                first = xp
                continue
            raise ValueError(
                f"Expected arrays of one library, got {_name(first)} and {_name(xp)}: convert "
                f"one side first, for example with {_name(first)}.asarray(...)."
            )
        first = xp
    return first


def _namespace_of(array: Array) -> Any:
    if is_tensor(array):
        return _torch_namespace()
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    raise TypeError(
        f"Expected an array of NumPy, torch or an array-API library, got "
        f"{type(array).__module__}.{type(array).__qualname__}: write numpy.asarray(...) around it."
    )


def is_tensor(array: Array) -> bool:
    """Whether `array` is a torch tensor; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _torch_namespace() -> ModuleType:
    try:
        import array_api_compat.torch
    except ImportError as missing:
        raise ImportError(
            "torch tensors need the package array-api-compat, which is not installed: "
            'pip install "mercer[gpu]".'
        ) from missing
    return array_api_compat.torch


def _name(xp: Any) -> str:
    return xp.__name__.removeprefix("array_api_compat.")


def as_numpy(array: Array) -> np.ndarray:
    """An array of any library as NumPy's, without a copy where the memory can be shared."""
    if is_tensor(array):
        return array.detach().cpu().numpy()
    if isinstance(array, np.ndarray) or not hasattr(array, "__dlpack__"):
        return np.asarray(array)
    return np.from_dlpack(array)


def beside(values: Array, like: Array) -> Array:
    """Values of any library as an array of the library of `like`, on its device.

    >>> import numpy
    >>> beside([1.0, 2.0], numpy.zeros(3)).tolist()
    [1.0, 2.0]
    """
    xp = namespace(like)
    if xp is np:
        return values if isinstance(values, np.ndarray) else as_numpy(values)
    if getattr(xp, "takes_numpy", False):  # what is not a row for each of them stays here
        return values if hasattr(values, "__array_namespace__") else as_numpy(values)
    if is_tensor(values):
        return values.to(like.device)
    if hasattr(values, "__array_namespace__") and not isinstance(values, np.ndarray):
        return values
    return xp.asarray(np.array(values), device=like.device)


def likeness(array: Array) -> tuple[Any, ...]:
    """Library, device and precision: equal for arrays that can be computed with together."""
    return namespace(array), array.dtype, str(array.device)


def zeros(shape: Any, like: Array, dtype: Any = None) -> Array:
    """Zeros beside another array, in its precision or the one that is named."""
    xp = namespace(like)
    kind = like.dtype if dtype is None else getattr(xp, dtype)
    return xp.zeros(shape, dtype=kind, device=like.device)


def identity(size: int, like: Array) -> Array:
    """The identity matrix beside another array, in its precision."""
    return namespace(like).eye(size, dtype=like.dtype, device=like.device)


def uniform(seed: int, like: Array, *, same: bool = False) -> Array:
    """Independent random numbers in [0, 1), one for each row of an array, beside its rows.

    With `same` those of a tensor are NumPy's, which takes longer on a card.

    >>> import numpy
    >>> uniform(0, numpy.ones(3)).shape
    (3,)
    """
    xp = namespace(like)
    if getattr(xp, "takes_numpy", False):
        return xp.uniform(seed, like)
    if is_tensor(like) and not same:
        generator = xp.Generator(like.device).manual_seed(seed)
        return xp.rand(like.shape[0], generator=generator, dtype=xp.float64, device=like.device)
    return beside(np.random.default_rng(seed).random(like.shape[0]), like)


def smallest(values: Array, count: int) -> np.ndarray:
    """The numbers of the rows with the least values, in order of these.

    >>> import numpy
    >>> smallest(numpy.array([3.0, 1.0, 2.0]), 2).tolist()
    [1, 2]
    """
    xp = namespace(values)
    if getattr(xp, "takes_numpy", False):
        return xp.smallest(values, count)
    return np.argsort(as_numpy(values), kind="stable")[:count]


def largest(values: Array, count: int) -> np.ndarray:
    """For each row of a matrix the numbers of the columns with the largest values, in order.

    >>> import numpy
    >>> largest(numpy.array([[3.0, 1.0, 2.0], [1.0, 2.0, 3.0]]), 2).tolist()
    [[0, 2], [2, 1]]
    """
    count = min(count, values.shape[1])
    if is_tensor(values):
        return as_numpy(values.topk(count, dim=1).indices)
    places = np.argpartition(values, -count, axis=1)[:, -count:]
    order = np.argsort(-np.take_along_axis(values, places, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)


def inner(a: Array, b: Array) -> float:
    """⟨a, b⟩, summed over all entries."""
    xp = namespace(a, b)
    return float(np.vdot(a, b) if xp is np else xp.sum(a * b))


def floating(values: Array) -> Array:
    """Values as an array of real numbers; float32 stays float32."""
    if isinstance(values, (bool, int, float, list, tuple)):
        values = np.asarray(values)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return values  # `isdtype` takes ten times as long, which small batches would feel
    xp = namespace(values)
    real = xp.isdtype(values.dtype, "real floating")
    return values if real else xp.astype(values, xp.float64)


def to_precision(array: Array, dtype: Any) -> Array:
    """An array in float32 or float64, said as a dtype of any library."""
    xp = namespace(array)
    name = dtype if isinstance(dtype, str) else precision(dtype)
    return xp.astype(array, getattr(xp, name), copy=False)


@cache  # NumPy takes 8 µs to name a dtype, longer than most functions that ask
def precision(dtype: Any) -> str:
    """The name of a dtype of any library: "float32" or "float64"."""
    return np.dtype(dtype).name if isinstance(dtype, type) else str(dtype).rpartition(".")[2]


def on_device(values: Array, device: Any) -> Array:
    """Values as a tensor of torch on a device; as they are where the device is None."""
    if device is None or values is None:
        return values
    try:
        import torch
    except ImportError as missing:
        raise ImportError(
            f"device={device!r} needs torch, which is not installed: pip install "
            '"mercer[gpu]", or write device=None to compute on the CPU.'
        ) from missing
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r} needs a GPU that torch can use, and torch sees none "
            "(torch.cuda.is_available() is False): write device=None to compute on the CPU."
        )
    return torch.as_tensor(values, device=device)


@cache
def cards() -> int:
    """How many GPUs torch can use, looked for once in a process; 0 without torch."""
    try:
        import torch
    except ImportError:
        return 0
    return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
