"""Once: SQS consumers on Lambda that change their data once, however often a message is delivered.

The names below are the whole public interface. They load on first use, so that the infrastructure
code can read `once.names` and `once.settings` without loading the runtime.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from once.batch.hooks import Step as Step
    from once.commands.answer import Answer as Answer
    from once.commands.answer import Problem as Problem
    from once.commands.answer import Reply as Reply
    from once.commands.handlers import Commands as Commands
    from once.commands.scope import Scope as Scope
    from once.consumer import Consumer as Consumer
    from once.effects.declaration import Call as Call
    from once.effects.declaration import Policy as Policy
    from once.effects.workflow_starts import durable_function as durable_function
    from once.effects.workflow_starts import state_machine as state_machine
    from once.errors import KeySpent as KeySpent
    from once.errors import NotDone as NotDone
    from once.errors import PermanentError as PermanentError
    from once.errors import Refusal as Refusal
    from once.errors import RetryableError as RetryableError
    from once.event_sources import Source as Source
    from once.events.cloud_event import CloudEvent as CloudEvent
    from once.events.identity import Key as Key
    from once.former_records import FormerRecords as FormerRecords
    from once.intake.envelopes import S3Object as S3Object
    from once.producer import NotPublished as NotPublished
    from once.producer import Producer as Producer
    from once.transaction import Transaction as Transaction
    from once.write_expressions import absent as absent
    from once.write_expressions import present as present

_HOME = {
    "Step": "once.batch.hooks",
    "Answer": "once.commands.answer",
    "Problem": "once.commands.answer",
    "Reply": "once.commands.answer",
    "Commands": "once.commands.handlers",
    "Scope": "once.commands.scope",
    "Consumer": "once.consumer",
    "Call": "once.effects.declaration",
    "Policy": "once.effects.declaration",
    "durable_function": "once.effects.workflow_starts",
    "state_machine": "once.effects.workflow_starts",
    "KeySpent": "once.errors",
    "NotDone": "once.errors",
    "PermanentError": "once.errors",
    "Refusal": "once.errors",
    "RetryableError": "once.errors",
    "Source": "once.event_sources",
    "CloudEvent": "once.events.cloud_event",
    "Key": "once.events.identity",
    "FormerRecords": "once.former_records",
    "S3Object": "once.intake.envelopes",
    "NotPublished": "once.producer",
    "Producer": "once.producer",
    "Transaction": "once.transaction",
    "absent": "once.write_expressions",
    "present": "once.write_expressions",
}
"""The module of each public name."""

if not TYPE_CHECKING:
    __all__ = [*_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'once' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
