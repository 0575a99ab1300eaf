"""The smallest service, as it grows and shrinks: an event that it does not take is kept."""

import json
from pathlib import Path
from typing import Any

from demo.quiescence import wait_until
from emulator.cdk_cli import bootstrap, deploy
from emulator.embedded_aws import EmbeddedAws
from once.cdk import ConsumerProps, TableProps, assemble
from once.names import UNROUTED
from once.ops.aws.clients import depth
from once.ops.aws.deployment import Deployment
from once.ops.errors import ExitCode
from once.testing import cloud_event
from tests.e2e.deployment import REST_SECONDS, once, synthesized
from tests.stacks.booking_office import lines_in, registry_in

SERVICE = "smallest"
BOX = ConsumerProps(
    "box", external=("box.asked",), tables=(TableProps("box", "id"),), aws_services=()
)
HANDLER = """from msgspec import Struct

from once import Consumer

consumer = Consumer({name!r})


class Asked(Struct):
    id: str


@consumer.handles("box.asked", Asked)
def handle(event, tx): ...


lambda_handler = consumer.lambda_handler
"""
AUDIT = ConsumerProps("audit", external=("box.asked",), aws_services=())


def deployed(aws: EmbeddedAws, folder: Path, *lines: ConsumerProps) -> Deployment:
    placed = lines_in(folder / "functions", lines)
    for line in placed:
        (Path(str(line.folder)) / "handler.py").write_text(HANDLER.format(name=line.name))
    registry = registry_in(folder, placed)
    assembly = synthesized(aws, folder.name, lambda app: assemble(app, registry), service=SERVICE)
    stacks = deploy(aws, app=assembly, outputs=folder / "outputs.json")
    values = {name: value for stack in stacks.values() for name, value in stack.items()}
    return Deployment.of(SERVICE, values)


def send_unknown(aws: EmbeddedAws, parts: Deployment, name: str) -> None:
    """Publish an event of a type that no line declares, without the attribute of its type."""
    topic = str(parts.ingress_topic_arn)
    event = cloud_event("box.lost", {"id": name}, id=name)
    aws.client("sns").publish(TopicArn=topic, Message=json.dumps(event))


def reasons(aws: EmbeddedAws) -> list[tuple[str, str]]:
    listed: Any = json.loads(once(aws, "dlq", "list", "--service", SERVICE, "--json"))
    return sorted((each["consumer"], each["reason"]) for each in listed["letters"])


def test_s3_an_unknown_type_is_a_dead_letter_of_a_sole_consumer_and_unrouted_beside_others(
    aws: EmbeddedAws, tmp_path: Path
) -> None:
    bootstrap(aws)
    sqs = aws.client("sqs")
    parts = deployed(aws, tmp_path / "one", BOX)
    assert (parts.relay_function_name, parts.unrouted_queue_url) == (None, None)
    status = json.loads(once(aws, "status", "--service", SERVICE, "--json"))
    assert [each["consumer"] for each in status["queues"]] == ["box"]
    send_unknown(aws, parts, "first")
    letters = parts.consumer("box").dead_letter_url
    wait_until("a dead letter", lambda: depth(sqs, letters).total == 1, timeout=REST_SECONDS)
    parts = deployed(aws, tmp_path / "two", BOX, AUDIT)
    assert parts.consumer("box").dead_letter_url == letters  # with its letter
    send_unknown(aws, parts, "second")
    kept = str(parts.unrouted_queue_url)
    wait_until("an unrouted event", lambda: depth(sqs, kept).total == 1, timeout=REST_SECONDS)
    assert reasons(aws) == [("box", "unknown-type"), (UNROUTED, "no-type")]
    parts = deployed(aws, tmp_path / "again", BOX)
    send_unknown(aws, parts, "third")
    wait_until("a dead letter", lambda: depth(sqs, letters).total == 2, timeout=REST_SECONDS)
    once(aws, "status", "--service", SERVICE, code=ExitCode.STUCK)
    assert reasons(aws) == [("box", "unknown-type")] * 2
