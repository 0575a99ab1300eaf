"""The operator's commands, of the parts of the real command line: redrive, republish, settle."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

from botocore.exceptions import BotoCoreError, ClientError

from once.effects.executor import returned_text
from once.effects.ledger import Intent, not_done, settled
from once.names import RELAY, Record, State
from once.ops import republication
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.dead_letters import assessment as safety
from once.ops.dead_letters import redrive as ops_redrive
from once.ops.dead_letters.dead_letter import dead_letter_queues
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dead_letters.redrive import Redrive, RedriveRequest
from once.ops.dedup_records import DedupRecordReader, RecordFilter
from once.ops.errors import OpsError
from once.ops.pending_effects import PendingEffect, pending_effect, write_intent
from once.ops.republication import RelayFailed
from once.outbox.relay import NotRelayed, Relayed
from once.settings import Dedup
from proof.service import DEDUP, EVENTS, INGRESS, Place, Service, context, url
from proof.world.clients import clients
from proof.world.tasks import START

_MAX_DEAD_LETTERS = 1000
_NO_LIMIT = 1e9


def redrive(service: Service) -> None:
    """Send dead letters of all consumers back to their queues, as `once dlq redrive` does.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: a call fails.
    """
    sqs, deployment = clients().sqs, _deployment(service)
    records = DedupRecordReader.of(clients().dynamodb, deployment)
    queues = [queue for queue in dead_letter_queues(deployment) if queue.source_url]
    with QueueWalk(sqs, queues, _MAX_DEAD_LETTERS) as walk:
        job = Redrive(sqs, walk, records, RedriveRequest(rate=_NO_LIMIT))
        for page in walk.pages():
            job.send_page(page)


def settle(service: Service) -> None:
    """Settle all pending effects by what happened outside, as `once effects settle` does.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: a call fails.
    """
    table = DedupRecordReader(clients().dynamodb, DEDUP)
    records = service.world.tables.items[DEDUP].items()
    for pk in [pk for pk, item in records if item[Record.STATE] == {"S": State.PENDING}]:
        with suppress(OpsError):  # its owner may run, or the record has changed
            effect = pending_effect(table, pk)
            effect.check_ended(datetime.fromtimestamp(service.world.tasks.clock(), UTC))
            write_intent(table, effect, _settled(service, effect))


def _settled(service: Service, effect: PendingEffect) -> Intent:
    """Look outside, and return the intent with what is found there."""
    consumer, order = effect.pk.partition("#")[0], effect.pk.rpartition(":")[2]
    if consumer == "payments" and service.world.provider.charged()[order]:
        return settled(effect.intent, returned_text(b'{"charge_id":"found"}'), "{}")
    sent = service.world.mail.sent
    if consumer == "notifications" and any(order in subject for _, subject in sent):
        return settled(effect.intent, returned_text(b'{"message_id":"found"}'), "{}")
    return not_done(effect.intent, "{}")


def republish(service: Service) -> None:
    """Publish the events of all dedup records again, as `once outbox republish` does.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: a call fails.
        once.ops.errors.OpsError: the relay fails for too long.
    """
    begin = datetime.fromtimestamp(START, UTC)
    choice = RecordFilter(since=begin, until=None, consumer=None)
    republication.republish(
        DedupRecordReader(clients().dynamodb, DEDUP).scan_outboxes(choice),
        republication.with_retries(partial(_invoke_relay, service)),
        lambda *_: None,
    )


def _invoke_relay(service: Service, batch: Sequence[republication.StreamRecord]) -> Relayed:
    """Stand in for Lambda's Invoke: the relay runs, and is killed, in the operator's process."""
    clock = service.world.tasks.clock
    until = context(clock() + service.relay.seconds, clock)
    try:
        answer: Relayed = service.relay.make()({"Records": json.loads(json.dumps(batch))}, until)
    except (NotRelayed, ClientError, BotoCoreError) as error:
        raise RelayFailed(repr(error)) from error
    return answer


@contextmanager
def on_time(clock: Callable[[], float]) -> Iterator[None]:
    """Give the command line's parts the time of a world."""
    calendar = SimpleNamespace(now=lambda zone: datetime.fromtimestamp(clock(), zone))
    with ExitStack() as stack:
        for module in (safety, ops_redrive, republication):
            stack.enter_context(patch.object(module, "datetime", calendar))
        yield


def _deployment(service: Service) -> Deployment:
    return Deployment(
        service="once",
        ingress_topic_arn=INGRESS,
        events_topic_arn=EVENTS,
        relay_function_name=f"once-{RELAY}",
        relay_dead_letter_url=url(service.relay_dead_letters),
        unrouted_queue_url="unrouted",
        sweep_queue_url="sweep",
        dedup_table=DEDUP,
        operator_log="operator-log",
        tables={name: name for name in service.world.tables.items},
        consumers={name: _deployed(place) for name, place in service.places.items()},
    )


def _deployed(place: Place) -> DeployedConsumer:
    handlers, name = place.consumer.handlers, place.line.name
    [item_table] = place.line.tables if place.line.dedup is Dedup.ITEM else [None]
    return DeployedConsumer(
        name,
        url(place.queue),
        url(place.dead_letters),
        "",  # there is no Lambda in this world that could tell which version serves
        identity=name,
        external=tuple(handlers),
        keys={kind: one.key for kind, one in handlers.items()},
        volatile={kind: tuple(one.volatile) for kind, one in handlers.items()},
        item_table=item_table.name if item_table else None,
        item_key=item_table.keys if item_table else (),
    )
