"""Samples of messages, and their variants: another key, and other content under one key."""

import json
from pathlib import Path
from typing import Any

import pytest

from redelivery import Subject, SubjectError, Table
from redelivery.samples import samples

ORDERS = Table("orders", "order_id")


def sampled(*events: Any, **more: Any) -> Subject:
    return Subject(handler="app.handler", events=events, tables=[ORDERS], **more)


def test_the_key_is_a_tables_partition_key_in_the_body() -> None:
    found = samples(sampled({"detail": {"order_id": "o-17", "amount": 5}, "id": "e-o-17"}))
    assert found.second is not None
    assert json.loads(found.second.body) == {
        "detail": {"order_id": "o-17-other", "amount": 5},
        "id": "e-o-17-other",
    }
    assert found.other is None


@pytest.mark.parametrize(
    ("event", "changed"),
    [
        ({"order_id": 7, "amount": 5}, {"order_id": 7, "amount": 6}),
        ({"order_id": "o-1", "id": "x", "city": "Ulm"}, {"city": "Ulm-other"}),
        ({"order_id": "o-1", "paid": True, "n": 1.5}, {"n": 2.5}),
    ],
)
def test_other_content_has_the_same_key(event: Any, changed: Any) -> None:
    found = samples(sampled(event, key="order_id")).other
    assert found is not None
    assert json.loads(found.body) == {**event, **changed}


def test_a_uuid_key_stays_a_uuid() -> None:
    event = {"order_id": "2a57f3a0-6c2c-4d0e-9f63-4a0f9f7a0c11"}
    second = samples(sampled(event)).second
    assert second is not None
    assert len(json.loads(second.body)["order_id"]) == len(event["order_id"])
    assert second.body != json.dumps(event)


def test_an_sqs_event_gives_its_messages(tmp_path: Path) -> None:
    attributes = {"trace": {"stringValue": "t", "dataType": "String", "stringListValues": []}}
    record = {"body": '{"order_id": "o-1"}', "messageAttributes": attributes}
    file = tmp_path / "event.json"
    file.write_text(json.dumps({"Records": [record, {"body": '{"order_id": "o-2"}'}]}))
    found = samples(sampled(file))
    assert found.first.attributes == {"trace": {"StringValue": "t", "DataType": "String"}}
    assert found.second is not None
    assert found.second.body == '{"order_id": "o-2"}'


def test_a_sample_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text('{"order_id": }')
    with pytest.raises(SubjectError, match=r"order\.json is not JSON: .*line 1 column 14"):
        samples(sampled(tmp_path / "order.json"))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (sampled(), "give a file"),
        (sampled(Path("missing.json")), "cannot read the sample missing.json"),
        (sampled({"a": {"b": 1}}, key="a.c"), "has no field a.c, its key. Its fields are: a.b"),
        (sampled("text", key="a"), "none, it is not JSON"),
        (sampled({"order_id": "o-1"}, {"id": 2}, key="order_id"), "second sample has no key"),
    ],
)
def test_wrong_samples_are_explained(wrong: Subject, told: str) -> None:
    with pytest.raises(SubjectError, match=told):
        samples(wrong)
