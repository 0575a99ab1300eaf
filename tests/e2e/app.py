"""The project's own app and two consumers more: one dies on demand, one breaks the rules."""

import sys
from pathlib import Path

import aws_cdk as cdk

from once.cdk.errors import SynthError
from once.cdk.props import Consumer, Table
from stacks.assembly import assemble, synthesize
from stacks.consumers import CONSUMERS

FUNCTIONS = Path(__file__).resolve().parent / "functions"
CONTROLS = Table("controls", "id")
COUNTERS = Table("counters", "id")

PROBE = Consumer(
    "probe",
    external=("probe.asked",),
    tables=(CONTROLS, COUNTERS),
    publishes=("probe.counted",),  # which no consumer takes
    folder=FUNCTIONS / "probe",
)
ROGUE = Consumer("rogue", external=("rogue.asked",), tables=(COUNTERS,), folder=FUNCTIONS / "rogue")

if __name__ == "__main__":
    app = cdk.App()
    try:
        assemble(app, (*CONSUMERS, PROBE, ROGUE))
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
