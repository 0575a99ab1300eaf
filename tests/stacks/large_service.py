"""A service near the limits: 200 event types, 40 tables, stored settings, a network, two stacks."""

from collections.abc import Sequence
from pathlib import Path

from once.cdk import (
    ConsumerProps,
    DeploymentConfig,
    Rollout,
    StateMachineProps,
    TableProps,
    assemble,
)
from tests.stacks.booking_office import lines_in, registry_in
from tests.stacks.cloud import Json, new_app, without_packages
from tests.stacks.full_service import ACCOUNT, NETWORK, REGION

TYPES = tuple(f"press.printed.{number:03}" for number in range(160))
TABLES = tuple(TableProps(f"press_{number:02}", "id") for number in range(40))
MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:print"
PRESS = ConsumerProps(
    "press",
    external=("press.asked",),
    publishes=TYPES,
    tables=TABLES[:12],
    secrets=("printer_key",),
    starts=(StateMachineProps("print", MACHINE),),
    effect_timeout_seconds=4,
    effect_concurrency=10,
    claim_check_mb=1,
    memory_mb=1024,
    sends_email=True,
    snap_start=True,
    rollout=Rollout.CANARY_10_PERCENT_5_MINUTES,
)
READERS = tuple(
    ConsumerProps(
        name,
        events=TYPES[start : start + 80],
        tables=tables,
        claim_check_mb=1,
        memory_mb=1024,
    )
    for name, start, tables in (("east", 0, TABLES[12:26]), ("west", 80, TABLES[26:]))
)
WALK_IN = ConsumerProps("walk_in", external=tuple(f"walk.in.{number}" for number in range(39)))
LINES = (PRESS, *READERS, WALK_IN)
STORED = ("press", "east", "west")
"""The consumers whose settings have more than 4 KB."""
CONFIG = DeploymentConfig(
    service="press-room",
    email_sender="office@theatre.de",
    network=NETWORK,
    python_runtime="3.13",
    consumers_per_stack=3,
)


def large_service(folder: Path, lines: Sequence[ConsumerProps] = LINES) -> dict[str, Json]:
    """Return the templates by stack, in the order in which they are deployed."""
    registry = registry_in(folder, lines_in(folder / "functions", lines))
    with without_packages():
        app = new_app(folder / "out", service=None, email_sender=None)
        assemble(app, registry, CONFIG)
        return {each.stack_name: each.template for each in app.synth().stacks}
