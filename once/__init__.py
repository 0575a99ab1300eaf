"""Once: SQS consumers on Lambda that change their data once, however often a message is delivered.

The names below are the whole public interface. They load on first use, so that the infrastructure
code can read `once.schema` and `once.settings` with nothing but the standard library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from once.consumer import Consumer as Consumer
    from once.effects.declaration import Call as Call
    from once.effects.declaration import Policy as Policy
    from once.errors import KeySpent as KeySpent
    from once.errors import NotDone as NotDone
    from once.errors import PermanentError as PermanentError
    from once.errors import Refusal as Refusal
    from once.errors import RetryableError as RetryableError
    from once.events.cloud_event import CloudEvent as CloudEvent
    from once.events.identity import Key as Key
    from once.intake.envelopes import S3Object as S3Object
    from once.source import Source as Source
    from once.transaction import FormerRecords as FormerRecords
    from once.transaction import Transaction as Transaction
    from once.workflows import durable_function as durable_function
    from once.workflows import state_machine as state_machine

_HOME = {
    "Call": "once.effects.declaration",
    "CloudEvent": "once.events.cloud_event",
    "Consumer": "once.consumer",
    "FormerRecords": "once.transaction",
    "Key": "once.events.identity",
    "KeySpent": "once.errors",
    "NotDone": "once.errors",
    "PermanentError": "once.errors",
    "Policy": "once.effects.declaration",
    "Refusal": "once.errors",
    "RetryableError": "once.errors",
    "S3Object": "once.intake.envelopes",
    "Source": "once.source",
    "Transaction": "once.transaction",
    "durable_function": "once.workflows",
    "state_machine": "once.workflows",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'once' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
