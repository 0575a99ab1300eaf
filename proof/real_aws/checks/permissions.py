"""Checks of IAM: the operators' policies, and conditions of the constructs' statements."""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import boto3
from aws_cdk import App, Environment, Stack
from botocore.exceptions import ClientError

from once.cdk.deployment_options import CustomerKey
from once.cdk.permissions import STREAM_ACTIONS, allow, key_statements, workflow_statements
from once.cdk.props import StateMachineProps
from once.names import EXECUTION_PREFIX
from once.settings import ITEM_RECORD_PREFIX
from proof.real_aws.check import FAILED, NOT_OBSERVED, PASSED, Check, Seen, Target, verdict
from proof.real_aws.cleanup import ClientOf, delete_role

_DENIED = ("AccessDenied", "AccessDeniedException", "AuthorizationError")
_LOOKS = 12
"""Looks until a new role can be assumed, and until its policies count."""

Calls = Mapping[str, Callable[[ClientOf], object]]
"""Calls by name, each made with the clients of a role. One that returns False counts as denied."""


@partial(
    Check,
    "operators",
    "the operators' read-only policies allow to read the deployment, and deny to send, to delete "
    "dedup records and to read business tables",
    300,
    if_not="give operators the actions that the report names, by a policy of your own",
)
def operators(target: Target) -> Iterator[Seen]:
    consumer, table = target.parts.consumer("counter"), target.parts.dedup_table
    url, start = consumer.queue_url, f"{target.parts.service}-"
    depth, key = ["ApproximateNumberOfMessages"], {"pk": {"S": "none"}}
    allowed: Calls = {
        "DescribeStacks": lambda client: client("cloudformation").describe_stacks(
            StackName=f"{start}state"
        ),
        "GetQueueAttributes": lambda client: client("sqs").get_queue_attributes(
            QueueUrl=url, AttributeNames=depth
        ),
        "GetItem of a dedup record": lambda client: client("dynamodb").get_item(
            TableName=table, Key=key
        ),
    }
    refused: Calls = {
        "SendMessage": lambda client: client("sqs").send_message(
            QueueUrl=url, MessageBody=target.asked("operator")
        ),
        "DeleteItem of a dedup record": lambda client: client("dynamodb").delete_item(
            TableName=table, Key=key
        ),
        "GetItem of a business table": lambda client: client("dynamodb").get_item(
            TableName=target.parts.table("counters"), Key={"id": {"S": "none"}}
        ),
    }
    with role(target, "operator", policies=_read_only(target)) as arn:
        yield from judged_as(target, arn, allowed, refused)


def _read_only(target: Target) -> list[str]:
    """Return the operators' policies that allow to read."""
    pages = target.client("iam").get_paginator("list_policies").paginate(Scope="Local")
    policies = [each for page in pages for each in page["Policies"]]
    start = f"{target.parts.service}-"
    return [
        each["Arn"]
        for each in policies
        if each["PolicyName"].startswith(start) and "ReadOnly" in each["PolicyName"]
    ]


@partial(
    Check,
    "item-records",
    "operators may read the dedup records on items with BatchGetItem, whether such a request has "
    "dynamodb:Select or not, and neither other attributes nor whole items",
    300,
    if_not="give operators a policy without ReadItemRecords: `once trace` then does not show these "
    "records; report it",
)
def item_records(target: Target) -> Iterator[Seen]:
    if target.local:
        yield Seen("an embedded AWS has no dynamodb:Select", NOT_OBSERVED)
        return
    table, record = target.parts.table("puts"), f"{ITEM_RECORD_PREFIX}unrecorded#probe"

    def read(*names: str) -> Callable[[ClientOf], object]:
        aliases = {f"#{n}": name for n, name in enumerate(names)}
        projected: Any = {"ProjectionExpression": ", ".join(aliases)} if names else {}
        projected |= {"ExpressionAttributeNames": aliases} if names else {}
        wanted = {table: {"Keys": [{"id": {"S": "none"}}], **projected}}
        return lambda client: client("dynamodb").batch_get_item(RequestItems=wanted)

    with role(target, "item-reader", policies=_read_only(target)) as arn:
        allowed: Calls = {"BatchGetItem of a record": read("id", record)}
        refused: Calls = {
            "BatchGetItem of another attribute": read("id", "answer"),
            "BatchGetItem of a whole item": read(),
        }
        yield from judged_as(target, arn, allowed, refused)


