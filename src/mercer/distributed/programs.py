"""Operations on blocks of rows, collected and evaluated together on a worker.

An array of rows that was not asked for yet is a tree of operations over blocks that are there. The
tree travels to the workers as a list of steps, and one task evaluates all of them for a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Slot:
    """The place of a block of rows among those that a task is given."""

    index: int


@dataclass(frozen=True)
class Result:
    """The place of a result among those that a program has computed so far."""

    index: int


@dataclass(frozen=True)
class Step:
    """One call of a function; arguments are values, slots, results, and lists of these."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]


@dataclass(frozen=True)
class Program:
    """Steps for a block; the last one is its value, or that of a slot where there are none."""

    steps: tuple[Step, ...]

    def __call__(self, blocks: Sequence[np.ndarray]) -> Any:
        results: list[Any] = []

        def value(part: Any) -> Any:
            if isinstance(part, Slot):
                return blocks[part.index]
            if isinstance(part, Result):
                return results[part.index]
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


def taken_out(thing: Any, is_row_array: Callable[[Any], bool], found: list[Any]) -> Any:
    """A dataclass with slots in place of its arrays of rows, which are added to `found`.

    A row map is such a dataclass: the slots are filled on the worker, with the rows of a block.
    """
    if is_row_array(thing):
        found.append(thing)
        return Slot(len(found) - 1)
    if is_dataclass(thing) and not isinstance(thing, type):
        parts = {part.name: getattr(thing, part.name) for part in fields(thing) if part.init}
        changed = {name: taken_out(part, is_row_array, found) for name, part in parts.items()}
        if any(changed[name] is not part for name, part in parts.items()):
            return replace(thing, **changed)
    return thing


def filled_in(thing: Any, blocks: Sequence[Any]) -> Any:
    """A dataclass with the blocks of a task in its slots."""
    if isinstance(thing, Slot):
        return blocks[thing.index]
    if is_dataclass(thing) and not isinstance(thing, type):
        parts = {part.name: getattr(thing, part.name) for part in fields(thing) if part.init}
        changed = {name: filled_in(part, blocks) for name, part in parts.items()}
        if any(changed[name] is not part for name, part in parts.items()):
            return replace(thing, **changed)
    return thing
