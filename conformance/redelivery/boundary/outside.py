"""Ways out of the process besides the AWS SDK and HTTP.

Declared methods pass the boundary. Other connections are refused, and so are processes, whose
effects would be real. Files that are written are recorded: they outlive a simulated process.
"""

import ctypes
import importlib
import ipaddress
import multiprocessing.util
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from redelivery.boundary.invocation import Call, Failures, Invocation, call_site, current
from redelivery.subject import Method, SubjectError

_SHOWN = 60
_IMMUTABLE_TYPE, _HEAP_TYPE = 1 << 8, 1 << 9
"""Flags of CPython's types."""

_CONNECTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}  # `connect_ex` has the first, too
_LOOKS_UP = {"socket.getaddrinfo", "socket.gethostbyname"}
_STARTS = {"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork"}
_WRITES = os.O_WRONLY | os.O_RDWR
_NO_STATE = ("/dev/", "/proc/")

_inside: set[int] = set()
"""The invocations that are inside a declared method."""


@contextmanager
def intercepted(methods: Sequence[Method]) -> Iterator[None]:
    """Let the declared methods pass the boundary. Raises SubjectError if one does not exist."""
    drivers: dict[ModuleType, list[tuple[type, str, Callable[..., Any]]]] = {}
    with ExitStack() as patches:
        for method in methods:
            module, holder, name = _holder(method.path)
            call = _passing(method, holder, name)
            if _is_fixed(holder):
                driver = sys.modules[module.__name__.partition(".")[0]]
                if not hasattr(driver, "connect"):
                    raise SubjectError(
                        f"{method.path} is written in C and cannot be replaced, and "
                        f"{driver.__name__} has no function `connect`. Declare a function of your "
                        "own that calls it"
                    )
                drivers.setdefault(driver, []).append((holder, name, call))
            else:
                patches.enter_context(patch.object(holder, name, call))
        for driver, calls in drivers.items():
            patches.enter_context(patch.object(driver, "connect", _connected(driver, calls)))
        yield


def _passing(method: Method, holder: Any, name: str) -> Callable[..., Any]:
    """Return what makes the calls of a method of its holder pass the boundary."""

    def own(value: Any, *args: Any, **kwargs: Any) -> Any:  # a subclass may have its own method
        return getattr(value, name)(*args, **kwargs)

    original = own if _is_fixed(holder) else getattr(holder, name)
    failures = Failures(method.unavailable, method.unavailable, method.unavailable)
    label = f"{getattr(holder, '__name__', '')}.{name}"

    def call(*args: Any, **kwargs: Any) -> Any:
        invocation = current()
        if invocation is None or id(invocation) in _inside:  # a method that calls another one
            return original(*args, **kwargs)

        def perform() -> Any:
            _inside.add(id(invocation))
            try:
                return original(*args, **kwargs)
            finally:
                _inside.discard(id(invocation))

        given = args[1:3] if isinstance(holder, type) else args[:2]
        words = (value if isinstance(value, str) else repr(value) for value in given)
        target = " ".join(" ".join(words).split())[:_SHOWN]
        described = Call(label, target, writes=True, touches=(f"{label} {target}",))
        return invocation.make(described, perform, failures)

    return call


def _is_fixed(holder: Any) -> bool:
    """Whether a type is written in C: its methods cannot be replaced."""
    flags = holder.__flags__ if isinstance(holder, type) else _HEAP_TYPE
    return not flags & _HEAP_TYPE or bool(flags & _IMMUTABLE_TYPE)


def _connected(
    driver: ModuleType, calls: Sequence[tuple[type, str, Callable[..., Any]]]
) -> Callable[..., Any]:
    """Return the driver's `connect` (PEP 249) whose connections and cursors pass the boundary."""
    connect = driver.connect  # the caller replaces it

    def wrapped(value: Any) -> Any:
        if type(value) is _Driven or not (hasattr(value, "cursor") or hasattr(value, "execute")):
            return value  # a row, or a plain value
        methods = {name: partial(c, value) for of, name, c in calls if isinstance(value, of)}
        return _Driven(value, methods, wrapped)

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
        if not callable(found) or isinstance(found, type):
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

    def __next__(self) -> Any:
        return next(self._of)


