"""Concurrent calls: the effects of a batch run side by side, each in the context of its message.

An effect is a plain function, which is called in a thread, or `async def`, which runs in the event
loop of this process. Threads and loop live as long as the function is warm, so that a client which
is kept for each thread, or for the loop, keeps its connections.
"""

import os
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import Context
from functools import cache, cached_property
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from once.runtime.deadline import Deadline

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_PATIENCE = 0.2
"""Share of the first answer's time for which further answers are waited for, to commit together."""

_LEAST_PATIENCE = 0.02
"""Seconds, about the time of a commit: an answer that arrives later commits alone."""

_ONE_LOOP = Lock()  # two threads must not make a loop each


class ConcurrentCalls:
    """Makes the calls of one consumer's effects, as long as its function is warm.

    Args:
        most: the most calls at a time. With 1, no other thread is used.
    """

    def __init__(self, most: int) -> None:
        self.most = most

    def start(self, context: Context, call: Callable[[], None]) -> "Future[None]":
        """Start a call; its result is an error, or None."""
        if self.most > 1:
            return self._threads.submit(context.run, call)
        answer: Future[None] = Future()
        try:
            answer.set_result(context.run(call))
        except Exception as error:  # kept for the thread that takes the result
            answer.set_exception(error)
        return answer

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.most, "once-effect")


def wait_for_calls(calls: Collection["Future[None]"], deadline: Deadline) -> None:
    """Wait until at least one call has ended, and shortly for the others: they commit together.

    It returns without an answer when no time is left. If that is so from the beginning, it waits
    until a call has ended, or Lambda ends the function: a thread that was left alone would go on
    with its call in a later invocation, when its lease may have ended.
    """
    before = deadline.seconds
    answered, running = wait(calls, before if before > 0 else None, FIRST_COMPLETED)
    if answered and running:
        patience = max(_LEAST_PATIENCE, (before - deadline.seconds) * _PATIENCE)
        wait(running, min(patience, max(0.0, deadline.seconds)))


def awaited(answer: Awaitable[Any], seconds: float) -> Any:
    """Return the result of an `async def` effect, which runs in the event loop of this process.

    Raises:
        TimeoutError: it took longer than this, and was cancelled.
    """
    import asyncio  # functions without such an effect do not load it

    async def timed() -> Any:
        return await asyncio.wait_for(answer, seconds)

    with _ONE_LOOP:
        loop = _event_loop()
    return asyncio.run_coroutine_threadsafe(timed(), loop).result()


@cache
def _event_loop() -> "AbstractEventLoop":
    import asyncio

    loop = asyncio.new_event_loop()
    Thread(target=_run, args=(loop,), name="once-effects", daemon=True).start()
    return loop


def _run(loop: "AbstractEventLoop") -> None:
    """Run a loop for ever. Each task keeps its own error, which its caller gets."""
    while True:
        # A task that raises one of these, or that stops the loop, would let all others wait for
        # ever.
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()


# A forked process has the loop, but not its thread: a call would wait for ever.
os.register_at_fork(after_in_child=_event_loop.cache_clear)
