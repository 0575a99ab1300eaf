"""Broken protocols, made of the real code: whoever checks the service must catch every one.

Each is an idea that somebody has shipped; the change is as small as the idea.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from once.batch._message_state import MessageState
from once.batch.isolation import Isolation
from once.batch.processor import BatchProcessor
from once.commit._cancellation import classify_record
from once.commit.committer import Committer
from once.commit.dedup_record import StoredRecord
from once.commit.request import CommitRequest
from once.commit.result import COMMITTED, DUPLICATE, CommitResult, failed
from once.deadline import Deadline
from once.effects.executor import EffectAttempt, EffectExecutor
from once.effects.ledger import EffectLedger
from once.errors import CommitRefused
from once.events.dedup_key import Key
from once.failures.failure_handler import FailureHandler
from once.handlers.effect_declaration import Call
from once.handlers.intent import Intent
from once.handlers.transaction import Transaction
from once.ops.dead_letters.redrive import Redriver, delete_letters
from once.outbox._sns_publisher import Publisher

Mutant = Callable[[], AbstractContextManager[Any]]


def _in_two(
    committer: Committer, requests: Sequence[CommitRequest], *parts: slice
) -> list[CommitResult]:
    """Commit parts of what belongs together one after the other."""
    for part in parts:
        entries: Any = [entry for request in requests for entry in request.entries[part]]
        try:
            if entries:
                committer._client.transact_write_items(TransactItems=entries)
        except ClientError as error:
            error.response["CancellationReasons"] = _in_their_places(error, requests, part)
            return committer._read_refusal(requests, error)
        except BotoCoreError:
            return committer._unanswered(requests)
    return [COMMITTED] * len(requests)


def _in_their_places(
    error: ClientError, requests: Sequence[CommitRequest], part: slice
) -> list[Any]:
    """Return the reasons where they would stand if all had been one request."""
    reasons = iter(error.response.get("CancellationReasons", []))
    innocent = {"Code": "None"}
    return [
        next(reasons, innocent) if number in range(len(request.entries))[part] else innocent
        for request in requests
        for number, _ in enumerate(request.entries)
    ]


def _claim_then_effect(self: Committer, requests: Sequence[CommitRequest]) -> list[CommitResult]:
    return _in_two(self, requests, slice(0, 1), slice(1, None))


def _effect_then_mark(self: Committer, requests: Sequence[CommitRequest]) -> list[CommitResult]:
    return _in_two(self, requests, slice(1, None), slice(0, 1))


def _everything_is_acknowledged(self: BatchProcessor, event: Any, context: Any) -> Any:
    _handle(self, event, context)
    return {"batchItemFailures": []}


_handle = BatchProcessor.handle


def _nothing_is_missing(self: Publisher, events: Any) -> list[Any]:
    _publish(self, events)
    return []


_publish = Publisher.publish


def _fresh_key(self: EffectExecutor, attempt: EffectAttempt) -> Call:
    terms = _terms(self, attempt)
    return Call(uuid4().hex, terms.timeout_seconds)


_terms = EffectExecutor._terms


def _no_margin(self: EffectLedger, found: Intent, margin: float) -> None:  # noqa: ARG001
    _check_lease(self, found, 0)


_check_lease = EffectLedger._check_lease


def _delete_first(self: Redriver, pairs: Any) -> Any:
    delete_letters(self._sqs, [letter for letter, _ in pairs])
    return _sent(self, pairs)


_sent = Redriver._sent


def _whatever_the_content(transaction: Transaction, stored: StoredRecord) -> CommitResult:
    return classify_record(
        transaction, replace(stored, fingerprint=transaction.identity.fingerprint)
    )


def _acknowledged_first(
    self: Isolation, messages: Sequence[MessageState], deadline: Deadline
) -> Any:
    self.acknowledge(messages, deadline)
    return _move(self, messages, deadline)


_move = Isolation.move


@contextmanager
def _no_fingerprint() -> Iterator[None]:
    with (
        patch("once.commit._cancellation.classify_record", _whatever_the_content),
        patch("once.commit.committer.classify_record", _whatever_the_content),
    ):
        yield


MUTANTS: Mapping[str, Mutant] = {
    "claim, then effect": lambda: patch.object(Committer, "commit", _claim_then_effect),
    "effect, then mark": lambda: patch.object(Committer, "commit", _effect_then_mark),
    "no condition on the record": lambda: patch(
        "once.commit.dedup_record._NEW_OR_EXPIRED", "attribute_not_exists(nothing)"
    ),
    "acknowledged before the commit": lambda: patch.object(
        BatchProcessor, "handle", _everything_is_acknowledged
    ),
    "any cancellation is a failure": lambda: patch(
        "once.commit.committer.classify", lambda *_: failed(CommitRefused("cancelled"))
    ),
    "any cancellation is a duplicate": lambda: patch(
        "once.commit.committer.classify", lambda *_: DUPLICATE
    ),
    "no answer is done": lambda: patch.object(
        Committer, "_unanswered", lambda _, requests: [COMMITTED] * len(requests)
    ),
    "checkpoint first": lambda: patch.object(Publisher, "publish", _nothing_is_missing),
    "a fresh provider key on each attempt": lambda: patch.object(
        EffectExecutor, "_terms", _fresh_key
    ),
    "a fresh key on each delivery": lambda: patch.object(
        Key, "of", lambda *_, consumer, **__: f"{consumer}#{uuid4().hex}"
    ),
    "no fingerprint": _no_fingerprint,
    "a lease without a margin for clocks": lambda: patch.object(
        EffectLedger, "_check_lease", _no_margin
    ),
    "an expiry without a margin for clocks": lambda: patch(
        "once.commit.dedup_record.CLOCK_MARGIN_SECONDS", 0
    ),
    "dead letters only in name": lambda: patch.object(
        FailureHandler, "_quarantined", lambda *_: True
    ),
    "acknowledged before it is isolated": lambda: patch.object(
        Isolation, "move", _acknowledged_first
    ),
    "redrive deletes first": lambda: patch.object(Redriver, "_sent", _delete_first),
}
