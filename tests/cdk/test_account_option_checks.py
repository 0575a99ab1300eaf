"""Faults of the options of a deployment's account: all together, each with its remedy."""

import re
from dataclasses import replace
from typing import Any

import pytest

from once.cdk import (
    GITHUB,
    CommandProps,
    ConsumerProps,
    CustomerKey,
    CustomerKeys,
    Dedup,
    DeploymentConfig,
    Endpoint,
    ExistingQueue,
    ExistingTable,
    GlobalTables,
    Source,
    Stage,
    StateMachineProps,
    TableProps,
    WebhookProps,
    deployment_faults,
)
from once.cdk.checks.deployment_config import stage_faults, unfit_option_faults
from once.cdk.props import Line
from once.names import explained_by
from tests.stacks.full_service import KEY, LAYER, NETWORK, PLAIN, QUEUE, TABLE, TEST

ALIAS = "arn:aws:kms:eu-west-1:111122223333:alias/once"


def allowing(*services: str) -> CustomerKey:
    return CustomerKey(KEY.arn, services)


TWO = GlobalTables(regions=("eu-west-1", "eu-central-1"))


@pytest.mark.parametrize(
    ("option", "value", "fault"),
    [
        ("service", "Once!", "service='Once!': use at most 20 lower-case letters"),
        ("ingress_publishers", ("sqs",), "ingress_publishers=('sqs',): give ids of accounts"),
        ("tags", ["team"], "tags=['team']; give a mapping of texts"),
        ("tags", {"aws:team": "x"}, "the tag 'aws:team' is no name for a tag"),
        ("tags", {"team": "a;b"}, "the tag 'team' has the value 'a;b'; use up to 256"),
        (
            "global_tables",
            "eu-west-1",
            "; give GlobalTables(regions=('eu-west-1', 'eu-central-1'))",
        ),
        (
            "global_tables",
            GlobalTables(regions=("eu-west-1", "eu-west-1")),
            "give two or more, each once, such as ('eu-west-1', 'eu-central-1')",
        ),
        (
            "global_tables",
            replace(TWO, consistency="weak"),
            "consistency='weak'; use one of eventual, strong",
        ),
        (
            "global_tables",
            replace(TWO, witness="eu-west-2"),
            "witness='eu-west-2', which only strongly consistent tables have; leave it out",
        ),
        (
            "global_tables",
            replace(TWO, consistency="strong"),
            "strongly consistent tables have three Regions, or two and a witness",
        ),
        (
            "global_tables",
            replace(TWO, consistency="strong", witness="us-east-1"),
            "of one of the sets (('us-east-1', 'us-east-2', 'us-west-2')",
        ),
        ("network", "vpc-1", "network='vpc-1'; give a Network, or None"),
        (
            "network",
            replace(NETWORK, subnets=("vpc-0a1b2c3d",)),
            "network: subnets=('vpc-0a1b2c3d',); give a tuple of ids, such as ('subnet-0a1b2c3d',)",
        ),
        (
            "network",
            replace(NETWORK, security_groups=()),
            "network: security_groups=(); give a tuple of ids, such as ('sg-0a1b2c3d',)",
        ),
        ("network", replace(NETWORK, endpoints=3), "network: endpoints=3; give a tuple"),  # type: ignore[arg-type]
        ("keys", KEY, "; give CustomerKeys(queues=CustomerKey('arn:…'), …)"),
        (
            "keys",
            CustomerKeys(tables=CustomerKey(ALIAS)),
            f"keys.tables='{ALIAS}' is no ARN of a key; give one such as arn:aws:kms:",
        ),
        (
            "keys",
            CustomerKeys(tables=allowing("lambda")),
            "keys.tables allows 'lambda'; give ids of accounts, and cloudwatch, events, logs",
        ),
        (
            "keys",
            CustomerKeys(logs=allowing()),
            "keys.logs: the policy of the key does not allow 'logs', and it encrypts log groups; "
            f"add a statement to the key's policy ({explained_by('your-service#keys')}), "
            "and 'logs' to",
        ),
        (
            "keys",
            CustomerKeys(topics=allowing("s3")),
            "keys.topics: the policy of the key does not allow 'cloudwatch', and alarms publish",
        ),
        (
            "permissions_boundary",
            "boundary",
            "permissions_boundary='boundary' is no ARN of a policy; give one such as arn:aws:iam::",
        ),
        ("otlp_endpoint", 4318, "; give the URL of a collector, or None"),
        ("otlp_endpoint", "localhost:4318", "is no base URL; give one such as http://localhost"),
        ("otlp_endpoint", "http://localhost:4318/v1/traces", "is no base URL; give one such as"),
        ("layers", LAYER, "; give a tuple of ARNs"),
        ("layers", (LAYER,) * 6, "layers has 6 ARNs; a function takes 5 layers at most"),
        (
            "layers",
            (LAYER.removesuffix(":7"),),
            "is no ARN of a layer version; give one such as arn:aws:lambda:eu-west-1:111122223333:"
            "layer:agent:7, with the version",
        ),
        ("existing_tables", {"seats": "arn"}, "give a mapping such as {'seats': ExistingTable("),
        (
            "existing_tables",
            {"seats": ExistingTable(TABLE.arn, stream_arn=TABLE.arn)},
            f"the stream of existing_tables['seats']='{TABLE.arn}' is no ARN of a stream",
        ),
        (
            "existing_queues",
            {"refunds": ExistingQueue("refunds")},
            "existing_queues['refunds']='refunds' is no ARN of a queue; give one such as arn:aws:",
        ),
        (
            "existing_queues",
            {"refunds": ExistingQueue(QUEUE.arn, ALIAS)},
            f"the key of existing_queues['refunds']='{ALIAS}' is no ARN of a key",
        ),
    ],
)
def test_a_malformed_option_is_a_fault_with_a_remedy(option: str, value: Any, fault: str) -> None:
    config: DeploymentConfig = replace(DeploymentConfig(), **{option: value})
    [found] = deployment_faults(config)
    assert fault in found


