"""Unrouted events: those that no subscription takes are kept with their reason, and no others."""

import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError

from once.errors import Unparseable
from once.names import Reason
from once.outbox.unrouted import FURTHER_ROUTES_SECONDS, FurtherRoutes, SnsEnvelope, unrouted
from tests.once.outbox.relaying import PLACED, REGION, RESERVED, SweepHarness, envelope, string
from tests.once.support import facts

BODY = '{"id": "1", "source": "/shop", "type": "order.placed"}'
TEN: dict[str, Any] = {"type": string(PLACED), **{f"a{n}": string("x") for n in range(9)}}
ELEVEN = TEN | {"one more": string("x")}
LOST = string("order.lost")


@pytest.fixture
def harness() -> SweepHarness:
    return SweepHarness()


def test_an_unrouted_event_keeps_its_trace_header(harness: SweepHarness) -> None:
    trace = {"AWSTraceHeader": "Root=1-5759e988-bd862e3fe1be46a994272793"}
    harness.handle({**record(envelope(type=LOST)), "attributes": trace})
    [message] = harness.unrouted()
    assert message["Attributes"]["AWSTraceHeader"] == trace["AWSTraceHeader"]


def array(text: str) -> dict[str, Any]:
    return {"type": string(text, "String.Array")}


def record(body: str, message_id: str = "m-1") -> dict[str, Any]:
    return {"messageId": message_id, "body": body}


def kept(harness: SweepHarness, *bodies: str) -> list[tuple[str, dict[str, str]]]:
    """The unrouted messages after these were swept: their bodies and facts."""
    assert harness.handle(*map(record, bodies)) == []
    return [(message["Body"], facts(message)) for message in harness.unrouted()]


ROUTES: dict[Reason | None, list[dict[str, Any]]] = {
    None: [
        {"type": string(PLACED)},
        array(json.dumps([PLACED])),
        array(json.dumps(["order.lost", PLACED, 7, None, True])),
        TEN,
    ],
    Reason.NO_TYPE: [
        {},
        {"Type": string(PLACED)},
        {"type": string("7", "Number")},
        {"type": string("b3JkZXIucGxhY2Vk", "Binary")},
        {"type": string(PLACED, "String.custom")},
    ],
    Reason.UNSUBSCRIBED_TYPE: [
        *({"type": string(one)} for one in ("order.lost", PLACED.upper(), f" {PLACED}")),
        {"type": string(f'["{PLACED}"]')},
        *map(array, ("[]", '["order.lost"]', "[[", '{"order.placed": 1}', "[" * 100_000)),
        {**ELEVEN, "type": LOST},
    ],
    Reason.TOO_MANY_ATTRIBUTES: [ELEVEN],
}


@pytest.mark.parametrize(
    ("attributes", "reason"), [(one, reason) for reason, some in ROUTES.items() for one in some]
)
def test_s3_an_event_that_no_subscription_takes_is_unrouted(
    attributes: dict[str, Any], reason: Reason | None
) -> None:
    error = unrouted(SnsEnvelope.read(envelope(**attributes)), {PLACED, RESERVED})
    assert (error.reason if error else None) == reason


@pytest.mark.parametrize(
    "body", ["", "order 12", "[]", "{}", BODY, "[" * 100_000, '{"a": "\\ud800"}']
)
def test_a_body_that_is_no_notification_is_refused(body: str) -> None:
    with pytest.raises(Unparseable):
        SnsEnvelope.read(body)


def test_published_events_are_kept_with_their_reason_and_attributes(harness: SweepHarness) -> None:
    harness.publish(BODY)
    harness.publish(BODY, type=LOST, tenant=string("x"))
    harness.publish("order 12, please", type=string(RESERVED))
    harness.publish(BODY, type=string(PLACED))
    harness.publish(BODY, topic=harness.events, type=string(RESERVED))
    harness.publish("of an event", topic=harness.events, type=string(PLACED))
    assert harness.process_queue() == []
    found = {(one["Body"], facts(one)["reason"]): facts(one) for one in harness.unrouted()}
    assert list(found) == [
        (BODY, Reason.NO_TYPE),
        (BODY, Reason.UNSUBSCRIBED_TYPE),
        ("order 12, please", Reason.UNSUBSCRIBED_TYPE),
        ("of an event", Reason.UNSUBSCRIBED_TYPE),
    ]
    assert "attributes" not in found[BODY, Reason.NO_TYPE]
    assert json.loads(found[BODY, Reason.UNSUBSCRIBED_TYPE]["attributes"]) == {
        "type": {"stringValue": "order.lost", "dataType": "String"},
        "tenant": {"stringValue": "x", "dataType": "String"},
    }