def _bare(value: Any) -> Any:
    return vars(value)["_of"] if type(value) is _Driven else value


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


NOT_INTERCEPTED = (
    "by a library that is not intercepted. Use urllib3, requests, httpx or urllib.request, or "
    "declare the driver's method"
)


class Refused(BaseException):
    """The handler opens a connection that is not intercepted, or starts a process.

    No Exception: a handler would handle it.
    """


@contextmanager
def refused() -> Iterator[None]:
    """Let the handler connect to this machine alone, and start no process."""
    _watch()
    spawn = multiprocessing.util.spawnv_passfds

    def spawned(*arguments: Any) -> int:  # Python has no audit event for it
        _observe("os.posix_spawn", arguments)
        return spawn(*arguments)

    with patch("multiprocessing.util.spawnv_passfds", spawned):
        yield


def _is_this_machine(host: Any) -> bool:
    name = host.decode() if isinstance(host, bytes) else str(host or "localhost")
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


_ON_THE_PARENTS_END = 1
"""Linux's `PR_SET_PDEATHSIG`."""

_USER_AND_NETWORK = 0x10000000, 0x40000000
"""Linux's `CLONE_NEWUSER` and `CLONE_NEWNET`; Python has them from 3.12."""


def end_with_the_parent() -> None:
    """Let this process end when its parent does, however that ends, where Linux is asked for it."""
    getattr(ctypes.CDLL(None), "prctl", lambda *_: 0)(_ON_THE_PARENTS_END, signal.SIGKILL)


def leave_the_network() -> None:
    """Let this process, which has one thread, reach no host, where its platform allows that.

    A library in C connects without an audit event. In a network namespace of its own, it fails.
    """
    unshare = getattr(ctypes.CDLL(None), "unshare", lambda _: 1)
    user, network = _USER_AND_NETWORK
    own = {"setgroups": "deny", "uid_map": os.getuid(), "gid_map": os.getgid()}
    if unshare(network) and not unshare(user | network):
        for name, one in own.items():  # this user keeps its number
            text = one if isinstance(one, str) else f"{one} {one} 1"
            Path("/proc/self", name).write_text(text)


@cache
def _watch() -> None:
    """Watch this process, from now on: Python takes no such hook back."""
    sys.addaudithook(_observe)


def _observe(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in {"open", "sqlite3.connect", *_CONNECTS, *_LOOKS_UP, *_STARTS}:
        return
    invocation = current()
    if invocation is None:
        return
    if event in _CONNECTS and arguments[0].family in {socket.AF_INET, socket.AF_INET6}:
        host, port = (arguments[1] or ("", ""))[:2]
        if not _is_this_machine(host):
            arguments[0].close()
            _refuse_connection(invocation, host, port)
    if event in _LOOKS_UP and not _is_this_machine(arguments[0]):
        _refuse_connection(invocation, *(*arguments, "")[:2])
    if event in _CONNECTS | _LOOKS_UP or invocation.loading or id(invocation) in _inside:
        return
    if event in _STARTS:
        _refuse(
            invocation,
            f"the handler starts a process at {call_site(invocation.root)}: what it does is "
            "real, and is not seen. Declare the function that starts it, as "
            "Method('subprocess:run', ...)",
        )
    path = str(arguments[0])
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITES):
        return
    if path != ":memory:" and not path.startswith(_NO_STATE) and "__pycache__" not in path:
        invocation.record.files.setdefault(path, call_site(invocation.root))


def _refuse_connection(invocation: Invocation, host: Any, port: Any) -> None:
    place = f"{host.decode() if isinstance(host, bytes) else host}{f':{port}' if port else ''}"
    _refuse(invocation, f"the handler connects to {place} {NOT_INTERCEPTED}")


def _refuse(invocation: Invocation, told: str) -> None:
    invocation.refused = Refused(told)  # also if the handler catches it
    raise invocation.refused
