"""Forged events change nothing: on the ingress topic, in a queue, and in a dedup record."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from once.testing import cloud_event
from tests.e2e.deployment import Deployment, attribute
from tests.e2e.test_orders import place_order, unique


@pytest.fixture
def order(service: Deployment) -> Iterator[str]:
    """An order that inventory refuses: no genuine event ever pays it."""
    name, _ = place_order(service, available=1)
    assert service.get("orders", order_id=name)["status"] == "refused"
    yield name
    assert service.get("orders", order_id=name)["status"] == "refused"
    assert service.get("payments", order_id=name) == {}
    assert service.charges(name) == []
    assert len(service.emails(f"{name}@example.com")) == 1


def captured(order: str, source: str) -> dict[str, Any]:
    return forged("payment.captured", order, source)


def reserved(order: str, source: str) -> dict[str, Any]:
    buyer = {"email": f"{order}@example.com", "payment_method": "pm_card_visa"}
    return forged("stock.reserved", order, source, **buyer)


def forged(event_type: str, order: str, source: str, **more: str) -> dict[str, Any]:
    data = {"order_id": order, "amount": 1, "currency": "EUR", **more}
    name = unique("forged")
    return cloud_event(event_type, data, event_id=name, source=source, subject=order)


def publish(service: Deployment, topic_arn: str, event: Any, event_type: str) -> None:
    attributes = {"type": {"DataType": "String", "StringValue": event_type}}
    service.sns.publish(TopicArn=topic_arn, Message=json.dumps(event), MessageAttributes=attributes)


def reasons(letters: list[dict[str, Any]]) -> set[str]:
    return {attribute(letter, "once-reason") for letter in letters}


def test_s2_an_internal_event_on_the_ingress_topic_reaches_no_consumer(
    service: Deployment, order: str
) -> None:
    service.publish(
        captured(order, "/shop"),
        captured(order, "/once/payments"),
        reserved(order, "/shop"),
        reserved(order, "/once/inventory"),
    )
    service.wait_at_rest()


def test_s2_an_internal_event_under_an_external_type_is_quarantined(
    service: Deployment, order: str
) -> None:
    event, ingress = captured(order, "/once/payments"), service.parts.ingress_topic_arn
    publish(service, ingress, event, "order.placed")
    for consumer in ("orders", "inventory"):  # both subscribe to order.placed
        assert reasons(service.dead_letters(consumer, 1)) == {"untrusted-source"}
    service.wait_at_rest()


def test_s2_a_forged_event_that_is_sent_to_a_queue_is_quarantined(
    service: Deployment, order: str
) -> None:
    service.send("orders", captured(order, "/shop"), captured(order, "/once/inventory"))
    service.send("payments", reserved(order, "/shop"))
    assert reasons(service.dead_letters("orders", 2)) == {"untrusted-source"}
    assert reasons(service.dead_letters("payments", 1)) == {"untrusted-source"}
    service.wait_at_rest()


def test_s2_the_events_topic_denies_even_the_root_of_the_account(
    service: Deployment, order: str
) -> None:
    event, events = captured(order, "/once/payments"), service.parts.events_topic_arn
    with pytest.raises(ClientError) as refused:
        publish(service, events, event, "payment.captured")
    assert refused.value.response["Error"]["Code"] == "AuthorizationError"


def test_s1_an_outbox_that_is_forged_in_anothers_record_is_dead_lettered(
    service: Deployment, order: str
) -> None:
    key, table = {"pk": {"S": unique("orders#event#/forged")}}, service.parts.dedup_table
    outbox = json.dumps([captured(order, "/once/payments")])
    record = {"commit": {"S": "c"}, "outbox": {"S": outbox}, "committed_at": {"N": "0"}}
    service.dynamodb.put_item(TableName=table, Item=key | record)
    [letter] = service.dead_letters("outbox_relay", 1)
    service.dynamodb.delete_item(TableName=table, Key=key)
    assert attribute(letter, "once-reason") == "unpublishable"
    assert "orders may not publish payment.captured" in attribute(letter, "once-error")
    service.wait_at_rest()