def test_publishers_of_the_ingress_topic_need_its_key() -> None:
    keys = CustomerKeys(topics=allowing("cloudwatch", "444455556666"))
    publishers = ("s3", "444455556666", "777788889999")
    found = deployment_faults(DeploymentConfig(keys=keys, ingress_publishers=publishers))
    assert [fault.partition(" and ")[0] for fault in found] == [
        f"keys.topics: the policy of the key does not allow {each!r},"
        for each in ("s3", "777788889999")
    ]


MACHINE = "arn:aws:states:eu-west-1:111122223333:stateMachine:ship"
SEATS = TableProps("seats", "seat")
LINE = ConsumerProps("refunds", external=("seat.refunded",), tables=(SEATS,))


@pytest.mark.parametrize(
    ("line", "options", "fault"),
    [
        (LINE, {"keys": CustomerKeys(queues=allowing())}, "'sns', and it delivers into the queues"),
        (
            replace(LINE, source=Source.event_bridge("aws.ec2", envelope_id=True)),
            {"keys": CustomerKeys(queues=allowing("sns"))},
            "'events', and it delivers into the queues of 'refunds'; add a statement",
        ),
        (
            replace(LINE, source=Source.s3("uploads")),
            {"keys": CustomerKeys(queues=allowing("sns"))},
            "'s3', and it delivers into the queues of 'refunds'; add a statement",
        ),
        (
            replace(LINE, secrets=("printer_key",)),
            {"network": replace(NETWORK, endpoints=("dynamodb", "sns", "sqs"))},
            "network: its endpoints lack 'secretsmanager', which consumer 'refunds' needs; add",
        ),
        (
            replace(LINE, publishes=("seat.freed",)),
            {"network": replace(NETWORK, endpoints=("dynamodb", "sqs"))},
            "network: its endpoints lack 'sns', which the outbox relay needs; add the endpoint "
            "com.amazonaws.<region>.sns to the VPC and name it in endpoints=",
        ),
        (
            replace(LINE, starts=(StateMachineProps("ship", MACHINE),)),
            {"network": replace(NETWORK, endpoints=("dynamodb", "sns", "sqs"))},
            "network: its endpoints lack 'states', which consumer 'refunds' needs; add",
        ),
        (
            LINE,
            {"existing_tables": {"halls": TABLE}},
            "existing_tables has 'halls', and no line has this table; take it out",
        ),
        (
            replace(LINE, publishes=("seat.freed",)),
            {"existing_tables": {"dedup-records": TABLE}},
            "existing_tables['dedup-records'] has no stream, which the outbox relay reads; enable",
        ),
        (
            LINE,
            {"existing_queues": {"refund": QUEUE}},
            "existing_queues has 'refund', and no consumer has this name; take it out",
        ),
        (
            replace(LINE, events=("seat.taken",)),
            {"existing_queues": {"refunds": QUEUE}},
            "and it takes events of other consumers, which no topic delivers into an existing",
        ),
    ],
)
def test_an_option_that_the_consumers_cannot_use_is_a_fault(
    line: ConsumerProps, options: dict[str, Any], fault: str
) -> None:
    config: DeploymentConfig = replace(DeploymentConfig(), **options)
    [found] = unfit_option_faults(config, [line])
    assert fault in found


REPLICAS = GlobalTables(regions=("us-east-1", "eu-west-1"), accept_split_commits=True)
BARE = DeploymentConfig(standby=True, global_tables=REPLICAS)
STANDBY = replace(BARE, existing_tables={"seats": TABLE})
ON_ITEMS = replace(LINE, dedup=Dedup.ITEM)
HOOKS = WebhookProps(endpoints=(Endpoint("github", GITHUB, types=()),))


