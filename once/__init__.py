"""Once: SQS consumers on Lambda that change their data once, however often a message is delivered.

The names below are the whole public interface. They load on first use, so that the infrastructure
code can read `once.names` and `once.settings` with nothing but the standard library.
"""

import re
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    # The public names, one a line: `_homes` reads them from this text.
    from once.consumer import Consumer as Consumer
    from once.effects.declaration import Call as Call
    from once.effects.declaration import Policy as Policy
    from once.errors import KeySpent as KeySpent
    from once.errors import NotDone as NotDone
    from once.errors import PermanentError as PermanentError
    from once.errors import Refusal as Refusal
    from once.errors import RetryableError as RetryableError
    from once.event_sources import Source as Source
    from once.events.cloud_event import CloudEvent as CloudEvent
    from once.events.identity import Key as Key
    from once.intake.envelopes import S3Object as S3Object
    from once.transaction import FormerRecords as FormerRecords
    from once.transaction import Transaction as Transaction
    from once.workflows import durable_function as durable_function
    from once.workflows import state_machine as state_machine


def _homes(spec: "ModuleSpec") -> dict[str, str]:
    """Return the public names of a package, and the module of each.

    They are its imports under TYPE_CHECKING as `from MODULE import NAME as NAME`. So there is one
    list for type checkers, for `import *` and for the loading on first use.
    """
    text = spec.loader.get_source(spec.name)  # type: ignore[union-attr]
    lines = re.findall(r"^    from (\S+) import (\w+) as \2$", text, re.MULTILINE)
    return {name: module for module, name in lines}


_HOME = _homes(__spec__)

if not TYPE_CHECKING:
    __all__ = [*_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'once' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
