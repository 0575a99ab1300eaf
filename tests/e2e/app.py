"""The shop's app with more consumers: one dies, one writes outside transactions, one is FIFO."""

import sys
from pathlib import Path

import aws_cdk as cdk

from once.cdk import ConsumerProps, SynthError, TableProps
from stacks.assembly import assemble, synthesize
from stacks.consumers import CONSUMERS

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
LEDGER = ConsumerProps(
    "ledger",
    external=("account.entered",),
    tables=(CONTROLS, COUNTERS),
    fifo=True,
    ordered_by="account",
    blocks_group=True,  # however long the embedded AWS takes, nothing is dead-lettered
    folder=FUNCTIONS / "ledger",
)

if __name__ == "__main__":
    app = cdk.App()
    try:
        assemble(app, (*CONSUMERS, PROBE, ROGUE, LEDGER))
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