REMEDY = "add the type to a consumer's declaration and deploy, or correct the producer"


@pytest.mark.parametrize(
    ("body", "reason", "error"),
    [
        (envelope(), Reason.NO_TYPE, "NoType: published without"),
        (envelope(type=LOST), Reason.UNSUBSCRIBED_TYPE, f"order.lost on this topic: {REMEDY}"),
        (envelope(topic="another", type=string(PLACED)), Reason.UNSUBSCRIBED_TYPE, REMEDY),
        (envelope(**ELEVEN), Reason.TOO_MANY_ATTRIBUTES, "with 11 message attributes"),
    ],
    ids=["no type", "a type without consumer", "an unknown topic", "eleven attributes"],
)
def test_an_unrouted_event_has_a_reason_a_remedy_and_its_time_of_publishing(
    harness: SweepHarness, body: str, reason: Reason, error: str
) -> None:
    [(_, found)] = kept(harness, body)
    assert found["reason"] == reason
    assert error in found["error"]
    assert found["first-seen"] == "2026-05-02T00:54:06.655Z"


def test_binary_and_more_than_ten_attributes_are_kept_in_one(harness: SweepHarness) -> None:
    [(_, found)] = kept(harness, envelope(**ELEVEN, tenant=string("AQI=", "Binary")))
    attributes = json.loads(found["attributes"])
    assert attributes.keys() == {*ELEVEN, "tenant"}
    assert attributes["tenant"] == {"binaryValue": "AQI=", "dataType": "Binary"}
    assert len(found) <= 10


def test_a_message_that_did_not_come_from_a_topic_is_kept_unchanged(harness: SweepHarness) -> None:
    [(body, found)] = kept(harness, "hello")
    assert (body, found["reason"]) == ("hello", Reason.UNPARSEABLE)


def test_a_message_that_cannot_be_kept_comes_again_and_its_neighbours_do_not(
    harness: SweepHarness,
) -> None:
    throttled = ClientError({"Error": {"Code": "Throttled"}}, "SendMessage")
    send = Mock(side_effect=[None, throttled, None])
    harness.sweep = replace(harness.sweep, sqs=Mock(send_message=send))
    names = ["first", "second", "third"]
    assert harness.handle(*(record(envelope(name), f"m-{name}") for name in names)) == ["m-second"]
    assert [made.kwargs["MessageBody"] for made in send.call_args_list] == names
    assert "ClientError Throttled" in harness.stream.getvalue()


def test_a_type_of_a_further_stack_is_unrouted_until_that_stack_has_written_its_parameter(
    harness: SweepHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Mock(return_value=1.0)
    monkeypatch.setattr("once.outbox.unrouted.time.monotonic", clock)
    ssm = boto3.client("ssm", REGION)
    names = ("/once-service-2/routes", "/once-service-3/routes")
    harness.sweep = replace(harness.sweep, further=FurtherRoutes(names, ssm))
    shipped = envelope("parcel", type=string("order.shipped"))
    assert len(kept(harness, shipped)) == 1
    for name in names:
        routes = json.dumps({"ingress": ["order.shipped"] if name == names[1] else []})
        ssm.put_parameter(Name=name, Value=routes, Type="String")
    assert len(kept(harness, shipped)) == 1
    clock.return_value += FURTHER_ROUTES_SECONDS
    assert kept(harness, shipped) == []
    assert len(kept(harness, envelope("x", type=string("order.lost")))) == 1


def test_a_message_comes_again_if_further_routes_cannot_be_read(harness: SweepHarness) -> None:
    ssm = Mock(get_parameter=Mock(side_effect=ClientError({"Error": {"Code": "T"}}, "G")))
    harness.sweep = replace(harness.sweep, further=FurtherRoutes(("/routes",), ssm))
    assert harness.handle(record(envelope("known", type=string(PLACED)), "m-1")) == []
    assert harness.handle(record(envelope("parcel", type=string("new")), "m-2")) == ["m-2"]


def test_an_event_is_logged_without_its_content(harness: SweepHarness) -> None:
    kept(harness, envelope("secret body", type=string("secret.type")))
    assert "unsubscribed-type" in harness.stream.getvalue()
    assert "secret" not in harness.stream.getvalue()
