"""How faults reach whoever synthesizes: all of them at once, as a text."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from once.cdk.errors import SynthError
from stacks.assembly import assemble, synthesize
from stacks.consumers import CONSUMERS
from stacks.folders import ROOT
from tests.stacks.cloud import new_app

STRAY = "a function reads a queue past IdempotentConsumer, without deduplication; make an"


def function_in(stack: cdk.Stack) -> lambda_.Function:
    return lambda_.Function(
        stack,
        "Function",
        runtime=lambda_.Runtime.PYTHON_3_12,
        handler="index.handler",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
    )


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
    assert assemble(app, lines) == []
    stack = cdk.Stack(app, "mine")
    queue = sqs.Queue(stack, "Queue")
    function_in(stack).add_event_source_mapping("Mapping", event_source_arn=queue.queue_arn)
    found = "\n".join(faults(app))
    for culprit in (
        "context log_level='LOUD'",
        "dedup_window_days=7",
        "consumer 'orders': batch_size=11",
        "consumer 'orders': max_concurrency=1",
        "consumer 'orders': it publishes 'payment.captured' into its own queue",
        "consumer 'payments': the parameter 'payment_api' has no value",
        "consumer 'stock': its line has no folder",
        "functions/inventory: its folder has no line",
        f"mine/Function/Mapping/Resource: {STRAY}",
    ):
        assert culprit in found


@pytest.mark.parametrize("arn", ["arn:aws:sqs:eu-west-1:111122223333:theirs", None])
def test_a_function_behind_somebody_elses_queue_is_refused(tmp_path: Path, arn: str | None) -> None:
    app = new_app(tmp_path / "out")
    assemble(app, CONSUMERS)
    stack = cdk.Stack(app, "mine")
    arn = arn or cdk.CfnParameter(stack, "QueueArn").value_as_string
    function_in(stack).add_event_source_mapping("Mapping", event_source_arn=arn)
    (fault,) = faults(app)
    assert fault.startswith(f"mine/Function/Mapping/Resource: {STRAY}")


def test_a_second_function_on_a_consumers_queue_is_refused(tmp_path: Path) -> None:
    app = new_app(tmp_path / "out")
    (service,) = assemble(app, CONSUMERS)
    queue = service.consumers[0].queue
    function = function_in(service)
    lambda_.CfnEventSourceMapping(
        service,
        "Mapping",
        function_name=function.function_name,
        event_source_arn=queue.queue_arn,
    )
    (fault,) = faults(app)
    assert fault.startswith(f"once-service/Mapping: {STRAY}")


def test_a_function_behind_a_stream_is_nobodys_business_here(tmp_path: Path) -> None:
    app = new_app(tmp_path / "out")
    assemble(app, CONSUMERS)
    stack = cdk.Stack(app, "mine")
    table = dynamodb.Table(
        stack,
        "Table",
        partition_key=dynamodb.Attribute(name="id", type=dynamodb.AttributeType.STRING),
        stream=dynamodb.StreamViewType.NEW_IMAGE,
    )
    function_in(stack).add_event_source_mapping(
        "Mapping",
        event_source_arn=table.table_stream_arn,
        starting_position=lambda_.StartingPosition.LATEST,
    )
    synthesize(app)


def test_other_errors_of_the_cdk_keep_their_trace(tmp_path: Path) -> None:
    app = new_app(tmp_path / "out")
    one, other = (cdk.Stack(app, name) for name in ("one", "other"))
    one.add_dependency(other)
    function = function_in(one)
    cdk.CfnOutput(other, "Output", value=function.function_name)
    with pytest.raises(RuntimeError, match="cyclic"):
        synthesize(app)


def test_the_app_ends_with_a_text_and_no_trace(tmp_path: Path) -> None:
    context = '{"dedup_window_days": 7, "local": "yes"}'
    env = {**os.environ, "CDK_CONTEXT_JSON": context, "CDK_OUTDIR": str(tmp_path / "out")}
    done = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Once cannot be synthesized:\n  - context local='yes': say true or false" in done.stderr
    assert "  - dedup_window_days=7: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_entry_is_short_and_calls_no_aws() -> None:
    source = (ROOT / "app.py").read_text()
    assert len(source.splitlines()) <= 25
    assert "boto" not in source
