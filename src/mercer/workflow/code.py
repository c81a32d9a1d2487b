"""The public code that makes a model."""

from __future__ import annotations

from typing import Any

from mercer.kernels import Kernel
from mercer.kernels.base import parts

WIDTH = 96


def code_of(model: Any, target: str) -> str:
    """Code that fits the same pipeline to `table`, without the search."""
    encoder, estimator = (step for _, step in model.steps)
    kernel = estimator.kernel
    named = sorted({type(part).__name__ for part in parts(kernel)})
    changed = _changed(encoder)
    lines = [
        "from sklearn.pipeline import make_pipeline",
        f"from mercer import {type(estimator).__name__}",
        f"from mercer.kernels import {', '.join(named)}",
        "from mercer.workflow import TableEncoder",
        "",
        f"kernel = {_kernel(kernel)}",
        "model = make_pipeline(",
        f"    TableEncoder({changed}),",
        f"    {type(estimator).__name__}({_changed(estimator)}),",
        ")",
        f"model.fit(table.drop(columns={target!r}), table[{target!r}])",
    ]
    return "\n".join(lines)


def _changed(estimator: Any) -> str:
    """The parameters that are not the default, as they are written."""
    own = estimator.get_params(deep=False)
    plain = type(estimator)().get_params(deep=False)
    shown = {name: value for name, value in own.items() if repr(value) != repr(plain[name])}
    return ", ".join(
        f"{name}=kernel" if isinstance(value, Kernel) else f"{name}={value!r}"
        for name, value in shown.items()
    )


def _kernel(kernel: Kernel) -> str:
    """The kernel, with a long list of lengthscales over several lines."""
    text = repr(kernel)
    if len(text) <= WIDTH:
        return text
    head, _, rest = text.partition("[")
    inner, _, tail = rest.rpartition("]")
    lines, line = [], ""
    for item in inner.split(", "):
        if len(line) + len(item) > WIDTH - 8:
            lines.append(line.rstrip())
            line = ""
        line += f"{item}, "
    lines.append(line.rstrip(", "))
    return f"{head}[\n    " + "\n    ".join(lines) + f"\n]{tail}"
