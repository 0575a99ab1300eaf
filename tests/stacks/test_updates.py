"""Updates of a service: the templates of one deployment and of the next, and in what order."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from once.cdk import (
    STRIPE,
    Auth,
    CommandProps,
    ConsumerProps,
    Dedup,
    Endpoint,
    TableProps,
    WebhookProps,
    assemble,
)
from once.cdk.deployed_names import DeployedNames, lost_use_faults
from once.cdk.topics import NO_EVENT
from once.names import EVENT_TYPE, RELAY, UNROUTED, Limits
from once.settings import RelaySettings, Settings, SweepSettings
from stacks.consumers import CONSUMERS
from stacks.folders import ROOT
from tests.stacks.booking_office import commands_in, lines_in, registry_in
from tests.stacks.cloud import (
    Cloud,
    Json,
    Name,
    environment,
    listed,
    name_of,
    new_app,
    references,
    role_statements,
    statements,
    without_packages,
)
from tests.stacks.full_service import Stacks
from tests.stacks.iam_reference import followed
from tests.stacks.large_service import LINES, PRESS, TABLES, TYPES, large_service
from tests.stacks.policies import Request, allows

RUNBOOK = ROOT / "docs" / "runbook.md"
DESTROY = "`cdk destroy --all`"
FEWER_CONSUMERS = "a deployment with fewer consumers"
NO_WEBHOOKS = "a deployment without `webhooks=`"
"""Deletions of policies, in the words of the runbook."""

Templates = Sequence[tuple[str, Json]]
"""Names and templates in the order in which they are deployed."""

SEATS = TableProps("seats", "seat")
BOOKING = ConsumerProps(
    "booking",
    external=("seat.asked",),
    tables=(SEATS,),
    publishes=("seat.taken",),
    secrets=("printer_key",),
    claim_check_mb=5,
    sends_email=True,
    effect_timeout_seconds=3,
    batch_size=1,
)
OFFICE = replace(BOOKING, name="office", renamed_from="booking")
ARCHIVE = ConsumerProps(
    "archive",
    events=("seat.taken",),
    external=("hall.closed",),
    tables=(TableProps("log", "id"),),
    claim_check_mb=5,
    batch_size=1,
)
GATE = ConsumerProps(
    "gate", external=("gate.moved",), tables=(SEATS,), fifo=True, ordered_by="gate"
)
DESK = CommandProps(
    "desk",
    tables=(SEATS,),
    routes={"POST /seats/{seat}": "take-seat"},
    auth=Auth.iam(),
    publishes=("seat.taken",),
)
HOOKS = WebhookProps(
    endpoints=tuple(Endpoint(name, STRIPE, types=("paid",)) for name in ("stripe", "old"))
)


@dataclass(frozen=True)
class Variant:
    """A service at one time."""

    lines: tuple[ConsumerProps, ...]
    webhooks: WebhookProps | None = HOOKS
    commands: tuple[CommandProps, ...] = ()


VARIANTS = {
    "whole": Variant((BOOKING, ARCHIVE, GATE), HOOKS, (DESK,)),
    # Without commands. A second name, the last type of `external=`, an endpoint; a FIFO line
    # retires.
    "first": Variant(
        (BOOKING, OFFICE, replace(ARCHIVE, external=()), replace(GATE, retiring=True)),
        replace(HOOKS, endpoints=HOOKS.endpoints[:1]),
    ),
    # The first name retires; without the FIFO line and every `claim_check_mb=`.
    "second": Variant(
        tuple(
            replace(each, claim_check_mb=0)
            for each in (
                replace(BOOKING, retiring=True),
                OFFICE,
                replace(ARCHIVE, external=()),
            )
        ),
        replace(HOOKS, endpoints=HOOKS.endpoints[:1]),
    ),
    # Without the first name and the webhooks; `external=` has a type again, and claims are back.
    "third": Variant((OFFICE, replace(ARCHIVE, external=("hall.opened",))), None),
}


class Variants:
    """The deployments, each synthesized once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Templates] = {}

    def __getitem__(self, name: str) -> Templates:
        if name not in self._made:
            self._made[name] = synthesized(self._folder / name, VARIANTS[name])
        return self._made[name]

    def cloud(self, name: str) -> Cloud:
        assert self[name]
        return Cloud(self._folder / name / "out")


