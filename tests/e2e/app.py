"""The shop's app with more consumers: faults, order, workflows, other services, large data."""

from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk

from once.cdk import (
    GITHUB,
    ConsumerProps,
    Dedup,
    Endpoint,
    Source,
    StateMachineProps,
    TableProps,
    run_app,
)
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from stacks.webhooks import WEBHOOKS

FUNCTIONS = Path(__file__).resolve().parent / "functions"
CONTROLS = TableProps("controls", "id")
COUNTERS = TableProps("counters", "id")

PROBE = ConsumerProps(
    "probe",
    external=("probe.asked",),
    tables=(CONTROLS, COUNTERS),
    publishes=("probe.counted",),  # which no consumer takes
    fair_by="counter",
    folder=FUNCTIONS / "probe",
)
ROGUE = ConsumerProps(
    "rogue", external=("rogue.asked",), tables=(COUNTERS,), folder=FUNCTIONS / "rogue"
)
SCANS = TableProps("scans", "scan")
SCANNER = ConsumerProps(
    "scanner",
    external=("scan.asked",),
    tables=(SCANS,),
    publishes=("scan.done",),
    claim_check_mb=5,
    batch_size=2,
    folder=FUNCTIONS / "scanner",
)
ARCHIVE = ConsumerProps(
    "archive",
    events=("scan.done",),
    external=("scan.sent",),
    tables=(SCANS,),
    claim_check_mb=5,
    batch_size=2,
    folder=FUNCTIONS / "archive",
)
LEDGER = ConsumerProps(
    "ledger",
    external=("account.entered",),
    tables=(CONTROLS, COUNTERS),
    fifo=True,
    ordered_by="account",
    blocks_group=True,  # however long the embedded AWS takes, nothing is dead-lettered
    folder=FUNCTIONS / "ledger",
)
MACHINE = f"arn:aws:states:us-east-1:{cdk.Aws.ACCOUNT_ID}:stateMachine:launch"
LAUNCH = ConsumerProps(
    "launch",
    external=("launch.asked",),
    tables=(COUNTERS,),
    effect_timeout_seconds=4,
    batch_size=1,
    starts=(StateMachineProps("count", MACHINE),),
    folder=FUNCTIONS / "launch",
)

INSTANCES = ConsumerProps(
    "instances",
    external=("Instance Changed",),
    tables=(COUNTERS,),
    source=Source.event_bridge("test.instances"),
    folder=FUNCTIONS / "instances",
)
UPLOADS = ConsumerProps(
    "uploads",
    external=("ObjectCreated",),
    tables=(COUNTERS,),
    source=Source.s3("once-uploads"),
    folder=FUNCTIONS / "uploads",
)
NIGHTLY = ConsumerProps(
    "nightly",
    external=("night.fell",),
    tables=(COUNTERS,),
    publishes=("document.due",),
    source=Source.schedule("cron(0 3 * * ? *)"),
    folder=FUNCTIONS / "nightly",
)
DOCUMENTS = ConsumerProps(
    "documents", events=("document.due",), tables=(COUNTERS,), folder=FUNCTIONS / "documents"
)

ACCOUNTS = TableProps("accounts", "account")
BALANCES = ConsumerProps(
    "balances",
    external=("account.credited",),
    tables=(ACCOUNTS,),
    dedup=Dedup.ITEM,
    folder=FUNCTIONS / "balances",
)
HOLDERS = ConsumerProps(
    "holders",
    external=("account.renamed",),
    tables=(ACCOUNTS,),
    group_size=1,
    dedup=Dedup.ITEM,
    folder=FUNCTIONS / "holders",
)

GITHUB_PUSH = Endpoint("github", GITHUB, types=("push",))
INGRESS = replace(
    WEBHOOKS, endpoints=(*WEBHOOKS.endpoints, GITHUB_PUSH), folder=FUNCTIONS / "webhooks"
)
PUSHES = ConsumerProps(
    "pushes",
    events=GITHUB_PUSH.event_types,
    tables=(COUNTERS,),
    claim_check_mb=5,
    batch_size=2,
    folder=FUNCTIONS / "pushes",
)
NO_FOLDERS = FUNCTIONS / "none"
"""In place of `functions/`: the folder of the shop's ingress is not used here."""

if __name__ == "__main__":
    sources = (INSTANCES, UPLOADS, NIGHTLY, DOCUMENTS, SCANNER, ARCHIVE, PUSHES)
    more = (PROBE, ROGUE, LEDGER, LAUNCH, BALANCES, HOLDERS, *sources)
    registry = replace(REGISTRY, consumers=(*CONSUMERS, *more), webhooks=INGRESS).located()
    run_app(replace(registry, functions=NO_FOLDERS))
