"""Which worker has which block of rows, tasks that run there, and sums in a fixed order."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

Tasks: TypeAlias = dict[str, tuple[str | None, tuple[Any, ...]]]
"""A function and its arguments by the name of the task, and the worker that it is bound to."""

SECONDS_BETWEEN_LOOKS = 2.0  # until then tasks for a lost worker are given to another by its plugin
_NUMBERS = itertools.count()


class Placement:
    """Blocks of rows on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
    lengths : sequence of int
        How many rows each block has.
    groups : sequence of sequences of int
        The blocks of each worker, in order of the first one. A group stays together: where its
        worker is lost, another takes all of it, and sums are added in the same order.
    workers : sequence of str
        The address of the worker of each group.
    """

    def __init__(
        self,
        client: Any,
        lengths: Sequence[int],
        groups: Sequence[Sequence[int]],
        workers: Sequence[str],
    ) -> None:
        self.client, self.lengths = client, tuple(map(int, lengths))
        self.groups, self.workers = tuple(tuple(group) for group in groups), list(workers)
        self.seen = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        """The connection to a cluster is not stored."""
        forgotten: dict[str, Any] = {"client": None, "workers": [], "seen": 0.0}
        return {"lengths": self.lengths, "groups": self.groups} | forgotten

    @cached_property
    def starts(self) -> np.ndarray:
        """The number of the first row of each block, and last how many rows there are."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    @property
    def rows(self) -> int:
        return int(self.starts[-1])

    def with_lengths(self, lengths: Sequence[int]) -> Placement:
        """The same workers for blocks of other lengths, as of some of the rows."""
        return Placement(self.client, lengths, self.groups, self.workers)

    # ---- tasks -----------------------------------------------------------------------------------

    def each_block(self, name: str, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """A task for each block, where the block is: futures in the order of blocks.

        An argument is a list with an entry for each block, or one `Broadcast` for all.
        """
        key = token(name)
        keys = [f"{key}-{i}" for i in range(len(self.lengths))]
        return self._begun([self._of_blocks(keys, function, arguments)], keys)

    def each_group(self, name: str, function: Callable[..., Any], arguments: Any) -> list[Any]:
        """A task for each worker, on a list of what belongs to its blocks."""
        tasks = self._of_groups(token(name), function, arguments)
        return self._begun([tasks], list(tasks))

    def summed(
        self, name: str, function: Callable[..., Any], add: Callable[..., Any], *arguments: Any
    ) -> tuple[list[Any], Any]:
        """A task for each block, and the total of what they give: futures of blocks, the total.

        Sums are those of the blocks of each worker, in order, which are then added two by two, in
        order of their first blocks, until one is left. Only what is added is sent: once from each
        worker but one, and once to the client. The scheduler gets one message for all of it.
        """
        key, vector = token(name), token("vector")
        keys = [f"{key}-{i}" for i in range(len(self.lengths))]
        sent: Tasks = {
            f"{vector}-{place}": (None, (_itself, part.value))
            for place, part in enumerate(arguments)
            if isinstance(part, Broadcast)
        }
        arguments = tuple(
            Broadcast(f"{vector}-{place}") if isinstance(part, Broadcast) else part
            for place, part in enumerate(arguments)
        )
        blocks = self._of_blocks(keys, function, arguments)
        sums = self._of_groups(token(f"{name}-sum"), add, keys)
        stages, total = _tree(name, list(sums), add)
        *futures, total = self._begun([sent, blocks, sums, *stages], [*keys, total])
        return futures, self.fetched(total)

    def _of_blocks(
        self, keys: list[str], function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> Tasks:
        return {
            keys[i]: (
                worker,
                (function, *(p.value if isinstance(p, Broadcast) else p[i] for p in arguments)),
            )
            for group, worker in zip(self.groups, self.workers, strict=True)
            for i in group
        }

    def _of_groups(self, key: str, function: Callable[..., Any], arguments: Any) -> Tasks:
        return {
            f"{key}-{g}": (worker, (function, [arguments[i] for i in group]))
            for g, (group, worker) in enumerate(zip(self.groups, self.workers, strict=True))
            if group
        }

    def _begun(self, stages: list[Tasks], wanted: list[str]) -> list[Any]:
        """Futures of tasks that are bound to workers, or to none: one message for all of them.

        A message for each worker would wait ten milliseconds for the one before.
        """
        from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

        layers: dict[str, Any] = {}
        needed: dict[str, set[str]] = {}
        before: set[str] = set()
        for place, tasks in enumerate(stages):
            by_worker: dict[Any, dict[str, Any]] = {}
            for key, (worker, task) in tasks.items():
                by_worker.setdefault(worker, {})[key] = task
            names = {worker: f"{place}-{worker}" for worker in by_worker}
            for worker, part in by_worker.items():
                bound = {} if worker is None else {"workers": [worker]}
                layers[names[worker]] = MaterializedLayer(part, annotations=bound)
                needed[names[worker]] = set(before)
            before |= set(names.values())
        with connected():
            graph = HighLevelGraph(layers, needed)
            return list(self.client.get(graph, wanted, sync=False))

    def total(self, name: str, parts: Sequence[Any], add: Callable[[list[Any]], Any]) -> Any:
        """Results of groups, joined two by two in order, until one is left, which comes here."""
        stages, total = _tree(name, list(parts), add)
        return self.fetched(self._begun(stages, [total])[0] if stages else total)

    def shared(self, name: str, value: Any) -> Broadcast:
        """A value for all tasks: sent to one worker, from which the others have it.

        It is the result of a task, not scattered, so that it comes again where a worker is lost.
        """
        return Broadcast(self.client.submit(_itself, value, key=token(name), pure=False))

    def refresh(self) -> None:
        """See from time to time which workers have the rows; those of a lost one have another."""
        from mercer.distributed.failover import present_workers

        if time.monotonic() < self.seen + SECONDS_BETWEEN_LOOKS:
            return
        self.seen = time.monotonic()
        with connected():
            self.workers = self.client.run_on_scheduler(present_workers, list(self.workers))

    def fetched(self, futures: Any) -> Any:
        """The results of futures, brought to this process."""
        with connected():
            return self.client.gather(futures)


class Broadcast:
    """An argument that is the same for all blocks."""

    def __init__(self, value: Any) -> None:
        self.value = value


@contextmanager
def connected() -> Iterator[None]:
    """Say what to do where the scheduler is lost."""
    try:
        yield
    except (CancelledError, OSError) as lost:
        raise ConnectionError(
            "the connection to the scheduler of the cluster was lost, and with it what the workers "
            "had. Start it again, and call fit again: with checkpoint='fit.ckpt' it goes on "
            "from the last step that was stored."
        ) from lost


def _tree(name: str, parts: list[Any], add: Callable[..., Any]) -> tuple[list[Tasks], Any]:
    """Tasks that join results two by two, in order, in stages; and the name of the last result."""
    stages: list[Tasks] = []
    while len(parts) > 1:
        key, pairs = token(f"{name}-sum"), [parts[i : i + 2] for i in range(0, len(parts), 2)]
        names = [pair[0] if len(pair) == 1 else f"{key}-{i}" for i, pair in enumerate(pairs)]
        joined = zip(names, pairs, strict=True)
        stages.append({one: (None, (add, pair)) for one, pair in joined if len(pair) > 1})
        parts = names
    return stages, parts[0]


def token(name: str) -> str:
    """A name for a task that nothing else has; what stands before the numbers is shown.

    Dask shows the words before the first that has other signs than letters. It takes words of eight
    letters, the first of them a to f, for numbers, unless that one is large.
    """
    words = name.replace("_", "-").split("-")
    shown = (word.capitalize() if len(word) == 8 and word[0] < "g" else word for word in words)
    return f"mercer-{'-'.join(shown)}-{uuid.uuid4().hex[:8]}{next(_NUMBERS)}"


def _itself(value: Any) -> Any:
    return value
