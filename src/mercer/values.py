"""Objects that are values: frozen dataclasses which can be read, compared and changed by copy.

Kernels and losses share this: scikit-learn reads their fields through `get_params`, users change
them with `with_`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Self


class Value:
    """`get_params` and `with_` for a frozen dataclass whose fields may be values themselves."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The fields by name; with `deep` also those of inner values, as in left__lengthscale."""
        params = {name: getattr(self, name) for name in _names(self)}
        if deep:
            for name, value in list(params.items()):
                if isinstance(value, Value):
                    params |= {f"{name}__{key}": v for key, v in value.get_params().items()}
        return params

    def with_(self, **changes: Any) -> Self:
        """A copy with other fields; inner values are reached as in left__lengthscale=2.0.

        >>> from mercer.kernels import Gaussian
        >>> (Gaussian(1.0) + Gaussian(2.0)).with_(right__lengthscale=3.0)
        Gaussian(lengthscale=1.0) + Gaussian(lengthscale=3.0)
        """
        direct: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        for name, value in changes.items():
            first, _, rest = name.partition("__")
            if first not in _names(self):
                raise ValueError(
                    f"{type(self).__name__} has no parameter {first!r}; it has {_names(self)}."
                )
            if rest:
                nested.setdefault(first, {})[rest] = value
            else:
                direct[first] = value
        for name, inner in nested.items():
            part = direct.get(name, getattr(self, name))
            if not isinstance(part, Value):
                raise ValueError(
                    f"{name} of {type(self).__name__} has no parameters of its own; got "
                    f"{name}__{next(iter(inner))}."
                )
            direct[name] = part.with_(**inner)
        return dataclasses.replace(self, **direct)  # type: ignore[type-var]


def _names(value: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(value)]
