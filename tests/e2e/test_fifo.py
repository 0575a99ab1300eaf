"""A FIFO consumer on the deployed service: order is kept, and copies change state once."""

import json
from typing import Any
from uuid import uuid4

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from demo.quiescence import wait_until
from once.errors import PermanentError
from once.failures.quarantine import Quarantine
from once.intake.reader import Delivery
from once.settings import Settings
from once.testing import cloud_event
from tests.e2e.deployment import REST_SECONDS, Deployment, attribute
from tests.once.support import record

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
    for number in range(12):
        publish(service, entered("closed", number))
        publish(service, entered("open", number))
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


def dead_letter(service: Deployment, account: str, number: int) -> None:
    """Dead-letter an entry as the consumer does; deployed, it would retry it for days."""
    parts = service.parts.consumer("ledger")
    settings = Settings(
        consumer="ledger",
        event_types=(),
        queue_url=parts.queue_url,
        dead_letter_url=parts.dead_letter_url,
        dedup_table="",
        tables={},
        dedup_window_seconds=1,
    )
    body = json.dumps(entered(account, number))
    sent = record(body, uuid4().hex, group=account, number=number + 1)
    times = sent["attributes"]
    times["ApproximateFirstReceiveTimestamp"] = times["SentTimestamp"]  # a redrive asks for its age
    delivery = Delivery(SQSRecord(sent), group=account, ordered_group=account)
    Quarantine(service.sqs, settings).send(delivery, PermanentError("refused"))


def test_every_dead_letter_of_a_group_is_listed_and_redriven_in_its_order(
    service: Deployment,
) -> None:
    # SQS withholds the later messages of a group while earlier ones are in flight.
    for number in reversed(range(12)):
        dead_letter(service, "redriven", number)
        dead_letter(service, f"redriven-{number}", number)
    choice = ("--consumer", "ledger", "--json")
    found = json.loads(service.ops("dlq", "list", *choice))
    assert (len(found["letters"]), found["withheld_by_sqs"]) == (24, 0)
    service.ops("dlq", "redrive", "--yes", *choice, "--reason", "permanent", "--rate", "100")
    service.wait_until_empty("ledger")
    assert numbers(service, "redriven") == list(range(12))


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
