"""Checks of two conditions of IAM, with roles that have the statements of the constructs."""

import json
import secrets
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from aws_cdk import App, Environment, Stack
from botocore.exceptions import ClientError

from once.cdk.permissions import STREAM_ACTIONS, allow, key_statements, workflow_statements
from once.cdk.props import StateMachineProps
from once.names import EXECUTION_PREFIX
from proof.real_aws.account import ClientOf
from proof.real_aws.checks.check import Check, Seen, failed, not_observed, waiting
from proof.real_aws.checks.operators import Calls, judged_as, role
from proof.real_aws.target import Target

_LOOKS = 12
_PASS = {"StartAt": "Pass", "States": {"Pass": {"Type": "Pass", "End": True}}}
_KEY_DAYS = 7


def _stack(target: Target) -> Stack:
    region = target.client("sqs").meta.region_name
    return Stack(App(), "probe", env=Environment(account=target.account, region=region))


def _stream_key(target: Target) -> Iterator[Seen]:
    if target.local:
        yield not_observed("an embedded AWS checks no permission on a key")
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
            yield waiting("the table with a key of its own is not active yet")
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


def _workflow_alias(target: Target) -> Iterator[Seen]:
    if target.local:
        yield not_observed("an embedded AWS has no states:StateMachineQualifier")
        return
    states, name = target.client("stepfunctions"), f"{target.parts.service}-workflow"
    with role(target, "workflow", service="states.amazonaws.com") as runs:
        definition = {"name": name, "definition": json.dumps(_PASS), "roleArn": runs}
        made: dict[str, Any] = {}
        for _ in range(_LOOKS):
            with suppress(ClientError):  # until the new role can be assumed
                made = states.create_state_machine(**definition, publish=True)
                break
            yield waiting("the state machine is not created yet")
        if not made:
            yield failed("the state machine could not be created")
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


STREAM_KEY = Check(
    "stream-key",
    "with kms:ViaService of DynamoDB, the relay's role reads the stream of a table that has a "
    "customer managed key; it may list the streams",
    600,
    _stream_key,
    if_not="deploy without `keys.tables`, with a key of AWS, and report it",
)
WORKFLOW_ALIAS = Check(
    "workflow-alias",
    "a consumer's role may start a state machine through its alias and read the execution; it may "
    "not start it without the alias",
    600,
    _workflow_alias,
    if_not="name the state machine without a version or an alias in StateMachineProps; if it can "
    "be started without the alias too, report it",
)
