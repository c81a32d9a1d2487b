"""Arrays of any library: which one they come from, so that one code serves them all."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""An array of NumPy, torch, or any library that follows the array-API standard."""


def namespace(*arrays: Array) -> Any:
    """The array-API namespace that all of `arrays` share.

    Numerics written as ``xp = namespace(x)`` and ``xp.sum(x)`` run unchanged on NumPy arrays, torch
    tensors, and every library of the array-API standard (https://data-apis.org/array-api).

    Examples
    --------
    >>> import numpy
    >>> namespace(numpy.ones(3), numpy.zeros((2, 2))) is numpy
    True
    """
    if not arrays:
        raise TypeError("namespace() expects at least one array and got none: write namespace(x).")
    first, *others = (_namespace_of(array) for array in arrays)
    for other in others:
        if other is not first:
            raise ValueError(
                f"Expected arrays of one library, got {_name(first)} and {_name(other)}: convert "
                f"one side first, for example with {_name(first)}.asarray(...)."
            )
    return first


def _namespace_of(array: Array) -> Any:
    if isinstance(array, np.ndarray):
        return np
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


def like(values: Array, reference: Array, dtype: Any = None) -> Array:
    """Values as an array of the library and on the device of a reference, in a named type.

    >>> import numpy
    >>> like([1, 2], numpy.zeros(3), "float32").dtype
    dtype('float32')
    """
    xp = namespace(reference)
    kind = None if dtype is None else getattr(xp, str(dtype))
    if xp is np:
        return np.asarray(to_numpy(values), dtype=kind)
    return xp.asarray(values, dtype=kind, device=reference.device)


def to_numpy(values: Array) -> np.ndarray:
    """Values as a NumPy array; tensors are copied from their device where they have one."""
    return values.detach().cpu().numpy() if is_tensor(values) else np.asarray(values)


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
