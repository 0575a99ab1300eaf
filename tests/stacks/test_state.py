"""The state stack, and resources of either stack that hold data or messages."""

import json
from collections import Counter

import pytest

from once.cdk.app.stacks import CAPTURES
from once.cdk.deployment_options import DEDUP
from once.cdk.props import TableProps
from once.webhooks.captured_webhook import BY_TIME, CaptureAttribute
from stacks.consumers import CONSUMERS
from stacks.folders import ROOT
from stacks.webhooks import WEBHOOKS
from tests.stacks import logical_ids
from tests.stacks.cloud import STATE, Cloud, types
from tests.stacks.logical_ids import GOLDEN, resources

TABLES = tuple({table: None for line in CONSUMERS for table in line.tables})
CAPTURE_ATTRIBUTES = [value for name, value in vars(CaptureAttribute).items() if name.isupper()]
SECRETS = tuple({name: None for line in CONSUMERS for name in line.secrets})


def test_state_stack_holds_all_data_and_nothing_else(cloud: Cloud) -> None:
    kinds = Counter(resource["Type"] for resource in cloud.state["Resources"].values())
    assert kinds == {
        "AWS::DynamoDB::Table": len(TABLES) + 2,
        "AWS::SecretsManager::Secret": len(SECRETS) + len(WEBHOOKS.endpoints),
        "AWS::SES::EmailIdentity": 1,
        "AWS::Logs::LogGroup": 1,
        "AWS::Scheduler::ScheduleGroup": 1,
        "AWS::S3::Bucket": 1,
        "AWS::S3::BucketPolicy": 1,
    }
    assert types(cloud.state) & types(cloud.service) == {"AWS::Logs::LogGroup"}


def test_every_resource_is_retained_unless_its_first_creation_fails(cloud: Cloud) -> None:
    for resource in cloud.state["Resources"].values():
        if resource["Type"] != "AWS::S3::BucketPolicy":
            # A rollback could not delete a protected table, and would fail as well.
            protected = resource.get("Properties", {}).get("DeletionProtectionEnabled", False)
            assert resource["DeletionPolicy"] == ("Retain" if protected else "RetainExceptOnCreate")
            assert resource["UpdateReplacePolicy"] == "Retain"


@pytest.mark.parametrize("name", [DEDUP, CAPTURES, *(table.name for table in TABLES)])
def test_table_is_protected_recoverable_encrypted_and_on_demand(cloud: Cloud, name: str) -> None:
    expected = {
        "DeletionProtectionEnabled": True,
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        "SSESpecification": {"SSEEnabled": False},  # the key that AWS owns
        "BillingMode": "PAY_PER_REQUEST",
        "TableName": None,  # CloudFormation generates it
    }
    table = cloud.of(STATE, name)
    assert {key: table.get(key) for key in expected} == expected


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_business_table_has_the_key_of_the_registry(cloud: Cloud, table: TableProps) -> None:
    found = cloud.of(STATE, table.name)
    assert found["KeySchema"] == [
        {"AttributeName": key, "KeyType": kind}
        for key, kind in zip(table.keys, ("HASH", "RANGE"), strict=False)
    ]
    assert {a["AttributeType"] for a in found["AttributeDefinitions"]} == {"S"}


def test_dedup_table_expires_records_and_streams_both_images(cloud: Cloud) -> None:
    found = cloud.of(STATE, DEDUP)
    assert found["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    assert found["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert found["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}


def test_no_value_of_the_state_stack_is_held_by_the_service_stack(either_cloud: Cloud) -> None:
    # CloudFormation neither changes nor removes an export that another stack imports.
    assert [key for key, each in either_cloud.state["Outputs"].items() if "Export" in each] == []
    assert "Fn::ImportValue" not in json.dumps(either_cloud.service)


def test_operator_log_is_kept_for_a_year_under_one_logical_id(cloud: Cloud) -> None:
    assert cloud.id_of(STATE, "operator-log") == "operatorLog"
    assert cloud.of(STATE, "operator-log") == {"RetentionInDays": 365}


@pytest.mark.parametrize("name", [*SECRETS, "stripe-endpoint"])
def test_a_secret_is_made_without_a_value(cloud: Cloud, name: str) -> None:
    made = cloud.of(STATE, f"{name}-secret")
    assert [key for key in made if "SecretString" in key] == []


def test_captures_expire_and_are_listed_by_time_without_their_bodies(cloud: Cloud) -> None:
    found = cloud.of(STATE, CAPTURES)
    assert found["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    assert found["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    (index,) = found["GlobalSecondaryIndexes"]
    assert (index["IndexName"], index["KeySchema"]) == (
        BY_TIME,
        [
            {"AttributeName": "day", "KeyType": "HASH"},
            {"AttributeName": "received_at", "KeyType": "RANGE"},
        ],
    )
    kinds = {each["AttributeName"]: each["AttributeType"] for each in found["AttributeDefinitions"]}
    assert kinds == {"pk": "S", "day": "S", "received_at": "N"}
    # A capture can be read from the index, but for its body.
    every = {*CAPTURE_ATTRIBUTES} - {"pk", "day", "received_at", "body"}
    assert {*index["Projection"]["NonKeyAttributes"]} == every


def test_only_a_service_that_sends_email_has_an_identity(cloud: Cloud, office: Cloud) -> None:
    assert cloud.of(STATE, "sender")["EmailIdentity"] == "orders@example.com"
    assert "AWS::SES::EmailIdentity" not in types(office.state)


# Logical ids, and what outlives the stacks.


MESSAGES = {
    *("AWS::SQS::Queue", "AWS::SQS::QueuePolicy"),
    *("AWS::SNS::Topic", "AWS::SNS::TopicPolicy", "AWS::SNS::Subscription"),
}
CHANGED = (
    f"A logical id of {GOLDEN.relative_to(ROOT)} is gone. CloudFormation would leave the resource "
    "behind, with its data, and create an empty one. Give the construct its earlier scope and id "
    "back, or override its logical id. Change the file only if the resource is removed on purpose, "
    "after its messages have been processed and its data has been moved:\n"
)
ADDED = (
    f"New resources with data, which {GOLDEN.relative_to(ROOT)} does not pin: run "
    "`.venv/bin/python -m tests.golden`, which adds them:\n"
)


def test_what_holds_data_keeps_its_logical_id(cloud: Cloud) -> None:
    kept = logical_ids.kept()
    for stack, found in logical_ids.found(cloud).items():
        gone = kept[stack].items() - found.items()
        assert not gone, CHANGED + json.dumps(dict(sorted(gone)), indent=2)
        added = found.items() - kept[stack].items()
        assert not added, ADDED + json.dumps({stack: dict(sorted(added))}, indent=2)


@pytest.mark.parametrize("kind", sorted(MESSAGES))
def test_what_holds_or_delivers_messages_outlives_the_stack(cloud: Cloud, kind: str) -> None:
    found = resources(cloud.service, {kind}).items()
    # The topic of alarms holds none: an alarm that still lasts is seen in CloudWatch. The sweep's
    # subscriptions deliver copies, which no function would read.
    policies = {
        key: (each.get("DeletionPolicy"), each.get("UpdateReplacePolicy"))
        for key, each in found
        if not key.startswith(("Alarms", "unroutedSweep"))
    }
    assert policies
    assert policies == dict.fromkeys(policies, ("RetainExceptOnCreate", "Retain"))


def test_nothing_of_the_embedded_service_outlives_it(local_cloud: Cloud) -> None:
    found = resources(local_cloud.service, MESSAGES).values()
    assert {each.get("DeletionPolicy", "Delete") for each in found} == {"Delete"}
