"""Programs: generators that make one outside call at a time.

A generator cannot be copied, but what it does follows from its arguments and the answers that it
was given. So a running function is kept as these, and is run again up to where it stands.
"""

from collections.abc import Generator
from functools import lru_cache
from typing import Any, Protocol

from proof.model.calls import Call, Reply

Program = Generator[Call, Reply, None]


class Part(Protocol):
    """A part of a protocol: a consumer, a relay, an operator."""

    def __init__(self, name: str, argument: Any) -> None:
        """Take the name of the function, and what it is started with."""

    def run(self) -> Program:
        """Make the part's calls, one after the other."""
        ...


@lru_cache(maxsize=1_000_000)
def next_call(
    part: type[Part], name: str, argument: Any, replies: tuple[Reply, ...]
) -> Call | None:
    """Return the call that a function makes next, or None where it has returned.

    Args:
        part: what it runs.
        name: its own.
        argument: what it was started with.
        replies: what its calls so far were answered.
    """
    program = part(name, argument).run()
    try:
        call = next(program)
        for reply in replies:
            call = program.send(reply)
    except StopIteration:
        return None
    return call
