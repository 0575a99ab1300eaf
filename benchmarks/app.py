"""The shop's CDK app with the contenders as more consumers: one package under several names."""

import sys
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from benchmarks.deployed.names import NAMES, POWERTOOLS
from once.cdk import ConsumerProps, IdempotentConsumer, SynthError
from stacks.assembly import assemble, synthesize
from stacks.consumers import CONSUMERS, ORDERS

SOURCE = Path(__file__).resolve().parent / "deployed"


def _consumer(name: str) -> ConsumerProps:
    return ConsumerProps(name, external=("order.placed",), tables=(ORDERS,), folder=SOURCE)


def _allow_plain_writes(tree: cdk.App) -> None:
    """Let Powertools write without a transaction, which the role of a consumer does not allow."""
    actions = [f"dynamodb:{name}Item" for name in ("Get", "Put", "Update", "Delete")]
    for part in tree.node.find_all():
        if isinstance(part, IdempotentConsumer) and part.node.id.lower() == POWERTOOLS:
            part.function.add_to_role_policy(iam.PolicyStatement(actions=actions, resources=["*"]))


if __name__ == "__main__":
    app = cdk.App()
    try:
        assemble(app, (*CONSUMERS, *map(_consumer, NAMES)))
        _allow_plain_writes(app)
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
