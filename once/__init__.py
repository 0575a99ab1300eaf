"""Once: SQS consumers on Lambda that change their data once, however often a message is delivered.

The names below are the whole public interface. They load on first use, so that the infrastructure
code can read `once.contract` and `once.settings` with nothing but the standard library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from once.consumer import Consumer
    from once.effects import Call, Policy
    from once.errors import KeySpent, NotDone, PermanentError, Refusal, RetryableError
    from once.events import CloudEvent
    from once.keys import Key
    from once.transaction import Transaction

__all__ = [
    "Call",
    "CloudEvent",
    "Consumer",
    "Key",
    "KeySpent",
    "NotDone",
    "PermanentError",
    "Policy",
    "Refusal",
    "RetryableError",
    "Transaction",
]

_HOME = {
    "Call": "once.effects",
    "CloudEvent": "once.events",
    "Consumer": "once.consumer",
    "Key": "once.keys",
    "KeySpent": "once.errors",
    "NotDone": "once.errors",
    "PermanentError": "once.errors",
    "Policy": "once.effects",
    "Refusal": "once.errors",
    "RetryableError": "once.errors",
    "Transaction": "once.transaction",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'once' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
