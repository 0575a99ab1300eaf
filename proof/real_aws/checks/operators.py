"""Check of the operators' read-only policies, with a role that has them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.exceptions import ClientError

from proof.real_aws.account import ClientOf
from proof.real_aws.checks.check import Check, Seen, failed, verdict, waiting
from proof.real_aws.target import Target

_DENIED = ("AccessDenied", "AccessDeniedException", "AuthorizationError")
_LOOKS = 12
"""Looks until a new role can be assumed, and until its policies count."""

Calls = Mapping[str, Callable[[], object]]
CallsOf = Callable[[Target, ClientOf], Calls]


def _operators(target: Target) -> Iterator[Seen]:
    with role(target, "operator", policies=[*_read_only_policies(target)]) as arn:
        yield from judged_as(target, arn, _allowed_calls, _refused_calls)


def judged_as(target: Target, arn: str, allowed: CallsOf, refused: CallsOf) -> Iterator[Seen]:
    """Assume a new role, and yield whether IAM allows and denies it what it should."""
    for _ in range(_LOOKS):
        client = _assumed(target, arn)
        if client is not None:
            break
        yield waiting("the new role cannot be assumed yet")
    else:
        yield failed("the new role cannot be assumed")
        return
    expected = allowed(target, client)
    for _ in range(_LOOKS):  # a new role's policies take some seconds
        denied = [name for name, call in expected.items() if is_denied(call)]
        if not denied:
            break
        yield waiting(f"denied: {denied}")
    permitted = [name for name, call in refused(target, client).items() if not is_denied(call)]
    text = f"{len(expected)} calls, denied of them {denied}; permitted of the others: {permitted}"
    yield verdict(not denied and not permitted, text)


def _allowed_calls(target: Target, client: ClientOf) -> Calls:
    consumer, table = target.parts.consumer("counter"), target.parts.dedup_table
    depth = ["ApproximateNumberOfMessages"]
    return {
        "DescribeStacks": lambda: client("cloudformation").describe_stacks(
            StackName=f"{target.parts.service}-state"
        ),
        "GetQueueAttributes": lambda: client("sqs").get_queue_attributes(
            QueueUrl=consumer.queue_url, AttributeNames=depth
        ),
        "GetItem of a dedup record": lambda: client("dynamodb").get_item(
            TableName=table, Key={"pk": {"S": "none"}}
        ),
    }


def _refused_calls(target: Target, client: ClientOf) -> Calls:
    consumer, table = target.parts.consumer("counter"), target.parts.dedup_table
    counters = target.parts.table("counters")
    event = target.asked("operator")
    return {
        "SendMessage": lambda: client("sqs").send_message(
            QueueUrl=consumer.queue_url, MessageBody=event
        ),
        "DeleteItem of a dedup record": lambda: client("dynamodb").delete_item(
            TableName=table, Key={"pk": {"S": "none"}}
        ),
        "GetItem of a business table": lambda: client("dynamodb").get_item(
            TableName=counters, Key={"id": {"S": "none"}}
        ),
    }


def is_denied(call: Callable[[], object]) -> bool:
    """Tell whether IAM denies a call, or it returns False; another error is raised."""
    try:
        return call() is False
    except ClientError as error:
        if error.response["Error"]["Code"] in _DENIED:
            return True
        raise


def _read_only_policies(target: Target) -> Iterator[str]:
    start = f"{target.parts.service}-"
    for page in target.client("iam").get_paginator("list_policies").paginate(Scope="Local"):
        for policy in page["Policies"]:
            if policy["PolicyName"].startswith(start) and "ReadOnly" in policy["PolicyName"]:
                yield policy["Arn"]


@contextmanager
def role(
    target: Target,
    name: str,
    *,
    policies: Sequence[str] = (),
    statements: Sequence[Any] = (),
    service: str | None = None,
) -> Iterator[str]:
    """Create a role that this account or a service may assume; yield its ARN; delete it after."""
    iam, name = target.client("iam"), f"{target.parts.service}-{name}"
    own = {"AWS": f"arn:aws:iam::{target.account}:root"}
    principal = {"Service": service} if service else own
    trust = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=_document([trust]))["Role"]
    try:
        for policy in policies:
            iam.attach_role_policy(RoleName=name, PolicyArn=policy)
        if statements:
            given = {"PolicyName": "probe", "PolicyDocument": _document(statements)}
            iam.put_role_policy(RoleName=name, **given)
        yield made["Arn"]
    finally:
        for policy in policies:
            iam.detach_role_policy(RoleName=name, PolicyArn=policy)
        if statements:
            iam.delete_role_policy(RoleName=name, PolicyName="probe")
        iam.delete_role(RoleName=name)


def _document(statements: Sequence[Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [*statements]})


def _assumed(target: Target, arn: str) -> ClientOf | None:
    """Return what makes clients with a role's credentials; None while it cannot be assumed."""
    try:
        answer = target.client("sts").assume_role(RoleArn=arn, RoleSessionName="verify")
    except ClientError as error:
        if error.response["Error"]["Code"] in _DENIED:
            return None
        raise
    found = answer["Credentials"]
    region = target.client("sqs").meta.region_name
    session = boto3.Session(
        found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"], region_name=region
    )
    return session.client


OPERATORS = Check(
    "operators",
    "the operators' read-only policies allow to read the deployment, and deny to send, to delete "
    "dedup records and to read business tables",
    300,
    _operators,
    if_not="give operators the actions that the report names, by a policy of your own",
)
