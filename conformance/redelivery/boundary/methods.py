"""Methods of other drivers that leave the process, as the subject declares them."""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from redelivery.boundary.call import Call, Failures
from redelivery.boundary.threads import current
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
        target = " ".join(" ".join(map(_shown, args[1:3])).split())[:_SHOWN]
        return invocation.make(
            Call(label, target, writes, touches=(f"{label} {target}",) * writes), perform, failures
        )

    with patch.object(holder, name, call):
        yield


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


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
