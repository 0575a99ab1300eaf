"""What a bad deployment of code cannot endanger."""

from collections import Counter
from pathlib import Path

import pytest

from once.cdk.deployment_config import DeploymentConfig
from once.cdk.props import TableProps, output_key
from stacks.consumers import CONSUMERS
from stacks.state import DEDUP, StateStack
from tests.stacks.cloud import Cloud, denies_plain_http, new_app

TABLES = tuple({table: None for line in CONSUMERS for table in line.tables})
SECRETS = tuple({name: None for line in CONSUMERS for name in line.secrets})
EVERY = (DEDUP, *(table.name for table in TABLES))


@pytest.fixture(params=EVERY)
def path(request: pytest.FixtureRequest) -> str:
    return f"once-state/{request.param}"


def test_state_stack_holds_what_must_survive_and_nothing_else(cloud: Cloud) -> None:
    kinds = Counter(resource["Type"] for resource in cloud.state["Resources"].values())
    assert kinds == {
        "AWS::DynamoDB::Table": len(EVERY),
        "AWS::SecretsManager::Secret": len(SECRETS),
        "AWS::SES::EmailIdentity": 1,
        "AWS::S3::Bucket": 1,
        "AWS::S3::BucketPolicy": 1,
    }


def test_service_stack_holds_none_of_it(cloud: Cloud) -> None:
    assert cloud.types(cloud.state).isdisjoint(cloud.types(cloud.service))


def test_everything_outlives_its_stack(cloud: Cloud) -> None:
    for resource in cloud.state["Resources"].values():
        if resource["Type"] != "AWS::S3::BucketPolicy":
            assert resource["DeletionPolicy"] == "Retain"
            assert resource["UpdateReplacePolicy"] == "Retain"


def test_table_is_protected_from_deletion(cloud: Cloud, path: str) -> None:
    assert cloud.properties(path)["DeletionProtectionEnabled"] is True


def test_table_is_recoverable_to_any_second(cloud: Cloud, path: str) -> None:
    recovery = cloud.properties(path)["PointInTimeRecoverySpecification"]
    assert recovery == {"PointInTimeRecoveryEnabled": True}


def test_table_is_encrypted_and_on_demand(cloud: Cloud, path: str) -> None:
    table = cloud.properties(path)
    assert table["SSESpecification"] == {"SSEEnabled": True}
    assert table["BillingMode"] == "PAY_PER_REQUEST"


def test_table_has_a_generated_name(cloud: Cloud, path: str) -> None:
    assert "TableName" not in cloud.properties(path)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_business_table_has_the_key_of_the_registry(cloud: Cloud, table: TableProps) -> None:
    found = cloud.properties(f"once-state/{table.name}")
    kinds = ("HASH", "RANGE")
    assert found["KeySchema"] == [
        {"AttributeName": key, "KeyType": kind}
        for key, kind in zip(table.keys, kinds, strict=False)
    ]
    assert {a["AttributeType"] for a in found["AttributeDefinitions"]} == {"S"}


def test_dedup_table_forgets_by_time_to_live(cloud: Cloud) -> None:
    found = cloud.properties(f"once-state/{DEDUP}")
    assert found["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    assert found["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}


def test_dedup_table_streams_both_images(cloud: Cloud) -> None:
    found = cloud.properties(f"once-state/{DEDUP}")
    assert found["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}


def test_dedup_table_keeps_its_logical_id(cloud: Cloud) -> None:
    # Under another id CloudFormation makes an empty table, and every key is forgotten.
    assert cloud.logical_id(f"once-state/{DEDUP}") == "deduprecords0DA4593F"


def test_operator_finds_every_table_in_the_outputs(cloud: Cloud) -> None:
    outputs = cloud.state["Outputs"]
    assert outputs["DedupTable"]["Value"] == {"Ref": cloud.logical_id(f"once-state/{DEDUP}")}
    for table in TABLES:
        reference = {"Ref": cloud.logical_id(f"once-state/{table.name}")}
        assert outputs[f"Table{output_key(table.name)}"]["Value"] == reference


@pytest.mark.parametrize("name", SECRETS)
def test_operator_finds_every_secret_in_the_outputs(cloud: Cloud, name: str) -> None:
    arn = {"Fn::GetAtt": [cloud.logical_id(f"once-state/secret-{name}"), "Id"]}
    assert cloud.state["Outputs"][f"Secret{output_key(name)}"]["Value"] == arn


def test_no_secrets_value_stands_in_the_template(cloud: Cloud) -> None:
    for name in SECRETS:
        assert "SecretString" not in cloud.properties(f"once-state/secret-{name}")


def test_email_comes_from_the_address_of_the_context(cloud: Cloud) -> None:
    sender = cloud.properties("once-state/sender")
    assert sender["EmailIdentity"] == "orders@example.com"


def test_no_address_is_claimed_where_nobody_sends_email(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    silent = [line for line in CONSUMERS if not line.sends_email]
    StateStack(app, "once-state", silent, DeploymentConfig())
    app.synth()
    cloud = Cloud(tmp_path)
    assert "AWS::SES::EmailIdentity" not in cloud.types(cloud.state)


def test_what_the_relay_gave_up_is_encrypted_and_private(cloud: Cloud) -> None:
    bucket = cloud.properties("once-state/relay-failures")
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule == {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4


def test_the_relays_bucket_refuses_plain_http(cloud: Cloud) -> None:
    assert denies_plain_http(cloud.properties("once-state/relay-failures/Policy"))


def test_operator_finds_the_relays_bucket_in_the_outputs(cloud: Cloud) -> None:
    reference = {"Ref": cloud.logical_id("once-state/relay-failures")}
    assert cloud.state["Outputs"]["RelayFailures"]["Value"] == reference
