"""Every statement of every service in the tests: AWS's reference, and the calls of the code."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from once.cdk import ConsumerProps, Dedup, DurableFunctionProps, StateMachineProps
from once.names import RELAY, UNROUTED
from proof.crashpoints.sites import EXPLORED, LEFT_OUT
from stacks.consumers import CONSUMERS
from tests.stacks.booking_office import LINES
from tests.stacks.cloud import Cloud, Json, listed
from tests.stacks.full_service import MORE, ON_ITEMS, STARTS, Stacks
from tests.stacks.iam_reference import faults
from tests.stacks.updates import Account

DOCUMENTS = ("PolicyDocument", "AssumeRolePolicyDocument", "KeyPolicy")
WEBHOOKS = "webhooks"


@pytest.fixture(scope="module")
def services(cloud: Cloud, stacks: Stacks) -> dict[str, Account]:
    """The shop, and both stages of the service with every option, as they are deployed."""
    made = {name: Account() for name in ("shop", "test", "prod")}
    made["shop"].deploy([("once-state", cloud.state), ("once-service", cloud.service)])
    for stage in ("test", "prod"):
        made[stage].deploy([(each.stack_name, each.template) for each in stacks.of(stage)])
    return made


def documents(properties: Json) -> Iterator[Json]:
    for holder in (properties, *properties.get("Policies", ())):
        yield from (holder[name] for name in DOCUMENTS if name in holder)


@pytest.mark.parametrize("service", ["shop", "test", "prod"])
def test_no_statement_differs_from_awss_reference(
    services: dict[str, Account], service: str
) -> None:
    found = [
        f"{each.place} {statement.get('Sid')}: {fault}"
        for each in services[service].resources
        for document in documents(each.properties)
        for statement in document["Statement"]
        for fault in faults(statement)
    ]
    assert found == []


QUEUE = "arn:aws:sqs:eu-west-1:111122223333:q"
MACHINE = "arn:aws:states:eu-west-1:111122223333:stateMachine:fulfil"
GOOD: Json = {"Sid": "Send", "Action": "sqs:SendMessage", "Resource": QUEUE}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, None),
        ({"Resource": "*"}, None),
        ({"Resource": "arn:aws:sqs:*:*:q*"}, None),
        ({"Sid": "Send it"}, "letters and digits"),
        ({"Action": "sqs:SendMessageBatch"}, "unknown action"),
        ({"Resource": f"{QUEUE}/x"}, "authorized on"),
        ({"Resource": [QUEUE, MACHINE]}, f"{MACHINE}: no action"),
        ({"Condition": {"StringEquals": {"sqs:Color": "red"}}}, "has no sqs:Color"),
        ({"Condition": {"Bool": {"aws:SecureTransport": "true"}}}, None),
        ({"Action": "states:StartExecution", "Resource": MACHINE}, None),
        ({"Action": "states:StartExecution", "Resource": f"{MACHINE}:PROD"}, "authorized on"),
        (
            {
                "Action": "dynamodb:GetItem",
                "Resource": "arn:aws:dynamodb:eu-west-1:111122223333:table/t",
                "Condition": {"StringEquals": {"dynamodb:LeadingKeys": "a"}},
            },
            "no quantifier",
        ),
    ],
)
def test_a_statement_is_compared_with_the_reference(changes: Json, says: str | None) -> None:
    found = list(faults(GOOD | changes))
    assert (says is None) is (found == [])
    assert all(str(says) in fault for fault in found)


class Owner(NamedTuple):
    """A role: the function that has it, and its consumer's line if there is one."""

    function: str
    line: ConsumerProps | None = None
    network: bool = False
    claims: tuple[bool, bool] = (False, False)
    """Whether it reads and stores claims."""


def consumer(test: Callable[[ConsumerProps], Any] = bool) -> Callable[[Owner], bool]:
    return lambda owner: owner.line is not None and bool(test(owner.line))


def function(*names: str) -> Callable[[Owner], bool]:
    return lambda owner: owner.function in names


def either(*tests: Callable[[Owner], bool]) -> Callable[[Owner], bool]:
    return lambda owner: any(test(owner) for test in tests)


def starts(*, qualified: bool) -> Callable[[Owner], bool]:
    """Tell of consumers that start a machine through a version or an alias, or without one."""
    return consumer(
        lambda line: any(
            isinstance(each, StateMachineProps) and (each.arn.count(":") > 6) is qualified
            for each in line.starts
        )
    )


class Use(NamedTuple):
    """Actions of a statement, the call (or the AWS service) that makes them, and by which roles."""

    sid: str
    actions: str
    by: str
    when: Callable[[Owner], bool]


