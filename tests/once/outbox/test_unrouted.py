"""Unrouted events: those that no subscription takes are kept with their reason, and no others."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from once.errors import Unparseable
from once.outbox.unrouted import SnsEnvelope, unrouted
from once.schema import DeadLetter, Reason
from tests.once.outbox.sweeping import PLACED, RESERVED, Field, envelope, string
from tests.once.support import quick

BODY = '{"id": "1", "source": "/shop", "type": "order.placed"}'
ELEVEN: dict[str, Any] = {
    "type": string(PLACED),
    **{f"a{number}": string("x") for number in range(10)},
}


@pytest.fixture
def field() -> Field:
    return Field()


def reason_of(letter: dict[str, Any]) -> str:
    return str(letter["MessageAttributes"][DeadLetter.REASON]["StringValue"])


def said(letter: dict[str, Any], name: str) -> str:
    return str(letter["MessageAttributes"][name]["StringValue"])


def verdict(**attributes: Any) -> str | None:
    error = unrouted(SnsEnvelope.read(envelope(**attributes)), {PLACED, RESERVED})
    return error.reason if error else None


@pytest.mark.parametrize(
    "attribute",
    [
        string(PLACED),
        string(json.dumps([PLACED]), "String.Array"),
        string(json.dumps(["order.lost", PLACED, 7, None, True]), "String.Array"),
    ],
)
def test_an_event_that_a_subscription_takes_is_dropped(attribute: dict[str, str]) -> None:
    assert verdict(type=attribute) is None


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({}, Reason.NO_TYPE),
        ({"Type": string(PLACED)}, Reason.NO_TYPE),
        ({"type": string("7", "Number")}, Reason.NO_TYPE),
        ({"type": string("b3JkZXIucGxhY2Vk", "Binary")}, Reason.NO_TYPE),
        ({"type": string(PLACED, "String.custom")}, Reason.NO_TYPE),
        ({"type": string("order.lost")}, Reason.UNSUBSCRIBED_TYPE),
        ({"type": string(PLACED.upper())}, Reason.UNSUBSCRIBED_TYPE),
        ({"type": string(f" {PLACED}")}, Reason.UNSUBSCRIBED_TYPE),
        ({"type": string(f'["{PLACED}"]')}, Reason.UNSUBSCRIBED_TYPE),
        ({"type": string("[]", "String.Array")}, Reason.UNSUBSCRIBED_TYPE),
        ({"type": string('["order.lost"]', "String.Array")}, Reason.UNSUBSCRIBED_TYPE),
        ({"type": string("[[", "String.Array")}, Reason.UNSUBSCRIBED_TYPE),
        ({"type": string('{"order.placed": 1}', "String.Array")}, Reason.UNSUBSCRIBED_TYPE),
        ({"type": string("[" * 100_000, "String.Array")}, Reason.UNSUBSCRIBED_TYPE),
        (ELEVEN, Reason.TOO_MANY_ATTRIBUTES),
        ({**ELEVEN, "type": string("order.lost")}, Reason.UNSUBSCRIBED_TYPE),
    ],
)
def test_s3_any_other_event_is_unrouted(attributes: dict[str, Any], reason: Reason) -> None:
    assert verdict(**attributes) == reason


def test_ten_attributes_reach_a_consumer() -> None:
    ten = dict(list(ELEVEN.items())[:10])
    assert len(ten) == 10
    assert verdict(**ten) is None


@pytest.mark.parametrize(
    "body", ["", "order 12", "[]", "{}", BODY, "[" * 100_000, '{"a": "\\ud800"}']
)
def test_a_body_that_is_no_notification_is_refused(body: str) -> None:
    with pytest.raises(Unparseable):
        SnsEnvelope.read(body)


@quick
@given(st.text())
def test_any_body_is_read_or_refused(body: str) -> None:
    with pytest.raises(Unparseable):
        SnsEnvelope.read(body)


def test_what_was_published_is_kept_with_its_reason_and_its_attributes(field: Field) -> None:
    field.publish(BODY)
    field.publish(BODY, type=string("order.lost"), tenant=string("x"))
    field.publish("order 12, please", type=string("order.lost"))
    field.publish(BODY, type=string(PLACED))
    assert field.work_off() == []
    bare, unknown, plain = field.unrouted()
    assert (bare["Body"], reason_of(bare)) == (BODY, Reason.NO_TYPE)
    assert DeadLetter.ATTRIBUTES not in bare["MessageAttributes"]
    assert (unknown["Body"], reason_of(unknown)) == (BODY, Reason.UNSUBSCRIBED_TYPE)
    assert json.loads(said(unknown, DeadLetter.ATTRIBUTES)) == {
        "type": {"stringValue": "order.lost", "dataType": "String"},
        "tenant": {"stringValue": "x", "dataType": "String"},
    }
    assert plain["Body"] == "order 12, please"


def test_the_error_says_what_to_do(field: Field) -> None:
    field.handle(
        record(envelope()), record(envelope(type=string("order.lost"))), record(envelope(**ELEVEN))
    )
    errors = [said(letter, DeadLetter.ERROR) for letter in field.unrouted()]
    for error, part in zip(
        errors,
        ("NoType: published without", "subscribes to order.lost", "with 11 message attributes"),
        strict=True,
    ):
        assert part in error
    assert (
        "add the type to a consumer's declaration and deploy, or correct the producer" in errors[1]
    )


def test_an_event_was_first_seen_when_it_was_published(field: Field) -> None:
    field.handle(record(envelope()))
    [letter] = field.unrouted()
    assert said(letter, DeadLetter.FIRST_SEEN) == "2026-05-02T00:54:06.655Z"


def test_each_topic_has_types_of_its_own(field: Field) -> None:
    field.publish(BODY, type=string(RESERVED))
    field.publish(BODY, topic=field.events, type=string(RESERVED))
    field.publish(BODY, topic=field.events, type=string("stock.counted"))
    field.work_off()
    kept = [json.loads(said(one, DeadLetter.ATTRIBUTES)) for one in field.unrouted()]
    assert [one["type"]["stringValue"] for one in kept] == [RESERVED, "stock.counted"]


def test_a_topic_that_is_not_known_has_no_types(field: Field) -> None:
    field.handle(record(envelope(topic="another", type=string(PLACED))))
    [letter] = field.unrouted()
    assert reason_of(letter) == Reason.UNSUBSCRIBED_TYPE


def test_more_than_ten_attributes_are_all_kept(field: Field) -> None:
    field.handle(record(envelope(BODY, **ELEVEN)))
    [letter] = field.unrouted()
    assert reason_of(letter) == Reason.TOO_MANY_ATTRIBUTES
    assert json.loads(said(letter, DeadLetter.ATTRIBUTES)).keys() == ELEVEN.keys()
    assert len(letter["MessageAttributes"]) <= 10


def test_a_binary_attribute_is_kept_as_one(field: Field) -> None:
    field.handle(record(envelope(tenant=string("AQI=", "Binary"))))
    [letter] = field.unrouted()
    assert json.loads(said(letter, DeadLetter.ATTRIBUTES)) == {
        "tenant": {"binaryValue": "AQI=", "dataType": "Binary"}
    }


def test_a_message_that_did_not_come_from_a_topic_is_kept_as_it_is(field: Field) -> None:
    field.handle(record("hello"))
    [letter] = field.unrouted()
    assert (letter["Body"], reason_of(letter)) == ("hello", Reason.UNPARSEABLE)


def test_what_cannot_be_kept_comes_again_and_its_neighbours_do_not(field: Field) -> None:
    send, refused = field.sqs.send_message, ClientError({"Error": {"Code": "Throttled"}}, "Send")

    def fail_once(**message: Any) -> Any:
        if message["MessageBody"] == "second":
            raise refused
        return send(**message)

    field.sweep = replace(field.sweep, sqs=cast(Any, SimpleNamespace(send_message=fail_once)))
    batch = [record(envelope(name), f"m-{name}") for name in ("first", "second", "third")]
    assert field.handle(*batch) == ["m-second"]
    assert [letter["Body"] for letter in field.unrouted()] == ["first", "third"]
    assert "ClientError Throttled" in field.stream.getvalue()


def test_no_event_is_logged(field: Field) -> None:
    field.handle(record(envelope("secret body", type=string("secret.type"))))
    assert "unsubscribed-type" in field.stream.getvalue()
    assert "secret" not in field.stream.getvalue()


def record(body: str, message_id: str = "m-1") -> dict[str, Any]:
    return {"messageId": message_id, "body": body}
