"""Operations on blocks of rows, collected and evaluated together on a worker.

An array of rows that was not asked for yet is a tree of operations over blocks that are there. The
tree is sent to the workers as a list of steps, and one task evaluates all of them for a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np


class Slot(NamedTuple):
    """The place of a block of rows among those that a task is given."""

    place: int


class Result(NamedTuple):
    """The place of a result among those that were computed so far."""

    place: int


@dataclass(frozen=True)
class Step:
    """One call of a function; arguments are values, slots, results, and lists of these."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]


@dataclass(frozen=True)
class Blockwise:
    """Steps for a block; the last one is its value, or that of a slot where there are none."""

    steps: tuple[Step, ...]

    def __call__(self, blocks: Sequence[np.ndarray]) -> Any:
        results: list[Any] = []

        def value(part: Any) -> Any:
            if isinstance(part, Slot):
                return blocks[part.place]
            if isinstance(part, Result):
                return results[part.place]
            if isinstance(part, (list, tuple)):
                return type(part)(value(one) for one in part)
            return part

        if not self.steps:
            return blocks[0]
        with np.errstate(all="ignore"):
            for step in self.steps:
                options = {name: value(option) for name, option in step.options.items()}
                results.append(step.function(*value(step.arguments), **options))
        return results[-1]


# ---- row maps, whose rows are elsewhere ----------------------------------------------------------


def with_fields(thing: Any, change: Callable[[Any], Any]) -> Any:
    """A dataclass, as a row map is, with its fields changed at any depth; else what is changed."""
    if not is_dataclass(thing) or isinstance(thing, type):
        return change(thing)
    parts = {part.name: getattr(thing, part.name) for part in fields(thing) if part.init}
    changed = {name: with_fields(part, change) for name, part in parts.items()}
    if all(changed[name] is part for name, part in parts.items()):
        return thing
    return replace(thing, **changed)


def without_rows(thing: Any, has_rows: Callable[[Any], bool]) -> tuple[Any, list[Any]]:
    """A dataclass with slots in place of its arrays of rows, and these arrays."""
    arrays: list[Any] = []

    def taken_out(part: Any) -> Any:
        if not has_rows(part):
            return part
        arrays.append(part)
        return Slot(len(arrays) - 1)

    return with_fields(thing, taken_out), arrays


def with_rows(thing: Any, blocks: Sequence[Any]) -> Any:
    """The same dataclass on a worker, with the rows of a block in its slots."""
    return with_fields(thing, lambda part: blocks[part.place] if isinstance(part, Slot) else part)
