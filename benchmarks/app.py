"""The shop's CDK app with three more consumers: one package under three names."""

import sys
from pathlib import Path

import aws_cdk as cdk

from benchmarks.deployed.names import NAMES
from once.cdk import ConsumerProps, SynthError
from stacks.assembly import assemble, synthesize
from stacks.consumers import CONSUMERS, ORDERS

SOURCE = Path(__file__).resolve().parent / "deployed"


def _consumer(name: str) -> ConsumerProps:
    return ConsumerProps(name, external=("order.placed",), tables=(ORDERS,), folder=SOURCE)


if __name__ == "__main__":
    app = cdk.App()
    try:
        assemble(app, (*CONSUMERS, *map(_consumer, NAMES)))
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
