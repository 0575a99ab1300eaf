"""Apps of the tests: the shop with more consumers, and a service in each phase of a change."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk

from once.cdk import (
    GITHUB,
    Auth,
    CommandProps,
    ConsumerProps,
    Dedup,
    DeploymentConfig,
    Endpoint,
    ExistingTable,
    Source,
    StateMachineProps,
    TableProps,
    assemble,
)
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from stacks.webhooks import WEBHOOKS
from tests.e2e.issuer import AUDIENCE

FUNCTIONS = Path(__file__).resolve().parent / "functions"
CONTROLS = TableProps("controls", "id")
COUNTERS = TableProps("counters", "id")
POINTS = TableProps("points", "order_id")
TICKS = TableProps("ticks", "id")


def line(name: str, folder: str = "", **values: object) -> ConsumerProps:
    """Return a consumer in a package without the SDK's models of services that it does not call."""
    place = FUNCTIONS / (folder or name)
    return ConsumerProps(name, folder=place, aws_services=(), **values)  # type: ignore[arg-type]


PROBE = line(
    "probe",
    events=("probe.due",),
    external=("probe.asked",),
    tables=(CONTROLS, COUNTERS),
    publishes=("probe.counted",),  # which no consumer takes
    publishes_later=("probe.due",),
    fair_by="counter",
)
MORTAL = line("mortal", external=("mortal.asked",), tables=(COUNTERS,))
GITHUB_PUSH = Endpoint("github", GITHUB, types=("push",))
SCANS = TableProps("scans", "scan")
SCANNER = line(
    "scanner",
    external=("scan.asked",),
    tables=(SCANS,),
    publishes=("scan.done",),
    claim_check_mb=5,
    batch_size=2,
)
ARCHIVE = line(
    "archive",
    events=("scan.done", *GITHUB_PUSH.event_types),
    external=("scan.sent",),
    tables=(SCANS,),
    claim_check_mb=5,
    batch_size=2,
)
LEDGER = line(
    "ledger",
    external=("account.entered",),
    tables=(CONTROLS, COUNTERS),
    fifo=True,
    ordered_by="account",
    blocks_group=True,  # however long the embedded AWS takes, nothing is dead-lettered
)
MACHINE = f"arn:aws:states:us-east-1:{cdk.Aws.ACCOUNT_ID}:stateMachine:launch"
LAUNCH = line(
    "launch",
    external=("launch.asked",),
    tables=(COUNTERS,),
    effect_timeout_seconds=4,
    batch_size=1,
    starts=(StateMachineProps("count", MACHINE),),
)

INSTANCES = line(
    "instances",
    external=("Instance Changed",),
    tables=(COUNTERS,),
    source=Source.event_bridge("test.instances"),
)
UPLOADS = line(
    "uploads", external=("ObjectCreated",), tables=(COUNTERS,), source=Source.s3("once-uploads")
)

ACCOUNTS = TableProps("accounts", "account")
BALANCES = line("balances", external=("account.credited",), tables=(ACCOUNTS,), dedup=Dedup.ITEM)
HOLDERS = line(
    "holders",
    external=("account.renamed",),
    tables=(ACCOUNTS,),
    group_size=1,
    dedup=Dedup.ITEM,
)

INGRESS = replace(
    WEBHOOKS, endpoints=(*WEBHOOKS.endpoints, GITHUB_PUSH), folder=FUNCTIONS / "webhooks"
)
MORE = (
    *(PROBE, MORTAL, LEDGER, LAUNCH, BALANCES, HOLDERS),
    *(INSTANCES, UPLOADS, SCANNER, ARCHIVE),
)
NO_FOLDERS = FUNCTIONS / "none"
"""In place of `functions/`: the folder of the shop's ingress is not used here."""


def build_service(app: cdk.App) -> None:
    """Add the shop with all further lines to an app; its context has the issuer of tokens."""
    desk = CommandProps(
        "desk",
        tables=(COUNTERS,),
        routes={"POST /orders": "count-visit"},
        auth=Auth.jwt(app.node.get_context("issuer"), AUDIENCE),
        folder=FUNCTIONS / "desk",
        aws_services=(),
    )
    registry = replace(
        REGISTRY,
        consumers=(*CONSUMERS, *MORE),
        commands=(*REGISTRY.commands, desk),
        webhooks=INGRESS,
    ).located()
    assemble(app, replace(registry, functions=NO_FOLDERS))


MADE, REMADE = "tick.made", "tick.remade"
GAUGE = replace(PROBE, name="gauge", renamed_from="probe")
LOYALTY = line("loyalty", external=("order.placed",), tables=(POINTS,))
OLD, NEW = (
    line("ticks", f"ticks_{each}", external=types, tables=(TICKS,), parameters=("release",))
    for each, types in (("old", (MADE,)), ("new", (MADE, REMADE)))
)
"""Two versions of one consumer. The context `release` tells a version's variables which it is."""

PHASES: Mapping[str, Sequence[ConsumerProps]] = {
    "before": (PROBE, LOYALTY, OLD),
    "renaming": (PROBE, GAUGE, LOYALTY, NEW),
    "retiring": (replace(PROBE, retiring=True), GAUGE, replace(LOYALTY, retiring=True), NEW),
    "after": (GAUGE, NEW),
}
"""`probe` is renamed, `loyalty` and the webhooks are removed, `ticks` gets new code."""

WITH_WEBHOOKS = ("before", "renaming")


def build_change(app: cdk.App, phase: str, restored: Mapping[str, ExistingTable]) -> None:
    """Add a service in one of its phases to an app, on tables that were restored from others."""
    webhooks = INGRESS if phase in WITH_WEBHOOKS else None
    lines = PHASES[phase]
    registry = replace(REGISTRY, consumers=lines, commands=(), webhooks=webhooks)
    registry = replace(registry, functions=NO_FOLDERS)
    assemble(app, registry, DeploymentConfig(existing_tables=restored))
