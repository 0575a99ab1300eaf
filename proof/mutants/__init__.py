"""Broken protocols: patches of the real code, each of which the proofs must catch.

Each is a protocol that is in use somewhere. All patches of the library by name are here.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import uuid4

from once.batch._ready_queue import ReadyQueue
from once.batch.isolation import Isolation
from once.batch.processor import BatchProcessor
from once.commit.committer import Committer
from once.commit.result import COMMITTED, DUPLICATE, failed
from once.effects.executor import EffectExecutor
from once.effects.ledger import EffectLedger
from once.errors import RequestRefused
from once.events.identity import Key
from once.failures.failure_handler import FailureHandler
from once.intake.reader import RecordReader
from once.names import Record
from once.ops.dead_letters.redrive import Redrive
from once.ops.effects import PendingEffect
from once.outbox.relay import Publisher, Topics
from proof.mutants import commits, effects, messages, order
from proof.mutants.items import ITEM_MUTANTS
from proof.mutants.webhooks import WEBHOOK_MUTANTS

Patch = Callable[[], AbstractContextManager[Any]]


class Broken(NamedTuple):
    """A broken protocol.

    Attributes:
        patch: the patch of the real code.
        scenarios: those whose seeds catch it, in turns; empty if it takes one schedule among
            thousands, which the exploration alone finds.
    """

    patch: Patch
    scenarios: tuple[str, ...] = ()


_RECORD = "once.commit.dedup_record"
_COMMITTER = "once.commit.committer"
_RELAY = "once.outbox.relay"
_HOUR = 60 * 60

_IN_SHOP: Mapping[str, Patch] = {
    "claim, then effect": lambda: patch.object(Committer, "commit", commits.claim_then_effect),
    "effect, then mark": lambda: patch.object(Committer, "commit", commits.effect_then_mark),
    "no condition on the record": lambda: patch(
        f"{_RECORD}._NEW_OR_EXPIRED", "attribute_not_exists(nothing)"
    ),
    "acknowledged before the commit": lambda: patch.object(
        BatchProcessor, "handle", messages.acknowledge_all
    ),
    "any cancellation is a failure": lambda: patch(
        f"{_COMMITTER}.classify", lambda *_: failed(RequestRefused("cancelled"))
    ),
    "any cancellation is a duplicate": lambda: patch(
        f"{_COMMITTER}.classify", lambda *_: DUPLICATE
    ),
    "no answer is done": lambda: patch.object(
        Committer, "_unanswered", lambda _, requests: [COMMITTED] * len(requests)
    ),
    "checkpoint first": lambda: patch.object(Publisher, "publish", messages.ignore_unpublished),
    "a fresh provider key on each attempt": lambda: patch.object(
        EffectExecutor, "_terms", effects.fresh_key
    ),
    "a fresh key on each delivery": lambda: patch.object(
        Key, "of", lambda *_, consumer, **__: f"{consumer}#{uuid4().hex}"
    ),
    "no fingerprint": commits.no_fingerprint,
    "a lease without a margin for clocks": lambda: patch.object(
        EffectLedger, "_check_lease", effects.no_margin
    ),
    "an expiry without a margin for clocks": lambda: patch(f"{_RECORD}.CLOCK_MARGIN_SECONDS", 0),
    "dead letters only in name": lambda: patch.object(
        FailureHandler, "_quarantined", lambda *_: True
    ),
    "acknowledged before it is isolated": lambda: patch.object(
        Isolation, "move", messages.acknowledge_first
    ),
    "redrive deletes first": lambda: patch.object(Redrive, "_sent", messages.delete_first),
}

_IN_ORDER: Mapping[str, Patch] = {
    "ordered events relayed from dedup records": lambda: patch(
        f"{_RECORD}.sequenced_types", lambda *_: []
    ),
    "ordered events relayed from record and sequence item": lambda: patch(
        f"{_RELAY}.found_in", order.found_in_record_and_item
    ),
    "several events of a group in one call": lambda: patch.object(
        Topics, "next_of", order.all_at_once
    ),
    "a later event after a failed one": lambda: patch(f"{_RELAY}.remaining", order.failed_last),
    "a group goes on after a failed message": lambda: patch.object(
        ReadyQueue, "_note", order.no_group_is_blocked
    ),
    "a blocked group goes on": lambda: patch.object(
        FailureHandler, "_is_final", order.permanent_is_final
    ),
    "waiting is an attempt": lambda: patch.object(
        FailureHandler, "_is_final", order.waiting_is_an_attempt
    ),
    "SQS counts waiting as an attempt": lambda: patch("proof.service.FIFO_RECEIVES", 6),
}

_RARE: Mapping[str, Patch] = {
    "a lease in place of the transaction": lambda: patch.object(
        Committer, "commit", commits.under_a_lease
    ),
    "one reason for all": lambda: patch.object(
        Committer, "_classify_each", commits.one_reason_for_all
    ),
    "published inline": lambda: patch.object(Committer, "commit", commits.published_inline),
    "a batch's answer is believed": lambda: patch(f"{_RELAY}._refused", lambda *_: []),
    "no deduplication downstream": lambda: patch(
        f"{_RECORD}._condition", messages.no_condition_for_notifications
    ),
    "bodies are read before messages are isolated": lambda: patch.object(
        BatchProcessor, "settle", messages.read_first
    ),
    "removals are relayed": lambda: patch(f"{_RELAY}.is_new", messages.relay_removals),
    "the message's id as the key": lambda: patch.object(
        RecordReader, "_decode", messages.message_id_as_key
    ),
    "a window shorter than a message lives": lambda: patch(
        "proof.service.DEDUP_WINDOW_SECONDS", _HOUR
    ),
    "a failed call is done": lambda: patch(
        "functions.payments.provider.charge", effects.failed_call_is_done
    ),
    "a provider key for ever": lambda: patch.object(
        EffectLedger, "_is_remembered", lambda *_: True
    ),
    "a saved error is not done": lambda: patch.object(
        EffectExecutor, "_look_up", effects.saved_error_is_not_done
    ),
    "resumed is clean": lambda: patch.object(EffectExecutor, "resume", effects.resumed_is_clean),
    "completion without a fence": lambda: patch(
        f"{_RECORD}._STILL_MINE", f"attribute_exists({Record.PK})"
    ),
    "pending without a lease": lambda: patch.object(EffectLedger, "_check_lease", lambda *_: None),
    "settled while its owner runs": lambda: patch.object(
        PendingEffect, "check_ended", lambda *_: None
    ),
    "never in doubt": lambda: patch.object(EffectExecutor, "hand_back", effects.never_in_doubt),
}

MUTANTS: Mapping[str, Broken] = {
    **{name: Broken(patch, ("shop",)) for name, patch in _IN_SHOP.items()},
    **{name: Broken(patch, ("fifo", "fifo, blocking")) for name, patch in _IN_ORDER.items()},
    **{
        f"{name}, on items": Broken(patch, ("items, alone", "items, in groups"))
        for name, patch in ITEM_MUTANTS.items()
    },
    **{
        f"{name}, at the ingress": Broken(patch, ("webhooks",))
        for name, patch in WEBHOOK_MUTANTS.items()
    },
    **{name: Broken(patch) for name, patch in _RARE.items()},
}