def judged_as(target: Target, arn: str, allowed: Calls, refused: Calls) -> Iterator[Seen]:
    """Assume a new role, and yield whether IAM allows and denies it what it should."""
    for _ in range(_LOOKS):
        client = _assumed(target, arn)
        if client is not None:
            break
        yield Seen("the new role cannot be assumed yet")
    else:
        yield Seen("the new role cannot be assumed", FAILED)
        return
    for _ in range(_LOOKS):  # a new role's policies take some seconds
        denied = [name for name, call in allowed.items() if is_denied(partial(call, client))]
        if not denied:
            break
        yield Seen(f"denied: {denied}")
    permitted = [name for name, call in refused.items() if not is_denied(partial(call, client))]
    text = f"{len(allowed)} calls, denied of them {denied}; permitted of the others: {permitted}"
    yield verdict(not denied and not permitted, text)


def is_denied(call: Callable[[], object]) -> bool:
    """Tell whether IAM denies a call, or it returns False; another error is raised."""
    try:
        return call() is False
    except ClientError as error:
        if error.response["Error"]["Code"] in _DENIED:
            return True
        raise


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


_PASS = {"StartAt": "Pass", "States": {"Pass": {"Type": "Pass", "End": True}}}
_KEY_DAYS = 7


def _stack(target: Target) -> Stack:
    region = target.client("sqs").meta.region_name
    return Stack(App(), "probe", env=Environment(account=target.account, region=region))


@partial(
    Check,
    "stream-key",
    "with kms:ViaService of DynamoDB, the relay's role reads the stream of a table that has a "
    "customer managed key, and so does Lambda for a mapping; it may list the streams",
    1200,
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
        made += key_statements(_stack(target), [("dynamodb", CustomerKey(key))])
        statements = [each.to_statement_json() for each in made]
        with role(target, "stream-key", statements=statements) as arn:
            allowed: Calls = {
                "ListStreams": lambda c: c("dynamodbstreams").list_streams(TableName=name),
                "GetRecords": lambda c: _has_records(c("dynamodbstreams"), stream),
            }
            for seen in judged_as(target, arn, allowed, {}):
                if seen.result is PASSED:  # and by Lambda
                    break
                yield seen
            else:
                return
        reads = "lambda.amazonaws.com"
        with role(target, "stream-reader", statements=statements, service=reads) as arn:
            yield from _read_by_lambda(target, stream, arn)
    finally:
        kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=_KEY_DAYS)


def _read_by_lambda(target: Target, stream: str, role: str) -> Iterator[Seen]:
    """Yield the result of a mapping from a stream to a function that runs as a role."""
    functions, name = target.client("lambda"), f"{target.parts.service}-stream-reader"
    code = BytesIO()
    with ZipFile(code, "w") as package:
        package.writestr("handler.py", "def handle(event, context): ...")
    function = {"Role": role, "Handler": "handler.handle", "Runtime": "python3.13"}
    made: dict[str, Any] = {}
    try:
        for call in (
            partial(functions.create_function, **function, Code={"ZipFile": code.getvalue()}),
            partial(
                functions.create_event_source_mapping,
                EventSourceArn=stream,
                StartingPosition="TRIM_HORIZON",
            ),
        ):
            for _ in range(_LOOKS):
                with suppress(ClientError):  # until Lambda can assume the new role
                    made = call(FunctionName=name)
                    break
                yield Seen("Lambda does not take the new role yet")
        if "UUID" not in made:
            yield Seen("the mapping could not be created", FAILED)
            return
        while (result := _processed(functions, made["UUID"])) == _NOTHING_YET:
            yield Seen(f"the mapping says {result}")
        yield verdict(result == "OK", f"the role reads the stream; Lambda, with it: {result}")
    finally:
        if "UUID" in made:
            functions.delete_event_source_mapping(UUID=made["UUID"])
        with suppress(ClientError):
            functions.delete_function(FunctionName=name)


_NOTHING_YET = "No records processed"


def _processed(functions: Any, mapping: str) -> str:
    found = functions.get_event_source_mapping(UUID=mapping)
    return str(found.get("LastProcessingResult") or _NOTHING_YET)


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
                allowed: Calls = {
                    "StartExecution": partial(_start, live),
                    "DescribeExecution": lambda client: client("stepfunctions").describe_execution(
                        executionArn=_start(live, client)
                    ),
                }
                refused: Calls = {"StartExecution": partial(_start, machine)}
                yield from judged_as(target, arn, allowed, refused)
            states.delete_state_machine_alias(stateMachineAliasArn=live)
        finally:
            states.delete_state_machine(stateMachineArn=machine)


def _start(machine: str, client: ClientOf) -> str:
    """Start a state machine, a version or an alias; return the ARN of the execution."""
    name = f"{EXECUTION_PREFIX}{secrets.token_hex(8)}"  # an ended one's name is refused
    started = client("stepfunctions").start_execution(stateMachineArn=machine, name=name)
    return str(started["executionArn"])
