"""Two Regions of the embedded AWS: what a replica has in part is found, and the fence denies."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError

from emulator.embedded_aws import EmbeddedAws
from once.consumer import Runtime
from once.events.cloud_event import event_of
from once.ops.aws.clients import client, in_region
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.operator_changes import logged_change
from once.ops.region_reconciliation import Finding, Reconciliation, compare, read_events
from once.ops.region_takeover import Fence, FunctionRoles
from tests.integration.probe import Bench, consumer, event

OTHER = "eu-central-1"
CHOSEN = {Finding.ITEM_ALONE: "settled", Finding.RECORD_ALONE: "again", Finding.ABSENT: "sent"}
COUNTERS = ("whole", "record", "item", "neither")


@pytest.fixture
def standby(bench: Bench, aws: EmbeddedAws) -> Iterator[Bench]:
    """The same consumer in the other Region, with replicas of its tables and a queue of its own."""
    for table in (bench.dedup, bench.counters):
        replicas = [{"Create": {"RegionName": OTHER}}]
        bench.dynamodb.update_table(TableName=table, ReplicaUpdates=replicas)
    with in_region(OTHER):
        there = Bench(replace(aws, region=OTHER))
        there.dedup, there.counters, there.settings = bench.dedup, bench.counters, bench.settings
        there.runtime = Runtime.of(bench.settings)
        yield there


def deployment(standby: Bench) -> Deployment:
    line = DeployedConsumer(
        *(consumer.name, standby.queue, standby.dead_letter_queue, ""),
        external=(*consumer.handlers,),
        identity=consumer.name,
        keys={name: one.key for name, one in consumer.handlers.items()},
        volatile=dict.fromkeys(consumer.handlers, ()),
    )
    return Deployment(
        service="probe",
        dedup_table=standby.dedup,
        operator_log=f"log-{uuid4().hex[:8]}",
        tables={"counters": standby.counters},
        consumers={consumer.name: line},
    )


def test_events_that_a_replica_has_in_part_are_applied_once(bench: Bench, standby: Bench) -> None:
    events = {name: event("added", name, event_id=name) for name in COUNTERS}
    assert bench.deliver(*events.values()) == []
    known = deployment(standby)
    line = known.consumer(consumer.name)
    for name in ("item", "neither"):
        pk = {"pk": {"S": str(line.key(event_of(events[name])))}}
        assert "Attributes" in standby.dynamodb.delete_item(
            TableName=standby.dedup, Key=pk, ReturnValues="ALL_OLD"
        )
    for name in ("record", "neither"):
        standby.dynamodb.delete_item(TableName=standby.counters, Key={"id": {"S": name}})
    sent = read_events("\n".join(map(json.dumps, events.values())))
    found = compare(known, sent)
    assert [one.finding for one in found] == [
        *(Finding.COMPLETE, Finding.RECORD_ALONE, Finding.ITEM_ALONE, Finding.ABSENT)
    ]
    client("logs").create_log_group(logGroupName=known.operator_log)
    with logged_change(known, "region reconcile", {}) as change:
        Reconciliation(known, change).run(found, CHOSEN)
    messages = standby.sqs.receive_message(QueueUrl=standby.queue, MaxNumberOfMessages=10)
    redriven = [json.loads(one["Body"]) for one in messages["Messages"]]
    assert {one["id"] for one in redriven} == {"record", "neither"}
    standby.deliver(*redriven)
    standby.deliver(*events.values())  # as the senders do
    assert {name: standby.amount(name) for name in COUNTERS} == dict.fromkeys(COUNTERS, 1)
    assert {one.finding for one in compare(known, sent)} == {Finding.COMPLETE}


def test_the_fence_denies_writes_in_one_region_until_it_is_lifted(
    bench: Bench, standby: Bench, aws: EmbeddedAws
) -> None:
    iam, name = aws.client("iam"), f"probe-service-Role-{uuid4().hex[:8]}"
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    role = iam.create_role(
        RoleName=name,
        AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
    )["Role"]
    every = {"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [every]})
    iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=document)
    given = aws.client("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="fence")
    roles = FunctionRoles("aws", aws.account, [name])
    region = aws.region
    assert writes(aws, given["Credentials"], bench) == {region: True, OTHER: True}
    roles.fence(region).close()
    assert roles.fence(region) == Fence(region, roles, [name], [])
    assert writes(aws, given["Credentials"], bench) == {region: False, OTHER: True}
    roles.fence(region).lift()
    assert writes(aws, given["Credentials"], bench) == {region: True, OTHER: True}


def writes(aws: EmbeddedAws, given: Any, bench: Bench) -> dict[str, bool]:
    """Tell for each Region whether a role may write in a transaction."""
    put = {"Put": {"TableName": bench.counters, "Item": {"id": {"S": uuid4().hex}}}}
    found = {}
    for region in (aws.region, OTHER):
        dynamodb = boto3.client(
            "dynamodb",
            region_name=region,
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
        )
        try:
            dynamodb.transact_write_items(TransactItems=[put])
            found[region] = True
        except ClientError as error:
            found[region] = "AccessDenied" not in str(error)
    return found
