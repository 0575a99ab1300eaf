"""Checks of IAM: the operators' policies, and two conditions of the constructs' statements."""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import boto3
from aws_cdk import App, Environment, Stack
from botocore.exceptions import ClientError

from once.cdk.permissions import STREAM_ACTIONS, allow, key_statements, workflow_statements
from once.cdk.props import StateMachineProps
from once.names import EXECUTION_PREFIX
from proof.real_aws.account import ClientOf
from proof.real_aws.check import FAILED, NOT_OBSERVED, Check, Seen, Target, verdict
from proof.real_aws.cleanup import delete_role

_DENIED = ("AccessDenied", "AccessDeniedException", "AuthorizationError")
_LOOKS = 12
"""Looks until a new role can be assumed, and until its policies count."""

Calls = Mapping[str, Callable[[], object]]
CallsOf = Callable[[Target, ClientOf], Calls]


@partial(
    Check,
    "operators",
    "the operators' read-only policies allow to read the deployment, and deny to send, to delete "
    "dedup records and to read business tables",
    300,
    if_not="give operators the actions that the report names, by a policy of your own",
)
def operators(target: Target) -> Iterator[Seen]:
    with role(target, "operator", policies=[*_read_only_policies(target)]) as arn:
        yield from judged_as(target, arn, _allowed_calls, _refused_calls)


def judged_as(target: Target, arn: str, allowed: CallsOf, refused: CallsOf) -> Iterator[Seen]:
    """Assume a new role, and yield whether IAM allows and denies it what it should."""
    for _ in range(_LOOKS):
        client = _assumed(target, arn)
        if client is not None:
            break
        yield Seen("the new role cannot be assumed yet")
    else:
        yield Seen("the new role cannot be assumed", FAILED)
        return
    expected = allowed(target, client)
    for _ in range(_LOOKS):  # a new role's policies take some seconds
        denied = [name for name, call in expected.items() if is_denied(call)]
        if not denied:
            break
        yield Seen(f"denied: {denied}")
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
        delete_role(iam, name)


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


_LOOKS = 12
_PASS = {"StartAt": "Pass", "States": {"Pass": {"Type": "Pass", "End": True}}}
_KEY_DAYS = 7


def _stack(target: Target) -> Stack:
    region = target.client("sqs").meta.region_name
    return Stack(App(), "probe", env=Environment(account=target.account, region=region))


@partial(
    Check,
    "stream-key",
    "with kms:ViaService of DynamoDB, the relay's role reads the stream of a table that has a "
    "customer managed key; it may list the streams",
    600,
    if_not="deploy without `keys.tables`, with a key of AWS, and report it",
)
def stream_key(target: Target) -> Iterator[Seen]:
    if target.local:
        yield Seen("an embedded AWS checks no permission on a key", NOT_OBSERVED)
        return
    kms, dynamodb = target.client("kms"), target.client("dynamodb")
    name = f"{target.parts.service}-stream-key"
    key = kms.create_key(Description=name)["KeyMetadata"]["Arn"]
    try:
        stream = dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
            SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": key},
        )["TableDescription"]["LatestStreamArn"]
        while dynamodb.describe_table(TableName=name)["Table"]["TableStatus"] != "ACTIVE":
            yield Seen("the table with a key of its own is not active yet")
        dynamodb.put_item(TableName=name, Item={"pk": {"S": "1"}})
        made = [allow("ReadStream", STREAM_ACTIONS, stream)]
        made += key_statements(_stack(target), [("dynamodb", key)])
        with role(target, "stream-key", statements=[s.to_statement_json() for s in made]) as arn:
            allowed = partial(_stream_calls, stream)
            yield from judged_as(target, arn, allowed, lambda *_: {})
    finally:
        kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=_KEY_DAYS)


def _stream_calls(stream: str, _: Target, client: ClientOf) -> Calls:
    streams = client("dynamodbstreams")
    return {
        "ListStreams": lambda: streams.list_streams(TableName=stream.split("/")[1]),
        "GetRecords": lambda: _has_records(streams, stream),
    }


def _has_records(streams: Any, stream: str) -> bool:
    """Return whether the stream gives a record: without one the key was not used."""
    [shard, *_] = streams.describe_stream(StreamArn=stream)["StreamDescription"]["Shards"]
    start = {"ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
    found = streams.get_shard_iterator(StreamArn=stream, **start)
    return bool(streams.get_records(ShardIterator=found["ShardIterator"])["Records"])


@partial(
    Check,
    "workflow-alias",
    "a consumer's role may start a state machine through its alias and read the execution; it may "
    "not start it without the alias",
    600,
    if_not="name the state machine without a version or an alias in StateMachineProps; if it can "
    "be started without the alias too, report it",
)
def workflow_alias(target: Target) -> Iterator[Seen]:
    if target.local:
        yield Seen("an embedded AWS has no states:StateMachineQualifier", NOT_OBSERVED)
        return
    states, name = target.client("stepfunctions"), f"{target.parts.service}-workflow"
    with role(target, "workflow", service="states.amazonaws.com") as runs:
        definition = {"name": name, "definition": json.dumps(_PASS), "roleArn": runs}
        made: dict[str, Any] = {}
        for _ in range(_LOOKS):
            with suppress(ClientError):  # until the new role can be assumed
                made = states.create_state_machine(**definition, publish=True)
                break
            yield Seen("the state machine is not created yet")
        if not made:
            yield Seen("the state machine could not be created", FAILED)
            return
        machine, version = made["stateMachineArn"], made["stateMachineVersionArn"]
        routing = [{"stateMachineVersionArn": version, "weight": 100}]
        try:
            alias = states.create_state_machine_alias(name="live", routingConfiguration=routing)
            live = alias["stateMachineAliasArn"]
            found = workflow_statements(_stack(target), [StateMachineProps("probe", live)])
            given = [each.to_statement_json() for each in found]
            with role(target, "starter", statements=given) as arn:
                allowed = partial(_starts, live, "DescribeExecution")
                yield from judged_as(target, arn, allowed, partial(_starts, machine, ""))
            states.delete_state_machine_alias(stateMachineAliasArn=live)
        finally:
            states.delete_state_machine(stateMachineArn=machine)


def _starts(arn: str, reads: str, _: Target, client: ClientOf) -> Calls:
    """Return a start of a state machine, a version or an alias, and how its execution is read."""
    states = client("stepfunctions")

    def start() -> str:
        name = f"{EXECUTION_PREFIX}{secrets.token_hex(8)}"  # an ended one's name is refused
        return str(states.start_execution(stateMachineArn=arn, name=name)["executionArn"])

    def read() -> object:
        return states.describe_execution(executionArn=start())

    return {"StartExecution": start, **({reads: read} if reads else {})}