def synthesized(folder: Path, variant: Variant) -> Templates:
    registry = registry_in(folder, lines_in(folder / "functions", variant.lines))
    commands = commands_in(folder / "functions", *variant.commands)
    if variant.webhooks is not None:
        (folder / "functions" / "webhooks").mkdir()
        (folder / "functions" / "webhooks" / "handler.py").touch()
    with without_packages():
        app = new_app(folder / "out", email_sender="office@theatre.de")
        assemble(app, replace(registry, webhooks=variant.webhooks, commands=commands))
        return [(each.stack_name, each.template) for each in app.synth().stacks]


def detached_by_hand(deletion: str) -> str:
    """Return a pattern for the names of the policies to detach before something deletes them."""
    section = RUNBOOK.read_text().partition("### Detach the operators' policies")[2]
    lines = section.partition("\n## ")[0].splitlines()
    rows = [line.split("|")[1:3] for line in lines if line.startswith("| `")]
    return "|".join(
        re.sub(r"\d+$", r"\\d+", name) if "higher numbers" in policies else name
        for policies, deletions in rows
        if deletion in map(str.strip, deletions.split(";"))
        for name in re.findall(r"`(\w+)`", policies)
    )


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> Variants:
    return Variants(tmp_path_factory.mktemp("updates"))


STEPS = (("whole", "first"), ("first", "second"), ("second", "third"))


@cache
def set_at_creation(kind: str) -> set[str]:
    """Return the top-level properties of a type whose change replaces a resource."""
    from cfnlint import schema as cfn_lint  # it takes a second to import

    schemas = cfn_lint.PROVIDER_SCHEMA_MANAGER
    schema = schemas.get_resource_schema("us-east-1", kind).schema
    every = ("createOnlyProperties", "conditionalCreateOnlyProperties")
    paths = (path.split("/") for name in every for path in schema.get(name, ()))
    return {path[2] for path in paths if len(path) == 3}


@pytest.mark.parametrize(("before", "after"), STEPS)
def test_an_update_replaces_nothing_that_has_a_name_or_is_retained(
    variants: Variants, before: str, after: str
) -> None:
    assert kept_and_replaced(variants[before], variants[after]) == []


def kept_and_replaced(before: Templates, after: Templates) -> list[tuple[str, set[str]]]:
    """Return the resources with a name, or retained, that an update replaces, and why."""
    # CloudFormation creates the new resource before it deletes the old one, whose name is taken.
    replaced = []
    for (_, old), (_, new) in zip(before, after, strict=True):
        for logical_id in old["Resources"].keys() & new["Resources"].keys():
            one, other = (each["Resources"][logical_id] for each in (old, new))
            assert one["Type"] == other["Type"], logical_id
            if one["Type"] == "AWS::SSM::Parameter":
                continue  # named by its content, so that both are there during the rollout
            given, then = one.get("Properties", {}), other.get("Properties", {})
            changed = {
                name for name in set_at_creation(one["Type"]) if given.get(name) != then.get(name)
            }
            named = {name for name in given if name.endswith("Name")} & set_at_creation(one["Type"])
            if changed and (named or one.get("UpdateReplacePolicy") == "Retain"):
                replaced.append((logical_id, changed))
    return replaced


RECORDED = {
    ("AWS::DynamoDB::Table", "KeySchema"): "tables",
    ("AWS::SQS::Queue", "FifoQueue"): "fifo",
    ("AWS::SQS::Queue", "QueueName"): "consumers",
}
"""Properties that deployed.json keeps from changing, with the part of it that does so."""
FIXED = {
    ("AWS::SNS::Topic", "FifoTopic"): "An ordered topic has a logical id of its own.",
    ("AWS::SNS::Topic", "TopicName"): "It follows from the name of the stack.",
}
"""Properties that no line and no option changes under a logical id, with the reason."""
HARMLESS = {
    ("AWS::SNS::Subscription", "Endpoint"): "Queues keep their logical ids (logical_ids.json).",
    ("AWS::SNS::Subscription", "Protocol"): "It is always SQS.",
    ("AWS::SNS::Subscription", "TopicArn"): "The new one begins first; both deliver duplicates.",
    ("AWS::SES::EmailIdentity", "EmailIdentity"): "It has no data: SES verifies the new address.",
}
"""Properties whose replacement loses nothing, with the reason."""


def values_set_at_creation(
    stacks: Stacks, stage: str
) -> Iterator[tuple[tuple[str, str], str, object]]:
    """Yield type and property, logical id and value, for what prod retains in place of deleting."""
    for stack in stacks.of("prod"):
        for logical_id, resource in stack.template["Resources"].items():
            if resource.get("UpdateReplacePolicy") == "Retain":
                kind = resource["Type"]
                given = stacks.every(kind, stage).get(logical_id, {})
                for name in set_at_creation(kind) & given.keys():
                    yield (kind, name), logical_id, given[name]


