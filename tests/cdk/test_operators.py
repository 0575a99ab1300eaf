"""Policies of operators with many consumers, deployed by IAM's rules: size, number, attachments."""

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
from tests.stacks.cloud import flat
from tests.stacks.updates import FEWER_CONSUMERS, Account, Stacks

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
            queue=self.queue(name),
            isolation=self.queue(f"{name}-isolation"),
            dead_letters=self.queue(f"{name}-dead-letters"),
            item_table=dynamodb.Table.from_table_arn(self.stack, f"table-{number}", table),
            props=ConsumerProps(name, tables=(TableProps("records", ("show", "seat")),)),
            log_group=logs.LogGroup.from_log_group_name(self.stack, function, function),
        )


def operators(consumers: int) -> Stacks:
    """Return the stack of the policies for some consumers."""
    stack = cdk.Stack(cdk.App(), "service")
    parts = Parts(stack)
    arn = f"{PARTITION}:lambda:{ACCOUNT}:function:relay:live"
    table = f"{PARTITION}:dynamodb:{ACCOUNT}:table/{'t' * 100}"
    relay: Any = SimpleNamespace(
        dead_letters=parts.queue("once-relay"),
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
        topics=Topics.make(stack),
        relay=relay,
        unrouted=unrouted,
        operator_log=OperatorLog(stack, "operator-log"),
        claims=ClaimBucket(stack, "claims"),
        captures=CaptureTable(stack, "captures"),
        endpoint_secrets=[f"{SECRET}{number:a>40}-AbCdEf" for number in range(20)],
        config=DeploymentConfig(),
    )
    return [("service", dict(Template.from_stack(stack).to_json()))]


@pytest.fixture(scope="module")
def many() -> Stacks:
    return operators(18)


def test_policies_of_more_and_of_fewer_consumers_are_deployed(many: Stacks) -> None:
    account, fewer = Account(), operators(6)
    for stacks in (fewer, many, fewer):
        account.detach(FEWER_CONSUMERS)
        found = account.deploy(stacks)
        assert [each for each in found if each.rule in ("attached", "policy-size")] == []


def test_policies_name_each_consumer_and_grant_claims_once(many: Stacks) -> None:
    [(_, template)] = many
    documents = [
        each["Properties"]["PolicyDocument"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::IAM::ManagedPolicy"
    ]
    assert len(documents) <= 10  # a role can have as many
    granted = str(documents)
    assert all(granted.count(f"{number:c>40}-dead-letters") == 2 for number in range(18))
    [stored] = [s for d in documents for s in d["Statement"] if s["Sid"] == "StoreClaims"]
    assert flat(stored["Resource"]).endswith("/producers/*")
    assert granted.count("'s3:GetObject'") == 1
