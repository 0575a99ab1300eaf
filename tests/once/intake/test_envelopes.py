"""An event in an envelope that is not its own: refused with a reason, never keyed by the envelope.

Queues subscribe with raw delivery, so an envelope means that somebody has wired a queue by hand.
Its own id may be another at each delivery: taken for the event's, a duplicate would be a new event.
"""

import json
from typing import Any

import pytest

from tests.in_memory import Start
from tests.once.support import amounts, facts, failures, note

EVENT = note("inside", event_id="e")

SNS = {
    "Type": "Notification",
    "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
    "TopicArn": "arn:aws:sns:us-east-1:123456789012:events",
    "Message": json.dumps(EVENT),
    "Timestamp": "2026-01-01T00:00:00.000Z",
    "SignatureVersion": "1",
    "Signature": "EXAMPLE",
    "MessageAttributes": {"type": {"Type": "String", "Value": "noted"}},
}
EVENT_BRIDGE = {
    "version": "0",
    "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
    "detail-type": "noted",
    "source": "shop.orders",
    "account": "123456789012",
    "time": "2026-01-01T00:00:00Z",
    "region": "us-east-1",
    "resources": [],
    "detail": EVENT,
}


@pytest.mark.parametrize(
    ("envelope", "own", "reason"),
    [(SNS, "MessageId", "no-key"), (EVENT_BRIDGE, "id", "invalid-event")],
    ids=["SNS", "EventBridge"],
)
def test_p8_an_envelope_is_quarantined_and_its_own_id_is_no_key(
    start: Start, envelope: dict[str, Any], own: str, reason: str
) -> None:
    aws = start()
    again = envelope | {own: "another"}
    assert failures(aws.deliver(envelope, note("neighbour"), again)) == []
    assert amounts(aws) == {"neighbour": 1}
    assert len(aws.items("dedup")) == 1
    letters = [facts(letter) for letter in aws.dead_letters()]
    assert [letter["reason"] for letter in letters] == [reason] * 2
    assert all("key-hash" not in letter for letter in letters)