DOCS = "https://docs.aws.amazon.com/lambda/latest/dg"
COMMIT = "once.commit.committer.Committer._send dynamodb.TransactWriteItems"
READ = "once.commit.dedup_record.read_items dynamodb.BatchGetItem"
STORE = "once.events.claim_check.ClaimStore.write s3.PutObject"
EVERY = bool
RECORD = consumer(lambda line: line.dedup is Dedup.RECORD)
INGRESS = function(WEBHOOKS)
TABLES = consumer(lambda line: line.tables and line.dedup is Dedup.RECORD)
ITEM = consumer(lambda line: line.dedup is Dedup.ITEM)
ISOLATES = consumer(lambda line: line.batch_size > 1 and not line.fifo)

USES = (
    Use("WriteOwnRecordsInTransactions", "dynamodb:PutItem", COMMIT, either(RECORD, INGRESS)),
    Use(
        "WriteOwnRecordsInTransactions",
        "dynamodb:UpdateItem",
        "once.effects.ledger.EffectLedger._change dynamodb.TransactWriteItems",
        consumer(lambda line: line.has_effects and line.dedup is Dedup.RECORD),
    ),
    Use("ReadOwnRecords", "dynamodb:BatchGetItem", READ, either(RECORD, INGRESS)),
    Use("CaptureInTransactions", "dynamodb:PutItem", COMMIT, INGRESS),
    Use(
        "WriteInTransactions",
        "dynamodb:PutItem dynamodb:UpdateItem dynamodb:DeleteItem",
        COMMIT,
        TABLES,
    ),
    Use("CheckInTransactions", "dynamodb:ConditionCheckItem", COMMIT, TABLES),
    Use(
        "WriteInTransactions",
        "dynamodb:PutItem dynamodb:UpdateItem",
        COMMIT,
        consumer(lambda line: line.dedup is Dedup.ITEM and line.group_size > 1),
    ),
    *(
        Use(
            "WriteWithRecord",
            f"dynamodb:{write}",
            f"once.commit.item_dedup.ItemCommitter._send dynamodb.{write}",
            consumer(lambda line: line.dedup is Dedup.ITEM and line.group_size == 1),
        )
        for write in ("PutItem", "UpdateItem")
    ),
    # `read_items` reads former records and records on items here.
    Use("Read", "dynamodb:BatchGetItem", READ, either(TABLES, ITEM)),
    Use(
        "Read",
        "dynamodb:GetItem",
        "once.transaction.read_item dynamodb.GetItem",
        either(TABLES, ITEM),
    ),
    Use(
        "ConsumeOwnQueues",
        "sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes",
        f"{DOCS}/services-sqs-configure.html",
        consumer(),
    ),
    Use(
        "ConsumeOwnQueues",
        "sqs:ChangeMessageVisibility",
        "once.failures.failure_handler.FailureHandler._delay sqs.ChangeMessageVisibility",
        consumer(),
    ),
    Use(
        "ConsumeOwnQueues",
        "sqs:DeleteMessage",
        "once.batch.isolation.Isolation._delete sqs.DeleteMessageBatch",
        consumer(),
    ),
    Use(
        "Isolate",
        "sqs:SendMessage",
        "once.batch.isolation.Isolation._sent sqs.SendMessageBatch",
        ISOLATES,
    ),
    Use(
        "Quarantine",
        "sqs:SendMessage",
        "once.failures.quarantine.Quarantine.send sqs.SendMessage",
        consumer(),
    ),
    Use(
        "ReadClaims",
        "s3:GetObject",
        "once.events.claim_check.ClaimStore.read s3.GetObject",
        lambda owner: owner.claims[0],
    ),
    Use(
        "ReadClaims",
        "s3:ListBucket",  # without it, a missing object is answered with 403
        "https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html",
        lambda owner: owner.claims[0],
    ),
    Use("StoreClaims", "s3:PutObject", STORE, lambda owner: owner.claims[1]),
    Use(
        "ReadSecrets",
        "secretsmanager:GetSecretValue",
        "functions.payments.provider._api_key secretsmanager.GetSecretValue",
        consumer(lambda line: line.secrets),
    ),
    Use(
        "ReadSecrets",
        "secretsmanager:GetSecretValue",
        "once.webhooks.signature.SecretCache._version secretsmanager.GetSecretValue",
        INGRESS,
    ),
    Use(
        "SendEmail",
        "ses:SendEmail",
        "functions.notifications.mail.send email.SendEmail",
        consumer(lambda line: line.sends_email),
    ),
    *(
        Use(
            sid,
            "states:StartExecution",
            "once.effects.workflows._start_execution states.StartExecution",
            starts(qualified=qualified),
        )
        for sid, qualified in (("StartExecutions", False), ("StartQualifiedExecutions", True))
    ),
    Use(
        "ReadOwnExecutions",
        "states:DescribeExecution",
        "once.effects.workflows._start_execution states.DescribeExecution",
        consumer(lambda line: any(isinstance(each, StateMachineProps) for each in line.starts)),
    ),
    Use(
        "StartDurableExecutions",
        "lambda:InvokeFunction",
        "once.effects.workflows._start_durable_execution lambda.Invoke",
        consumer(lambda line: any(isinstance(each, DurableFunctionProps) for each in line.starts)),
    ),
    Use(
        "ReadStream",
        "dynamodb:GetRecords dynamodb:GetShardIterator dynamodb:DescribeStream "
        "dynamodb:ListStreams",
        f"{DOCS}/services-dynamodb-eventsourcemapping.html",
        function(RELAY),
    ),
    Use(
        "KeepFailures",
        "s3:PutObject s3:ListBucket",
        f"{DOCS}/services-dynamodb-errors.html",
        function(RELAY),
    ),
    Use(
        "Publish",
        "sns:Publish",
        "once.outbox.relay.Publisher._attempt sns.PublishBatch",
        function(RELAY),
    ),
    Use(
        "Quarantine",
        "sqs:SendMessage",
        "once.outbox.relay.Relay._dead_letter sqs.SendMessage",
        function(RELAY),
    ),
    Use(
        "ConsumeSweep",
        "sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes",
        f"{DOCS}/services-sqs-configure.html",
        function(UNROUTED),
    ),
    Use(
        "KeepUnrouted",
        "sqs:SendMessage",
        "once.outbox.unrouted.Sweep._sweep sqs.SendMessage",
        function(UNROUTED),
    ),
    Use(
        "Log",
        "logs:CreateLogStream logs:PutLogEvents",
        f"{DOCS}/monitoring-cloudwatchlogs.html",
        EVERY,
    ),
    Use(
        "Trace",
        "xray:PutTraceSegments xray:PutTelemetryRecords",
        f"{DOCS}/services-xray.html",
        EVERY,
    ),
    Use(
        "UseNetwork",
        "ec2:CreateNetworkInterface ec2:DeleteNetworkInterface ec2:DescribeNetworkInterfaces "
        "ec2:DescribeSubnets ec2:AssignPrivateIpAddresses ec2:UnassignPrivateIpAddresses",
        f"{DOCS}/configuration-vpc.html",
        lambda owner: owner.network,
    ),
)
"""Every use of a function's role. Statements on keys (`UseKey…`) have a test of their own."""

