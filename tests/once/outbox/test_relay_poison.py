"""What can never be published: to the relay's dead letters, while its neighbours go their way."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from once.events.dedup_key import key_hash
from once.schema import Limits
from once.testing import Fault, inject, never_sent, refused
from tests.once.outbox.relaying import Station, answered, change, image, outgoing
from tests.once.support import facts

SECRET = "S3CRET"
KEY = f"notes#event#/shop#{SECRET}"
BEFORE, POISON, AFTER = (outgoing(0, pk=pk) for pk in ("notes#b", KEY, "notes#a"))


@pytest.fixture
def station() -> Station:
    return Station()


def batch(poison: dict[str, Any]) -> list[dict[str, Any]]:
    """A record between two neighbours."""
    neighbours = image(BEFORE, pk="notes#b"), image(AFTER, pk="notes#a")
    return [change(neighbours[0]), change(poison, number=7), change(neighbours[1])]


OUTBOXES: dict[str, Any] = {
    "empty": {"S": ""},
    "no JSON": {"S": f"{SECRET}"},
    "cut off": {"S": f'[{{"id": "{SECRET}'},
    "an object": {"S": f'{{"id": "{SECRET}"}}'},
    "a text": {"S": f'"{SECRET}"'},
    "null": {"S": "null"},
    "no events": {"S": f'["{SECRET}"]'},
    "an event without an id": {"S": f'[{{"source": "/s", "type": "{SECRET}"}}]'},
    "an event without a type": {"S": f'[{{"id": "{SECRET}", "source": "/s"}}]'},
    "an event without a source": {"S": f'[{{"id": "{SECRET}", "type": "t"}}]'},
    "an id that is no text": {"S": f'[{{"id": 1, "source": "{SECRET}", "type": "t"}}]'},
    "nested": {"S": "[" * 100_000},
    "nested in an event": {
        "S": f'[{{"id": "{SECRET}", "source": "/s", "type": "t", "data": {"[" * 100_000}'
    },
    "a lone surrogate": {"S": f'[{{"id": "{SECRET}\ud800", "source": "/s", "type": "t"}}]'},
    "no characters": {"S": f"\x00\ufffe{SECRET}"},
    "bytes": {"B": "UzNDUkVU"},
    "a number": {"N": "7"},
    "a list": {"L": [{"S": SECRET}]},
    "a text that is none": {"S": None},
    "of no type": {},
}


@pytest.mark.parametrize("outbox", OUTBOXES.values(), ids=OUTBOXES)
def test_o4_an_outbox_that_cannot_be_read_is_dead_lettered_and_its_neighbours_are_published(
    station: Station, outbox: Any
) -> None:
    station.handle(*batch(image(pk=KEY) | {"outbox": outbox}))
    assert station.heard() == [BEFORE.body, AFTER.body]
    [letter] = station.dead_letters()
    found = facts(letter)
    assert found.pop("error").startswith("Unpublishable: the record's outbox cannot be read: ")
    assert found == {
        "reason": "unpublishable",
        "consumer": "notes",
        "key-hash": key_hash(KEY),
        "lineage": "stream-7",
    }
    assert SECRET not in station.stream.getvalue()


def test_o4_an_outbox_is_dead_lettered_as_it_is(station: Station) -> None:
    station.handle(change(image(outbox={"S": '[{"id": 1}]'})))
    assert [letter["Body"] for letter in station.dead_letters()] == ['[{"id": 1}]']


def test_o4_an_outbox_that_is_no_text_is_dead_lettered_without_it(station: Station) -> None:
    station.handle(change(image(outbox={"N": "7"})))
    [letter] = station.dead_letters()
    assert letter["Body"] == "the record has no outbox that could be read"


def test_o4_an_event_over_256_kib_is_dead_lettered_and_its_neighbours_are_published(
    station: Station,
) -> None:
    large = outgoing(1, Limits.TOPIC_MESSAGE_BYTES + 1, pk=KEY)
    station.handle(*batch(image(POISON, large, pk=KEY)))
    assert station.heard() == [BEFORE.body, POISON.body, AFTER.body]
    [letter] = station.dead_letters()
    assert letter["Body"] == large.body
    assert SECRET not in station.stream.getvalue()


def test_o4_an_event_that_the_topic_refuses_is_dead_lettered_and_not_sent_again(
    station: Station,
) -> None:
    guilty = {"Id": "1", "Code": "InvalidParameter", "Message": SECRET, "SenderFault": True}
    answer = {"Successful": [{"Id": "0"}, {"Id": "2"}], "Failed": [guilty]}
    with answered(station.relay.sns, answer):
        station.handle(*batch(image(POISON, pk=KEY)))
    assert station.heard() == []
    [letter] = station.dead_letters()
    assert letter["Body"] == POISON.body
    assert facts(letter) == {
        "reason": "unpublishable",
        "error": "Unpublishable: the topic refuses counted: InvalidParameter",
        "consumer": "notes",
        "key-hash": key_hash(KEY),
        "lineage": "stream-7",
    }
    assert SECRET not in station.stream.getvalue()


def test_o4_a_batch_that_the_topic_refuses_whole_is_halved_and_the_innocent_are_published(
    station: Station,
) -> None:
    refusal = refused("InvalidParameter")
    with inject(station.relay.sns, "PublishBatch", refusal, None, refusal, refusal) as left:
        station.handle(*batch(image(POISON, pk=KEY)))
    assert left == []
    # Of three: the first half is taken, the second is halved again, and its first is guilty.
    assert station.heard() == [BEFORE.body, AFTER.body]
    [letter] = station.dead_letters()
    assert letter["Body"] == POISON.body


def test_o4_what_is_refused_among_the_throttled_is_dead_lettered_once(station: Station) -> None:
    failed = [
        {"Id": "0", "Code": "Throttled", "SenderFault": False},
        {"Id": "1", "Code": "InvalidParameter", "SenderFault": True},
    ]
    with answered(station.relay.sns, {"Successful": [{"Id": "2"}], "Failed": failed}):
        station.handle(*batch(image(POISON, pk=KEY)))
    assert station.heard() == [BEFORE.body]
    assert [letter["Body"] for letter in station.dead_letters()] == [POISON.body]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (refused("AccessDenied", status=403), ClientError),
        (refused("InternalError", status=500), ClientError),
        (never_sent(), ReadTimeoutError),
    ],
    ids=["no rights", "server error", "timeout"],
)
@pytest.mark.parametrize(
    "poison",
    [image(outbox={"S": "no JSON"}), image(outgoing(0, 300_000))],
    ids=["unreadable", "refused"],
)
def test_o4_a_dead_letter_that_cannot_be_written_fails_the_batch(
    station: Station, poison: dict[str, Any], fault: Fault, error: type[Exception]
) -> None:
    with (
        inject(station.relay.sqs, "SendMessage", fault) as left,
        pytest.raises(error),
    ):
        station.handle(*batch(poison))
    assert left == []
    assert station.dead_letters() == []
    assert "quarantined" not in station.stream.getvalue()
    station.handle(*batch(poison))
    assert len(station.dead_letters()) == 1
    assert {BEFORE.body, AFTER.body} <= set(station.heard())


def test_o4_a_dead_letter_is_logged_by_reason_and_by_the_hash_of_its_key(station: Station) -> None:
    station.handle(change(image(pk=KEY, outbox={"S": SECRET})))
    line = json.loads(station.stream.getvalue().splitlines()[0])
    said = {name: line[name] for name in ("message", "reason", "error", "key_hash")}
    assert said == {
        "message": "quarantined",
        "reason": "unpublishable",
        "error": "Unpublishable",
        "key_hash": key_hash(KEY),
    }


def test_o4_what_is_dead_lettered_at_several_attempts_does_not_count_as_published(
    station: Station,
) -> None:
    refused_now = {"Code": "InvalidParameter", "SenderFault": True}
    throttled = {"Id": "1", "Code": "Throttled", "SenderFault": False}
    first = {"Successful": [{"Id": "2"}], "Failed": [{"Id": "0", **refused_now}, throttled]}
    second = {"Failed": [{"Id": "0", **refused_now}]}
    with answered(station.relay.sns, first, second) as left:
        station.handle(*batch(image(POISON, pk=KEY)))
    assert left == []
    assert [letter["Body"] for letter in station.dead_letters()] == [BEFORE.body, POISON.body]
    assert json.loads(station.stream.getvalue().splitlines()[-1])["published"] == 1