def test_each_property_whose_change_would_replace_data_is_recorded_or_explained(
    stacks: Stacks,
) -> None:
    stages = ("test", "prod")
    found = {which for stage in stages for which, *_ in values_set_at_creation(stacks, stage)}
    assert found == RECORDED.keys() | FIXED.keys() | HARMLESS.keys()
    assert {*RECORDED.values()} <= {*DeployedNames.__struct_fields__}


def test_no_option_of_an_account_replaces_data(stacks: Stacks) -> None:
    def values(stage: str) -> dict[object, str]:
        return {
            # The stack's name is in the names, as text or as the hash in that of a topic.
            (which, logical_id): re.sub(rf"{stage}|-[0-9A-F]{{8}}\b", "", str(value))
            for which, logical_id, value in values_set_at_creation(stacks, stage)
            if which not in HARMLESS
        }

    test, prod = values("test"), values("prod")
    assert len(test) > 20
    assert {each: prod.get(each) for each in test} == test


def gone(variants: Variants, before: str, after: str, kind: str) -> dict[str, Json]:
    """Return the resources of a type that leave the service stack."""
    (_, old), (_, new) = variants[before][-1], variants[after][-1]
    return {
        logical_id: each
        for logical_id, each in old["Resources"].items()
        if each["Type"] == kind and logical_id not in new["Resources"]
    }


def test_a_subscription_that_stays_behind_delivers_nothing(variants: Variants) -> None:
    left = 0
    for step in STEPS:
        topics = gone(variants, *step, "AWS::SNS::Topic")
        for each in gone(variants, *step, "AWS::SNS::Subscription").values():
            retained = each.get("DeletionPolicy", "Delete") != "Delete"
            # The runbook deletes those of topics that leave.
            if retained and each["Properties"]["TopicArn"]["Ref"] not in topics:
                assert NO_EVENT in str(each["Properties"]["FilterPolicy"]), step
                left += 1
    assert left


@pytest.mark.parametrize(
    ("step", "deletion"), [(STEPS[1], FEWER_CONSUMERS), (STEPS[2], NO_WEBHOOKS), (None, DESTROY)]
)
def test_the_runbook_detaches_every_policy_that_is_deleted(
    variants: Variants, step: tuple[str, str] | None, deletion: str
) -> None:
    kind = "AWS::IAM::ManagedPolicy"
    _, service = variants["whole"][-1]
    every = {key for key, each in service["Resources"].items() if each["Type"] == kind}
    deleted = gone(variants, *step, kind).keys() if step else every
    named = re.compile(f"Operators(?:{detached_by_hand(deletion)})")
    assert [key for key in deleted if not named.fullmatch(key)] == []
    assert deleted or deletion == FEWER_CONSUMERS  # `tests/cdk/test_operators.py` has so many


@pytest.mark.parametrize("line", ["booking", "office"])
def test_h1_both_lines_of_a_rename_have_the_first_name_in_keys_and_events(
    variants: Variants, line: str
) -> None:
    changing = variants.cloud("first")
    assert Settings.from_env(environment(changing, line)).consumer == "booking"
    leading = [
        statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
        for statement in statements(changing, line)
        if statement["Sid"] in ("WriteOwnRecordsInTransactions", "ReadOwnRecords")
    ]
    assert leading == [["booking#*"], ["booking#*"]]
    assert changing.service["Outputs"][f"Identity{line.capitalize()}"]["Value"] == "booking"
    # Relay and subscribers know one publisher.
    relay = RelaySettings.from_env(environment(changing, RELAY)).publishes
    assert relay["booking"] == BOOKING.publishes
    assert "office" not in relay
    archive = Settings.from_env(environment(changing, "archive"))
    assert archive.sources == {"seat.taken": ("/once/booking",)}


def test_a_retiring_line_finishes_its_messages_and_gets_none(variants: Variants) -> None:
    for name, line in (("first", "gate"), ("second", "booking")):
        changing = variants.cloud(name)
        found = changing.subscriptions(line, "Queue").values()
        assert found
        assert [each["FilterPolicy"] for each in found] == [{"type": [NO_EVENT]}] * len(found)
        assert changing.of(line, "Mapping")["EventSourceArn"] == changing.arn(line, "Queue")
    routes = SweepSettings.from_env(environment(variants.cloud("first"), UNROUTED)).routes
    assert "gate.moved" not in {event for types in routes.values() for event in types}
    assert not EVENT_TYPE.fullmatch(NO_EVENT)


