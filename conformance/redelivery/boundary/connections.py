"""Connections by other libraries: declared methods pass the boundary, the others are refused."""

import importlib
import ipaddress
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import patch

from redelivery.boundary.call import Call, Failures
from redelivery.boundary.invocation import Invocation, current
from redelivery.subject import Method, SubjectError

_SHOWN = 60
_IMMUTABLE_TYPE, _HEAP_TYPE = 1 << 8, 1 << 9
"""Flags of CPython's types."""

_inside: set[int] = set()
"""The invocations that are inside a declared method."""


def is_declared(invocation: Invocation) -> bool:
    """Whether an invocation is inside a declared method."""
    return id(invocation) in _inside


@contextmanager
def intercepted(methods: Sequence[Method]) -> Iterator[None]:
    """Let the declared methods pass the boundary. Raises SubjectError if one does not exist."""
    with ExitStack() as patches:
        for method in methods:
            patches.enter_context(_intercepted(method))
        yield


@contextmanager
def _intercepted(method: Method) -> Iterator[None]:
    module, holder, name = _holder(method.path)
    original = getattr(holder, name)
    failures = Failures(method.unavailable, method.unavailable, method.unavailable)
    label = f"{getattr(holder, '__name__', '')}.{name}"

    def call(*args: Any, **kwargs: Any) -> Any:
        invocation = current()
        if invocation is None or is_declared(invocation):  # a method that calls another one
            return original(*args, **kwargs)

        def perform() -> Any:
            _inside.add(id(invocation))
            try:
                return original(*args, **kwargs)
            finally:
                _inside.discard(id(invocation))

        writes = method.writes(*args, **kwargs)
        given = args[1:3] if isinstance(holder, type) else args[:2]
        words = (value if isinstance(value, str) else repr(value) for value in given)
        target = " ".join(" ".join(words).split())[:_SHOWN]
        return invocation.make(
            Call(label, target, writes, touches=(f"{label} {target}",) * writes), perform, failures
        )

    replaced: tuple[Any, str] = (holder, name)
    if _is_fixed(holder):
        module = sys.modules[module.__name__.partition(".")[0]]
        if not hasattr(module, "connect"):
            raise SubjectError(
                f"{method.path} is written in C and cannot be replaced, and {module.__name__} has "
                "no function `connect`. Declare a function of your own that calls it"
            )
        replaced, call = (module, "connect"), _connected(module, holder, name, call)
    with patch.object(*replaced, call):
        yield


def _is_fixed(holder: Any) -> bool:
    """Whether a type is written in C: its methods cannot be replaced."""
    flags = holder.__flags__ if isinstance(holder, type) else _HEAP_TYPE
    return not flags & _HEAP_TYPE or bool(flags & _IMMUTABLE_TYPE)


def _connected(
    module: ModuleType, holder: type, name: str, call: Callable[..., Any]
) -> Callable[..., Any]:
    """Return the module's `connect` (PEP 249) whose connections and cursors pass the boundary."""
    connect: Callable[..., Any] = getattr(module, "connect")  # noqa: B009 - not every module has it

    def wrapped(value: Any) -> Any:
        methods = {}
        if isinstance(value, holder):
            methods[name] = partial(call, _bare(value))
        if isinstance(value, holder) or type(value).__module__.startswith(module.__name__):
            return _Driven(value, methods, wrapped)
        return value

    return lambda *args, **kwargs: wrapped(connect(*args, **kwargs))


class _Driven:
    """A connection or cursor of a driver in C: some of its methods are replaced."""

    def __init__(
        self, of: Any, methods: Mapping[str, Callable[..., Any]], wrapped: Callable[[Any], Any]
    ) -> None:
        vars(self).update(_of=of, _methods=methods, _wrapped=wrapped)

    # Also `isinstance` sees the driver's own type.
    __class__: Any = property(lambda self: type(vars(self)["_of"]))

    def __getattr__(self, name: str) -> Any:
        found = self._methods.get(name) or getattr(self._of, name)
        if not callable(found):
            return self._wrapped(found)
        return lambda *args, **kwargs: self._wrapped(found(*map(_bare, args), **kwargs))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._of, name, value)

    def __enter__(self) -> Any:
        self._of.__enter__()
        return self

    def __exit__(self, *ended: object) -> Any:
        # What a driver does at the end of a block, it does without its public methods.
        name = "commit" if ended[0] is None else "rollback"
        if name in self._methods:
            self._methods[name]()
        return self._of.__exit__(*ended)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._of)


def _bare(value: Any) -> Any:
    while type(value) is _Driven:
        value = vars(value)["_of"]
    return value


def _holder(path: str) -> tuple[ModuleType, Any, str]:
    """Return a method's module, the object that has it, and its name there."""
    file, _, attributes = path.partition(":")
    *names, last = attributes.split(".")
    try:
        module = importlib.import_module(file)
        holder: Any = module
        for name in names:
            holder = getattr(holder, name)
        getattr(holder, last)
    except (ImportError, AttributeError) as error:
        raise SubjectError(
            f"no method {path}: {error}. Write it as module:Class.method, "
            "for example redis.client:Redis.execute_command"
        ) from error
    return module, holder, last


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
