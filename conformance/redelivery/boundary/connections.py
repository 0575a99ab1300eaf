"""Connections by other libraries: declared methods pass the boundary, the others are refused."""

import importlib
import ipaddress
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from redelivery.boundary.call import Call, Failures
from redelivery.boundary.invocation import current
from redelivery.subject import Method, SubjectError

_SHOWN = 60


@contextmanager
def intercepted(methods: Sequence[Method]) -> Iterator[None]:
    """Let the declared methods pass the boundary. Raises SubjectError if one does not exist."""
    with ExitStack() as patches:
        for method in methods:
            patches.enter_context(_intercepted(method))
        yield


@contextmanager
def _intercepted(method: Method) -> Iterator[None]:
    holder, name = _holder(method.path)
    original = getattr(holder, name)
    failures = Failures(method.unavailable, method.unavailable, method.unavailable)
    label = f"{getattr(holder, '__name__', '')}.{name}"
    inside: set[int] = set()

    def call(*args: Any, **kwargs: Any) -> Any:
        invocation = current()
        if invocation is None or id(invocation) in inside:  # a method that calls another one
            return original(*args, **kwargs)

        def perform() -> Any:
            inside.add(id(invocation))
            try:
                return original(*args, **kwargs)
            finally:
                inside.discard(id(invocation))

        writes = method.writes(*args, **kwargs)
        words = (value if isinstance(value, str) else repr(value) for value in args[1:3])
        target = " ".join(" ".join(words).split())[:_SHOWN]
        return invocation.make(
            Call(label, target, writes, touches=(f"{label} {target}",) * writes), perform, failures
        )

    with patch.object(holder, name, call):
        yield


def _holder(path: str) -> tuple[Any, str]:
    module, _, attributes = path.partition(":")
    *names, last = attributes.split(".")
    try:
        holder: Any = importlib.import_module(module)
        for name in names:
            holder = getattr(holder, name)
        getattr(holder, last)
    except (ImportError, AttributeError) as error:
        raise SubjectError(
            f"no method {path}: {error}. Write it as module:Class.method, "
            "for example redis.client:Redis.execute_command"
        ) from error
    return holder, last


class ConnectionRefused(BaseException):
    """The handler opens a connection that the kit does not intercept."""


@contextmanager
def refused() -> Iterator[None]:
    """Let the handler connect to this machine alone."""
    connect = socket.socket.connect

    def checked(own: socket.socket, address: Any) -> None:
        if current() is not None and own.family in {socket.AF_INET, socket.AF_INET6}:
            host, port = address[:2]
            if host != "localhost" and not _is_loopback(host):
                own.close()
                raise ConnectionRefused(
                    f"the handler connects to {host}:{port} by a library that is not intercepted. "
                    "Use urllib3, requests, httpx or urllib.request, or declare the driver's method"
                )
        connect(own, address)

    with patch.object(socket.socket, "connect", checked):
        yield


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
