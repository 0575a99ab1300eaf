"""Evidence of an audit: whole tables and queues are read, or an error names the cause."""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from demo.audit import Evidence
from demo.audit.evidence import UnreadMessagesError


@pytest.fixture
def evidence(monkeypatch: pytest.MonkeyPatch) -> Iterator[Evidence]:
    """Access to an AWS in memory."""
    monkeypatch.setattr("demo.audit.evidence.WAIT_SECONDS", 0)
    with mock_aws():
        yield Evidence(
            dynamodb=boto3.client("dynamodb", "us-east-1"),
            sqs=boto3.client("sqs", "us-east-1"),
            logs=None,
            tables={"orders": "physical-orders"},
            dead_letters={},
            log_groups={},
            subscribers={},
            charges=[],
            emails=[],
        )


def test_all_pages_of_a_table_are_read(evidence: Evidence) -> None:
    evidence.dynamodb.create_table(
        TableName="physical-orders",
        KeySchema=[{"AttributeName": "order_id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "order_id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    for name in "abcd":
        item = {"order_id": {"S": name}, "note": {"S": "x" * 390_000}}
        evidence.dynamodb.put_item(TableName="physical-orders", Item=item)
    assert evidence.by_key("orders", "order_id").keys() == {*"abcd"}


def fifo(evidence: Evidence, *groups: str) -> str:
    """A FIFO queue with a message of each of these groups, in this order."""
    attributes = {"FifoQueue": "true"}
    url = str(evidence.sqs.create_queue(QueueName="x.fifo", Attributes=attributes)["QueueUrl"])
    for number, group in enumerate(groups):
        evidence.sqs.send_message(
            QueueUrl=url,
            MessageBody=str(number),
            MessageGroupId=group,
            MessageDeduplicationId=str(number),
        )
    return url


def test_all_messages_of_a_message_group_are_read(evidence: Evidence) -> None:
    # SQS withholds the later messages of a group while its first ones are in flight.
    groups = [name for n in range(10) for name in ("many", f"a-{n}", f"b-{n}")]
    url = fifo(evidence, *groups)
    for _ in range(2):  # all are visible again
        assert {int(each["Body"]) for each in evidence.messages(url)} == {*range(30)}


def test_messages_that_cannot_be_read_are_an_error_that_names_the_cause(evidence: Evidence) -> None:
    url = fifo(evidence, *["many"] * 12, "other")
    with pytest.raises(UnreadMessagesError, match=r"^2 messages .* beside the other 11: "):
        evidence.messages(url)
