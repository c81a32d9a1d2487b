"""Points in the memory of the host, or on disk, that a device computes with, a block at a time.

Imported only where torch is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
import torch

from mercer.points.kinds import DensePoints, View
from mercer.points.tensors import TensorPoints
from mercer.runtime.budget import memory_budget
from mercer.runtime.threads import Span, run, spans, thread_count


@dataclass(frozen=True)
class Tuning:
    """Sizes of streams from the host to a device."""

    share: float = 0.25  # share of the free memory of a device that points may take: they are
    # packed there, too
    block_bytes: int = 128 << 20  # size of a block: it is copied in a few ms, while the last one is
    # computed with


TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class StreamedPoints(TensorPoints):
    """Rows of an array of NumPy. Numbers about them live on a device, they themselves do not.

    Those that are taken by their numbers are few, and become points on the device. Products go
    through all rows in blocks: see `mercer.evaluation.streamed`.
    """

    rows: np.ndarray
    names: tuple[str, ...] | None = None
    place: Any = "cpu"  # a device of torch
    in_blocks = True

    @property
    def device(self) -> Any:
        return torch.empty(0, device=self.place).device  # with its number

    def vector(self, values: Any) -> torch.Tensor:
        values = values if isinstance(values, torch.Tensor) else np.asarray(values)
        return torch.as_tensor(values, device=self.device)

    def slice(self, start: int, stop: int) -> Self:
        return replace(self, rows=self.rows[start:stop])

    def take(self, indices: Any) -> Any:
        if isinstance(indices, torch.Tensor):
            indices = indices.cpu().numpy()
        return TensorPoints(self.vector(self.rows[np.asarray(indices)]), self.names)

    def concatenated(self, other: Any) -> Any:
        return replace(self, rows=np.concatenate([self.rows, other.host().rows]))

    def host(self) -> DensePoints:  # type: ignore[override]
        return DensePoints(self.rows, self.names)

    def seen(self, view: View, dtype: Any, centre: Any = None) -> Any:
        """The rows in a view, on the device: for small blocks only."""
        return self.take(slice(None)).seen(view, dtype, centre)

    def spans(self) -> list[Span]:
        """Where blocks begin and end."""
        line = self.width * self.rows.dtype.itemsize
        return spans(len(self), max(1, TUNING.block_bytes // max(line, 1)))

    def blocks(self) -> Iterator[tuple[Any, TensorPoints]]:
        """The points on the device, a block at a time.

        On a GPU a block is read and copied while what was asked for with the last one is computed.
        """
        copied = self._copied if self.device.type == "cuda" else self._shared
        for start, stop, rows in copied():
            yield slice(start, stop), TensorPoints(rows, self.names)

    def _shared(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        for start, stop in self.spans():
            yield start, stop, torch.from_numpy(np.array(self.rows[start:stop], order="C"))

    def _copied(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Blocks on the GPU, one ahead: rows are read into pinned memory, copied and computed with.

        These three overlap, as the copies are a stream of their own, and a block is handed out
        when the copy of the next one was begun.
        """
        parts = self.spans()
        kind = torch.float32 if self.dtype == np.float32 else torch.float64
        longest = max((stop - start for start, stop in parts), default=0)
        buffers = [
            torch.empty((longest, self.width), dtype=kind, pin_memory=True)
            for _ in range(min(2, len(parts)))
        ]
        copying, copies = _copying(self.device), list[torch.cuda.Event]()
        computing = torch.cuda.current_stream(self.device)

        def copied(number: int, start: int, stop: int) -> tuple[int, int, torch.Tensor]:
            if number >= 2:
                copies[number - 2].synchronize()  # its buffer is written to again
            buffer = buffers[number % 2][: stop - start]
            _read(self.rows[start:stop], buffer.numpy())
            with torch.cuda.stream(copying):
                rows = buffer.to(self.device, non_blocking=True)
                copies.append(copying.record_event())
            rows.record_stream(computing)
            return start, stop, rows

        ahead = [copied(0, *parts[0])] if parts else []
        for number in range(len(parts)):
            if number + 1 < len(parts):
                ahead.append(copied(number + 1, *parts[number + 1]))
            computing.wait_event(copies[number])
            yield ahead.pop(0)


@cache
def _copying(device: Any) -> Any:
    """The stream of all copies to a device: memory of a stream is not free for others."""
    return torch.cuda.Stream(device)


def _read(rows: np.ndarray, out: np.ndarray) -> None:
    """Copy rows, in all threads: one reads memory slower than a GPU is sent it."""
    threads = thread_count()

    def copy(span: Span) -> None:
        out[slice(*span)] = rows[slice(*span)]

    run(copy, spans(len(rows), max(1, -(-len(rows) // threads))), threads)


def fits(rows: np.ndarray, device: Any) -> bool:
    """Whether an array is moved to a device as a whole, with memory left to compute.

    `MERCER_MEMORY` counts there, too.
    """
    room = TUNING.share * StreamedPoints(rows[:0], None, device).free_memory()
    if "MERCER_MEMORY" in os.environ:
        room = min(room, memory_budget())
    return rows.nbytes <= room
