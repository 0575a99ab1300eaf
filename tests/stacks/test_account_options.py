"""Each option of a deployment's account, in the templates of a service that uses all of them."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from once.cdk import ConsumerProps, DeploymentConfig, GlobalTables, Source, TableProps, assemble
from once.cdk.checks.deployment_config import reserved_sender
from once.cdk.deployment_options import DEDUP
from stacks.consumers import CONSUMERS
from tests.stacks.booking_office import lines_in, registry_in
from tests.stacks.cloud import Cloud, Json, flat, listed, new_app, without_packages
from tests.stacks.full_service import (
    BOUNDARY,
    KEY,
    LAYER,
    NETWORK,
    PROD,
    QUEUE,
    RECORDS,
    TABLE,
    TEST,
    Stacks,
)


def has(*path: str) -> Callable[[Json], Any]:
    def value(properties: Json) -> Any:
        found: Any = properties
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    return value


FUNCTION = "AWS::Lambda::Function"
TRIGGERS = ("AWS::Lambda::EventSourceMapping", "AWS::Events::Rule", "AWS::Scheduler::Schedule")
VPC = {"SubnetIds": [*NETWORK.subnets], "SecurityGroupIds": [*NETWORK.security_groups]}
BUCKET_KEY = [
    {
        "BucketKeyEnabled": True,
        "ServerSideEncryptionByDefault": {"KMSMasterKeyID": KEY.arn, "SSEAlgorithm": "aws:kms"},
    }
]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (FUNCTION, has("VpcConfig"), VPC),
        (FUNCTION, has("Layers"), [LAYER]),
        (
            FUNCTION,
            has("Environment", "Variables", "ONCE_OTLP_ENDPOINT"),
            "http://localhost:4318",
        ),
        ("AWS::IAM::Role", has("PermissionsBoundary"), BOUNDARY),
        ("AWS::DynamoDB::Table", has("SSESpecification", "KMSMasterKeyId"), KEY.arn),
        ("AWS::SQS::Queue", has("KmsMasterKeyId"), KEY.arn),
        ("AWS::SNS::Topic", has("KmsMasterKeyId"), KEY.arn),
        ("AWS::Logs::LogGroup", has("KmsKeyId"), KEY.arn),
        ("AWS::SecretsManager::Secret", has("KmsKeyId"), KEY.arn),
        (
            "AWS::S3::Bucket",
            has("BucketEncryption", "ServerSideEncryptionConfiguration"),
            BUCKET_KEY,
        ),
    ],
    ids=[
        *("network", "layers", "otlp_endpoint", "permissions_boundary"),
        *("keys.tables", "keys.queues"),
        *("keys.topics", "keys.logs", "keys.secrets", "keys.buckets"),
    ],
)
def test_an_option_is_on_every_resource_of_its_stage_alone(
    stacks: Stacks, kind: str, value: Callable[[Json], Any], expected: Any
) -> None:
    found = {name: value(each) for name, each in stacks.every(kind).items()}
    assert found
    assert {name: each for name, each in found.items() if each != expected} == {}
    plain = [value(each) for each in stacks.every(kind, "test").values()]
    assert expected not in plain


def test_tags_and_environment_are_those_of_the_stage(stacks: Stacks) -> None:
    for stage in (TEST, PROD):
        for stack in stacks.of(stage.name):
            assert stack.tags == stage.config.tags
            assert stack.environment == (stage.account, stage.region)


def test_with_a_key_of_ones_own_the_service_makes_none(stacks: Stacks) -> None:
    assert stacks.every("AWS::KMS::Key") == {}
    assert len(stacks.every("AWS::KMS::Key", "test")) == 1  # for S3 and EventBridge


ENCRYPTED = {"sqs", "sns", "dynamodb", "s3", "secretsmanager"}


def test_each_role_may_use_the_key_through_each_service_that_it_calls(stacks: Stacks) -> None:
    functions = stacks.every(FUNCTION).values()
    roles = {each["Role"]["Fn::GetAtt"][0] for each in functions}
    roles |= {name for name in stacks.every("AWS::IAM::Role") if "ScheduleRole" in name}
    assert len(roles) == len(functions) + 2  # of a line's own schedule, and of due events
    for role in roles:
        called, through = set(), set()
        for statement in stacks.statements(role):
            actions = listed(statement["Action"])
            called |= {action.split(":")[0] for action in actions} & ENCRYPTED
            if actions[0].startswith("kms:") and statement["Resource"] == KEY.arn:
                names = statement["Condition"]["StringEquals"]["kms:ViaService"]
                through |= {flat(name).split(".")[0] for name in listed(names)}
                assert all(flat(name).endswith(".<AWS::URLSuffix>") for name in listed(names))
        assert called
        assert called <= through


def test_existing_tables_and_queues_are_used_with_their_keys_and_not_made(stacks: Stacks) -> None:
    made = stacks.every("AWS::DynamoDB::Table")
    assert not [name for name in made if "halls" in name or "dedup" in name]
    [role] = [name for name in stacks.every("AWS::IAM::Role") if name.startswith("refundsRole")]
    statements = stacks.statements(role)
    used = {flat(resource) for s in statements for resource in listed(s["Resource"])}
    assert {TABLE.arn, TABLE.key_arn, QUEUE.arn, QUEUE.key_arn} <= used
    assert {RECORDS.arn, RECORDS.key_arn} <= used
    mappings = stacks.every("AWS::Lambda::EventSourceMapping").values()
    sources = [flat(each["EventSourceArn"]) for each in mappings]
    assert {QUEUE.arn, RECORDS.stream_arn} <= {*sources}
    subscribed = [each["Endpoint"] for each in stacks.every("AWS::SNS::Subscription").values()]
    assert subscribed
    assert QUEUE.arn not in subscribed
    [service] = [each for each in stacks.of("prod") if each.stack_name.endswith("-service")]
    url = flat(service.template["Outputs"]["QueueRefunds"]["Value"])
    assert url.endswith("/111122223333/refunds")
    demands = json.loads(service.template["Outputs"]["RulesOfQueueRefunds"]["Value"])
    assert demands == {
        "VisibilityTimeout": 180,
        "MessageRetentionPeriod": 345_600,
        "maxReceiveCount": 5,
    }
    every = [key for stack in stacks.of("prod") for key in stack.template.get("Outputs", {})]
    assert [key for key in every if key.startswith("RulesOfQueue")] == ["RulesOfQueueRefunds"]


def test_a_standby_invokes_no_function_by_itself(tmp_path: Path) -> None:
    replicas = {name: replace(RECORDS, key_arn=None) for name in ("halls", DEDUP)}
    regions = GlobalTables(regions=("us-east-1", "eu-west-1"), accept_split_commits=True)
    config = DeploymentConfig(standby=True, global_tables=regions, existing_tables=replicas)
    halls = ConsumerProps(
        "halls",
        external=("hall.asked",),
        tables=(TableProps("halls", "hall"),),
        publishes=("made",),
    )
    bus = Source.event_bridge("theatre", envelope_id=True)
    lines = (
        halls,
        ConsumerProps("log", external=("hall.asked",), events=("made",)),
        ConsumerProps("moves", external=("Moved",), source=bus),
        ConsumerProps("nightly", external=("night",), source=Source.schedule("rate(1 day)")),
    )
    registry = registry_in(tmp_path, lines_in(tmp_path / "functions", lines))
    with without_packages():
        app = new_app(tmp_path / "out")
        assemble(app, registry, config)
        templates = [each.template for each in app.synth().stacks]
    resources = [each for template in templates for each in template["Resources"].values()]
    of = {kind: [r["Properties"] for r in resources if r["Type"] == kind] for kind in TRIGGERS}
    mappings, *others = of.values()
    assert len(mappings) == 10  # two of each consumer, the relay, the sweep
    assert {each["Enabled"] for each in mappings} == {False}
    assert [[each["State"] for each in rules] for rules in others] == [["DISABLED"], ["DISABLED"]]
    assert not [r for r in resources if r["Type"] == "AWS::DynamoDB::Table"]


def test_a_stage_whose_data_may_go_retains_nothing(stacks: Stacks) -> None:
    for stack in stacks.of("test"):
        kept = [
            name
            for name, each in stack.template["Resources"].items()
            if "Retain" in str(each.get("DeletionPolicy"))
        ]
        assert kept == []
    tables = stacks.every("AWS::DynamoDB::Table", "test").values()
    assert [each for each in tables if each["DeletionProtectionEnabled"]] == []
    assert all(
        each["DeletionProtectionEnabled"] for each in stacks.every("AWS::DynamoDB::Table").values()
    )


@pytest.mark.parametrize(("stage", "has"), [("prod", True), ("test", False)])
def test_a_standard_queue_may_have_no_dead_letters_at_a_fifo_topic(
    stacks: Stacks, stage: str, *, has: bool
) -> None:
    found = stacks.every("AWS::SNS::Subscription", stage).values()
    assert all("RedrivePolicy" in each for each in found) is has


@pytest.mark.parametrize(("stage", "most"), [("prod", 7), ("test", 14)])
def test_a_stack_has_no_more_consumers_than_its_stage_says(
    stacks: Stacks, stage: str, most: int
) -> None:
    # Thirteen of most kinds fit into one stack, by both of CloudFormation's quotas.
    templates = [each.template for each in stacks.of(stage)]
    assert max(len(each["Resources"]) for each in templates) < 500
    assert max(len(json.dumps(each, indent=1)) for each in templates) < 1024 * 1024
    _, *found = ([*each["Outputs"]] for each in templates)
    consumers = [sum(key.startswith("Function") for key in outputs) for outputs in found]
    assert [*consumers[:-1]] == [most] * (len(consumers) - 1)
    assert 0 < consumers[-1] <= most
    assert (len(consumers) > 1) is (stage == "prod")


INSIDE = {"AWS::ApiGatewayV2::Stage", "AWS::IAM::Policy"}
"""Types whose names are unique in the resource that holds them, and not in the account."""


def names(stacks: Stacks, stage: str) -> Iterator[tuple[str, str]]:
    """Yield type and name of every resource with a fixed name, or with an identity."""
    for stack in stacks.of(stage):
        for resource in stack.template["Resources"].values():
            kind, properties = resource["Type"], resource.get("Properties", {})
            for key in (f"{kind.rpartition('::')[2]}Name", "EmailIdentity"):
                if kind not in INSIDE and isinstance(properties.get(key), str):
                    yield kind, properties[key]


def test_a_second_stage_takes_no_name_and_no_identity_of_the_first(stacks: Stacks) -> None:
    ours, theirs = set(names(stacks, "prod")), set(names(stacks, "test"))
    assert {kind for kind, _ in ours} >= {"AWS::SQS::Queue", FUNCTION}
    assert ("AWS::SES::EmailIdentity", "office@theatre.de") in ours
    assert ours & theirs == set()
    # Roles and buckets of all Regions share their names: the same service in two would collide.
    assert [kind for kind, _ in ours if kind.startswith(("AWS::IAM", "AWS::S3"))] == []


NOTIFICATIONS = next(line for line in CONSUMERS if line.sends_email)
ORDERS = next(line for line in CONSUMERS if not line.sends_email)


@pytest.mark.parametrize(
    ("sender", "refused"),
    [
        ("orders@example.com", True),
        ("orders@shop.example.org", True),
        ("orders@EXAMPLE.NET", True),
        ("orders@shop.test", True),
        ("orders@my-example.com", False),
        ("orders@example.company.com", False),
    ],
)
def test_a_sender_that_ses_cannot_verify_is_a_warning(sender: str, *, refused: bool) -> None:
    config = DeploymentConfig(email_sender=sender)
    warning = reserved_sender(NOTIFICATIONS, config)
    assert bool(warning) is refused
    assert warning is None or "-c email_sender=" in warning
    assert reserved_sender(ORDERS, config) is None
    assert reserved_sender(NOTIFICATIONS, DeploymentConfig(email_sender=sender, local=True)) is None


def test_the_warning_appears_at_the_consumer_that_sends_email(cloud: Cloud) -> None:
    metadata = json.loads((cloud.directory / "once-service.metadata.json").read_text())
    found = [path for path, entries in metadata.items() if "RFC 2606" in json.dumps(entries)]
    assert found == ["/once-service/notifications"]


def test_scaling_options_are_on_the_function_its_mapping_and_the_dedup_table(
    stacks: Stacks,
) -> None:
    def of_mails(kind: str) -> Json:
        [found] = [v for k, v in stacks.every(kind).items() if re.match("mails[MF]", k)]
        return dict(found)

    mapping, function = of_mails("AWS::Lambda::EventSourceMapping"), of_mails(FUNCTION)
    assert mapping["ProvisionedPollerConfig"] == {"MinimumPollers": 2, "MaximumPollers": 4}
    assert mapping.keys().isdisjoint({"ScalingConfig", "MetricsConfig"})
    assert function["ReservedConcurrentExecutions"] == 42
    assert function["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    others = [v for k, v in stacks.every(FUNCTION).items() if k[:4] not in {"mail", "desk"}]
    assert not [each for each in others if {"ReservedConcurrentExecutions", "SnapStart"} & {*each}]
    tables = stacks.every("AWS::DynamoDB::Table", "test").items()
    warm = {key[:5]: each["WarmThroughput"] for key, each in tables if "WarmThroughput" in each}
    assert warm == {"dedup": {"ReadUnitsPerSecond": 24_000, "WriteUnitsPerSecond": 8_000}}
