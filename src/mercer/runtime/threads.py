"""One pool of threads for all products, which survives fork and serves concurrent callers.

Tiles run in threads while BLAS is held to one thread; as many threads are used as BLAS was
allowed, so that `threadpoolctl` and `OMP_NUM_THREADS` rule mercer too.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Any], None]
Span = tuple[int, int]  # start and stop
THREADS_OF = attrgetter("num_threads")  # of a BLAS library


def spans(stop: int, step: int, start: int = 0) -> list[Span]:
    """The numbers start, …, stop − 1 cut into pieces of `step`.

    >>> spans(10, 4)
    [(0, 4), (4, 8), (8, 10)]
    """
    starts = range(start, stop, step)
    return list(zip(starts, (*starts[1:], stop), strict=False))  # none where there are no starts


class _State:
    """State that a forked child must make anew: locks, the pool, and the limit on BLAS."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pool: ThreadPoolExecutor | None = None
        self.pool_size = 0
        self.holders = 0
        self.allowed = 0
        self.limits: list[tuple[Any, int]] = []  # of each BLAS library before the hold
        self.inside = threading.local()


_state = _State()


def _renew_after_fork() -> None:
    """The child has none of the parent's threads; a hold on BLAS that was open is given back."""
    global _state
    limits = _state.limits
    _state = _State()
    _limit(limits)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)


@lru_cache(maxsize=1)
def _libraries(*loaded: bool) -> ThreadpoolController:
    """Looking for BLAS libraries takes a millisecond: once is enough until one is loaded."""
    return ThreadpoolController().select(user_api="blas")


def blas() -> tuple[list[Any], int]:
    """The BLAS libraries that are loaded, and how many threads they may use now.

    SciPy's linear algebra and torch bring a BLAS of their own when they are loaded.
    """
    libraries = _libraries("scipy.linalg" in sys.modules, "torch" in sys.modules).lib_controllers
    return libraries, max(map(THREADS_OF, libraries), default=1)


def _limit(limits: Iterable[tuple[Any, int]]) -> None:
    """Give libraries so many threads, whichever thread asks.

    threadpoolctl 3.8 obeys the thread that came first and ignores others, in silence: a fit in a
    worker thread would leave BLAS with all of its threads. Our callers take turns by a lock.
    """
    for library, threads in limits:
        free = getattr(library, "clear_controlling_thread", None)
        if free is not None:
            free(force=True)
        library.set_num_threads(threads)
        if free is not None:
            free(force=True)


def thread_count() -> int:
    """The number of threads that a product may use now."""
    with _state.lock:
        allowed = _state.allowed if _state.holders else blas()[1]
    own = (
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    return max(1, min(len(own), allowed))


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread. The first holder lowers the limit, the last one restores it."""
    state = _state
    with state.lock:
        if state.holders == 0:
            libraries, state.allowed = blas()
            counts = zip(libraries, map(THREADS_OF, libraries), strict=True)
            # to set a limit takes longer than a small product: not where there is one already
            state.limits = [(library, threads) for library, threads in counts if threads != 1]
            _limit((library, 1) for library, _ in state.limits)
        state.holders += 1
    try:
        yield
    finally:
        with state.lock:
            state.holders -= 1
            if state.holders == 0 and state is _state:
                _limit(state.limits)
                state.limits = []


SMALL = 5e7  # multiply-adds that take one thread about 2 ms


def blas_for(multiply_adds: float) -> AbstractContextManager[None]:
    """Around linear algebra: BLAS is held to one thread where its threads would gain nothing.

    They wait for each other busily: a Cholesky factor of the order 400 takes 0.5 ms in one thread
    and in two, but up to 190 ms in two where another process is busy on one of their cores.
    """
    return single_threaded_blas() if multiply_adds <= SMALL else nullcontext()


def _pool(size: int) -> ThreadPoolExecutor:
    with _state.lock:
        if _state.pool is None or _state.pool_size < size:
            _state.pool = ThreadPoolExecutor(size, thread_name_prefix="mercer")
            _state.pool_size = size
        return _state.pool


class _Queue:
    """Items that several threads work off; the first error ends the work of all."""

    def __init__(self, work: Work, items: Iterable[Any]) -> None:
        self.work = work
        self.items = deque(items)
        self.error: BaseException | None = None

    def drain(self) -> None:
        while self.error is None:
            try:
                item = self.items.popleft()
            except IndexError:
                return
            try:
                self.work(item)
            except BaseException as error:
                self.error = error

    def drain_inside(self) -> None:
        """Drain where a nested product must not wait for the pool, whose threads are at work."""
        _state.inside.value = True
        try:
            self.drain()
        finally:
            _state.inside.value = False


def run(work: Work, items: Iterable[Any], threads: int) -> None:
    """Call `work` on every item, in `threads` threads; the calling thread is one of them."""
    items = list(items)
    helpers = min(threads, len(items)) - 1
    if helpers < 1 or getattr(_state.inside, "value", False):
        for item in items:
            work(item)
        return
    queue, pool = _Queue(work, items), _pool(helpers)
    futures = [pool.submit(queue.drain_inside) for _ in range(helpers)]
    try:
        queue.drain_inside()  # what it calls must not wait for threads that are busy here
    finally:
        wait(futures)
    if queue.error is not None:
        raise queue.error


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """What `work` makes of each item: a thread for each, with BLAS in one; as it is for one item.

    >>> side_by_side(abs, [-1, 2])
    [1, 2]
    """
    if len(items) < 2:
        return [work(item) for item in items]
    results: dict[int, Result] = {}

    def place(i: int) -> None:
        results[i] = work(items[i])

    with single_threaded_blas():
        run(place, range(len(items)), len(items))
    return [results[i] for i in range(len(items))]
