"""One consumer in a stack of its own. The context `release` is its version: `old` or `new`."""

import sys
from pathlib import Path

import aws_cdk as cdk

from once.cdk import (
    ConsumerProps,
    DedupTable,
    DeploymentConfig,
    IdempotentConsumer,
    RetainedTable,
    SynthError,
    TableProps,
    Topics,
    UnroutedEvents,
)

FUNCTIONS = Path(__file__).resolve().parent / "functions"
TICKS = TableProps("ticks", "id")
TYPES = {"old": ("tick.made",), "new": ("tick.made", "tick.remade")}


def build(app: cdk.App) -> None:
    """Add the stack with the consumer in the version that the context names."""
    config = DeploymentConfig.from_context(app.node, ["release"])
    release = config.parameters["release"]
    props = ConsumerProps(
        "ticks",
        external=TYPES[release],
        tables=(TICKS,),
        parameters=("release",),
        folder=FUNCTIONS / f"ticks_{release}",
    )
    stack = cdk.Stack(app, "rollout")
    topics = Topics.make(stack)
    table = RetainedTable(stack, "ticks-table", TICKS)
    unrouted = UnroutedEvents(stack, topics=topics, consumers=[props], config=config)
    consumer = IdempotentConsumer(
        stack,
        props,
        dedup_table=DedupTable(stack, "dedup"),
        tables={"ticks": table},
        topics=topics,
        unrouted=unrouted.queue,
        config=config,
    )
    outputs = {
        "Table": table.table_name,
        "Queue": consumer.queue.queue_url,
        "QueueArn": consumer.queue.queue_arn,
        "Isolation": consumer.isolation.queue_url if consumer.isolation else "",
        "DeadLetters": consumer.dead_letters.queue_url,
        "Function": consumer.function.function_name,
        "Unrouted": unrouted.queue.queue_url,
        "Sweep": unrouted.sweep.queue_url,
    }
    for name, value in outputs.items():
        cdk.CfnOutput(stack, name, value=value)


if __name__ == "__main__":
    app = cdk.App()
    try:
        build(app)
        app.synth()
    except SynthError as error:
        sys.exit(f"\n{error}\n")
