"""Samples of messages and their variants, and differences between two states."""

import json
from pathlib import Path
from typing import Any

import pytest

from redelivery import Subject, SubjectError, Table
from redelivery.judgement import differences, volatile
from redelivery.samples import samples
from redelivery.world.resources import Collection, State, flat


def table(*rows: dict[str, Any]) -> State:
    return {"orders": Collection(("id",), tuple(map(flat, rows)))}


def sent(*rows: dict[str, Any]) -> State:
    return {"sqs mails": Collection((), tuple(map(flat, rows)))}


@pytest.mark.parametrize(
    ("before", "expected", "found", "kinds"),
    [
        (table(), table({"id": 1}), table({"id": 1}), []),
        (table(), table({"id": 1}), table(), [("lost", 1)]),
        (table(), table({"id": 1}), table({"id": 1}, {"id": 2}), [("doubled", 1)]),
        (table(), table({"id": 1, "n": 5}), table({"id": 1, "n": 15}), [("doubled", 2)]),
        (table(), table({"id": 1, "n": 5}), table({"id": 1, "n": 6}), [("overwritten", 1)]),
        (
            table({"id": 1, "n": 10}),
            table({"id": 1, "n": 8}),
            table({"id": 1, "n": 6}),
            [("doubled", 1)],
        ),
        (
            table({"id": 1, "n": 10}),
            table({"id": 1, "n": 8}),
            table({"id": 1, "n": 10}),
            [("lost", 1)],
        ),
        (
            table(),
            table({"id": 1, "lines": ["a"]}),
            table({"id": 1, "lines": ["a", "a"]}),
            [("doubled", 1)],
        ),
        (table(), table({"id": 1, "s": "a"}), table({"id": 1, "s": "b"}), [("overwritten", 1)]),
        (table(), table({"id": 1, "s": "a"}), table({"id": 1}), [("lost", 1)]),
        ({}, sent({"a": 1}), sent({"a": 1}, {"a": 1}, {"a": 1}), [("doubled", 2)]),
        ({}, sent({"a": 1}), {}, [("lost", 1)]),
        ({}, sent({"a": 1}), sent({"a": 2}), [("overwritten", 1)]),
        ({}, {}, sent({"a": 2}), [("doubled", 1)]),
    ],
)
def test_kinds_of_differences(
    before: State, expected: State, found: State, kinds: list[tuple[str, int]]
) -> None:
    result = differences(before, expected, found, {})
    assert [(str(entry.kind), entry.count) for entry in result] == kinds


def test_a_sum_of_two_messages_that_one_of_them_moved_twice() -> None:
    expected, alone = table({"id": 1, "n": -4}), [table({"id": 1, "n": -2})]
    [found] = differences(table(), expected, table({"id": 1, "n": -6}), {}, alone)
    assert (str(found.kind), found.count) == ("doubled", 1)
    [found] = differences(table(), expected, table({"id": 1, "n": -2}), {}, alone)
    assert str(found.kind) == "lost"


def test_an_attribute_that_differs_between_clean_runs_is_not_compared() -> None:
    one, other = table({"id": 1, "at": "1", "n": 5}), table({"id": 1, "at": "2", "n": 5})
    hidden = volatile([(one, other)], [])
    assert hidden == {"orders": frozenset({"at"})}
    assert differences({}, one, table({"id": 1, "at": "3", "n": 5}), hidden) == []
    assert len(differences({}, one, table({"id": 1, "at": "3", "n": 10}), hidden)) == 1


def test_rows_with_a_key_made_on_receipt_are_counted() -> None:
    one, other = table({"id": "x", "n": 5}), table({"id": "y", "n": 5})
    hidden = volatile([(one, other)], [])
    assert differences({}, one, table({"id": "z", "n": 5}), hidden) == []
    doubled = differences({}, one, table({"id": "z", "n": 5}, {"id": "q", "n": 5}), hidden)
    assert [(str(entry.kind), entry.count) for entry in doubled] == [("doubled", 1)]


def test_a_time_inside_text_of_json_is_found() -> None:
    one, other = sent({"body": '{"a": 1, "at": 7}'}), sent({"body": '{"a": 1, "at": 8}'})
    assert volatile([(one, other)], ["sqs mails.more"]) == {
        "sqs mails": frozenset({"body.at", "more"})
    }


# Samples of messages, and their variants.


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
