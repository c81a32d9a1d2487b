"""A plugin of Dask's scheduler: another worker takes over the rows of one that is lost.

Tasks on a block of rows run on the worker that has the block, and nowhere else, so that rows are
never moved. Dask computes what a lost worker had again, but leaves tasks that were bound to it
without a worker: this plugin of the scheduler binds them to a successor, one for each lost worker,
so that its blocks stay together.
"""

from __future__ import annotations

from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

NAME = "mercer-failover"
PERIOD = 100  # milliseconds between two checks for tasks that no worker can run


class Failover(SchedulerPlugin):
    """Binds tasks of mercer whose worker is lost to another worker."""

    name = NAME
    idempotent = True

    async def start(self, scheduler: Any) -> None:
        from tornado.ioloop import PeriodicCallback

        self.scheduler = scheduler
        self.successors: dict[str, str] = {}  # of lost workers
        self.clock = PeriodicCallback(self.rescue, PERIOD)
        self.clock.start()

    async def close(self) -> None:
        self.clock.stop()

    def successor(self, address: str) -> str | None:
        """The worker that has the rows of another one now; None while there is no worker."""
        scheduler = self.scheduler
        while address not in scheduler.workers:
            if address not in self.successors:
                able = [ws for ws in scheduler.running if ws.address not in self.successors]
                if not able:
                    return None
                held = set(self.successors.values())
                best = min(able, key=lambda ws: (ws.address in held, ws.nbytes, ws.address))
                self.successors[address] = best.address
            address = self.successors[address]
        return address

    def rescue(self) -> None:
        """Give tasks that are bound to lost workers to the successors of these."""
        scheduler, recommended = self.scheduler, {}
        for task in list(scheduler.unrunnable):
            bound = task.worker_restrictions
            if bound and len(bound) == 1 and _is_ours(task):
                successor = self.successor(next(iter(bound)))
                if successor is not None and successor not in bound:
                    scheduler.set_restrictions({task.key: successor})
                    recommended[task.key] = "processing"
        if recommended:
            scheduler.transitions(recommended, stimulus_id=NAME)


def _is_ours(task: Any) -> bool:
    """Whether this is a task of mercer, or what one is made of."""
    ahead, seen = [task], set[Any]()
    while ahead:
        one = ahead.pop()
        if str(one.key).startswith("mercer-"):
            return True
        fresh = one.dependents - seen
        seen |= fresh
        ahead.extend(fresh)
    return False


def present_workers(addresses: list[str], dask_scheduler: Any = None) -> list[str]:
    """The workers that have the rows of these now; runs on the scheduler."""
    plugin = dask_scheduler.plugins[NAME]
    return [plugin.successor(address) or address for address in addresses]
