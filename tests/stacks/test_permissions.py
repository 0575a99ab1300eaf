"""The whole policy of each function's role, on AWS and on the embedded AWS."""

from typing import NamedTuple

import pytest

from once.cdk.props import ConsumerProps
from once.names import RELAY, UNROUTED
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import STATE, Cloud, Json, flat, listed, name_of, statements, types

IN_TRANSACTIONS_ONLY = {
    "ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
}
WRITES = {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"}
READS = {"dynamodb:GetItem", "dynamodb:BatchGetItem"}
RECEIVE = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
SEND = {"sqs:SendMessage"}


class Right(NamedTuple):
    """One statement: its actions, their resources, and the condition."""

    actions: set[str]
    resources: set[str]
    condition: Json | None = None


def rights(cloud: Cloud, owner: ConsumerProps | str) -> dict[str, Right]:
    """Return the statements of a role by their names."""
    return {
        s["Sid"]: Right(
            {*listed(s["Action"])},
            {cloud.resolved(resource) for resource in listed(s["Resource"])},
            s.get("Condition"),
        )
        for s in statements(cloud, owner)
    }


def log_and_trace(cloud: Cloud, owner: ConsumerProps | str) -> dict[str, Right]:
    log = {"logs:CreateLogStream", "logs:PutLogEvents"}
    trace = {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
    return {
        "Log": Right(log, {cloud.text(owner, "Log", attribute="Arn")}),
        "Trace": Right(trace, {"*"}),  # X-Ray has no resources
    }


def in_tables(cloud: Cloud, consumer: ConsumerProps) -> dict[str, Right]:
    """Return the rights on the dedup table and on the consumer's tables."""
    dedup = {cloud.text(STATE, "dedup-records", attribute="Arn")}
    tables = {cloud.text(STATE, table.name, attribute="Arn") for table in consumer.tables}
    own: Json = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{consumer.identity}#*"]}}
    if not cloud.local:  # the embedded AWS does not know the key: demanded, it would be missing
        own["Null"] = {"dynamodb:LeadingKeys": "false"}
    put = {"dynamodb:PutItem"} | ({"dynamodb:UpdateItem"} if consumer.has_effects else set())
    return {
        "WriteOwnRecordsInTransactions": Right(put, dedup, IN_TRANSACTIONS_ONLY | own),
        "ReadOwnRecords": Right({"dynamodb:BatchGetItem"}, dedup, own),
        "WriteInTransactions": Right(WRITES, tables, IN_TRANSACTIONS_ONLY),
        "CheckInTransactions": Right({"dynamodb:ConditionCheckItem"}, tables),
        "Read": Right(READS, tables),
    }


def in_queues(cloud: Cloud, consumer: ConsumerProps) -> dict[str, Right]:
    """Return the rights on the consumer's queues."""
    queue, dead_letters = (
        cloud.text(consumer, part, attribute="Arn") for part in ("Queue", "DeadLetters")
    )
    quarantine, consume = Right(SEND, {dead_letters}), RECEIVE | {"sqs:ChangeMessageVisibility"}
    if consumer.batch_size == 1:
        return {"Quarantine": quarantine, "ConsumeOwnQueues": Right(consume, {queue})}
    isolation = cloud.text(consumer, "Isolation", attribute="Arn")
    consume |= in_batches(cloud, "sqs:DeleteMessage")
    return {
        "Quarantine": quarantine,
        "ConsumeOwnQueues": Right(consume, {queue, isolation}),
        "Isolate": Right(SEND | in_batches(cloud, "sqs:SendMessage"), {isolation}),
    }


def in_batches(cloud: Cloud, action: str) -> set[str]:
    """Return the action for a batch, which is a right of its own on the embedded AWS only."""
    return {f"{action}Batch"} if cloud.local else set()


def outside(cloud: Cloud, consumer: ConsumerProps) -> dict[str, Right]:
    """Return the rights on secrets and e-mail; the embedded AWS checks no sender."""
    found = {}
    if consumer.secrets:
        secrets = {cloud.text(STATE, f"secret-{name}", attribute="Id") for name in consumer.secrets}
        found["ReadSecrets"] = Right({"secretsmanager:GetSecretValue"}, secrets)
    if consumer.sends_email:
        identities = "arn:<AWS::Partition>:ses:<AWS::Region>:<AWS::AccountId>:identity/*"
        sender = {"StringEquals": {"ses:FromAddress": "orders@example.com"}}
        found["SendEmail"] = Right(
            {"ses:SendEmail"},
            {"*" if cloud.local else identities},
            None if cloud.local else sender,
        )
    return found


def test_a_consumer_has_these_rights_only(either_cloud: Cloud, consumer: ConsumerProps) -> None:
    parts = (in_tables, in_queues, outside, log_and_trace)
    expected = {sid: right for part in parts for sid, right in part(either_cloud, consumer).items()}
    assert rights(either_cloud, consumer) == expected


def test_the_relay_has_these_rights_only(either_cloud: Cloud) -> None:
    stream = either_cloud.text(STATE, "dedup-records", attribute="StreamArn")
    bucket = either_cloud.text(STATE, "relay-failures", attribute="Arn")
    publish = {"sns:Publish"} | in_batches(either_cloud, "sns:Publish")
    assert rights(either_cloud, RELAY) == {
        "ReadStream": Right(
            {
                *("dynamodb:GetRecords", "dynamodb:GetShardIterator"),
                *("dynamodb:DescribeStream", "dynamodb:ListStreams"),
            },
            {stream},
        ),
        "Publish": Right(publish, {either_cloud.text("Events")}),
        "Quarantine": Right(SEND, {either_cloud.text(RELAY, "DeadLetters", attribute="Arn")}),
        "KeepFailures": Right(
            {"s3:PutObject", "s3:ListBucket"},
            {bucket, f"{bucket}/*"},
            {"StringEquals": {"s3:ResourceAccount": {"Ref": "AWS::AccountId"}}},
        ),
        **log_and_trace(either_cloud, RELAY),
    }


def test_the_sweep_function_reads_one_queue_and_sends_to_the_other(either_cloud: Cloud) -> None:
    sweep, unrouted = (
        either_cloud.text(UNROUTED, part, attribute="Arn") for part in ("Sweep", "Queue")
    )
    assert rights(either_cloud, UNROUTED) == {
        "ConsumeSweep": Right(RECEIVE, {sweep}),
        "KeepUnrouted": Right(SEND, {unrouted}),
        **log_and_trace(either_cloud, UNROUTED),
    }


@pytest.mark.parametrize("owner", [*CONSUMERS, RELAY, UNROUTED], ids=name_of)
def test_only_lambda_assumes_a_role_and_no_other_policy_adds_to_it(
    cloud: Cloud, owner: ConsumerProps | str
) -> None:
    role = cloud.of(owner, "Role")
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "lambda.amazonaws.com"}
    assert "ManagedPolicyArns" not in role
    assert "AWS::IAM::Policy" not in types(cloud.service)
    for policy in cloud.every("AWS::IAM::ManagedPolicy").values():  # those of operators
        assert not {"Roles", "Users", "Groups"} & policy.keys()
    assert flat(cloud.of(owner, "Function")["Role"]) == cloud.text(owner, "Role", attribute="Arn")
