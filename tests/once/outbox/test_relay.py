"""The relay publishes each commit in the stream, and dead-letters what it cannot or may not."""

import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock, call

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from once.events.identity import key_hash
from once.events.outgoing import OutgoingEvent
from once.names import Limits
from once.outbox.relay import NotRelayed, Relay
from once.runtime.sdk import SDK
from once.testing import Fault, inject, never_sent, refused
from tests.once.outbox.relaying import (
    THEN,
    RelayHarness,
    answered,
    batch_answer,
    change,
    image,
    outgoing,
)
from tests.once.support import calls, facts

ONE, TWO = outgoing(0), outgoing(1)
THREE = outgoing(0, pk="notes#f")
PENDING = image(commit="pending")


def test_o1_a_relay_that_dies_between_send_and_checkpoint_publishes_the_same_events_again(
    harness: RelayHarness,
) -> None:
    records = change(image(ONE, TWO)), change(image(THREE, pk="notes#f"))
    harness.handle(*records)
    harness.handle(*records)
    assert harness.published() == [ONE.body, TWO.body, THREE.body] * 2
    line = harness.logged()[-1]
    assert (line["message"], line["published"]) == ("relayed", 3)


@pytest.mark.parametrize(
    ("new", "old", "published"),
    [
        pytest.param(image(ONE), None, True, id="a new record"),
        pytest.param(image(ONE, commit="d"), PENDING, True, id="pending turns done"),
        pytest.param(image(ONE, commit="d"), image(TWO), True, id="put over an expired record"),
        pytest.param(image(ONE), {"pk": {"S": "notes#e"}}, True, id="put over no commit"),
        pytest.param(PENDING, None, False, id="pending"),
        pytest.param(image(), None, False, id="done, without events"),
        pytest.param(image(ONE), image(ONE), False, id="changed outside a commit"),
        pytest.param(PENDING, PENDING, False, id="an effect taken over"),
        pytest.param(None, image(ONE), False, id="removed"),
        pytest.param(None, PENDING, False, id="removed while pending"),
    ],
)
def test_o5_the_commit_id_decides_what_is_published(
    harness: RelayHarness, new: Any, old: Any, *, published: bool
) -> None:
    harness.handle(change(new, old))
    assert harness.published() == ([ONE.body] if published else [])
    assert harness.dead_letters() == []


def committed(milliseconds: int, *events: Any, pk: str = "notes#e") -> dict[str, Any]:
    """A new record, committed so many milliseconds after the others."""
    time = {"committed_at": {"N": str(THEN * 1000 + milliseconds)}}
    return change(image(*events, pk=pk) | time)


UNDATED = {name: value for name, value in image(ONE).items() if name != "committed_at"}
METRICS: dict[str, Any] = {
    "a record without events does not count": (
        (committed(-9000, pk="notes#f"), committed(0, ONE)),
        [([2500.0], [1.0])],
    ),
    "a clock behind the consumer's": ((committed(60_000, ONE),), [([0.0], [1.0])]),
    "a record without its time": ((change(UNDATED),), [(None, [1.0])]),
    "pending": ((change(PENDING),), []),
    "removed": ((change(None, image(ONE)),), []),
    "unreadable": ((change(image(outbox={"S": "no JSON"})),), []),
    "refused by the topic": ((change(image(outgoing(0, 300_000))),), []),
}