OUTSIDE = {
    "functions.payments.provider.charge payments.GET /v1/payment_intents",
    "functions.payments.provider.charge payments.POST /v1/payment_intents",
    "functions.payments.provider.find_charge payments.GET /v1/charges",
}
"""Calls that IAM does not authorize."""


def test_every_call_of_a_function_has_its_actions() -> None:
    calls = {call for call in (*EXPLORED, *LEFT_OUT) if not call.startswith("once.ops.")}
    listed_calls = {use.by for use in USES if not use.by.startswith("https:")}
    assert listed_calls == calls - OUTSIDE


def rights(account: Account, function: str) -> dict[str, set[str]]:
    """Return the actions of a function's role, by statement; without those on keys."""
    place = f"/{function}/Role/Resource"
    [role] = [
        each
        for each in account.resources
        if each.declared.get("Metadata", {}).get("aws:cdk:path", "").endswith(place)
    ]
    return {
        statement["Sid"].rstrip("0123456789"): {*listed(statement["Action"])}
        for document in documents({"Policies": role.properties["Policies"]})
        for statement in document["Statement"]
        if not statement["Sid"].startswith("UseKey")
    }


@pytest.mark.parametrize("service", ["shop", "test", "prod"])
def test_each_role_may_do_what_its_function_calls_and_nothing_else(
    services: dict[str, Account], service: str
) -> None:
    lines = CONSUMERS if service == "shop" else (*LINES, *MORE, ON_ITEMS, STARTS)
    owners = [
        *(
            Owner(
                line.name,
                line,
                service == "prod",
                (
                    bool(line.claim_check_mb),
                    bool(line.claim_check_mb and line.publishes),
                ),
            )
            for line in lines
        ),
        *(Owner(name, network=service == "prod") for name in (RELAY, UNROUTED)),
        Owner(WEBHOOKS, None, service == "prod", (False, service != "shop")),
    ]
    found = [d for owner in owners for d in differences(owner, services[service])]
    assert found == []


def differences(owner: Owner, account: Account) -> Iterator[str]:
    """Yield the rights without a use, and the uses without a right."""
    uses = {(use.sid, action) for use in USES if use.when(owner) for action in use.actions.split()}
    granted = {
        (sid, action)
        for sid, actions in rights(account, owner.function).items()
        for action in actions
    }
    for title, pairs in (("no call needs", granted - uses), ("a call needs", uses - granted)):
        yield from (f"{owner.function} {title} {sid}: {action}" for sid, action in sorted(pairs))
