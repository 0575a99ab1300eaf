"""The shop's app with more consumers.

One dies on demand, one writes outside transactions, and two exchange large data through S3.
"""

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
    folder=FUNCTIONS / "scanner",
)
ARCHIVE = ConsumerProps(
    "archive",
    events=("scan.done",),
    external=("scan.sent",),
    tables=(SCANS,),
    claim_check_mb=5,
    folder=FUNCTIONS / "archive",
)

if __name__ == "__main__":
    app = cdk.App()
    try:
        assemble(app, (*CONSUMERS, PROBE, ROGUE, SCANNER, ARCHIVE))
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