def metrics(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The metrics that were written, one object for each line."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]


@pytest.mark.parametrize(("records", "expected"), METRICS.values(), ids=METRICS)
def test_lag_and_number_of_published_events_are_measured(
    harness: RelayHarness, capsys: pytest.CaptureFixture[str], records: Any, expected: Any
) -> None:
    harness.handle(*records)
    found = [(line.get("RelayLag"), line["EventsPublished"]) for line in metrics(capsys)]
    assert found == expected


def test_the_lag_of_the_slowest_event_of_a_batch_is_measured_in_one_line(
    harness: RelayHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.handle(committed(0, ONE, TWO), committed(-4000, THREE, pk="notes#f"))
    [line] = metrics(capsys)
    assert line.pop("_aws")["CloudWatchMetrics"] == [
        {
            "Namespace": "Once",
            "Dimensions": [["service"]],
            "Metrics": [
                {"Name": "RelayLag", "Unit": "Milliseconds"},
                {"Name": "EventsPublished", "Unit": "Count"},
            ],
        }
    ]
    assert line == {"service": "shop-outbox_relay", "RelayLag": [6500.0], "EventsPublished": [3.0]}


def test_the_relay_of_a_function_has_its_region_and_the_sdk_settings(
    harness: RelayHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boto3.client", client := Mock())
    relay = Relay.of(harness.settings, region="eu-central-1")
    relay.sqs.list_queues()  # its client is made on first use
    made = [call(service, "eu-central-1", config=SDK) for service in ("sns", "sqs")]
    assert client.call_args_list == made
    assert relay.logger.service == "shop"


EVENTS = [outgoing(n) for n in range(3)]
BODIES = [event.body for event in EVENTS]
BATCH = change(image(*EVENTS))

TRANSIENT = {"throttled": refused("Throttling"), "timeout": never_sent()}


@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
@pytest.mark.usefixtures("longest_delays")
def test_o2_a_transient_fault_is_retried_after_doubling_pauses(
    harness: RelayHarness, fault: Fault
) -> None:
    paused: list[float] = []
    harness.relay = replace(harness.relay, sleep=paused.append)
    with inject(harness.relay.sns, "PublishBatch", *[fault] * 4) as left:
        harness.handle(BATCH)
    assert left == []
    assert paused == [0.025, 0.05, 0.1, 0.2]
    assert harness.published() == BODIES
    assert harness.dead_letters() == []


@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
def test_o2_a_topic_that_takes_nothing_until_the_time_is_up_fails_the_batch(
    harness: RelayHarness, fault: Fault
) -> None:
    with (
        inject(harness.relay.sns, "PublishBatch", *[fault] * 1000),
        pytest.raises(NotRelayed, match="3 events are not published: "),
    ):
        harness.handle(BATCH)
    assert harness.context.remaining_ms >= harness.settings.time_margin_ms
    assert harness.published() == []
    assert harness.dead_letters() == []
    assert "relayed" not in harness.stream.getvalue()


def test_o6_of_a_batch_that_half_fails_under_http_200_only_the_failed_are_sent_again(
    harness: RelayHarness,
) -> None:
    half = batch_answer(taken="1", throttled="0")
    with answered(harness.relay.sns, half, {}) as left, calls(harness.relay.sns) as made:
        harness.handle(BATCH)
    assert left == []
    sent = [[e["Message"] for e in p["PublishBatchRequestEntries"]] for _, p in made]
    failed = [BODIES[0], BODIES[2]]
    assert sent == [BODIES, failed, failed]
    assert harness.published() == failed


@pytest.mark.parametrize(
    ("first", "waiting"),
    [
        (batch_answer(taken="0", throttled="12"), 2),
        (batch_answer(taken="2", refused="0", throttled="1"), 1),
    ],
    ids=["beside a published event", "beside a refused event"],
)
def test_o6_the_error_counts_the_events_that_stay_throttled(
    harness: RelayHarness, first: dict[str, Any], waiting: int
) -> None:
    with (
        answered(harness.relay.sns, first, *[batch_answer(throttled="01")] * 1000),
        pytest.raises(NotRelayed, match=f"^{waiting} events are not published: Throttled"),
    ):
        harness.handle(BATCH)


# The relay dead-letters events that it cannot or may not publish, and publishes the rest.


SECRET = "S3CRET"
KEY = f"notes#event#/shop#{SECRET}"
OWN, BEFORE, POISON, AFTER = (outgoing(0, pk=pk) for pk in ("notes#e", "notes#b", KEY, "notes#a"))
FACTS = {
    "reason": "unpublishable",
    "consumer": "notes",
    "key": KEY,
    "lineage": "stream-7",
}


def between(poison: dict[str, Any]) -> list[dict[str, Any]]:
    """A record between two neighbours."""
    neighbours = image(BEFORE, pk="notes#b"), image(AFTER, pk="notes#a")
    return [change(neighbours[0]), change(poison, number=7), change(neighbours[1])]


OUTBOXES: dict[str, Any] = {
    "empty": {"S": ""},
    "no JSON": {"S": f"{SECRET}"},
    "cut off": {"S": f'[{{"id": "{SECRET}'},
    "an event without an id": {"S": f'[{{"source": "/s", "type": "{SECRET}"}}]'},
    "an id that is no text": {"S": f'[{{"id": 1, "source": "{SECRET}", "type": "t"}}]'},
    "nested": {"S": "[" * 100_000},
    "nested in an event": {
        "S": f'[{{"id": "{SECRET}", "source": "/s", "type": "t", "data": {"[" * 100_000}'
    },
    "a lone surrogate": {"S": f'[{{"id": "{SECRET}\ud800", "source": "/s", "type": "t"}}]'},
    "no characters": {"S": f"\x00\ufffe{SECRET}"},
    "a number": {"N": "7"},
}


@pytest.mark.parametrize("outbox", OUTBOXES.values(), ids=OUTBOXES)
def test_o4_an_outbox_that_cannot_be_read_is_dead_lettered_and_its_neighbours_are_published(
    harness: RelayHarness, outbox: Any
) -> None:
    harness.handle(*between(image(pk=KEY) | {"outbox": outbox}))
    assert harness.published() == [BEFORE.body, AFTER.body]
    [dead_letter] = harness.dead_letters()
    found = facts(dead_letter)
    assert found.pop("error").startswith("Unpublishable: the record's outbox cannot be read: ")
    assert found == FACTS
    line = harness.logged()[0]
    assert (line["message"], line["reason"]) == ("quarantined", "unpublishable")
    assert (line["error"], line["key_hash"]) == ("Unpublishable", key_hash(KEY))
    assert SECRET not in harness.stream.getvalue()


def test_o4_the_dead_letter_of_an_outbox_has_its_text_if_it_is_text(harness: RelayHarness) -> None:
    records = image(OWN, outgoing(1)), image(outbox={"S": '[{"id": 1}]'}), image(outbox={"N": "7"})
    answer = harness.handle(*map(change, records))
    assert answer == {"published": {"counted": 2}, "dead_lettered": [key_hash("notes#e")] * 2}
    bodies = [dead_letter["Body"] for dead_letter in harness.dead_letters()]
    assert bodies == ['[{"id": 1}]', "the record has no outbox that could be read"]


def test_o4_an_event_over_256_kib_is_dead_lettered_and_its_neighbours_are_published(
    harness: RelayHarness,
) -> None:
    large = outgoing(1, Limits.TOPIC_MESSAGE_BYTES + 1, pk=KEY)
    harness.handle(*between(image(POISON, large, pk=KEY)))
    assert harness.published() == [BEFORE.body, POISON.body, AFTER.body]
    assert [dead_letter["Body"] for dead_letter in harness.dead_letters()] == [large.body]
    assert SECRET not in harness.stream.getvalue()


@pytest.mark.parametrize(
    ("answers", "published", "dead"),
    [
        ([batch_answer(taken="02", refused="1")], [], [POISON]),
        ([batch_answer(taken="2", throttled="0", refused="1")], [BEFORE], [POISON]),
        (
            [batch_answer(taken="2", throttled="1", refused="0"), batch_answer(refused="0")],
            [],
            [BEFORE, POISON],
        ),
    ],
    ids=["alone", "beside a throttled event", "at two attempts"],
)
def test_o4_an_event_that_the_topic_refuses_is_dead_lettered_and_not_sent_again(
    harness: RelayHarness,
    answers: list[dict[str, Any]],
    published: list[OutgoingEvent],
    dead: list[OutgoingEvent],
) -> None:
    with answered(harness.relay.sns, *answers) as left:
        harness.handle(*between(image(POISON, pk=KEY)))
    assert left == []
    assert harness.published() == [event.body for event in published]
    dead_letters = harness.dead_letters()
    assert [dead_letter["Body"] for dead_letter in dead_letters] == [event.body for event in dead]
    error = "Unpublishable: the topic refuses counted: InvalidParameter"
    assert facts(dead_letters[-1]) == {**FACTS, "error": error}
    assert harness.logged()[-1]["published"] == 3 - len(dead)
    assert SECRET not in harness.stream.getvalue()


@pytest.mark.parametrize(
    "fault",
    [refused("AccessDenied", status=403), refused("InternalError", status=500), never_sent()],
    ids=["no rights", "server error", "timeout"],
)
@pytest.mark.parametrize(
    "poison",
    [image(outbox={"S": "no JSON"}), image(outgoing(0, 300_000))],
    ids=["unreadable", "refused"],
)
def test_o4_a_dead_letter_that_cannot_be_written_fails_the_batch(
    harness: RelayHarness, poison: dict[str, Any], fault: Fault
) -> None:
    with (
        inject(harness.relay.sqs, "SendMessage", fault) as left,
        pytest.raises((ClientError, ReadTimeoutError)),
    ):
        harness.handle(*between(poison))
    assert left == []
    assert harness.dead_letters() == []
    assert "quarantined" not in harness.stream.getvalue()
    harness.handle(*between(poison))
    assert len(harness.dead_letters()) == 1
    assert {BEFORE.body, AFTER.body} <= set(harness.published())


FOREIGN_TYPE = (
    "notes may not publish payment.captured: add the type to publishes= of its declaration in the "
    "CDK app and deploy, or find out who wrote the record"
)
FOREIGN_SOURCE = (
    "its source is {!r} and not '/once/notes', that of the record's consumer: find out who wrote "
    "the record"
)
FOREIGN_ID = "its id is not derived from the key of its record: find out who wrote the record"
FORGED: dict[str, tuple[OutgoingEvent, str]] = {
    "a type of another consumer": (outgoing(1, type="payment.captured"), FOREIGN_TYPE),
    **{
        f"the source {source}": (outgoing(1, source=source), FOREIGN_SOURCE.format(source))
        for source in ("/once/payments", "/shop")
    },
    "the id of another record": (outgoing(1, pk="notes#f"), FOREIGN_ID),
    "the id of another position": (OWN, FOREIGN_ID),
    "an id that is not derived": (outgoing(1, id="7"), FOREIGN_ID),
}


@pytest.mark.parametrize(("forged", "error"), FORGED.values(), ids=FORGED)
def test_s1_a_forged_event_is_dead_lettered_and_its_neighbour_is_published(
    harness: RelayHarness, forged: OutgoingEvent, error: str
) -> None:
    answer = harness.handle(change(image(OWN, forged)))
    assert answer == {"published": {"counted": 1}, "dead_lettered": [key_hash("notes#e")]}
    assert harness.published() == [OWN.body]
    [dead_letter] = harness.dead_letters()
    found = facts(dead_letter)
    assert (dead_letter["Body"], found["reason"]) == (forged.body, "unpublishable")
    assert found["consumer"] == "notes"
    assert found["error"] == f"Unpublishable: {error}"


# SQS takes neither an empty text nor controls, hence the last two names.
@pytest.mark.parametrize(
    ("pk", "consumer"),
    [
        ("payments#e", "payments"),
        ("notes_archive#e", "notes_archive"),
        ("\x01#e", "\ufffd"),
        ("#e", "unknown"),
    ],
)
def test_s1_a_record_of_a_consumer_that_declares_no_types_publishes_nothing(
    harness: RelayHarness, pk: str, consumer: str
) -> None:
    forged = outgoing(0, pk=pk)
    harness.handle(change(image(forged, pk=pk)))
    assert harness.published() == []
    [dead_letter] = harness.dead_letters()
    assert (dead_letter["Body"], facts(dead_letter)["consumer"]) == (forged.body, consumer)
