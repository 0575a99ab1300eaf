"""A due schedule in the embedded AWS publishes to SNS once, not early, with its role's rights."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from emulator.embedded_aws import EmbeddedAws
from emulator.server import SCHEDULED_PUBLISH

SECURE = {"Bool": {"aws:SecureTransport": "false"}}
PATIENCE_SECONDS = 20
"""A bound of one long poll, for a busy machine."""


class Scheduling:
    """A topic whose events go into a queue, a schedule group, a role, and dead letters."""

    def __init__(self, aws: EmbeddedAws, role: str, allowed: str) -> None:
        self.aws, self.scheduler, self.sqs = aws, aws.client("scheduler"), aws.client("sqs")
        sns = aws.client("sns")
        self.topic = sns.create_topic(Name=role)["TopicArn"]
        self.queue, queue_arn = self._queue(f"{role}-events", "sns.amazonaws.com")
        self.letters, self.letters_arn = self._queue(f"{role}-letters", "scheduler.amazonaws.com")
        sns.subscribe(
            TopicArn=self.topic,
            Protocol="sqs",
            Endpoint=queue_arn,
            Attributes={"RawMessageDelivery": "true"},
        )
        self.scheduler.create_schedule_group(Name=role)
        service = {"Service": "scheduler.amazonaws.com"}
        trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": service}
        iam = aws.client("iam")
        made = iam.create_role(
            RoleName=role, AssumeRolePolicyDocument=json.dumps({"Statement": [trust]})
        )
        self.role, self.group = made["Role"]["Arn"], role
        publish = {"Effect": "Allow", "Action": allowed, "Resource": self.topic}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [publish]})
        iam.put_role_policy(RoleName=role, PolicyName="Publish", PolicyDocument=policy)

    def _queue(self, name: str, service: str) -> tuple[str, str]:
        url = self.sqs.create_queue(QueueName=name)["QueueUrl"]
        arn = f"arn:aws:sqs:{self.aws.region}:{self.aws.account}:{name}"
        shared: dict[str, Any] = {"Action": "sqs:SendMessage", "Resource": arn}
        send = {"Effect": "Allow", "Principal": {"Service": service}, **shared}
        # As all queues of a service have it.
        plain = {"Effect": "Deny", "Principal": "*", "Condition": SECURE, **shared}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [send, plain]})
        self.sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        return url, arn

    def schedule(self, name: str, at: float, message: str) -> None:
        attributes = {"type": {"DataType": "String", "StringValue": "paid"}}
        given = {"TopicArn": self.topic, "Message": message, "MessageAttributes": attributes}
        self.scheduler.create_schedule(
            Name=name,
            GroupName=self.group,
            ScheduleExpression=f"at({datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            ActionAfterCompletion="DELETE",
            Target={
                "Arn": SCHEDULED_PUBLISH,
                "RoleArn": self.role,
                "Input": json.dumps(given),
                "DeadLetterConfig": {"Arn": self.letters_arn},
            },
        )

    def received(self, url: str) -> list[Any]:
        answer = self.sqs.receive_message(
            QueueUrl=url, WaitTimeSeconds=PATIENCE_SECONDS, MessageAttributeNames=["All"]
        )
        return list(answer.get("Messages", []))


def test_a_due_schedule_publishes_once_not_early_and_is_deleted(aws: EmbeddedAws) -> None:
    due, world = int(time.time()) + 2, Scheduling(aws, "publishes", "sns:Publish")
    world.schedule("one", due, "hello")
    with pytest.raises(ClientError, match="ConflictException"):
        world.schedule("one", due, "hello")
    [message] = world.received(world.queue)
    assert time.time() >= due
    assert message["Body"] == "hello"
    assert message["MessageAttributes"]["type"]["StringValue"] == "paid"
    listed = world.scheduler.list_schedules(GroupName="publishes")
    assert listed["Schedules"] == []
    assert world.sqs.receive_message(QueueUrl=world.queue).get("Messages", []) == []


def test_a_schedule_whose_role_may_not_publish_becomes_a_dead_letter(aws: EmbeddedAws) -> None:
    world = Scheduling(aws, "denied", "sns:Subscribe")
    world.schedule("one", time.time(), "hello")
    [letter] = world.received(world.letters)
    assert json.loads(letter["Body"])["Message"] == "hello"
    assert "may not publish" in letter["MessageAttributes"]["ERROR_MESSAGE"]["StringValue"]
