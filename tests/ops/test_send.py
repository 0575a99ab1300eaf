"""`once send`: one well-formed event, in its message group, to a consumer that takes it."""

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from once.events.outgoing import OutgoingEvent
from once.names import UNROUTED, StackOutput
from once.outbox.publisher import deduplication_id
from once.testing import cloud_event
from tests.ops.cloud import Cloud
from tests.ops.support import answer_with, run, stderr_of, stdout_of

SEND = ("send", "--type", "order.placed", "--data")


def received(cloud: Cloud, consumer: str) -> list[Any]:
    return [json.loads(body) for body in cloud.take(consumer).elements()]


def test_an_event_goes_to_every_consumer_of_its_type_and_its_id_is_printed(cloud: Cloud) -> None:
    output = stdout_of(*SEND, '{"sku": "tea"}', "--subject", "o-1")
    [event] = received(cloud, "orders")
    assert received(cloud, "inventory") == [event]
    assert event == {
        "specversion": "1.0",
        "id": event["id"],
        "source": "/once-send",
        "type": "order.placed",
        "subject": "o-1",
        "data": {"sku": "tea"},
    }
    assert output.startswith("sent order.placed to inventory, orders;")
    assert output.endswith(f"next: `once trace {event['id']}`\n")


def test_data_comes_from_a_file_or_standard_input(cloud: Cloud, tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    file.write_text('{"sku": "tea"}')
    for given in (f"@{file}", "-"):
        result = run(*SEND, given, answer=file.read_text())
        assert result.exit_code == 0, result.output
        assert received(cloud, "orders")[0]["data"] == {"sku": "tea"}


def test_id_and_source_are_sent_as_they_are_given_and_with_to_to_one_queue(cloud: Cloud) -> None:
    stdout_of(*SEND, "1", "--id", "e-1", "--source", "/shop")
    [event] = received(cloud, "orders")
    assert (event["id"], event["source"]) == ("e-1", "/shop")
    assert len(received(cloud, "inventory")) == 1
    stdout_of("send", "--type", "payment.captured", "--data", "1", "--to", "orders")
    assert [event["type"] for event in received(cloud, "orders")] == ["payment.captured"]
    assert received(cloud, "inventory") == []


def test_after_a_lost_answer_the_id_to_send_again_is_named(cloud: Cloud) -> None:
    def lose(params: Any) -> Any:
        raise ReadTimeoutError(endpoint_url="sns")

    answer_with("sns.PublishBatch", lose)
    error = stderr_of(*SEND, "1")
    assert re.search(r"perhaps it was sent: send it again with --id [0-9a-f-]{36}", error)


REFUSED: dict[tuple[str, ...], tuple[int, str]] = {
    ("--type", "order.place", "--data", "1"): (1, "did you mean 'order.placed'?"),
    (*SEND[1:], "1", "--source", "/once/orders"): (2, "those are of consumers"),
    ("--type", "payment.captured", "--data", "1"): (1, "comes from consumers, not from producers"),
    ("--type", "x", "--data", "1", "--to", "orders"): (1, "'orders' takes no 'x'"),
    (*SEND[1:], "1", "--to", "order"): (1, "has no consumer 'order'"),
    (*SEND[1:], "{'sku': 1}"): (2, "no consumer could read this event"),
    (*SEND[1:], '{"a": 1, "a": 2}'): (2, "no consumer could read this event"),
    (*SEND[1:], "1", "--id", " "): (2, "order.placed has no id"),
    (*SEND[1:], "@missing.json"): (2, "missing.json cannot be read"),
}


def test_an_event_that_no_consumer_takes_or_could_read_is_not_sent(cloud: Cloud) -> None:
    for arguments, (code, text) in REFUSED.items():
        assert text in stderr_of("send", *arguments, code=code)
    assert received(cloud, "orders") == []


MOVED, PLACED = "stock.moved", "order.placed"
SEND_MOVED = ("send", "--type", MOVED, "--id", "e-1", "--source", "/depot", "--data")
DATA = json.dumps({"sku": "green tea", "move_id": "m-1"})
GROUP = sha256(b"green tea").hexdigest()  # SNS takes no space in a group id


@pytest.fixture
def calls(cloud: Cloud) -> dict[str, dict[str, Any]]:
    """The last call of each operation that publishes or sends."""
    found: dict[str, dict[str, Any]] = {}

    def record(operation: str) -> None:
        answer_with(operation, lambda params: found.update({operation: _parameters(params)}))

    for operation in ("sns.PublishBatch", "sqs.SendMessage"):
        record(operation)
    cloud.make_fifo("inventory", "sku", external=[MOVED])
    return found


def _parameters(params: Any) -> dict[str, Any]:
    body = params["body"]
    parameters: dict[str, Any] = json.loads(body) if isinstance(body, (str, bytes)) else dict(body)
    return parameters


ENTRY = "PublishBatchRequestEntries.member.1"
EVENT = OutgoingEvent("e-1", "/depot", MOVED, "")


def test_an_ordered_type_goes_to_the_fifo_topic_in_the_group_of_its_field(
    cloud: Cloud, calls: dict[str, dict[str, Any]]
) -> None:
    stdout_of(*SEND_MOVED, DATA)
    call = calls["sns.PublishBatch"]
    assert call["TopicArn"] == cloud.service[StackOutput.ORDERED_INGRESS_TOPIC]
    assert call[f"{ENTRY}.MessageGroupId"] == GROUP
    assert call[f"{ENTRY}.MessageDeduplicationId"] == deduplication_id(EVENT)
    assert call[f"{ENTRY}.MessageAttributes.entry.1.Value.StringValue"] == MOVED
    stdout_of(*SEND_MOVED, DATA, "--to", "inventory")
    sent = calls["sqs.SendMessage"]
    assert (sent["MessageGroupId"], sent["MessageDeduplicationId"]) == (
        GROUP,
        deduplication_id(EVENT),
    )


def test_a_fair_type_has_a_group_and_no_deduplication_id(
    cloud: Cloud, calls: dict[str, dict[str, Any]]
) -> None:
    cloud.set_types("orders", external=[PLACED], grouped_by="tenant.id")
    ways = ((), "sns.PublishBatch", f"{ENTRY}."), (("--to", "orders"), "sqs.SendMessage", "")
    for to, operation, prefix in ways:
        stdout_of("send", "--type", PLACED, "--data", '{"tenant": {"id": 7}}', *to)
        assert calls[operation][f"{prefix}MessageGroupId"] == "7"
        assert f"{prefix}MessageDeduplicationId" not in calls[operation]
    assert calls["sns.PublishBatch"]["TopicArn"] == cloud.service[StackOutput.INGRESS_TOPIC]


def test_data_without_the_field_of_the_group_is_not_sent(calls: dict[str, dict[str, Any]]) -> None:
    for to in ((), ("--to", "inventory")):
        error = stderr_of(*SEND_MOVED, '{"sku": true}', *to, code=2)
        assert "stock.moved cannot be published: its message group is the field 'sku'" in error
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
    by_topic = {call["TopicArn"]: call for call in published}
    fifo = by_topic[cloud.service[StackOutput.ORDERED_INGRESS_TOPIC]]
    assert fifo[f"{ENTRY}.MessageGroupId"] == GROUP
    event = json.loads(ordered)
    first = deduplication_id(OutgoingEvent(event["id"], event["source"], MOVED, ordered))
    assert fifo[f"{ENTRY}.MessageDeduplicationId"] not in {first, ""}
    other = by_topic[cloud.service[StackOutput.INGRESS_TOPIC]]
    assert f"{ENTRY}.MessageGroupId" not in other
    assert cloud.left(UNROUTED) == 0


def test_an_unrouted_ordered_event_without_its_field_stays(
    cloud: Cloud, calls: dict[str, dict[str, Any]]
) -> None:
    cloud.bury(UNROUTED, json.dumps(cloud_event(MOVED, {"move_id": "m-1"})))
    error = stderr_of(
        *("dlq", "redrive", "--rate", "1000", "--yes", "--consumer", UNROUTED), code=1
    )
    assert "Its data has no 'sku', which is the message group" in error
    assert cloud.left(UNROUTED) == 1
