"""A deployment under traffic, and an old and a new version side by side on one queue."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from demo.quiescence import wait_until, wait_until_empty
from emulator.cdk_cli import bootstrap, deploy
from emulator.embedded_aws import EmbeddedAws
from once.testing import cloud_event
from tests.e2e.ticking import Ticking, ticking

REST_SECONDS = 120.0
MADE, REMADE = "tick.made", "tick.remade"


@dataclass(frozen=True)
class Stack:
    """The deployed stack of `rollout_app`: its outputs, and the number of a kept old version."""

    aws: EmbeddedAws
    outputs: dict[str, str]
    old_version: str

    def items(self) -> dict[str, dict[str, str]]:
        """Return the items of the business table by their ids, with values as text."""
        pages = self.aws.client("dynamodb").get_paginator("scan")
        found = pages.paginate(TableName=self.outputs["Table"], ConsistentRead=True)
        rows = [item for page in found for item in page["Items"]]
        return {row["id"]["S"]: {k: next(iter(v.values())) for k, v in row.items()} for row in rows}

    def codes(self, event_type: str) -> set[str]:
        """Return which code has processed events of a type."""
        return {i["seen_code"] for tick, i in self.items().items() if tick.startswith(event_type)}

    def rest(self) -> None:
        """Wait until every queue that has a function is empty."""
        urls = [self.outputs[name] for name in ("Queue", "Isolation", "Sweep")]
        wait_until_empty(self.aws.client("sqs"), urls, timeout=REST_SECONDS)

    def take(self, queue: str) -> list[Any]:
        """Take every message out of a queue, and return the events."""
        sqs, url = self.aws.client("sqs"), self.outputs[queue]
        found: list[Any] = []
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            found += [json.loads(message["Body"]) for message in messages]
            for message in messages:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found


def release(aws: EmbeddedAws, name: str) -> dict[str, str]:
    """Deploy the stack with one version, and return its outputs."""
    return deploy(
        aws,
        app="python3 -m tests.e2e.rollout_app",
        context={"service": "rollout", "release": name},
        outputs=aws.state_dir / "rollout.json",
    )["rollout"]


@pytest.fixture(scope="module")
def stack(aws: EmbeddedAws) -> Stack:
    """The stack with the old version."""
    bootstrap(aws)
    outputs, client = release(aws, "old"), aws.client("lambda")
    # Deployments delete the versions that they made. This one they do not know.
    name = outputs["Function"]
    client.update_function_configuration(FunctionName=name, Description="the old version")
    return Stack(aws, outputs, client.publish_version(FunctionName=name)["Version"])


@contextmanager
def reading_too(stack: Stack) -> Iterator[None]:
    """Let the old version read the queue beside the deployed one."""
    client = stack.aws.client("lambda")
    mapping = client.create_event_source_mapping(
        EventSourceArn=stack.outputs["QueueArn"],
        FunctionName=f"{stack.outputs['Function']}:{stack.old_version}",
        BatchSize=10,
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )
    yield
    client.delete_event_source_mapping(UUID=mapping["UUID"])


@pytest.fixture(scope="module")
def ticks(stack: Stack) -> Ticking:
    """The events that were published while the new version was deployed."""
    with ticking(stack.aws, stack.outputs["IngressTopicArn"], MADE, REMADE) as ticks:
        wait_until("old code", lambda: stack.codes(MADE) == {"old"}, timeout=REST_SECONDS)
        release(stack.aws, "new")
        wait_until("new code", lambda: "new" in stack.codes(MADE), timeout=REST_SECONDS)
        wait_until("new type", lambda: bool(stack.codes(REMADE)), timeout=REST_SECONDS)
    stack.rest()
    return ticks


def test_a_deployment_under_traffic_loses_doubles_and_dead_letters_nothing(
    stack: Stack, ticks: Ticking
) -> None:
    items, unrouted = stack.items(), {event["id"] for event in stack.take("Unrouted")}
    assert_once(stack, ticks.made[MADE])
    # Before the new type was subscribed, its events were kept.
    assert [t for t in ticks.made[REMADE] if t not in items and t not in unrouted] == []
    assert stack.codes(REMADE) == {"new"}


@pytest.mark.usefixtures("ticks")
def test_an_old_and_a_new_version_share_a_queue(stack: Stack) -> None:
    made: list[list[str]] = []

    def served_by_both() -> bool:
        made.append([f"shared-{len(made)}-{number}" for number in range(10)])
        send(stack, made[-1])
        return stack.codes("shared") == {"old", "new"}

    with reading_too(stack):
        wait_until("both versions", served_by_both, timeout=REST_SECONDS)
        for ticks in made:  # the second copy of an event may reach the other version
            send(stack, ticks)
        stack.rest()
    assert_once(stack, [tick for ticks in made for tick in ticks])


def send(stack: Stack, ticks: list[str]) -> None:
    entries = [
        {"Id": tick, "MessageBody": json.dumps(cloud_event(MADE, {"tick": tick}, event_id=tick))}
        for tick in ticks
    ]
    url = stack.outputs["Queue"]
    answer = stack.aws.client("sqs").send_message_batch(QueueUrl=url, Entries=entries)
    assert not answer.get("Failed"), answer


def assert_once(stack: Stack, ticks: list[str]) -> None:
    """Check that each tick was counted once, by code and variables of one version."""
    items = stack.items()
    assert stack.take("DeadLetters") == []
    assert [tick for tick in ticks if tick not in items] == []
    assert {item["amount"] for item in items.values()} == {"1"}
    mixed = [item for item in items.values() if item["seen_code"] != item["seen_release"]]
    assert mixed == []
