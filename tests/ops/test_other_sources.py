"""Consumers whose events come in an envelope: their letters are read, and `send` refuses."""

import json
from datetime import UTC, datetime

import pytest

from once.event_sources import Source
from tests.once.intake.documented_events import SNS, Event, published
from tests.ops.cloud import Cloud
from tests.ops.output import stderr_of, stdout_of
from tests.ops.tracing import moments

TOPIC = Source.sns(SNS["TopicArn"], type="order.placed")
DELIVERED = published({"order_id": "o-1"}, Timestamp=datetime.now(UTC).isoformat())
KEY = "orders#field#order.placed#order_id#str:o-1"
SEND = ("send", "--type", "order.placed", "--data", "{}")


@pytest.fixture
def other(cloud: Cloud) -> Cloud:
    """The deployment, with `orders` behind a topic of another team."""
    source: dict[str, object] = {"source": TOPIC.to_text()}
    keys = {"order.placed": ["field", "order_id"]}
    cloud.set_types("orders", ["order.placed"], keys=keys, **source)  # type: ignore[arg-type]
    return cloud


def undelivered(cloud: Cloud, event: Event = DELIVERED) -> None:
    """Put into the dead-letter queue what the service could not deliver."""
    cloud.sqs.send_message(QueueUrl=cloud.box("orders"), MessageBody=json.dumps(event))


def test_a_letter_in_an_envelope_is_read_with_its_key(other: Cloud) -> None:
    undelivered(other)
    [letter] = json.loads(stdout_of("dlq", "list", "--consumer", "orders", "--json"))["letters"]
    shown = json.loads(stdout_of("dlq", "show", letter["message_id"], "--json"))
    assert letter["event_type"] == "order.placed"
    assert (shown["event_id"], shown["dedup_key"]) == (SNS["MessageId"], KEY)


def test_what_could_not_be_delivered_is_redriven_as_it_was(other: Cloud) -> None:
    undelivered(other)
    stdout_of("dlq", "redrive", "--consumer", "orders", "--yes")
    assert [json.loads(body) for body in other.take("orders").elements()] == [DELIVERED]


def test_trace_finds_a_letter_by_a_value_inside_its_envelope(other: Cloud) -> None:
    undelivered(other)
    [moment] = moments("o-1", "--no-logs")
    assert (moment["consumer"], moment["event_type"]) == ("orders", "order.placed")


def test_an_event_for_the_ingress_topic_goes_to_its_subscribers_only(other: Cloud) -> None:
    assert stdout_of(*SEND).startswith("sent order.placed to inventory;")


@pytest.mark.parametrize("to", [("--to", "orders"), ()])
def test_send_names_the_way_of_a_consumers_own_producers(other: Cloud, to: tuple[str, ...]) -> None:
    other.set_types("inventory", [])
    error = " ".join(stderr_of(*SEND, *to).split())
    assert "in the envelope of Source.sns, which `once send` does not write" in error
    assert "with `aws sns publish` to its topic" in error