@pytest.mark.parametrize(
    ("config", "line", "missing"),
    [
        (STANDBY, LINE, ["dedup-records"]),
        (BARE, LINE, ["dedup-records", "seats"]),
        (BARE, ON_ITEMS, ["seats"]),
        (STANDBY, ON_ITEMS, []),
        (BARE, HOOKS, ["dedup-records"]),
    ],
)
@pytest.mark.parametrize("standby", [True, False])
def test_only_the_first_region_makes_tables(
    config: DeploymentConfig, line: Line, missing: list[str], *, standby: bool
) -> None:
    config = replace(config, standby=standby)
    for region in ("eu-west-1", None):
        faults = unfit_option_faults(config, [line], region)
        assert [re.findall(r"existing_tables\['(.+)'\]", f) for f in faults] == [
            [name] for name in missing
        ]
    assert unfit_option_faults(config, [line], "us-east-1") == []


AMERICA = ("us-east-1", "us-east-2", "us-west-2")
ALONE = replace(ON_ITEMS, group_size=1)
DESK = CommandProps("desk", tables=LINE.tables, routes={"POST /seats": "take"})


@pytest.mark.parametrize(
    ("tables", "line", "fault"),
    [
        # Each combination of docs/regions.md that its table calls impossible, or not without loss.
        ("strong", LINE, "consumer 'refunds' commits in transactions, which strongly consistent"),
        ("strong", ON_ITEMS, "give a consumer dedup=Dedup.ITEM and group_size=1, or the tables"),
        ("strong", HOOKS, "webhook ingress 'webhooks' commits in transactions"),
        ("strong", DESK, "commands 'desk' commits in transactions"),
        ("strong", ALONE, None),
        ("eventual", LINE, "or accept it with GlobalTables(accept_split_commits=True)"),
        ("eventual", HOOKS, "its dedup record and its changes are replicated apart"),
        ("eventual", DESK, "its dedup record and its changes are replicated apart"),
        ("eventual", ON_ITEMS, None),
        ("eventual", ALONE, None),
    ],
)
def test_a_commit_that_replicas_refuse_or_split_is_a_fault(
    tables: str, line: Line, fault: str | None
) -> None:
    regions = GlobalTables(regions=AMERICA, consistency=tables)
    config = DeploymentConfig(global_tables=regions)
    found = unfit_option_faults(config, [line], "us-east-1")
    assert len(found) == (fault is not None)
    assert all(fault in each for each in found if fault)
    assert not fault or explained_by("regions") in found[0]


def test_one_message_a_commit_is_also_the_option_of_a_deployment() -> None:
    strong = GlobalTables(regions=AMERICA, consistency="strong")
    config = DeploymentConfig(global_tables=strong, group_commit=False)
    assert unfit_option_faults(config, [ON_ITEMS], "us-east-1") == []


def test_a_standby_says_what_its_tables_are() -> None:
    config = replace(STANDBY, global_tables=None)
    [fault] = unfit_option_faults(config, [ON_ITEMS])
    assert "give global_tables=GlobalTables(regions=…, consistency=…) as in the other" in fault
    assert unfit_option_faults(replace(config, local=True), [ON_ITEMS]) == []


def test_replicas_need_a_multi_region_key() -> None:
    config = DeploymentConfig(global_tables=TWO, keys=CustomerKeys(tables=KEY))
    [fault] = deployment_faults(config)
    assert "give a multi-Region key (key/mrk-…) with a replica in each Region" in fault
    everywhere = CustomerKey(f"arn:aws:kms:eu-west-1:111122223333:key/mrk-{'0' * 32}")
    assert deployment_faults(replace(config, keys=CustomerKeys(tables=everywhere))) == []


def test_the_region_of_a_stage_has_a_replica() -> None:
    [fault] = unfit_option_faults(STANDBY, [ON_ITEMS], "us-west-2")
    assert fault == "global_tables has no replica in us-west-2, the Region of the stage; add it"


def test_without_a_relay_neither_sns_nor_a_stream_is_needed() -> None:
    network = replace(NETWORK, endpoints=("dynamodb", "sqs"))
    config = DeploymentConfig(network=network, existing_tables={"dedup-records": TABLE})
    assert unfit_option_faults(config, [LINE]) == []


def test_a_nat_gateway_reaches_every_service() -> None:
    config = DeploymentConfig(network=replace(NETWORK, endpoints=None))
    assert unfit_option_faults(config, [replace(LINE, secrets=("printer_key",))]) == []


@pytest.mark.parametrize(
    ("stages", "fault"),
    [
        ([replace(TEST, account="12")], "stage 'test': account='12'; give a text of 12 digits"),
        ([replace(TEST, region="Ireland")], "stage 'test': region='Ireland'; give a region"),
        (
            [TEST, replace(TEST, name="dev")],
            "2 stages have the service 'theatre-test'; give each its own: stacks and deployed",
        ),
        (
            [TEST, replace(TEST, config=replace(PLAIN, service="other"))],
            "2 stages have the name 'test'; give each its own",
        ),
        (
            [replace(TEST, config=replace(PLAIN, layers=(LAYER,)))],
            "stage 'test': layers[0] is in eu-west-1, and the stage in us-east-1; give the one of",
        ),
    ],
)
def test_a_malformed_stage_is_a_fault_with_a_remedy(stages: list[Stage], fault: str) -> None:
    [found] = stage_faults(stages)
    assert found.startswith(fault)
