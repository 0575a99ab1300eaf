"""Hooks: a team's context managers around each function that a message runs."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Literal

from msgspec import Struct

from once.effects.declaration import takes
from once.runtime.deadline import Deadline

Kind = Literal["handler", "rejection", "completion", "effect"]


class Step(Struct, frozen=True):
    """One run of a consumer's function, as `@consumer.around` sees it. It has nothing of the data.

    Attributes:
        kind: `handler`, `rejection`, `completion` or `effect`.
        event_type: the CloudEvents `type`.
        source: the CloudEvents `source`.
        key_hash: the hash of the event's key, as in log lines.
        message_id: the id that SQS gave the message.
        receive_count: deliveries of the message so far, this one included.
        deadline: the invocation's; `deadline.seconds` are left for work.
    """

    kind: Kind
    event_type: str
    source: str
    key_hash: str
    message_id: str
    receive_count: int
    deadline: Deadline


HookFunction = Callable[[Step], Iterator[None]]
Hook = Callable[[Step], AbstractContextManager[Any]]


def hook_faults(function: HookFunction) -> Iterator[str]:
    place = f"{function.__module__}.{function.__qualname__} with @consumer.around"
    if not inspect.isgeneratorfunction(function):
        yield f"{place} is no generator function; give it one `yield`, and no other decorator"
    if not takes(function, 1):
        yield f"{place} is called with a Step; give it this one argument"


def run_within(hooks: Sequence[Hook], step: Step, call: Callable[[], Any]) -> Any:
    """Return the result of a call within its hooks, of which the first is the outermost.

    A hook that suppresses an exception does not change the result: the exception is raised again.
    Otherwise a handler that failed halfway would commit.
    """
    for hook in reversed(hooks):
        call = partial(_within, hook, step, call)
    return call()


def _within(hook: Hook, step: Step, call: Callable[[], Any]) -> Any:
    with hook(step):
        try:
            return call()
        except BaseException as error:
            suppressed = error
            raise
    raise suppressed
