"""A world: everything that the runs of one check share, emptied before each run."""

import contextlib
import datetime as dt
import io
import os
import random
import sys
from collections.abc import Iterator
from typing import TextIO
from unittest.mock import patch

import botocore.session
from botocore.loaders import create_loader
from moto import mock_aws
from moto.core.models import MockAWS

from redelivery.boundary import aws, http_libraries, methods, sockets
from redelivery.boundary.http import HttpServers
from redelivery.boundary.threads import inherited
from redelivery.subject import Subject
from redelivery.world.clock import Clock, clock
from redelivery.world.context import runtime_variables
from redelivery.world.expiry import delete_expired
from redelivery.world.process import importable
from redelivery.world.resources import Clients, create, environment, names


class World:
    """A simulated AWS, HTTP servers and the subject's stores, on one clock."""

    def __init__(
        self,
        subject: Subject,
        aws: MockAWS,
        now: Clock,
        http: HttpServers,
        output: io.StringIO,
    ) -> None:
        self.subject, self.clients, self.clock = subject, Clients.make(), now
        self._aws, self._http, self._output = aws, http, output
        self.root = subject.root.resolve()

    def reset(self, start: dt.datetime, seed: int) -> None:
        """Make the world as new: empty but for the subject's own items."""
        self._aws.reset()
        random.seed(seed)
        self._output.seek(0)
        self._output.truncate()
        self.clock.reset(start)
        self._http.reset()
        for store in self.subject.stores:
            store.reset()
        create(self.subject, self.clients)

    def output(self) -> str:
        """Return what the handler has printed and logged since the world was as new."""
        return self._output.getvalue()

    def wait(self, seconds: float) -> None:
        """Let time pass, and everything expire that has a time to live."""
        self.clock.advance(seconds)
        delete_expired(self.subject, self.clients, self.clock.now())
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
def world(subject: Subject) -> Iterator[World]:
    """Replace AWS, HTTP, the clock and the environment variables of this Python process.

    Raises:
        SubjectError: the subject's environment or methods are wrong.
    """
    variables = {**runtime_variables(), **environment(subject)}
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, variables))
        stack.enter_context(_models_read_once())
        simulated = stack.enter_context(mock_aws())
        now = stack.enter_context(clock())
        http = HttpServers(subject.answers, now.now)
        stack.enter_context(importable(subject))
        stack.enter_context(methods.intercepted(subject.methods))
        stack.enter_context(aws.intercepted(names(subject)))
        stack.enter_context(http_libraries.intercepted(http))
        stack.enter_context(sockets.refused())
        stack.enter_context(inherited())
        output = _Echo(sys.stderr)
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(contextlib.redirect_stderr(output))
        yield World(subject, simulated, now, http, output)


@contextlib.contextmanager
def _models_read_once() -> Iterator[None]:
    """Share botocore's models between sessions: reading them takes most of a client's making."""
    loader = create_loader()
    with patch.object(botocore.session, "create_loader", lambda *_, **__: loader):
        yield
