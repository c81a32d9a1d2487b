"""Which worker has which block of rows, tasks that run there, and sums in a fixed order."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

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

    def __getstate__(self) -> dict[str, Any]:
        """The connection to a cluster is not stored."""
        return {"client": None, "lengths": self.lengths, "groups": self.groups, "workers": []}

    @cached_property
    def starts(self) -> np.ndarray:
        """The number of the first row of each block, and last how many rows there are."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    @property
    def rows(self) -> int:
        return int(self.starts[-1])

    @property
    def nonempty(self) -> int:
        """How many blocks there are."""
        return len(self.lengths)

    def with_lengths(self, lengths: Sequence[int]) -> Placement:
        """The same workers for blocks of other lengths, as of some of the rows."""
        return Placement(self.client, lengths, self.groups, self.workers)

    # ---- tasks -----------------------------------------------------------------------------------

    def each_block(self, name: str, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """A task for each block, where the block is: futures in the order of blocks.

        An argument is a list with an entry for each block, or one `Common` for all.
        """
        token, tasks = _token(name), {}
        for group, worker in zip(self.groups, self.workers, strict=True):
            for i in group:
                parts = [p.value if isinstance(p, Common) else p[i] for p in arguments]
                tasks[f"{token}-{i}"] = worker, (function, *parts)
        futures = dict(zip(tasks, self._begun(tasks), strict=True))
        return [futures[f"{token}-{i}"] for i in range(len(self.lengths))]

    def each_group(self, name: str, function: Callable[..., Any], arguments: Any) -> list[Any]:
        """A task for each worker, on a list of what belongs to its blocks."""
        token, tasks = _token(name), {}
        for g, (group, worker) in enumerate(zip(self.groups, self.workers, strict=True)):
            if group:
                tasks[f"{token}-{g}"] = worker, (function, [arguments[i] for i in group])
        return self._begun(tasks)

    def _begun(self, tasks: dict[str, tuple[str, tuple[Any, ...]]]) -> list[Any]:
        """Futures of tasks, each bound to a worker: one message to the scheduler for all of them.

        A message for each worker would wait ten milliseconds for the one before.
        """
        from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

        layers: dict[str, dict[str, Any]] = {}
        for key, (worker, task) in tasks.items():
            layers.setdefault(worker, {})[key] = task
        graph = HighLevelGraph(
            {
                worker: MaterializedLayer(part, annotations={"workers": [worker]})
                for worker, part in layers.items()
            },
            {worker: set() for worker in layers},
        )
        with connected():
            return list(self.client.get(graph, list(tasks), sync=False))

    def total(self, name: str, parts: Sequence[Any], add: Callable[[list[Any]], Any]) -> Any:
        """Sums of groups, added two by two, in order of their first block, until one is left.

        Only what is added travels: once from each worker but one, and once to the client.
        """
        parts = list(parts)
        while len(parts) > 1:
            pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
            token = _token(name)
            parts = [
                pair[0]
                if len(pair) == 1
                else self.client.submit(add, pair, key=f"{token}-{i}", pure=False)
                for i, pair in enumerate(pairs)
            ]
        return self.fetched(parts[0])

    def shared(self, name: str, value: Any) -> Common:
        """A value for all tasks: sent to one worker, from which the others have it.

        It is the result of a task, not scattered, so that it comes again where a worker is lost.
        """
        return Common(self.client.submit(_itself, value, key=_token(name), pure=False))

    def refresh(self) -> None:
        """See which workers have the rows now; those of a lost worker have another."""
        from mercer.distributed.heirs import present_workers

        with connected():
            self.workers = self.client.run_on_scheduler(present_workers, list(self.workers))

    def fetched(self, futures: Any) -> Any:
        """What futures hold, here."""
        with connected():
            return self.client.gather(futures)


class Common:
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


def _token(name: str) -> str:
    """A name for a task that nothing else has; what stands before the numbers is shown."""
    return f"mercer-{name}-{uuid.uuid4().hex[:8]}{next(_NUMBERS)}"


def _itself(value: Any) -> Any:
    return value
