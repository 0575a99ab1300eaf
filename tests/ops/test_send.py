"""`once send` publishes one well-formed event, and refuses an event that no consumer takes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.ops.cloud import Cloud
from tests.ops.output import stderr_of, stdout_of
from tests.ops.support import answer_with, run

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
    assert output.endswith(f"once trace {event['id']} --source /once-send\n")


@pytest.mark.parametrize("given", ["@", "-"])
def test_data_comes_from_a_file_or_standard_input(cloud: Cloud, tmp_path: Path, given: str) -> None:
    file = tmp_path / "data.json"
    file.write_text('{"sku": "tea"}')
    result = run(*SEND, f"@{file}" if given == "@" else "-", answer=file.read_text())
    assert result.exit_code == 0, result.output
    assert received(cloud, "orders")[0]["data"] == {"sku": "tea"}


def test_the_same_id_and_source_are_sent_as_they_are_given(cloud: Cloud) -> None:
    for _ in range(2):
        stdout_of(*SEND, "1", "--id", "e-1", "--source", "/shop")
    events = received(cloud, "orders")
    assert [(event["id"], event["source"]) for event in events] == [("e-1", "/shop")] * 2


def test_with_to_only_this_queue_receives_it_and_internal_types_are_sent(cloud: Cloud) -> None:
    stdout_of("send", "--type", "payment.captured", "--data", "1", "--to", "orders")
    assert [event["type"] for event in received(cloud, "orders")] == ["payment.captured"]
    assert received(cloud, "inventory") == []


def test_after_a_lost_answer_the_id_to_send_again_is_named(cloud: Cloud) -> None:
    def lose(params: Any) -> Any:
        raise ReadTimeoutError(endpoint_url="sns")

    answer_with("sns.Publish", lose)
    error = stderr_of(*SEND, "1")
    assert re.search(r"perhaps it was sent: send it again with --id [0-9a-f-]{36}", error)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--type", "order.place", "--data", "1"), "did you mean 'order.placed'?"),
        (("--type", "payment.captured", "--data", "1"), "comes from consumers, not from producers"),
        (("--type", "x", "--data", "1", "--to", "orders"), "'orders' takes no 'x'"),
        (("--type", "order.placed", "--data", "1", "--to", "order"), "has no consumer 'order'"),
    ],
)
def test_an_event_without_a_receiver_is_not_sent(
    cloud: Cloud, arguments: tuple[str, ...], text: str
) -> None:
    assert text in stderr_of("send", *arguments)
    assert received(cloud, "orders") == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("{'sku': 1}",), "no consumer could read this event"),
        (('{"a": 1, "a": 2}',), "no consumer could read this event"),
        (("1", "--id", " "), "the event has no id"),
        (("@missing.json",), "missing.json cannot be read"),
    ],
)
def test_an_event_that_no_consumer_could_read_is_not_sent(
    cloud: Cloud, arguments: tuple[str, ...], text: str
) -> None:
    assert text in stderr_of(*SEND, *arguments, code=2)
    assert received(cloud, "orders") == []
