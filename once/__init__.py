"""Once: SQS consumers on Lambda that change their data once, however often a message is delivered.

The names below are the whole public interface. They load on first use, so that the infrastructure
code can read `once.contract` and `once.settings` with nothing but the standard library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from once.consumer import Consumer
    from once.errors import PermanentError, Refusal, RetryableError
    from once.events import CloudEvent
    from once.keys import Key
    from once.transaction import Transaction

__all__ = [
    "CloudEvent",
    "Consumer",
    "Key",
    "PermanentError",
    "Refusal",
    "RetryableError",
    "Transaction",
]

_HOME = {
    "CloudEvent": "once.events",
    "Consumer": "once.consumer",
    "Key": "once.keys",
    "PermanentError": "once.errors",
    "Refusal": "once.errors",
    "RetryableError": "once.errors",
    "Transaction": "once.transaction",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'once' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
