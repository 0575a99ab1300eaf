"""A world: everything that the runs of one check share, emptied before each run."""

import contextlib
import datetime as dt
import io
import os
import random
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

import time_machine
from moto import mock_aws
from moto.core.models import MockAWS
from moto.moto_api._internal import mock_random

from redelivery.boundary import aws, connections, http, machine
from redelivery.boundary.call import Killed
from redelivery.boundary.invocation import current, inherited
from redelivery.subject import Subject
from redelivery.world.process import Code, runtime_variables
from redelivery.world.resources import Resources, environment, names
from redelivery.world.sdk import accelerated

START = dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC)
_WITHOUT_DOCKER: Any = {"lambda": {"use_docker": False}, "batch": {"use_docker": False}}
"""Functions and jobs that the handler starts are not run: that they are started is the effect."""

_sleep, _end_process = time.sleep, os._exit


class World:
    """A simulated AWS, HTTP servers and the subject's stores, on one clock."""

    def __init__(
        self,
        code: Code,
        aws: MockAWS,
        clock: time_machine.Traveller,
        http: http.HttpServers,
        output: io.StringIO,
        chance: random.Random,
        caught: list[warnings.WarningMessage],
    ) -> None:
        self.code, self.subject = code, code.subject
        self.resources, self.clock = Resources(code.subject), clock
        self._aws, self._http, self._output = aws, http, output
        self._chance, self._warnings = chance, caught
        self.root = code.subject.root.resolve()

    def reset(self, start: dt.datetime, seed: int) -> None:
        """Make the world as new: empty but for the subject's own items."""
        self._aws.reset()
        random.seed(seed)
        mock_random.seed(seed)
        self._chance.seed(seed)
        self._output.seek(0)
        self._output.truncate()
        self.clock.move_to(start)
        self._http.reset()
        for store in self.subject.stores:
            store.reset()
        self.resources.create()

    def output(self) -> str:
        """Return what the handler has printed and logged since the world was as new."""
        return self._output.getvalue()

    def warnings(self) -> list[str]:
        """Return what the handler and its libraries have warned of, with the place."""
        return [*dict.fromkeys(map(_shown, filter(_is_of_interest, self._warnings)))]

    def wait(self, seconds: float, *, undeclared: bool = False) -> list[str]:
        """Let time pass, and everything expire that has a time to live.

        With `undeclared`, attributes that look like a time to live are taken for one, and returned.
        """
        self.clock.shift(seconds)
        for store in self.subject.stores:
            store.expire(seconds)
        return self.resources.delete_expired(time.time(), undeclared=undeclared)


class _Echo(io.StringIO):
    """Keeps what is written to it, and passes it on."""

    def __init__(self, passed_to: TextIO) -> None:
        super().__init__()
        self._passed_to = passed_to

    def write(self, text: str) -> int:
        self._passed_to.write(text)
        return super().write(text)


@contextlib.contextmanager
def world(subject: Subject, *, echo: bool = False) -> Iterator[World]:
    """Replace AWS, HTTP, the clock and the environment variables of this Python process.

    With `echo`, what the handler prints is also written to standard error.

    Raises:
        SubjectError: the subject's environment or methods are wrong.
    """
    variables = {**runtime_variables(), **environment(subject)}
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, variables))
        stack.enter_context(accelerated())
        simulated = stack.enter_context(mock_aws(config=_WITHOUT_DOCKER))
        # A clock that stands still between calls: the same seed gives the same report.
        clock = stack.enter_context(time_machine.travel(START, tick=False))
        chance = random.Random()
        stack.enter_context(patch("os.urandom", chance.randbytes))  # also behind uuid4
        stack.enter_context(patch("random._urandom", chance.randbytes))
        stack.enter_context(patch("os._exit", _exit))
        stack.enter_context(patch("time.sleep", _sleep_on_the_clock))
        servers = http.HttpServers(subject.answers)
        code = Code(subject)
        stack.enter_context(code.importable())
        stack.enter_context(connections.intercepted(subject.methods))
        stack.enter_context(aws.intercepted(names(subject)))
        stack.enter_context(http.intercepted(servers))
        stack.enter_context(connections.refused())
        machine.watch()
        stack.enter_context(machine.spawning_refused())
        stack.enter_context(inherited())
        caught = stack.enter_context(warnings.catch_warnings(record=True, action="always"))
        output = _Echo(sys.stderr) if echo else io.StringIO()
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(contextlib.redirect_stderr(output))
        yield World(code, simulated, clock, servers, output, chance, caught)


def _is_of_interest(warning: warnings.WarningMessage) -> bool:
    """Whether a warning may say why a handler fails: not of a deprecation or a resource."""
    return issubclass(warning.category, UserWarning | RuntimeWarning)


def _shown(warning: warnings.WarningMessage) -> str:
    return f"{Path(warning.filename).name}:{warning.lineno} warns: {warning.message}"


def _sleep_on_the_clock(seconds: float) -> None:
    """Move the clock instead of waiting, if the handler sleeps."""
    invocation = current()
    if invocation is None:
        _sleep(seconds)
    else:
        invocation.sleep(seconds)


def _exit(status: int) -> None:
    """End the simulated process alone, if the handler ends its process at once."""
    invocation = current()
    if invocation is None:
        _end_process(status)
    else:
        invocation.tell("the handler ends its process")
        invocation.dead = True
        raise Killed
