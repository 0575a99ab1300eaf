"""The project's own app, and a consumer whose handler can be made to die or to hang."""

import sys
from pathlib import Path

import aws_cdk as cdk

from once.cdk import ConsumerProps, SynthError, TableProps
from stacks.assembly import assemble, synthesize
from stacks.consumers import CONSUMERS

VICTIM = ConsumerProps(
    "victim",
    external=("counter.raised",),
    tables=(TableProps("counters", "id"),),
    timeout_seconds=6,
    folder=Path(__file__).resolve().parent / "victim",
)

if __name__ == "__main__":
    app = cdk.App()
    try:
        assemble(app, (*CONSUMERS, VICTIM))
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
