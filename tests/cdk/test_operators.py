"""Policies of operators with many consumers, deployed by IAM's rules: size, number, attachments."""

import re
from types import SimpleNamespace
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Template

from once.cdk import (
    CaptureTable,
    ClaimBucket,
    ConsumerProps,
    DeploymentConfig,
    OperatorLog,
    OperatorPolicies,
    TableProps,
    Topics,
)
from tests.stacks.cloud import Json
from tests.stacks.iam_reference import followed, size
from tests.stacks.test_updates import FEWER_CONSUMERS, detached_by_hand

PARTITION = "arn:aws-us-gov"
ACCOUNT = "ap-southeast-2:111122223333"
SECRET = f"{PARTITION}:secretsmanager:{ACCOUNT}:secret:"


class Parts:
    """Stand-ins for constructs, with the longest names that are allowed, and keys of their own."""

    def __init__(self, stack: cdk.Stack) -> None:
        self.stack = stack

    def queue(self, name: str) -> sqs.IQueue:
        return sqs.Queue.from_queue_attributes(
            self.stack,
            name,
            queue_arn=f"{PARTITION}:sqs:{ACCOUNT}:{name}",
            key_arn=f"{PARTITION}:kms:{ACCOUNT}:key/{name.split('-')[1]:0>36}",
        )

    def consumer(self, number: int) -> Any:
        name = f"{'s' * 20}-{number:c>40}"
        function = f"/aws/lambda/{name}"
        table = f"{PARTITION}:dynamodb:{ACCOUNT}:table/{number:t>100}"
        return SimpleNamespace(
            full_name=name,
            queue=self.queue(name),
            isolation=self.queue(f"{name}-isolation"),
            dead_letters=self.queue(f"{name}-dead-letters"),
            item_table=dynamodb.Table.from_table_arn(self.stack, f"table-{number}", table),
            props=ConsumerProps(name, tables=(TableProps("records", ("show", "seat")),)),
            log_group=logs.LogGroup.from_log_group_name(self.stack, function, function),
        )


def operators(consumers: int) -> dict[str, Json]:
    """Return the policies for some consumers, by logical id, and their documents."""
    stack = cdk.Stack(cdk.App(), "service")
    parts = Parts(stack)
    arn = f"{PARTITION}:lambda:{ACCOUNT}:function:relay:live"
    table = f"{PARTITION}:dynamodb:{ACCOUNT}:table/{'t' * 100}"
    relay: Any = SimpleNamespace(
        dead_letters=parts.queue("once-relay"),
        publishes_later=("paid",),
        log_group=logs.LogGroup.from_log_group_name(stack, "relay-log", "/aws/lambda/relay"),
        alias=lambda_.Function.from_function_arn(stack, "relay-alias", arn),
    )
    unrouted: Any = SimpleNamespace(
        queue=parts.queue("once-unrouted"),
        sweep=parts.queue("once-sweep"),
        log_group=logs.LogGroup.from_log_group_name(stack, "unrouted-log", "/aws/lambda/un"),
    )
    OperatorPolicies(
        stack,
        consumers=[parts.consumer(number) for number in range(consumers)],
        dedup_table=dynamodb.Table.from_table_arn(stack, "table", table),
        topics=Topics.make(stack, consumers=[ConsumerProps("a", external=("b",))]),
        relay=relay,
        unrouted=unrouted,
        operator_log=OperatorLog(stack, "operator-log"),
        claims=ClaimBucket(stack, "claims"),
        captures=CaptureTable(stack, "captures"),
        endpoint_secrets=[f"{SECRET}{number:a>40}-AbCdEf" for number in range(20)],
        config=DeploymentConfig(),
    )
    template = dict(Template.from_stack(stack).to_json())
    return {
        logical_id: followed(each["Properties"]["PolicyDocument"], "own", {"own": template})
        for logical_id, each in template["Resources"].items()
        if each["Type"] == "AWS::IAM::ManagedPolicy"
    }


@pytest.fixture(scope="module")
def many() -> dict[str, Json]:
    return operators(18)


def test_policies_have_room_and_those_of_fewer_consumers_are_among_them(
    many: dict[str, Json],
) -> None:
    fewer = operators(6)
    assert max(map(size, [*many.values(), *fewer.values()])) <= 6144
    assert fewer.keys() < many.keys()
    for deleted in many.keys() - fewer.keys():
        assert re.match(f"Operators(?:{detached_by_hand(FEWER_CONSUMERS)})[0-9A-F]{{8}}$", deleted)


def test_policies_name_each_consumer_and_grant_claims_once(many: dict[str, Json]) -> None:
    documents = [*many.values()]
    assert len(documents) <= 10  # a role can have as many
    granted = str(documents)
    assert all(granted.count(f"{number:c>40}-dead-letters") == 2 for number in range(18))
    [stored] = [s for d in documents for s in d["Statement"] if s["Sid"] == "StoreClaims"]
    assert stored["Resource"].endswith("/producers/*")
    assert granted.count("'s3:GetObject'") == 1
