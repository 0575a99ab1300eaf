"""A message that is not accepted fails the sending; samples are sent as distinct events."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demo.traffic.publisher import COPIES, DISTINCT, send_batches, send_samples
from once.ops.errors import OpsError


def test_a_message_that_is_not_accepted_fails_with_the_reason() -> None:
    refused = {"Id": "1", "Code": "InvalidParameter", "Message": "too long", "SenderFault": True}
    answer = {"Successful": [{"Id": "0"}], "Failed": [refused]}
    message = r"1 messages were not accepted \(InvalidParameter too long\)"
    with pytest.raises(OpsError, match=message):
        send_batches(lambda _: answer, [[{}, {}]])


SAMPLE = {
    "specversion": "1.0",
    "id": "sample-1",
    "source": "/samples",
    "type": "refund.requested",
    "data": {"refund_id": "refund", "amount": 2},
}


def consumer(name: str, *types: str) -> Any:
    return SimpleNamespace(name=name, identity=name, ingress_types=types, item_table=None)


@pytest.fixture
def deployment() -> Any:
    consumers = [consumer("orders", "order.placed"), consumer("refunds", "refund.requested")]
    return SimpleNamespace(
        consumers={each.name: each for each in consumers},
        is_ordered=lambda _: False,
        takers=lambda _: [],
        group_field=lambda _: None,
        ingress_topic=lambda _: "topic",
    )


def test_a_further_consumers_sample_is_sent_as_distinct_events_and_duplicates(
    deployment: Any, tmp_path: Path
) -> None:
    (tmp_path / "refund-requested.json").write_text(json.dumps(SAMPLE))
    (tmp_path / "malformed.json").write_text('{"type": "refund.requested", "data": 1}')
    calls: list[dict[str, Any]] = []

    def publish_batch(PublishBatchRequestEntries: list[dict[str, Any]], **_: Any) -> Any:  # noqa: N803
        calls.extend(PublishBatchRequestEntries)
        return {"Successful": PublishBatchRequestEntries}

    sns: Any = SimpleNamespace(publish_batch=publish_batch)
    [sample] = send_samples(sns, deployment, 7, tmp_path)
    assert sample == {"type": "refund.requested", "consumers": ["refunds"], "distinct": DISTINCT}
    assert len(calls) == DISTINCT * COPIES
    events = [json.loads(call["Message"]) for call in calls]
    assert len({event["id"] for event in events}) == DISTINCT
    assert len({event["data"]["refund_id"] for event in events}) == DISTINCT
    assert {event["data"]["amount"] for event in events} == {2}
