"""Once: SQS consumers on Lambda that change their data once, however often a message is delivered.

The names below are the whole public interface. They load on first use, so that the infrastructure
code can read `once.schema` and `once.settings` with nothing but the standard library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from once.consumer import Consumer
    from once.effects.declaration import Call, Policy
    from once.errors import KeySpent, NotDone, PermanentError, Refusal, RetryableError
    from once.events.cloud_event import CloudEvent
    from once.events.identity import Key
    from once.intake.envelopes import S3Object
    from once.source import Source
    from once.transaction import FormerRecords, Transaction
    from once.workflows import durable_function, state_machine

__all__ = [
    "Call",
    "CloudEvent",
    "Consumer",
    "FormerRecords",
    "Key",
    "KeySpent",
    "NotDone",
    "PermanentError",
    "Policy",
    "Refusal",
    "RetryableError",
    "S3Object",
    "Source",
    "Transaction",
    "durable_function",
    "state_machine",
]

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


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'once' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
