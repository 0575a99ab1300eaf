"""Unrouted events: shown with their reason, and published again if a consumer takes them."""

import json
from typing import Any

import pytest
from typer.testing import Result

from once.names import UNROUTED, Reason
from once.outbox.unrouted import Sweep
from once.settings import SweepSettings
from once.testing import cloud_event
from tests.once.outbox.relaying import PLACED, envelope, string
from tests.ops.cloud import REGION, Cloud
from tests.ops.support import OK, REFUSED_ENTRY, answer_with, run, stdout_of

OWN = ("--consumer", UNROUTED)
LOST = "order.lost"
TEN = {f"a{n}": string("x") for n in range(10)}


def event(event_type: str = PLACED, **more: Any) -> str:
    return json.dumps(cloud_event(event_type, {"order_id": "o-1"}, **more))


def publish(cloud: Cloud, message: str, **attributes: Any) -> None:
    """Let the sweep keep a published message."""
    settings = SweepSettings(routes={"ingress": (PLACED,)}, unrouted_url=cloud.box(UNROUTED))
    record = {"messageId": "m-1", "body": envelope(message, **attributes)}
    answer = Sweep.of(settings, region=REGION).handle({"Records": [record]})
    assert answer == {"batchItemFailures": []}


def listed(*options: str) -> list[dict[str, Any]]:
    found = json.loads(stdout_of("dlq", "list", "--json", *OWN, *options))
    return list(found["letters"])


def redrive(*options: str) -> Result:
    return run("dlq", "redrive", "--rate", "1000", "--yes", *OWN, *options)


def test_unrouted_events_are_listed_with_their_reason(cloud: Cloud) -> None:
    publish(cloud, event())
    publish(cloud, event(LOST), type=string(LOST))
    publish(cloud, event(), type=string(PLACED), **TEN)
    publish(cloud, "order 12, please")
    assert {(message["reason"], message["event_type"]) for message in listed()} == {
        (Reason.NO_TYPE, PLACED),
        (Reason.UNSUBSCRIBED_TYPE, LOST),
        (Reason.TOO_MANY_ATTRIBUTES, PLACED),
        (Reason.NO_TYPE, None),
    }
    assert listed("--reason", "no-type", "--key", "none") == []
    assert {message["first_seen"] for message in listed()} == {"2026-05-02T00:54:06.655000+00:00"}


def test_s3_an_event_that_a_consumer_takes_is_published_with_its_own_type(
    cloud: Cloud,
) -> None:
    body = event()
    publish(cloud, body)
    publish(cloud, event(LOST))
    result = redrive()
    assert result.exit_code == 1
    assert "Add it to `external=` of a consumer, and deploy" in result.stderr
    for consumer in ("orders", "inventory"):  # their filter policies select by the attribute
        assert cloud.take(consumer) == {body: 1}
    assert [message["event_type"] for message in listed()] == [LOST]


def test_event_with_too_many_attributes_is_published_without_them(cloud: Cloud) -> None:
    body = event()
    publish(cloud, body, **TEN, type=string(PLACED))
    assert redrive().exit_code == 0
    assert cloud.take("orders") == {body: 1}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("order 12, please", "No consumer can read it: unparseable"),
        (event(LOST), "No consumer takes 'order.lost' from producers"),
        (
            event(source="/once/payments"),
            "A consumer publishes it, /once/payments, and no producer",
        ),
    ],
)
def test_event_that_no_consumer_takes_is_not_published_even_with_unsafe(
    cloud: Cloud, body: str, why: str
) -> None:
    publish(cloud, body)
    [message] = listed()
    result = redrive(message["message_id"], "--unsafe")
    assert result.exit_code == 1
    assert why in result.stderr
    assert cloud.left(UNROUTED) == 1
    assert cloud.take("orders") == {}


def test_event_that_sns_could_not_deliver_is_published_unchanged(cloud: Cloud) -> None:
    raw, enveloped = event(event_id="raw"), event(event_id="enveloped")
    for body in (raw, envelope(enveloped, type=string(PLACED))):
        cloud.bury(UNROUTED, body)
    assert {message["event_type"] for message in listed()} == {PLACED}
    assert redrive().exit_code == 0
    assert cloud.take("orders") == {raw: 1, enveloped: 1}


def test_event_that_the_topic_refuses_is_not_deleted(cloud: Cloud) -> None:
    publish(cloud, event())
    failed = {"Successful": [], "Failed": [{"Id": "0", **REFUSED_ENTRY}]}
    answer_with("sns.PublishBatch", lambda params: (OK, failed))
    result = redrive()
    assert result.exit_code == 1
    assert "not sent: InvalidParameter" in result.stderr
    assert cloud.left(UNROUTED) == 1
