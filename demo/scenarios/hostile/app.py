"""The shop's CDK app with one more consumer, whose handler dies or hangs on request."""

import sys
from pathlib import Path

import aws_cdk as cdk

from once.cdk import ConsumerProps, SynthError, TableProps
from stacks.assembly import assemble, synthesize
from stacks.consumers import CONSUMERS

COUNTER = ConsumerProps(
    "counter",
    external=("counter.raised",),
    tables=(TableProps("counters", "id"),),
    timeout_seconds=6,
    folder=Path(__file__).resolve().parent / "counter",
)

if __name__ == "__main__":
    app = cdk.App()
    try:
        assemble(app, (*CONSUMERS, COUNTER))
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
