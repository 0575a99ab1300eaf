"""Forged events change nothing, and an event that no consumer takes is kept with its reason."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from once.testing import cloud_event
from tests.e2e.deployment import Deployment, attribute
from tests.e2e.test_orders import place_order, unique


@pytest.fixture(scope="module")
def order(service: Deployment) -> str:
    """An order that inventory refuses: no genuine event ever pays it."""
    name, _ = place_order(service, available=1)
    assert_is_refused(service, name)
    return name


def assert_is_refused(service: Deployment, order: str) -> None:
    service.wait_at_rest()
    assert service.get("orders", order_id=order)["status"] == "refused"
    assert service.get("payments", order_id=order) == {}
    assert service.charges(order) == []
    assert len(service.emails(f"{order}@example.com")) == 1


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


def reasons(dead_letters: list[dict[str, Any]]) -> set[str]:
    return {attribute(dead_letter, "once-reason") for dead_letter in dead_letters}


def test_s2_an_internal_event_on_the_ingress_topic_reaches_no_consumer(
    service: Deployment, order: str
) -> None:
    service.publish(
        captured(order, "/shop"),
        captured(order, "/once/payments"),
        reserved(order, "/shop"),
        reserved(order, "/once/inventory"),
    )
    assert_is_refused(service, order)


def test_s2_an_internal_event_under_an_external_type_is_quarantined(
    service: Deployment, order: str
) -> None:
    event, ingress = captured(order, "/once/payments"), str(service.parts.ingress_topic_arn)
    publish(service, ingress, event, "order.placed")
    for consumer in ("orders", "inventory"):  # both subscribe to order.placed
        assert reasons(service.dead_letters(consumer, 1)) == {"untrusted-source"}
    assert_is_refused(service, order)


def test_s2_a_forged_event_that_is_sent_to_a_queue_is_quarantined(
    service: Deployment, order: str
) -> None:
    service.send("orders", captured(order, "/shop"), captured(order, "/once/inventory"))
    service.send("payments", reserved(order, "/shop"))
    assert reasons(service.dead_letters("orders", 2)) == {"untrusted-source"}
    assert reasons(service.dead_letters("payments", 1)) == {"untrusted-source"}
    assert_is_refused(service, order)


def test_s2_the_events_topic_denies_even_the_root_of_the_account(
    service: Deployment, order: str
) -> None:
    event, events = captured(order, "/once/payments"), str(service.parts.events_topic_arn)
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
    [dead_letter] = service.dead_letters("outbox_relay", 1)
    service.dynamodb.delete_item(TableName=table, Key=key)
    assert attribute(dead_letter, "once-reason") == "unpublishable"
    assert "orders may not publish payment.captured" in attribute(dead_letter, "once-error")
    assert_is_refused(service, order)


ASKED = {"DataType": "String", "StringValue": "probe.asked"}
LOST = {"DataType": "String", "StringValue": "order.lost"}
MANY = {f"a{number}": LOST for number in range(10)}


@pytest.fixture
def _no_unrouted(service: Deployment) -> None:
    """Earlier tests publish events that no consumer takes."""
    service.wait_until_swept()
    while service.take("unrouted"):
        pass


def asked(counter: str) -> str:
    return json.dumps(cloud_event("probe.asked", {"counter": counter}))


def unrouted(service: Deployment, expected: int) -> dict[str, str]:
    """Wait until all events were swept; take the unrouted ones and return their reasons by body."""
    dead_letters = service.dead_letters("unrouted", expected)
    service.wait_until_swept()
    while more := service.take("unrouted"):
        dead_letters += more
    # An event may be there twice: after a lost answer the function sends it again.
    return {
        dead_letter["Body"]: attribute(dead_letter, "once-reason") for dead_letter in dead_letters
    }


@pytest.mark.usefixtures("_no_unrouted")
def test_s3_what_no_consumer_takes_is_unrouted_and_nothing_else(service: Deployment) -> None:
    def tell(body: str, **attributes: Any) -> None:
        topic = service.parts.ingress_topic_arn
        service.sns.publish(TopicArn=topic, Message=body, MessageAttributes=attributes)

    bare, unknown, many = asked("bare"), asked("unknown"), asked("many")
    ordered = json.dumps(cloud_event("account.entered", {"account": "astray", "number": 1}))
    tell(bare)
    tell(asked("ordinary"), type=ASKED)
    tell(unknown, type=LOST)
    tell(many, type=ASKED, **MANY)
    tell("order 12, please")
    tell(ordered, type={"DataType": "String", "StringValue": "account.entered"})
    assert unrouted(service, 5) == {
        bare: "no-type",
        unknown: "unsubscribed-type",
        many: "too-many-attributes",
        "order 12, please": "no-type",
        ordered: "unsubscribed-type",  # which the FIFO topic alone takes
    }
    service.wait_until_empty("probe")
    assert service.get("counters", id="ordinary")["amount"] == "1"
    assert service.get("counters", id="bare") == {}


@pytest.mark.usefixtures("_no_unrouted")
def test_s3_a_consumers_event_that_no_other_takes_is_unrouted(service: Deployment) -> None:
    service.put("controls", id="published", publishes="yes")
    service.send("probe", asked("published"))
    [(body, reason)] = unrouted(service, 1).items()
    assert (json.loads(body)["type"], reason) == ("probe.counted", "unsubscribed-type")
    assert json.loads(body)["source"] == "/once/probe"
