"""Candidate keys: they include the key of every key rule."""

from typing import Any

import pytest

from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key, key_hash
from once.events.fingerprint import fingerprint
from once.ops.dedup_records.key_candidates import candidate_keys, candidate_with_hash

DATA = {
    "order_id": "o-1",
    "number": 7,
    "customer": {"id": "c-1", "address": {"city": "Bern"}},
    "lines": [{"sku": "s"}],
    "rate": 1.5,
    "express": True,
    "note": " ",
    "coupon": None,
}


def event(data: Any = DATA, **attributes: Any) -> CloudEvent:
    head = {"id": "e-1", "source": "/shop", "type": "order.placed", "subject": "o-1"}
    extensions = {"delivery": "d-1", "traceparent": "00-1"}
    return CloudEvent(**({**head, "data": data, "extensions": extensions} | attributes))


def keys(event: CloudEvent) -> list[str]:
    return list(candidate_keys(event, "orders"))


@pytest.mark.parametrize(
    "rule",
    [
        Key.event(),
        Key.content(),
        Key.attribute("subject"),
        Key.attribute("delivery"),
        Key.field("order_id"),
        Key.field("number"),
        Key.field("customer.address.city"),
        Key.field("order_id", "number"),
        Key.field("number", "order_id"),
        Key.field("customer.id", "customer.address.city", "order_id"),
    ],
)
def test_key_of_every_rule_is_found_by_its_hash(rule: Key) -> None:
    key = rule.of(event(), fingerprint=fingerprint(event()), consumer="orders")
    assert candidate_with_hash(event(), "orders", key_hash(key)) == key


def test_key_of_another_consumer_or_event_is_not_found() -> None:
    key = Key.event().of(event(), fingerprint="f", consumer="orders")
    assert candidate_with_hash(event(), "inventory", key_hash(key)) is None
    assert candidate_with_hash(event(id="e-2"), "orders", key_hash(key)) is None


def test_likely_keys_come_first() -> None:
    assert keys(event())[:9] == [
        "orders#event#/shop#e-1",
        "orders#attribute#/shop#subject#str:o-1",
        "orders#attribute#/shop#delivery#str:d-1",
        "orders#attribute#/shop#traceparent#str:00-1",
        f"orders#content#/shop#{fingerprint(event())}",
        "orders#field#order.placed#order_id#str:o-1",
        "orders#field#order.placed#number#int:7",
        "orders#field#order.placed#customer.id#str:c-1",
        "orders#field#order.placed#customer.address.city#str:Bern",
    ]


def test_candidates_are_distinct() -> None:
    found = keys(event())
    assert len(found) == len(set(found)) == 5 + 4 + 4 * 3 + 4 * 3 * 2


@pytest.mark.parametrize(
    ("data", "number"),
    [
        *((data, 5) for data in (None, [], ["x"], "x", 7, {}, {"a.b": 1}, {"a": [1]})),
        pytest.param({"text": "x" * 3000}, 5, id="key above DynamoDB's limit"),
        pytest.param({"caf\u00e9": 1, "cafe\u0301": 2}, 0, id="no canonical form"),
    ],
)
def test_data_without_usable_fields_adds_no_candidates(data: Any, number: int) -> None:
    assert len(keys(event(data))) == number


def test_single_fields_come_before_combinations_which_are_limited() -> None:
    found = keys(event({f"field_{number}": number for number in range(60)}))
    assert "orders#field#order.placed#field_59#int:59" in found[: 5 + 60]
    assert len(found) == 5 + 60 + 40 * 39 + 40 * 39 * 38


def test_name_with_a_dot_is_not_read_as_a_path() -> None:
    found = keys(event({"a.b": 1, "a": {"b": 2}}))
    assert found[5:] == ["orders#field#order.placed#a.b#int:2"]
