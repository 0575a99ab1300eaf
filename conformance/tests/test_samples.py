"""Samples of messages, and their variants: another key, and other content under one key."""

import json
from pathlib import Path
from typing import Any

import pytest

from redelivery import Subject, SubjectError, Table
from redelivery.examination import examine
from redelivery.samples import messages, other_content, variations

from .support import subject

ORDERS = Table("orders", "order_id")


def sampled(*events: Any, **more: Any) -> Subject:
    return Subject(handler="app.handler", events=events, tables=[ORDERS], **more)


def varied(*events: Any, **more: Any) -> dict[str, Any]:
    given = sampled(*events, **more)
    found = variations(given, messages(given)[0])
    return {fields: json.loads(message.body) for fields, message in found}


def test_fields_that_may_be_a_key_vary_first() -> None:
    found = varied({"detail": {"order_id": "o-17", "amount": 5}, "city": "Ulm", "id": "e-o-17"})
    assert [*found] == [*("detail.order_id", "id", "detail.order_id, id", "detail.amount", "city")]
    assert found["detail.order_id"] == {
        "detail": {"order_id": "o-17-other", "amount": 5},
        "city": "Ulm",
        "id": "e-o-17-other",  # which contains the key
    }
    assert [*varied({"order_id": "o-1", "id": "x", "n": 1}, key="id")][:2] == ["id", "id, order_id"]


CONSTANT = """
    import boto3
    def handler(event, context):
        boto3.resource("dynamodb").Table("orders").put_item(Item={"order_id": "latest"})
"""
COPIES = """
    import boto3, json
    def handler(event, context):
        for record in event["Records"]:
            order = json.loads(record["body"])
            boto3.resource("dynamodb").Table("orders").put_item(
                Item={"order_id": str(order["data"]["number"])})
"""


def test_a_second_message_is_found_by_its_effect(tmp_path: Path) -> None:
    given = {"events": [{"trace_id": "t-1", "data": {"number": 7}}], "key": ""}
    found = examine(subject(tmp_path, COPIES, **given), only=["batch"])
    told = "m1 with another data.number, which changes orders order_id=8"
    assert found.messages["m2"].startswith(told)
    assert [result.passed for result in found.results] == [True]


OF_TENANTS = """
    import boto3, json
    def handler(event, context):
        for record in event["Records"]:
            order, tenant = json.loads(record["body"]), record["attributes"]["MessageGroupId"]
            item = {"order_id": f"{tenant} {order['order_id']}"}
            boto3.resource("dynamodb").Table("orders").put_item(Item=item)
"""


@pytest.mark.parametrize("fifo", [False, True])
def test_a_sample_has_its_message_group(tmp_path: Path, *, fifo: bool) -> None:
    record = {"body": '{"order_id": "o-1"}', "attributes": {"MessageGroupId": "t-1"}}
    given = subject(tmp_path, OF_TENANTS, events=[{"Records": [record]}], fifo=fifo)
    found = examine(given, only=["batch", "redriven"])
    assert "dynamodb.PutItem orders order_id=t-1 o-1" in " ".join(found.course)
    assert all(result.passed for result in found.results)


def test_without_an_effect_of_its_own_there_is_no_second_message(tmp_path: Path) -> None:
    found = examine(subject(tmp_path, CONSTANT, key=""), only=["batch", "redriven"])
    assert found.untried == (
        "no field of the sample makes it another event; tried were: order_id; amount"
    )
    assert [*found.not_run.values()] == [found.untried]
    assert found.verdict_line.endswith("faults of two messages were not tried")


@pytest.mark.parametrize(
    ("event", "changed"),
    [
        ({"order_id": 7, "amount": 5}, {"order_id": 7, "amount": 6}),
        ({"order_id": "o-1", "id": "x", "city": "Ulm"}, {"city": "Ulm-other"}),
        ({"order_id": "o-1", "paid": True, "n": 1.5}, {"n": 2.5}),
    ],
)
def test_other_content_has_the_same_key(event: Any, changed: Any) -> None:
    given = sampled(event, key="order_id")
    found = other_content(given, messages(given)[0])
    assert found is not None
    assert json.loads(found.body) == {**event, **changed}


def test_a_uuid_key_stays_a_uuid() -> None:
    event = {"order_id": "2a57f3a0-6c2c-4d0e-9f63-4a0f9f7a0c11"}
    [other] = varied(event)["order_id"].values()
    assert len(other) == len(event["order_id"])
    assert other != event["order_id"]


def test_an_sqs_event_gives_its_messages(tmp_path: Path) -> None:
    attributes = {"trace": {"stringValue": "t", "dataType": "String", "stringListValues": []}}
    record = {"body": '{"order_id": "o-1"}', "messageAttributes": attributes}
    file = tmp_path / "event.json"
    file.write_text(json.dumps({"Records": [record, {"body": '{"order_id": "o-2"}'}]}))
    first, second = messages(sampled(file, {"refund_id": "r-1"}))[:2]
    assert first.attributes == {"trace": {"StringValue": "t", "DataType": "String"}}
    assert (second.label, second.body) == ("m2", '{"order_id": "o-2"}')


def test_a_sample_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text('{"order_id": }')
    with pytest.raises(SubjectError, match=r"order\.json is not JSON: .*line 1 column 14"):
        messages(sampled(tmp_path / "order.json"))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (sampled(), "give a file"),
        (sampled(Path("missing.json")), "cannot read the sample missing.json"),
        (sampled({"a": {"b": 1}}, key="a.c"), "has no field a.c, its key. Its fields are: a.b"),
        (sampled("text", key="a"), "none, it is not JSON"),
    ],
)
def test_wrong_samples_are_explained(wrong: Subject, told: str) -> None:
    with pytest.raises(SubjectError, match=told):
        messages(wrong)
