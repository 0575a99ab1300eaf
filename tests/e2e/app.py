"""The shop's app with more consumers: one dies on demand, one writes outside transactions.

A third one is FIFO, a fourth starts a state machine, which its test makes.
"""

import sys
from pathlib import Path

import aws_cdk as cdk

from once.cdk import ConsumerProps, StateMachineProps, SynthError, TableProps
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

if __name__ == "__main__":
    app = cdk.App()
    try:
        assemble(app, (*CONSUMERS, PROBE, ROGUE, LEDGER, LAUNCH))
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
