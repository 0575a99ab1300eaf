"""Broken protocols: changes of the real code, each of which the proofs must catch.

Each is a protocol that is in use somewhere. All changes of the library by name are here.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import NamedTuple

from functions.payments import provider
from once.batch._ready_queue import ReadyQueue
from once.batch.isolation import Isolation
from once.batch.message import MessageSteps
from once.batch.processor import BatchProcessor
from once.commands.runner import CommandRunner
from once.commit import dedup_record, item_dedup, result
from once.commit.committer import Committer
from once.effects import concurrent_calls
from once.effects.executor import EffectExecutor, _Run
from once.effects.ledger import EffectLedger
from once.events import identity, outgoing
from once.failures.circuit_breaker import CircuitBreaker
from once.failures.failure_handler import FailureHandler
from once.intake.reader import RecordReader
from once.names import Record
from once.ops.dead_letters.redrive import Redrive
from once.ops.pending_effects import PendingEffect
from once.outbox import publisher, relay
from once.outbox.due_events import DueEvents
from once.transaction import Transaction
from once.webhooks import ingress, signature, webhook
from once.webhooks.captured_webhook import Capture
from once.webhooks.endpoint import Profile
from proof.explore.scopes import Scope, scope_named
from proof.mutants.commits import CLAIM, EFFECT, in_two, published_inline
from proof.mutants.edits import Change, edit, instead, value
from proof.run import FailoverRun
from proof.scenarios import due_events
from proof.scenarios.regions import Regions
from proof.world.regions import Region


class Broken(NamedTuple):
    """Changes of the real code, and what catches them: seeds of the scenarios in turns, or a scope.

    Some take one schedule among thousands, which the exploration alone finds.
    """

    changes: tuple[Change, ...]
    scenarios: tuple[str, ...] = ()
    scope: Scope | None = None

    @contextmanager
    def patch(self) -> Iterator[None]:
        """Run the changed code."""
        with ExitStack() as stack:
            for change in self.changes:
                stack.enter_context(change())
            yield


Changes = Mapping[str, Change | tuple[Change, ...]]

_RECORD, _ITEM = "once.commit.dedup_record", "once.commit.item_dedup"
_HOUR = 60 * 60

_IN_SCOPES: Mapping[tuple[str, int, int], Changes] = {
    ("two deliveries of one event", 1, 1): {
        "claim, then effect": in_two(CLAIM, EFFECT),
        "effect, then mark": in_two(EFFECT, CLAIM),
        "no condition on the record": value(
            f"{_RECORD}._NEW_OR_EXPIRED", "attribute_not_exists(nothing)"
        ),
        "acknowledged before the commit": edit(
            BatchProcessor.handle, "is Disposition.RETRIED", "is None"
        ),
        "any cancellation is a duplicate": value(
            "once.commit.committer.classify", lambda *_: result.DUPLICATE
        ),
        "no answer is done": instead(Committer._read_back, "return [COMMITTED] * len(requests)"),
        "checkpoint first": edit(
            publisher.Publisher.publish, "in self._attempt(batch)]", "in self._attempt(batch)][:0]"
        ),
        "the message's id as the key": edit(
            RecordReader._key,
            "item = ",
            "message_id = delivery.record['messageId']\n        "
            "delivery.pk = f'{settings.consumer}#{message_id}'\n        item = ",
        ),
        "published inline": value("once.commit.committer.Committer.commit", published_inline),
        "a batch's answer is believed": instead(publisher._refused, "return []"),
    },
    ("a duplicate beside another event", 0, 0): {
        "one reason for all": edit(
            Committer._classify_each,
            "else results",
            "else [r for r in results if r.outcome.name == 'DUPLICATE'][:1] * len(requests) "
            "or results",
        ),
    },
    ("two contents under one key", 0, 0): {
        "no fingerprint": edit(
            result.classify_record,
            "if stored.fingerprint != transaction.identity.fingerprint:",
            "if False:",
        ),
        "dead letters only in name": instead(FailureHandler._quarantined, "return True"),
    },
    ("relay and downstream", 0, 1): {
        "any cancellation is a failure": instead(
            Committer._classify, "return failed(RequestRefused('cancelled'))"
        ),
        "no deduplication downstream": edit(
            dedup_record._condition,
            "if transaction.owned is None:",
            "if transaction.identity.pk.startswith("
            "'notifications#'): return {}\n    if transaction.owned is None:",
        ),
    },
    ("relay and expiry", 0, 0): {
        "removals are relayed": instead(
            relay.is_new,
            "images = record['dynamodb']\n"
            "images.setdefault('NewImage', images.get('OldImage'))\n"
            "return True",
        ),
        "a window shorter than a message lives": value("proof.service.DEDUP_WINDOW_SECONDS", _HOUR),
    },
    ("expiry by skewed clocks", 0, 0): {
        "an expiry without a margin for clocks": value(f"{_RECORD}.CLOCK_MARGIN_SECONDS", 0),
    },
    ("charge", 0, 1): {
        "a fresh provider key on each attempt": edit(
            EffectExecutor._terms,
            "attempt.intent.provider_key",
            "f'{attempt.pk} at {self.ledger.clock()}'",
        ),
        "a failed call is done": edit(
            provider.charge,
            "raise _meaning(error) from error",
            "return Result(charge_id='no answer', paid=True)",
        ),
        "a saved error is not done": edit(
            EffectExecutor._look_up,
            "_Run(attempt.effect.look_up,",
            "_Run(lambda *_: None,",
        ),
    },
    ("charge and outage", 1, 1): {
        "a provider key for ever": instead(EffectLedger._is_remembered, "return True"),
    },
    ("charge and outage", 1, 2): {
        "resumed is clean": edit(
            EffectExecutor.resume, "clean = found.standing is Standing.NOT_DONE", "clean = True"
        ),
    },
    ("two deliveries of a charge by skewed clocks", 1, 0): {
        "completion without a fence": value(
            f"{_RECORD}._STILL_MINE", f"attribute_exists({Record.PK})"
        ),
    },
    ("two deliveries of an e-mail", 1, 1): {
        "pending without a lease": instead(EffectLedger._check_lease, "return"),
        "never in doubt": edit(
            EffectExecutor.hand_back, "if attempt.clean else Standing.UNKNOWN", ""
        ),
    },
    ("e-mail by skewed clocks", 1, 0): {
        "a lease without a margin for clocks": edit(EffectLedger._check_lease, " + margin", ""),
    },
    ("e-mail settled by hand", 1, 0): {
        "settled while its owner runs": instead(PendingEffect.check_ended, "return"),
    },
    ("a body that ends the function beside another event", 0, 0): {
        "bodies are read before messages are isolated": edit(
            BatchProcessor.process,
            "finished = self._finish(self._sort_out",
            "[self.reader.read(m.delivery, m.deadline) "
            "for m in messages]; finished = self._finish(self._sort_out",
        ),
    },
    ("redrive", 0, 1): {
        "redrive deletes first": edit(
            Redrive._sent, "queue =", "self.walk.delete([m.dead_letter for m in messages]); queue ="
        ),
    },
    ("entries of one account", 0, 1): {
        "a later event after a failed one": edit(
            publisher.remaining,
            "in events if",
            "in sorted(events, key=lambda e: e.id in {f.event.id for f in failures}) if",
        ),
        "a group goes on after a failed message": edit(
            ReadyQueue._note, "self._blocked.add(group)", "pass"
        ),
    },
}
"""By the scope that catches them, and the most preemptions and faults that it takes."""

_IN_SHOP: Changes = {
    "a forged event is published": instead(outgoing.check_origin, "return"),
    "an event that cannot be published is dropped": instead(relay.Relay._dead_letter, "return ''"),
    "acknowledged before it is isolated": edit(
        Isolation.move,
        "moved: ",
        "self.acknowledge([m.delivery for m in messages], deadline); moved: ",
    ),
}

_WITHIN_HOOKS: Changes = {
    "a hook says what happened": edit(
        _Run.__init__, "if self.is_answered or not self.has_begun:", "if True:"
    ),
    "a hook's error counts more than an answer": edit(
        EffectExecutor._attempt, "if run.is_answered:", "if run.is_answered and not run.error:"
    ),
    "an error before the call makes an earlier one undone": edit(
        EffectExecutor._attempt, "attempt.clean = clean", "attempt.clean = True"
    ),
}

_SIDE_BY_SIDE: Changes = {
    "no wait for the first answer": value(
        "once.failures.circuit_breaker.CircuitBreaker.is_proven", True
    ),
    "an outcome that all messages share": (
        edit(
            EffectExecutor.call,
            "_check_outcome(effect,",
            "self._last = attempt.outcome; _check_outcome(effect,",
        ),
        edit(MessageSteps._complete, "attempt.outcome", "self.effects._last"),
    ),
    "the lease, key and request of a neighbour": edit(
        EffectExecutor.begin, "intent, deadline", "self.__dict__.setdefault('_a', intent), deadline"
    ),
    "an outcome before its call has ended": (
        instead(concurrent_calls.wait_for_calls, "return"),
        edit(ReadyQueue.choose_called, " and m.call.done()", ""),
        edit(MessageSteps.complete, "call.result()", "call.done() and call.result()"),
    ),
}

_FAILING: Changes = {
    "the attempt after a delay goes to any message": edit(
        CircuitBreaker.holds, "is_half_open and self._knows(message_id)", "False"
    ),
}

_IN_ORDER: Changes = {
    "ordered events relayed from dedup records": instead(dedup_record.sequenced_types, "return []"),
    "several events of a group in one call": instead(
        publisher.Publisher.next_of, "return [*events]"
    ),
    "a blocked group goes on": edit(
        FailureHandler._is_final, " and not self._settings.blocks_group", ""
    ),
    "waiting is an attempt": edit(
        FailureHandler._is_final, "return False", "return delivery.is_last_chance"
    ),
}

_ON_ITEMS: Changes = {
    "no condition on the record": value(
        f"{_ITEM}._NEW_OR_EXPIRED", "attribute_not_exists(nothing)"
    ),
    "a plain put without a condition": edit(
        item_dedup._add_condition,
        "names = write.",
        "if action.kind == 'Put': return\n    names = write.",
    ),
    # The look-up of often received messages would acknowledge the duplicate at its third receive.
    "a duplicate is the handler's condition": (
        instead(
            item_dedup.ItemCommitter._classify,
            "return classify(request.transaction, request.actions.values(), "
            "[_NO_REASON, *reasons])",
        ),
        instead(MessageSteps.look_up, "return"),
    ),
    "one record for all event types": edit(item_dedup.item_record_name, "{event_type}", "any"),
    "a put erases the records of others": edit(item_dedup._with_record, " **serialize(kept),", ""),
}

_ATTEMPT = "return self.committer.commit_alone(request, deadline)"
_RESULT = "result = self.committer.commit_alone(request, deadline); return "

_AT_THE_INGRESS: Changes = {
    "no check of signatures": instead(signature.verify, "return Authenticity.GENUINE"),
    "no limit of age": edit(signature._is_timely, "abs(at - now)", "at - now"),
    "secrets that are never read again": edit(
        ingress.Ingress._authenticity, ", refreshed=True", ""
    ),
    "secrets that are kept for ever": value("once.webhooks.signature.KEPT_SECONDS", 1e12),
    "the current secret alone": edit(
        ingress._authenticity_by,
        "zip(Verified, secrets, strict=True)",
        "[*zip(Verified, secrets)][:1]",
    ),
    "another topic is a conflict": edit(
        webhook.Webhook._key, "self.endpoint.profile.type_in_key", "False"
    ),
    "an id that nobody signed is the key": instead(Profile.has_signed_id, "return True"),
    "success whatever the ingress did": edit(ingress.CountedAnswer.failed, "503", "200"),
    "the dedup record before the capture": in_two(CLAIM, EFFECT, of="webhooks#"),
    "the capture before the dedup record": in_two(EFFECT, CLAIM, of="webhooks#"),
    "a record without its event": edit(
        ingress.CaptureCommitter._attempt, "transaction.drafts.append(", "("
    ),
    "a capture that is written anew": edit(
        Capture.item,
        "item = {",
        "if (self.body or b'')[:1] == b'{':\n"
        "            known['body'] = json.dumps(json.loads(self.body), sort_keys=True).encode()\n"
        "        item = {",
    ),
    "a forgery is captured, and refused": edit(
        ingress.Ingress._received,
        "if authenticity in _REFUSED:",
        "if False:",
        "return CountedAnswer(answer(200), metric,",
        "return _REFUSED.get(authenticity) or CountedAnswer(answer(200), metric,",
    ),
    "a conflict is dropped": edit(
        ingress.CaptureCommitter._attempt,
        _ATTEMPT,
        f"{_RESULT}CommitResult(CommitOutcome.DUPLICATE) "
        "if isinstance(result.cause, KeyConflict) else result",
    ),
    "a duplicate is refused": edit(
        ingress.CaptureCommitter._attempt,
        _ATTEMPT,
        f"{_RESULT}failed(RequestRefused('known')) "
        "if result.outcome is CommitOutcome.DUPLICATE else result",
    ),
    "a body that may not be stored": edit(
        ingress.CaptureCommitter._store,
        "ClaimStore(self",
        "with suppress(OnceError): ClaimStore(self",
    ),
}


_OF_CALLERS: Changes = {
    "no condition on the record": value(
        f"{_RECORD}._NEW_OR_EXPIRED", "attribute_not_exists(nothing)"
    ),
    "claim, then effect": in_two(CLAIM, EFFECT, of="checkout#"),
    "effect, then mark": in_two(EFFECT, CLAIM, of="checkout#"),
    "a key of one attempt": edit(
        identity.command_key, "command, key)", "command, key + __import__('os').urandom(4).hex())"
    ),
    "no scope in the key": edit(
        identity.command_key, "sha256(scope.encode()).hexdigest()", "'any'"
    ),
    "no fingerprint": edit(
        result.classify_record,
        "if stored.fingerprint != transaction.identity.fingerprint:",
        "if False:",
    ),
    "answers kept in memory by their key": edit(
        CommandRunner._answered,
        "return self._committed(command, deadline)",
        "return self.__dict__.setdefault('_kept', {}).setdefault(command.event.id, "
        "self._committed(command, deadline))",
    ),
    "a repeated answer is rendered anew": edit(
        CommandRunner._committed, "return self._repeated(result)", "return reply"
    ),
    "a record without the answer": edit(
        CommandRunner._filled, "transaction.answer = reply.attribute()", "pass"
    ),
    "answered before the commit": edit(
        CommandRunner._committed, "request = ", "return reply; request = "
    ),
    "no answer is done": instead(Committer._read_back, "return [COMMITTED] * len(requests)"),
    "a refusal is not stored": edit(
        CommandRunner._committed,
        "transaction, reply = self._refused(command, answer)",
        "return self._refused(command, answer)[1]",
    ),
    "an error counts more than the record": edit(
        CommandRunner._answered, "if known is None:", "if True:"
    ),
}

_IN_TWO_REGIONS: Changes = {
    "no fence": instead(Region.is_fenced, "return False"),
    "a fence by the clock of a function": edit(
        Region.is_fenced, "self.tasks.now", "self.tasks.now - 300"
    ),
    "a transaction is atomic across Regions": value("proof.scenarios.regions.TORN", False),
    "a takeover before replication has ended": edit(
        FailoverRun._fail_over, "self._go_on()", "self._go_on(loss.after)"
    ),
    "the relay of a drained Region goes on": instead(Regions.stop, "return"),
    "a provider key that each Region draws": edit(
        EffectLedger.open, "key_hash(pk)", "key_hash(pk + __import__('os').urandom(4).hex())"
    ),
    "the relay of a standby runs": edit(Regions.__init__, "self.standby.relays_from = ", ""),
}

_LATER: Changes = {
    "a due event is published at once": edit(relay.Relay._publish, "event.due > now", "False"),
    "due when it is committed": edit(
        outgoing.due_time,
        "return ceil(now + after)",
        "return ceil(now)",
    ),
    "checkpoint before the schedule": instead(DueEvents.create, "return []"),
    "a throttled schedule is there": edit(
        DueEvents._attempt, 'code == "ConflictException"', 'code != "ValidationException"'
    ),
    "a schedule that is there is a fault of its event": edit(
        DueEvents._attempt,
        'if code == "ConflictException":\n                return None',
        'if code == "ConflictException":\n                is_near, code = False, "Permanent"',
        'code == "ValidationException"',
        'code in ("ValidationException", "Permanent")',
    ),
    "a time that has passed for AWS is a fault of its event": edit(
        DueEvents._attempt, " and not is_near", ""
    ),
    "no condition on the record": value(
        f"{_RECORD}._NEW_OR_EXPIRED", "attribute_not_exists(nothing)"
    ),
    "a process is read, and not checked by the commit": edit(
        Transaction.actions, "checks = {", "checks = {} and {"
    ),
    "a due event does not look at the process": edit(
        due_events._cancel, 'process["status"] == "open"', "True"
    ),
}


def _broken(
    changes: Changes, *scenarios: str, suffix: str = "", scope: Scope | None = None
) -> Iterator[tuple[str, Broken]]:
    for name, change in changes.items():
        every = change if isinstance(change, tuple) else (change,)
        yield f"{name}{suffix}", Broken(every, scenarios, scope)


def _in_scopes() -> Iterator[tuple[str, Broken]]:
    for (name, preemptions, faults), changes in _IN_SCOPES.items():
        scope = replace(scope_named(name), preemptions=preemptions, faults=faults)
        yield from _broken(changes, scope=scope)


MUTANTS: Mapping[str, Broken] = dict(
    [
        *_in_scopes(),
        *_broken(_IN_SHOP, "shop"),
        *_broken(_SIDE_BY_SIDE, "effects"),
        *_broken(_WITHIN_HOOKS, "effects"),
        *_broken(_FAILING, "failing orders"),
        *_broken(_IN_ORDER, "fifo", "fifo, blocking"),
        *_broken(_ON_ITEMS, "items, alone", "items, in groups", suffix=", on items"),
        *_broken(_AT_THE_INGRESS, "webhooks", suffix=", at the ingress"),
        *_broken(_OF_CALLERS, "commands", suffix=", of a command"),
        *_broken(_IN_TWO_REGIONS, "regions"),
        *_broken(_LATER, "due events", suffix=", later"),
    ]
)
