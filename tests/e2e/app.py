"""The shop's app with more consumers: faults on demand, and events of other services."""

import sys
from pathlib import Path

import aws_cdk as cdk

from once.cdk import ConsumerProps, Source, SynthError, TableProps
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

if __name__ == "__main__":
    app = cdk.App()
    try:
        assemble(app, (*CONSUMERS, PROBE, ROGUE, INSTANCES, UPLOADS, NIGHTLY, DOCUMENTS))
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
