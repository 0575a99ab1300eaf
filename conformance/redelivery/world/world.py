"""A world: everything that the runs of one check share, emptied before each run."""

import contextlib
import datetime as dt
import io
import os
import random
import sys
import time
from collections.abc import Iterator
from typing import TextIO
from unittest.mock import patch

import botocore.session
import time_machine
from botocore.loaders import create_loader
from moto import mock_aws
from moto.core.models import MockAWS

from redelivery.boundary import aws, connections, http
from redelivery.boundary.invocation import current, inherited
from redelivery.subject import Subject
from redelivery.world.process import importable, runtime_variables
from redelivery.world.resources import Clients, create, delete_expired, environment, names

START = dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC)
_sleep = time.sleep


class World:
    """A simulated AWS, HTTP servers and the subject's stores, on one clock."""

    def __init__(
        self,
        subject: Subject,
        aws: MockAWS,
        clock: time_machine.Traveller,
        http: http.HttpServers,
        output: io.StringIO,
    ) -> None:
        self.subject, self.clients, self.clock = subject, Clients.make(), clock
        self._aws, self._http, self._output = aws, http, output
        self.root = subject.root.resolve()

    def reset(self, start: dt.datetime, seed: int) -> None:
        """Make the world as new: empty but for the subject's own items."""
        self._aws.reset()
        random.seed(seed)
        self._output.seek(0)
        self._output.truncate()
        self.clock.move_to(start)
        self._http.reset()
        for store in self.subject.stores:
            store.reset()
        create(self.subject, self.clients)

    def output(self) -> str:
        """Return what the handler has printed and logged since the world was as new."""
        return self._output.getvalue()

    def wait(self, seconds: float) -> None:
        """Let time pass, and everything expire that has a time to live."""
        self.clock.shift(seconds)
        delete_expired(self.subject, self.clients, time.time())
        for store in self.subject.stores:
            store.expire(seconds)


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

    Args:
        subject: whose resources it has.
        echo: whether what the handler prints is also written to standard error.

    Raises:
        SubjectError: the subject's environment or methods are wrong.
    """
    variables = {**runtime_variables(), **environment(subject)}
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, variables))
        # Sessions share botocore's models: reading them takes most of a client's making.
        loader = create_loader()
        stack.enter_context(
            patch.object(botocore.session, "create_loader", lambda *_, **__: loader)
        )
        simulated = stack.enter_context(mock_aws())
        clock = stack.enter_context(time_machine.travel(START))
        stack.enter_context(patch("time.sleep", _sleep_on_the_clock))
        servers = http.HttpServers(subject.answers)
        stack.enter_context(importable(subject))
        stack.enter_context(connections.intercepted(subject.methods))
        stack.enter_context(aws.intercepted(names(subject)))
        stack.enter_context(http.intercepted(servers))
        stack.enter_context(connections.refused())
        stack.enter_context(inherited())
        output = _Echo(sys.stderr) if echo else io.StringIO()
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(contextlib.redirect_stderr(output))
        yield World(subject, simulated, clock, servers, output)


def _sleep_on_the_clock(seconds: float) -> None:
    """Move the clock instead of waiting, if the handler sleeps."""
    invocation = current()
    if invocation is None:
        _sleep(seconds)
    else:
        invocation.sleep(seconds)
