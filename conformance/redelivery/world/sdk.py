"""The AWS SDK and its simulation, made fast: what they compute anew for each client and request,
although it is always the same, is kept for all runs of this Python process."""

import contextlib
import functools
import ssl
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest.mock import patch

import botocore.client
import botocore.httpsession
import botocore.regions
import botocore.session
import botocore.useragent
import moto.core.responses
import moto.sqs.models
from botocore.loaders import create_loader

_loader = functools.cache(create_loader)


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


_KEPT: tuple[tuple[ModuleType, str, Callable[..., Any]], ...] = tuple(
    (module, name, keep(getattr(module, name)))
    for module, name, keep in (
        # Models and rules of endpoints are the loader's, and stay the same objects.
        (botocore.client, "ServiceModel", _by_identity),
        (botocore.regions, "EndpointProvider", _by_identity),
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
        # Reading the models takes most of a client's making.
        loader = patch.object(botocore.session, "create_loader", lambda *_, **__: _loader())
        stack.enter_context(loader)
        for module, name, kept in _KEPT:
            stack.enter_context(patch.object(module, name, kept))
        yield