# Rollout: code and variables of a function change in one step.


FUNCTIONS: list[Name] = [*CONSUMERS, RELAY, UNROUTED]
ALIAS = "Live"


def changed_before(cloud: Cloud, logical_id: str) -> set[str]:
    """Return every resource that CloudFormation changes changed_before this one."""
    found: set[str] = set()
    todo = [logical_id]
    while todo:
        resource = cloud.service["Resources"].get(todo.pop(), {})
        direct = {*references(resource), *resource.get("DependsOn", [])} - found
        found |= direct
        todo += direct
    return found


@pytest.mark.parametrize("owner", FUNCTIONS, ids=name_of)
def test_an_alias_points_to_a_version_of_its_code_and_variables_that_is_deleted_later(
    cloud: Cloud, owner: Name
) -> None:
    alias, function = cloud.of(owner, ALIAS), cloud.ref(owner, "Function")
    assert (alias["Name"], alias["FunctionName"]) == ("live", function)
    [name, attribute] = alias["FunctionVersion"]["Fn::GetAtt"]
    assert attribute == "Version"
    assert re.search("CurrentVersion[0-9A-F]{8}[0-9a-f]{32}$", name)  # a hash of both
    version = cloud.service["Resources"][name]
    assert (version["Type"], version["Properties"]) == (
        "AWS::Lambda::Version",
        {"FunctionName": function},
    )
    assert version.get("DeletionPolicy", "Delete") == "Delete"


def test_every_mapping_invokes_an_alias(cloud: Cloud) -> None:
    mappings = cloud.every("AWS::Lambda::EventSourceMapping").values()
    invoked = [mapping["FunctionName"] for mapping in mappings]
    assert {name["Fn::Join"][1][-1] for name in invoked} == {":live"}
    aliases = {cloud.id_of(owner, ALIAS) for owner in FUNCTIONS}
    assert {each for name in invoked for each in references(name)} == aliases


