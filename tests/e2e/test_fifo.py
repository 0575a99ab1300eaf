"""A FIFO consumer on the deployed service: order is kept, and copies change state once."""

import json
from typing import Any

from demo.quiescence import wait_until
from once import Producer
from once.testing import cloud_event
from tests.e2e.deployment import REST_SECONDS, Deployment, attribute

TYPE = {"DataType": "String", "StringValue": "account.entered"}


def entered(account: str, number: int) -> Any:
    return cloud_event("account.entered", {"account": account, "number": number})


def publish(service: Deployment, event: Any, deduplication_id: str = "") -> None:
    service.sns.publish(
        TopicArn=service.parts.ordered_ingress_topic_arn or "",
        Message=json.dumps(event),
        MessageAttributes={"type": TYPE},
        MessageGroupId=event["data"]["account"],
        MessageDeduplicationId=deduplication_id or event["id"],
    )


def numbers(service: Deployment, account: str) -> list[int]:
    return [int(one) for one in service.get("counters", id=account).get("numbers", "").split()]


def test_a_group_keeps_its_order_while_its_first_message_fails(service: Deployment) -> None:
    service.put("controls", id="closed", closed="yes")
    topic = service.parts.ordered_ingress_topic_arn or ""
    bank = Producer(source="/bank", topic_arn=topic, sns=service.sns)
    bank.publish(
        bank.event(
            "account.entered",
            {"account": account, "number": number},
            key=f"{account} {number}",
            grouped_by="account",
        )
        for number in range(12)
        for account in ("closed", "open")
    )
    everything = [*range(12)]
    wait_until(
        "the open account", lambda: numbers(service, "open") == everything, timeout=REST_SECONDS
    )
    assert numbers(service, "closed") == []
    table = service.parts.table("controls")
    service.dynamodb.delete_item(TableName=table, Key={"id": {"S": "closed"}})
    service.wait_until_empty("ledger")
    assert numbers(service, "closed") == everything
    assert service.take("ledger") == []


def test_a_copy_that_sns_does_not_drop_changes_state_once(service: Deployment) -> None:
    event = entered("copied", 1)
    publish(service, event)
    publish(service, event)  # dropped: the same id within five minutes
    # After five minutes SNS has forgotten the id. Another id has the same effect.
    publish(service, event, "sent again")
    publish(service, entered("copied", 2))
    wait_until("the last entry", lambda: 2 in numbers(service, "copied"), timeout=REST_SECONDS)
    assert numbers(service, "copied") == [1, 2]


def test_the_group_of_a_fair_queue_is_kept_from_the_topic_to_the_dead_letter(
    service: Deployment,
) -> None:
    asked = {"DataType": "String", "StringValue": "probe.asked"}
    service.sns.publish(
        TopicArn=service.parts.ingress_topic_arn,
        Message=json.dumps(cloud_event("probe.asked", {"counter": 7})),  # no text: invalid data
        MessageAttributes={"type": asked},
        MessageGroupId="tenant-7",
    )
    [dead_letter] = service.dead_letters("probe", 1)
    assert attribute(dead_letter, "once-reason") == "invalid-data"
    assert dead_letter["Attributes"]["MessageGroupId"] == "tenant-7"
