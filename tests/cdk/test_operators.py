"""Policies of operators with many consumers: each stays below the size that IAM takes."""

from types import SimpleNamespace
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Template

from once.cdk import (
    CaptureTable,
    ClaimBucket,
    DeploymentConfig,
    OperatorLog,
    OperatorPolicies,
    Topics,
)
from tests.stacks.cloud import flat, listed

CHARACTERS = 6144
"""Of a managed policy, without white space."""
ACCOUNT = "ap-southeast-2:111122223333"
SECRET = f"arn:aws-us-gov:secretsmanager:{ACCOUNT}:secret:"
PSEUDO = {"<AWS::Partition>": "aws-us-gov", "<AWS::Region>": "ap-southeast-2"}


class Parts:
    """Stand-ins for constructs, with the longest names that are allowed."""

    def __init__(self, stack: cdk.Stack) -> None:
        self.stack = stack

    def queue(self, name: str) -> sqs.IQueue:
        return sqs.Queue.from_queue_arn(self.stack, name, f"arn:aws:sqs:{ACCOUNT}:{name}")

    def consumer(self, number: int) -> Any:
        name = f"{'s' * 20}-{number:c>40}"
        function = f"/aws/lambda/{name}"
        return SimpleNamespace(
            queue=self.queue(name),
            isolation=self.queue(f"{name}-isolation"),
            dead_letters=self.queue(f"{name}-dead-letters"),
            item_table=None,
            function=SimpleNamespace(
                log_group=logs.LogGroup.from_log_group_name(self.stack, function, function)
            ),
        )


def size(document: Any) -> int:
    values = [
        text
        for statement in document["Statement"]
        for text in (*listed(statement["Action"]), *map(flat, listed(statement["Resource"])))
    ]
    joined = "".join(f'"{value}",' for value in values)
    for name, value in PSEUDO.items():
        joined = joined.replace(name, value)
    return len(joined) + 150 * len(document["Statement"])


def test_policies_for_many_consumers_are_split() -> None:
    stack = cdk.Stack(cdk.App(), "service")
    parts = Parts(stack)
    arn = f"arn:aws:lambda:{ACCOUNT}:function:relay:live"
    table = f"arn:aws:dynamodb:{ACCOUNT}:table/{'t' * 100}"
    relay: Any = SimpleNamespace(
        dead_letters=parts.queue("relay"),
        function=SimpleNamespace(
            log_group=logs.LogGroup.from_log_group_name(stack, "relay-log", "/aws/lambda/relay")
        ),
        alias=lambda_.Function.from_function_arn(stack, "relay-alias", arn),
    )
    unrouted: Any = SimpleNamespace(queue=parts.queue("unrouted"), sweep=parts.queue("sweep"))
    OperatorPolicies(
        stack,
        consumers=[parts.consumer(number) for number in range(17)],
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
    policies = Template.from_stack(stack).find_resources("AWS::IAM::ManagedPolicy").values()
    documents = [policy["Properties"]["PolicyDocument"] for policy in policies]
    assert len(documents) == 8
    assert max(map(size, documents)) < CHARACTERS
    granted = str(documents)
    assert all(granted.count(f"{number:c>40}-dead-letters") == 2 for number in range(17))
    [stored] = [s for d in documents for s in d["Statement"] if s["Sid"] == "StoreClaims"]
    assert flat(stored["Resource"]).endswith("/producers/*")
    assert granted.count("'s3:GetObject'") == 1
