"""`once send` and the redrive of unrouted events, for FIFO and fair queues."""

import json
from hashlib import sha256
from typing import Any

import pytest

from once.names import UNROUTED, StackOutput
from once.testing import cloud_event
from tests.ops.cloud import Cloud
from tests.ops.output import stderr_of, stdout_of
from tests.ops.support import answer_with

MOVED, PLACED = "stock.moved", "order.placed"
BY_FIELD = {MOVED: ["field", "move_id"]}
SEND = ("send", "--type", MOVED, "--id", "e-1", "--source", "/depot", "--data")
DATA = json.dumps({"sku": "green tea", "move_id": "m-1"})
GROUP = sha256(b"green tea").hexdigest()  # SNS takes no space in a group id


@pytest.fixture
def calls(cloud: Cloud) -> dict[str, dict[str, Any]]:
    """The last call of each operation that publishes or sends."""
    found: dict[str, dict[str, Any]] = {}

    def record(operation: str) -> None:
        answer_with(operation, lambda params: found.update({operation: _parameters(params)}))

    for operation in ("sns.Publish", "sns.PublishBatch", "sqs.SendMessage"):
        record(operation)
    cloud.make_fifo("inventory", "sku", external=[MOVED])
    return found


def _parameters(params: Any) -> dict[str, Any]:
    body = params["body"]
    parameters: dict[str, Any] = json.loads(body) if isinstance(body, (str, bytes)) else dict(body)
    return parameters


def hashed(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def test_an_ordered_type_goes_to_the_fifo_topic_in_the_group_of_its_field(
    cloud: Cloud, calls: dict[str, dict[str, Any]]
) -> None:
    stdout_of(*SEND, DATA)
    call = calls["sns.Publish"]
    assert call["TopicArn"] == cloud.service[StackOutput.ORDERED_INGRESS_TOPIC]
    assert call["MessageGroupId"] == GROUP
    assert call["MessageDeduplicationId"] == hashed("event#/depot#e-1")
    assert call["MessageAttributes.entry.1.Value.StringValue"] == MOVED


@pytest.mark.parametrize(
    ("rules", "key"),
    [
        ([BY_FIELD], "field#stock.moved#move_id#str:m-1"),
        ([BY_FIELD, BY_FIELD], "field#stock.moved#move_id#str:m-1"),
        ([BY_FIELD, {MOVED: ["event"]}], "/depot#e-1"),
        ([{}], "/depot#e-1"),
        ([{MOVED: ["field", "missing"]}], "/depot#e-1"),
    ],
    ids=["one rule", "the same rule twice", "two rules", "an unknown rule", "no key"],
)
def test_the_deduplication_id_is_the_hash_of_the_key_by_the_consumers_rule(
    cloud: Cloud, calls: dict[str, dict[str, Any]], rules: list[Any], key: str
) -> None:
    for name, keys in zip(("inventory", "orders"), rules, strict=False):
        grouped = "sku" if name == "inventory" else None
        cloud.set_types(name, external=[MOVED], keys=keys, grouped_by=grouped)
    stdout_of(*SEND, DATA)
    assert calls["sns.Publish"]["MessageDeduplicationId"] == hashed(key)


def test_a_fifo_queue_gets_group_and_deduplication_id(
    cloud: Cloud, calls: dict[str, dict[str, Any]]
) -> None:
    stdout_of(*SEND, DATA, "--to", "inventory")
    call = calls["sqs.SendMessage"]
    assert call["QueueUrl"].endswith("once-inventory.fifo")
    assert call["MessageGroupId"] == GROUP
    assert call["MessageDeduplicationId"] == hashed("event#/depot#e-1")


@pytest.mark.parametrize("to", [(), ("--to", "orders")], ids=["topic", "queue"])
def test_a_fair_type_has_a_group_and_no_deduplication_id(
    cloud: Cloud, calls: dict[str, dict[str, Any]], to: tuple[str, ...]
) -> None:
    cloud.set_types("orders", external=[PLACED], grouped_by="tenant.id")
    stdout_of("send", "--type", PLACED, "--data", '{"tenant": {"id": 7}}', *to)
    call = calls["sqs.SendMessage" if to else "sns.Publish"]
    assert call["MessageGroupId"] == "7"
    assert "MessageDeduplicationId" not in call
    if not to:
        assert call["TopicArn"] == cloud.service[StackOutput.INGRESS_TOPIC]


@pytest.mark.parametrize("to", [(), ("--to", "inventory")], ids=["topic", "queue"])
def test_data_without_the_field_of_the_group_is_not_sent(
    cloud: Cloud, calls: dict[str, dict[str, Any]], to: tuple[str, ...]
) -> None:
    error = stderr_of(*SEND, '{"sku": true}', *to)
    assert "the data has no 'sku', by which 'stock.moved' is grouped: give it a text" in error
    assert calls == {}


def test_an_unrouted_ordered_event_is_published_with_an_id_that_sns_does_not_know(
    cloud: Cloud, calls: dict[str, dict[str, Any]]
) -> None:
    ordered = json.dumps(cloud_event(MOVED, {"sku": "green tea"}))
    standard = json.dumps(cloud_event(PLACED, {"order_id": "o-1"}))
    for body in (ordered, standard):
        cloud.bury(UNROUTED, body)
    published: list[dict[str, Any]] = []
    answer_with("sns.PublishBatch", lambda params: published.append(_parameters(params)))
    stdout_of("dlq", "redrive", "--rate", "1000", "--yes", "--consumer", UNROUTED)
    entry = "PublishBatchRequestEntries.member.1"
    by_topic = {call["TopicArn"]: call for call in published}
    fifo = by_topic[cloud.service[StackOutput.ORDERED_INGRESS_TOPIC]]
    assert fifo[f"{entry}.MessageGroupId"] == GROUP
    event = json.loads(ordered)
    first = hashed(f"event#{event['source']}#{event['id']}")
    assert fifo[f"{entry}.MessageDeduplicationId"] not in {first, ""}
    other = by_topic[cloud.service[StackOutput.INGRESS_TOPIC]]
    assert f"{entry}.MessageGroupId" not in other
    assert cloud.left(UNROUTED) == 0


def test_an_unrouted_ordered_event_without_its_field_stays(
    cloud: Cloud, calls: dict[str, dict[str, Any]]
) -> None:
    cloud.bury(UNROUTED, json.dumps(cloud_event(MOVED, {"move_id": "m-1"})))
    error = stderr_of(
        *("dlq", "redrive", "--rate", "1000", "--yes", "--consumer", UNROUTED), code=1
    )
    assert "its data has no 'sku', which gives the message group of 'stock.moved'" in error
    assert cloud.left(UNROUTED) == 1
