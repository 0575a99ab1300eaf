"""A world: everything that the runs of one check share, emptied before each run."""

import contextlib
import datetime as dt
import functools
import io
import itertools
import os
import random
import ssl
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

import botocore.client
import botocore.hooks
import botocore.httpsession
import botocore.regions
import botocore.session
import botocore.useragent
import moto.core.responses
import moto.sqs.models
import time_machine
from moto import mock_aws
from moto.core.models import MockAWS
from moto.moto_api._internal import mock_random

from redelivery.boundary import aws, http, outside
from redelivery.boundary.invocation import Killed, current, inherited
from redelivery.subject import Subject
from redelivery.world.execution_environment import Code, runtime_variables
from redelivery.world.resources import Resources, environment, names

START = dt.datetime(2026, 1, 5, 12, tzinfo=dt.UTC)
_WITHOUT_DOCKER: Any = {"lambda": {"use_docker": False}, "batch": {"use_docker": False}}
"""Functions and jobs that the handler starts are not run: that they are started is the effect."""

_NUMBERS = itertools.count()
_sleep, _end_process = time.sleep, os._exit


@dataclass(frozen=True, slots=True)
class World:
    """A simulated AWS, HTTP servers and the subject's stores, on one clock."""

    subject: Subject
    code: Code
    clock: time_machine.Traveller
    resources: Resources
    root: Path
    _aws: MockAWS
    _http: http.HttpServers
    _output: io.StringIO
    _chance: random.Random
    _warnings: list[warnings.WarningMessage]

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
        """Return what the handler and its libraries have warned of, with the place.

        Warnings of deprecations and resources do not say why a handler fails.
        """
        told = (
            f"{Path(each.filename).name}:{each.lineno} warns: {each.message}"
            for each in self._warnings
            if issubclass(each.category, UserWarning | RuntimeWarning)
        )
        return [*dict.fromkeys(told)]

    def wait(self, seconds: float, *, undeclared: bool = False) -> list[str]:
        """Let time pass, and everything expire that has a time to live.

        With `undeclared`, attributes that look like a time to live are taken for one, and returned.
        """
        self.clock.shift(seconds)
        for store in self.subject.stores:
            store.expire(seconds)
        return self.resources.delete_expired(time.time(), undeclared=undeclared)


@contextlib.contextmanager
def world(subject: Subject, *, echo: bool = False) -> Iterator[World]:
    """Replace AWS, HTTP, the clock and the environment variables of this Python process.

    With `echo`, what the handler prints is written to standard error, and not kept.

    Raises:
        SubjectError: the subject's environment or methods are wrong.
    """
    variables = {**runtime_variables(subject), **environment(subject)}
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, variables))
        stack.enter_context(accelerated())
        simulated = stack.enter_context(mock_aws(config=_WITHOUT_DOCKER))
        # A clock that stands still between calls: the same seed gives the same report.
        clock = stack.enter_context(time_machine.travel(START, tick=False))
        chance = random.Random()
        stack.enter_context(patch("os.urandom", chance.randbytes))  # also behind uuid4
        stack.enter_context(patch("random._urandom", chance.randbytes))
        # moto empties its services by an identity, which they get when they are first used.
        identity = functools.partial(next, _NUMBERS)
        stack.enter_context(patch("moto.core.base_backend.uuid4", identity))
        stack.enter_context(patch("os._exit", _exit))
        stack.enter_context(patch("time.sleep", _sleep_on_the_clock))
        servers = http.HttpServers(subject.answers)
        code = Code(subject)
        stack.enter_context(code.importable())
        stack.enter_context(outside.intercepted(subject.methods))
        stack.enter_context(aws.intercepted(names(subject)))
        stack.enter_context(http.intercepted(servers))
        stack.enter_context(outside.refused())
        stack.enter_context(inherited())
        caught = stack.enter_context(warnings.catch_warnings(record=True, action="always"))
        output = io.StringIO()
        printed: TextIO = sys.stderr if echo else output
        stack.enter_context(contextlib.redirect_stdout(printed))
        stack.enter_context(contextlib.redirect_stderr(printed))
        resources, root = Resources(subject), subject.root.resolve()
        kept = (simulated, servers, output, chance, caught)
        yield World(subject, code, clock, resources, root, *kept)


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


# The AWS SDK and its simulation, made fast: what they compute anew for each client and request,
# although it is always the same, is kept for all runs of this Python process.


def _by_identity(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes an object once for the same arguments, which need not be hashable."""
    known: dict[tuple[int, ...], tuple[Any, object]] = {}

    def made(*arguments: Any, **named: Any) -> Any:
        same = tuple(map(id, (*arguments, *named.values())))
        if same not in known:
            # Keeping the arguments keeps their identities.
            known[same] = make(*arguments, **named), (arguments, named)
        return known[same][0]

    return made


def _by_name(alias: Callable[[Any, str], str]) -> Callable[[Any, str], str]:
    """Return a method that keeps what it found by the name of an event, for all clients."""
    known: dict[str, str] = {}

    def found(emitter: Any, name: str) -> str:
        if name not in known:
            known[name] = alias(emitter, name)
        return known[name]

    return found


_KEPT: tuple[tuple[Any, str, Callable[..., Any]], ...] = tuple(
    (module, name, keep(getattr(module, name)))
    for module, name, keep in (
        # Reading the models takes most of a client's making.
        (botocore.session, "create_loader", functools.cache),
        # Models and rules of endpoints are the loader's, and stay the same objects.
        (botocore.client, "ServiceModel", _by_identity),
        (botocore.regions, "EndpointProvider", _by_identity),
        (botocore.hooks.EventAliaser, "_alias_event_name", _by_name),
        # No connection is made with a context.
        (botocore.httpsession, "create_urllib3_context", functools.cache),
        (ssl, "create_default_context", functools.cache),
        (botocore.useragent, "sanitize_user_agent_string_component", functools.cache),
        (moto.core.responses, "camelcase_to_underscores", functools.cache),
        (moto.core.responses, "method_names_from_class", functools.cache),
        (moto.sqs.models, "camelcase_to_underscores", functools.cache),
    )
    if hasattr(module, name)  # without one, another version is slower
)


@contextlib.contextmanager
def accelerated() -> Iterator[None]:
    """Keep models, endpoint rules and names of operations for all clients of this process."""
    with contextlib.ExitStack() as stack:
        for module, name, kept in _KEPT:
            stack.enter_context(patch.object(module, name, kept))
        yield
