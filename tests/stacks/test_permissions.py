"""The resources of each statement of each function's role.

`test_rights` compares the actions with the calls of the code, and `test_boundaries` evaluates the
conditions on tables and topics.
"""

import pytest

from once.cdk.app.stacks import CAPTURES
from once.cdk.deployment_options import DEDUP
from once.cdk.props import ConsumerProps
from once.names import RELAY, UNROUTED
from stacks.consumers import CONSUMERS
from stacks.webhooks import WEBHOOKS
from tests.stacks.cloud import STATE, Cloud, Json, flat, listed, name_of, statements, types

Resources = dict[str, set[str]]
"""The resources of a role's statements, by the statements' names."""


def resources(cloud: Cloud, owner: ConsumerProps | str) -> Resources:
    return {
        s["Sid"]: {cloud.resolved(resource) for resource in listed(s["Resource"])}
        for s in statements(cloud, owner)
    }


def condition(cloud: Cloud, owner: ConsumerProps | str, sid: str) -> Json | None:
    [found] = [s.get("Condition") for s in statements(cloud, owner) if s["Sid"] == sid]
    return found


def in_state(cloud: Cloud, *names: str, attribute: str = "Arn") -> set[str]:
    return {cloud.text(STATE, name, attribute=attribute) for name in names}


def arns(cloud: Cloud, owner: ConsumerProps | str, *parts: str) -> set[str]:
    return {cloud.text(owner, part, attribute="Arn") for part in parts}


def common(cloud: Cloud, owner: ConsumerProps | str) -> Resources:
    return {"Log": arns(cloud, owner, "Log"), "Trace": {"*"}}  # X-Ray has no resources


def of_records(cloud: Cloud) -> Resources:
    return dict.fromkeys(
        ("WriteOwnRecordsInTransactions", "ReadOwnRecords"), in_state(cloud, DEDUP)
    )


def test_a_consumer_reaches_its_own_resources_only(cloud: Cloud, consumer: ConsumerProps) -> None:
    isolation = ["Isolation"] if consumer.batch_size > 1 else []
    tables = in_state(cloud, *(table.name for table in consumer.tables))
    expected = {
        **of_records(cloud),
        **dict.fromkeys(("WriteInTransactions", "CheckInTransactions", "Read"), tables),
        "ConsumeOwnQueues": arns(cloud, consumer, "Queue", *isolation),
        "Quarantine": arns(cloud, consumer, "DeadLetters"),
        **common(cloud, consumer),
    }
    if isolation:
        expected["Isolate"] = arns(cloud, consumer, *isolation)
    if consumer.secrets:
        secrets = (f"secret-{name}" for name in consumer.secrets)
        expected["ReadSecrets"] = in_state(cloud, *secrets, attribute="Id")
    if consumer.sends_email:
        sender = "arn:<AWS::Partition>:ses:<AWS::Region>:<AWS::AccountId>:identity/*"
        expected["SendEmail"] = {sender}
        only = {"StringEquals": {"ses:FromAddress": "orders@example.com"}}
        assert condition(cloud, consumer, "SendEmail") == only
    assert resources(cloud, consumer) == expected


def test_the_librarys_functions_reach_their_own_resources_only(cloud: Cloud) -> None:
    [bucket] = in_state(cloud, "relay-failures")
    assert resources(cloud, RELAY) == {
        "ReadStream": in_state(cloud, DEDUP, attribute="StreamArn"),
        "Publish": {cloud.text("Events")},
        "Quarantine": arns(cloud, RELAY, "DeadLetters"),
        "KeepFailures": {bucket, f"{bucket}/*"},
        **common(cloud, RELAY),
    }
    own = {"StringEquals": {"s3:ResourceAccount": {"Ref": "AWS::AccountId"}}}
    assert condition(cloud, RELAY, "KeepFailures") == own
    assert resources(cloud, UNROUTED) == {
        "ConsumeSweep": arns(cloud, UNROUTED, "Sweep"),
        "KeepUnrouted": arns(cloud, UNROUTED, "Queue"),
        **common(cloud, UNROUTED),
    }


def test_the_ingress_reaches_its_own_resources_and_keys_only(cloud: Cloud) -> None:
    name, secret = WEBHOOKS.name, "secret-endpoint-stripe"
    assert resources(cloud, name) == {
        **of_records(cloud),
        "CaptureInTransactions": in_state(cloud, CAPTURES),
        "ReadSecrets": in_state(cloud, secret, attribute="Id"),
        **common(cloud, name),
    }
    in_transactions = {
        "ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
    }
    own = {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{name}#*"]},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }
    assert condition(cloud, name, "CaptureInTransactions") == in_transactions
    assert condition(cloud, name, "WriteOwnRecordsInTransactions") == in_transactions | own


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