def test_a_type_is_subscribed_after_its_code_serves_and_the_relay_knows_it(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    parts = [ALIAS, "Mapping", *(["IsolationMapping"] if consumer.batch_size > 1 else [])]
    serving = {cloud.id_of(consumer, part) for part in parts}
    subscriptions = ids_of_subscriptions(cloud, consumer)
    assert subscriptions
    assert all(serving <= changed_before(cloud, each) for each in subscriptions)
    assert cloud.id_of(RELAY, ALIAS) in changed_before(cloud, cloud.id_of(consumer, ALIAS))


def test_a_new_type_counts_as_unrouted_until_it_is_subscribed(cloud: Cloud) -> None:
    consumers = {each for line in CONSUMERS for each in ids_of_subscriptions(cloud, line)}
    assert consumers <= changed_before(cloud, cloud.id_of(UNROUTED, ALIAS))
    resources = cloud.service["Resources"]
    sweeping = ids_of_subscriptions(cloud, UNROUTED, "Sweep")
    [internal] = (each for each in sweeping if "FilterPolicy" in resources[each]["Properties"])
    assert consumers <= changed_before(cloud, internal)


def ids_of_subscriptions(cloud: Cloud, owner: Name, part: str = "Queue") -> list[str]:
    queue = cloud.arn(owner, part)
    every = cloud.every("AWS::SNS::Subscription").items()
    return [logical_id for logical_id, each in every if each["Endpoint"] == queue]


def test_codedeploy_moves_the_alias_of_a_gradual_rollout_and_alarms_move_it_back(
    stacks: Stacks,
) -> None:
    resources: Json = {
        name: each
        for stack in stacks.of("prod")
        for name, each in stack.template["Resources"].items()
    }
    [application] = stacks.every("AWS::CodeDeploy::Application")
    [(group, settings)] = stacks.every("AWS::CodeDeploy::DeploymentGroup").items()
    moved = {"ApplicationName": {"Ref": application}, "DeploymentGroupName": {"Ref": group}}
    policies = {
        name: each["UpdatePolicy"] for name, each in resources.items() if "UpdatePolicy" in each
    }
    [(alias, policy)] = policies.items()  # of the one consumer that asks for it
    assert alias.startswith("mailsLive")
    assert policy == {"CodeDeployLambdaAliasUpdate": moved}
    assert settings["DeploymentConfigName"] == "CodeDeployDefault.LambdaCanary10Percent5Minutes"
    alarms = settings["AlarmConfiguration"]
    assert alarms["Enabled"] is True
    names = sorted(alarm["Name"]["Ref"] for alarm in alarms["Alarms"])
    assert names == [f"mails{name}Alarm" for name in ("Breaker", "Errors", "NewLetters")]
    alarms = stacks.every("AWS::CloudWatch::Alarm")
    quiet = [name for name, each in alarms.items() if each.get("ActionsEnabled") is False]
    assert sorted(quiet) == ["mailsBreakerAlarm", "mailsNewLettersAlarm"]
    rollback = settings["AutoRollbackConfiguration"]
    assert rollback["Enabled"] is True
    assert "DEPLOYMENT_STOP_ON_ALARM" in rollback["Events"]


# Rights during a rollout: both versions have one role, which changes before the first step.


def lost_rights(before: dict[str, Json], after: dict[str, Json], function: str) -> set[str]:
    """Return the rights of a function's role that an update takes away from the old version."""
    old, new = (
        [followed(each, stack, templates) for stack, each in role_statements(templates, function)]
        for templates in (before, after)
    )
    return {
        f"{action} {resource}"
        for had in old
        for action in listed(had["Action"])
        for resource in listed(had["Resource"])
        if not any(_has(statement, action, resource, had.get("Condition")) for statement in new)
    }


def _has(statement: Json, action: str, resource: str, condition: Json | None) -> bool:
    under = statement.get("Condition")
    return under in (None, condition) and allows(
        Request(action, resource), [{**statement, "Condition": {}}]
    )


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    return large_service(tmp_path_factory.mktemp("large"))


def test_changed_settings_in_a_parameter_leave_the_old_version_its_own(
    large: dict[str, Json], tmp_path: Path
) -> None:
    changed = replace(PRESS, external=(*PRESS.external, "press.stopped"))
    after = large_service(tmp_path, [changed, *LINES[1:]])
    names = [
        each["Properties"]["Name"]
        for templates in (large, after)
        for each in templates["press-room-service"]["Resources"].values()
        if each["Type"] == "AWS::SSM::Parameter" and "press/" in each["Properties"]["Name"]
    ]
    assert len({*names}) == 2
    assert kept_and_replaced([*large.items()], [*after.items()]) == []
    for line in LINES:
        assert (line.name, lost_rights(large, after, line.name)) == (line.name, set())


PRINTER = replace(PRESS, publishes=TYPES[:1], tables=TABLES[:2], snap_start=False)
ITEMS = ConsumerProps(
    "items", external=("hall.opened",), tables=PRINTER.tables[:1], dedup=Dedup.ITEM, group_size=1
)

RolledOut = Callable[[ConsumerProps], dict[str, Json]]


@pytest.fixture(scope="module")
def rolled_out(tmp_path_factory: pytest.TempPathFactory) -> RolledOut:
    """The templates of a service with one line, synthesized once."""
    return cache(lambda line: large_service(tmp_path_factory.mktemp("one"), [line]))


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (PRINTER, {"tables": PRINTER.tables[1:]}),
        (PRINTER, {"secrets": ()}),
        (PRINTER, {"starts": ()}),
        (PRINTER, {"publishes": ()}),
        (PRINTER, {"sends_email": False}),
        (PRINTER, {"claim_check_mb": 0}),
        (PRINTER, {"batch_size": 1}),
        (replace(PRINTER, starts=()), {"effect_timeout_seconds": 0, "effect_concurrency": None}),
        (ITEMS, {"group_size": 2}),
        (ITEMS, {"dedup": Dedup.RECORD}),
        (replace(ITEMS, dedup=Dedup.RECORD), {"dedup": Dedup.ITEM}),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value.name,
)
def test_a_right_is_not_lost_under_a_rollout_or_synthesis_refuses(
    rolled_out: RolledOut, line: ConsumerProps, change: dict[str, Any]
) -> None:
    before = replace(line, rollout=PRINTER.rollout)
    after = replace(before, **change)
    assert lost_rights(rolled_out(before), rolled_out(after), line.name)
    assert [*lost_use_faults(DeployedNames.of([before]), [after])]


# Limits of SNS.


@pytest.mark.parametrize("service", ["shop", "large"])
def test_no_filter_policy_has_more_combinations_than_sns_takes(
    service: str, cloud: Cloud, large: dict[str, Json]
) -> None:
    templates = large if service == "large" else {"": cloud.service}
    values = [
        [len(listed(each.get("anything-but", each))) if isinstance(each, dict) else 1 for each in v]
        for template in templates.values()
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::SNS::Subscription"
        for v in resource["Properties"].get("FilterPolicy", {}).values()
    ]
    assert values
    assert max(map(sum, values)) <= Limits.FILTER_VALUES
