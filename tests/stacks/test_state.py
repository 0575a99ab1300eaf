"""What a bad deployment of code cannot endanger."""

import pytest

from stacks.consumers import CONSUMERS
from stacks.registry import Table, words
from stacks.state import DEDUP
from tests.stacks.cloud import Cloud

TABLES = tuple({table: None for line in CONSUMERS for table in line.tables})
EVERY = (DEDUP, *(table.name for table in TABLES))


@pytest.fixture(params=EVERY)
def path(request: pytest.FixtureRequest) -> str:
    return f"once-state/{request.param}"


def test_state_stack_holds_tables_and_nothing_else(cloud: Cloud) -> None:
    assert cloud.types(cloud.state) == {"AWS::DynamoDB::Table"}
    assert len(cloud.state["Resources"]) == len(EVERY)


def test_service_stack_holds_no_table(cloud: Cloud) -> None:
    assert "AWS::DynamoDB::Table" not in cloud.types(cloud.service)


def test_table_outlives_its_stack(cloud: Cloud, path: str) -> None:
    table = cloud.resource(path)
    assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Retain", "Retain")


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
def test_business_table_has_the_key_of_the_registry(cloud: Cloud, table: Table) -> None:
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
        assert outputs[f"Table{words(table.name)}"]["Value"] == reference
