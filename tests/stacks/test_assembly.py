"""Checks of the shop's registry and tree: all faults reach the operator together, as text."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from once.cdk import ConsumerProps, Registry, SynthError, assemble, run_app, synthesize
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from tests.stacks.booking_office import lines_in, registry_in
from tests.stacks.cloud import new_app

STRAY = "a function reads a queue past IdempotentConsumer, without deduplication; make an"
GOOD = ConsumerProps("refunds", external=("order.refunded",))


def shop(*lines: ConsumerProps) -> Registry:
    return replace(REGISTRY, consumers=lines)


@pytest.fixture
def app(tmp_path: Path) -> cdk.App:
    return new_app(tmp_path / "out")


def map_source(stack: cdk.Stack, arn: str, **options: Any) -> None:
    function = lambda_.Function(
        stack,
        "Function",
        runtime=lambda_.Runtime.PYTHON_3_12,
        handler="index.handler",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
    )
    function.add_event_source_mapping("Mapping", event_source_arn=arn, **options)


def faults(app: cdk.App) -> tuple[str, ...]:
    with pytest.raises(SynthError) as caught:
        synthesize(app)
    return caught.value.faults


def test_faults_of_context_registry_folders_and_tree_come_together(tmp_path: Path) -> None:
    app = new_app(tmp_path / "out", dedup_window_days=7, log_level="LOUD", payment_api="")
    orders, inventory, *others = CONSUMERS
    lines = (
        replace(orders, max_concurrency=1, batch_size=11, publishes=("payment.captured",)),
        replace(inventory, name="stock"),
        *others,
    )
    assert assemble(app, shop(*lines)) == []
    stack = cdk.Stack(app, "mine")
    map_source(stack, sqs.Queue(stack, "Queue").queue_arn)
    found = "\n".join(faults(app))
    for mistake in (
        "context log_level='LOUD'",
        "dedup_window_days=7",
        "consumer 'orders': batch_size=11",
        "consumer 'orders': max_concurrency=1",
        "consumer 'orders': it publishes 'payment.captured' into its own queue",
        "consumer 'payments': the parameter 'payment_api' has no value",
        "consumer 'stock': its line has no folder; add functions/stock/handler.py, or delete",
        'functions/inventory: its folder has no line; add ConsumerProps("inventory", …) or',
        f"mine/Function/Mapping/Resource: {STRAY}",
    ):
        assert mistake in found


def test_a_function_on_a_queue_past_the_construct_is_refused_and_one_on_a_stream_is_not(
    app: cdk.App, tmp_path: Path
) -> None:
    lines = lines_in(tmp_path / "functions", (GOOD,))
    (service,) = assemble(app, registry_in(tmp_path, lines))
    given, unknown, stream = (cdk.Stack(app, name) for name in ("given", "unknown", "stream"))
    map_source(service, service.consumers[0].queue.queue_arn)
    map_source(given, "arn:aws:sqs:eu-west-1:111122223333:theirs")
    map_source(unknown, cdk.CfnParameter(unknown, "QueueArn").value_as_string)
    key = dynamodb.Attribute(name="id", type=dynamodb.AttributeType.STRING)
    image = dynamodb.StreamViewType.NEW_IMAGE
    table = dynamodb.Table(stream, "Table", partition_key=key, stream=image)
    latest = lambda_.StartingPosition.LATEST
    map_source(stream, str(table.table_stream_arn), starting_position=latest)
    found = sorted(faults(app))
    starts = [f"{each}/Function/Mapping/Resource: {STRAY}" for each in REFUSED]
    assert [fault[: len(start)] for fault, start in zip(found, starts, strict=True)] == starts


REFUSED = ("given", "once-service", "unknown")


def test_other_errors_of_the_cdk_keep_their_trace(app: cdk.App) -> None:
    one, other = (cdk.Stack(app, name) for name in ("one", "other"))
    one.add_dependency(other)
    cdk.CfnOutput(other, "Output", value=sqs.Queue(one, "Queue").queue_name)
    with pytest.raises(RuntimeError, match="cyclic"):
        synthesize(app)


def test_the_app_ends_with_a_text() -> None:
    with pytest.raises(SystemExit) as ended:
        run_app(REGISTRY, arguments=[])
    text = (
        "\nOnce cannot be synthesized:\n  - consumer 'inventory': the parameter 'payment_seconds'"
    )
    assert str(ended.value).startswith(text)
