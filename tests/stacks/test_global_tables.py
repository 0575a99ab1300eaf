"""The tables of a service in two Regions: made in the first one, taken in the other."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from once.cdk import (
    ConsumerProps,
    CustomerKey,
    CustomerKeys,
    Dedup,
    DeploymentConfig,
    ExistingTable,
    GlobalTables,
    Stage,
    TableProps,
    assemble,
    synthesize,
)
from once.cdk.deployment_options import DEDUP
from tests.stacks.booking_office import lines_in, registry_in
from tests.stacks.cloud import Json, listed, new_app, without_packages
from tests.stacks.test_operators import OF_REGIONS, called

A, B, ACCOUNT = "eu-west-1", "eu-central-1", "111122223333"
HALLS = ConsumerProps(
    "halls",
    external=("hall.asked",),
    tables=(TableProps("halls", ("hall", "day")),),
    publishes=("made",),
)
ON_ITEMS = ConsumerProps(
    "openings",
    external=("hall.opened",),
    tables=(TableProps("openings", "hall"),),
    dedup=Dedup.ITEM,
    group_size=1,
)
KEY = f"key/mrk-{'0' * 32}"
PROTECTED = {
    "DeletionProtectionEnabled": True,
    "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
}


def resources(folder: Path, line: ConsumerProps, **stages: DeploymentConfig) -> dict[str, Json]:
    """Return the resources of the stages, by logical id, each stage in its Region."""
    log = ConsumerProps("log", events=line.publishes)
    lines = (line, log) if line.publishes else (line,)
    registry = registry_in(folder, lines_in(folder / "functions", lines))
    with without_packages():
        app = new_app(folder / "out", service=None, email_sender=None, create_email_identity=None)
        regions = {"a": A, "b": B}
        made = [
            Stage(name, ACCOUNT, regions[name], replace(config, service=name))
            for name, config in stages.items()
        ]
        assemble(app, registry, stages=made)
        stacks = synthesize(app).stacks
    return {
        f"{stack.stack_name[0]}:{name}": each
        for stack in stacks
        for name, each in stack.template["Resources"].items()
    }


def of_type(made: dict[str, Json], kind: str) -> dict[str, Any]:
    return {name: each["Properties"] for name, each in made.items() if each["Type"] == kind}


def test_the_first_region_makes_the_tables_that_the_other_takes(tmp_path: Path) -> None:
    both = DeploymentConfig(
        global_tables=GlobalTables(regions=(A, B), accept_split_commits=True),
        keys=CustomerKeys(tables=CustomerKey(f"arn:aws:kms:{A}:{ACCOUNT}:{KEY}")),
    )
    arns = {name: f"arn:aws:dynamodb:{B}:{ACCOUNT}:table/{name}" for name in ("halls", DEDUP)}
    existing = {n: ExistingTable(arn, None, f"{arn}/stream/2026") for n, arn in arns.items()}
    there = DeploymentConfig(
        standby=True, global_tables=both.global_tables, existing_tables=existing
    )
    made = resources(tmp_path, HALLS, a=both, b=there)
    assert not of_type(made, "AWS::DynamoDB::Table")
    tables = of_type(made, "AWS::DynamoDB::GlobalTable")
    assert {*tables} == {"a:dedupRecords", "a:hallsTable"}
    for table in tables.values():
        keys = {each["Region"]: each.pop("SSESpecification") for each in table["Replicas"]}
        assert keys == {
            each: {"KMSMasterKeyId": f"arn:aws:kms:{each}:{ACCOUNT}:{KEY}"} for each in (A, B)
        }
        assert table["Replicas"] == [{"Region": each, **PROTECTED} for each in (B, A)]
        assert table["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
        assert "MultiRegionConsistency" not in table
    assert tables["a:dedupRecords"]["TimeToLiveSpecification"]["Enabled"]
    assert {made[name]["DeletionPolicy"] for name in tables} == {"Retain"}
    roles = str(of_type(made, "AWS::IAM::Role"))
    assert all(arn in roles for arn in arns.values())
    mappings = of_type(made, "AWS::Lambda::EventSourceMapping").items()
    assert {(name[0], each.get("Enabled", True)) for name, each in mappings} == {
        ("a", True),
        ("b", False),
    }


def test_operators_of_two_regions_have_one_more_policy(tmp_path: Path) -> None:
    tables = GlobalTables(regions=(A, B), accept_split_commits=True)
    made = resources(tmp_path, HALLS, a=DeploymentConfig(global_tables=tables))
    policies = of_type(made, "AWS::IAM::ManagedPolicy")
    statements = {
        name.removeprefix("a:Operators")[:8]: each["PolicyDocument"]["Statement"]
        for name, each in policies.items()
    }
    actions = {
        action for each in statements.values() for s in each for action in listed(s["Action"])
    }
    assert called(OF_REGIONS) - {"dynamodb:UpdateItem"} <= actions
    by_action = {action: s for s in statements["Takeover"] for action in listed(s["Action"])}
    assert "role/a-service-*" in str(by_action["iam:PutRolePolicy"]["Resource"])
    scanned = by_action["dynamodb:Scan"]["Condition"]["ForAllValues:StringEquals"]
    assert scanned == {"dynamodb:Attributes": ["hall", "day", "once_commit"]}
    assert "Condition" in by_action["dynamodb:PutItem"]
    assert by_action["lambda:UpdateEventSourceMapping"]["Condition"] == {
        "StringLike": {"lambda:FunctionArn": "*:a-*"}
    }


@pytest.mark.parametrize("keep_data", [True, False])
def test_strong_consistency_is_for_the_items_with_their_records(
    tmp_path: Path, *, keep_data: bool
) -> None:
    strong = GlobalTables(regions=(A, B), consistency="strong", witness="eu-west-3")
    config = DeploymentConfig(global_tables=strong, keep_data=keep_data)
    made = resources(tmp_path, ON_ITEMS, a=config)
    [table] = of_type(made, "AWS::DynamoDB::GlobalTable").values()
    assert table["MultiRegionConsistency"] == "STRONG"
    assert table["GlobalTableWitnesses"] == [{"Region": "eu-west-3"}]
    assert "TimeToLiveSpecification" not in table
    assert [each["DeletionProtectionEnabled"] for each in table["Replicas"]] == [keep_data] * 2
    # No line has records: theirs is a table of the Region, with time to live and nothing in it.
    assert [*of_type(made, "AWS::DynamoDB::Table")] == ["a:dedupRecords"]
