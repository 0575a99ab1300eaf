"""A service that changes under traffic: new code, a rename, a removal, an endpoint, its tables."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from threading import Event, Thread
from typing import Any

import pytest

from demo.quiescence import wait_until, wait_until_empty
from emulator.cdk_cli import bootstrap, deploy
from emulator.embedded_aws import EmbeddedAws
from once.cdk import ExistingTable
from once.cdk.deployment_options import DEDUP
from once.ops.aws.clients import depth
from once.ops.aws.deployment import Deployment
from once.testing import cloud_event
from tests.e2e.app import MADE, REMADE, build_change
from tests.e2e.deployment import REST_SECONDS, once, synthesized

SERVICE = "change"
PERIOD_SECONDS = 0.2


class Changing:
    """A deployment that changes, and the events that were published to it."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.aws, self.sqs, self.sns = aws, aws.client("sqs"), aws.client("sns")
        self.dynamodb = aws.client("dynamodb")
        self.sent: list[str] = []
        self._unrouted: list[Any] = []
        bootstrap(aws)
        self.deploy("before", release="old")
        self.tables = self.parts.tables

    def deploy(
        self,
        phase: str,
        *,
        release: str = "new",
        restored: Mapping[str, ExistingTable] | None = None,
    ) -> None:
        name = f"{phase}-{'restored' if restored else release}"
        assembly = synthesized(
            self.aws,
            name,
            lambda app: build_change(app, phase, restored or {}),
            service=SERVICE,
            release=release,
        )
        stacks = deploy(self.aws, app=assembly, outputs=self.aws.state_dir / f"{name}.json")
        values = {name: value for stack in stacks.values() for name, value in stack.items()}
        self.parts = Deployment.of(SERVICE, values)

    def restore(self) -> dict[str, ExistingTable]:
        """Restore every table under a new name; return each as `existing_tables` takes it."""
        found = {}
        for name, table in {**self.parts.tables, DEDUP: self.parts.dedup_table}.items():
            restored = self.dynamodb.restore_table_to_point_in_time(
                SourceTableName=table,
                TargetTableName=f"restored-{name}",
                UseLatestRestorableTime=True,
            )
            found[name] = {"arn": restored["TableDescription"]["TableArn"]}
        stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        changed = self.dynamodb.update_table(
            TableName=f"restored-{DEDUP}", StreamSpecification=stream
        )
        found[DEDUP]["stream_arn"] = changed["TableDescription"]["LatestStreamArn"]
        return {name: ExistingTable(**values) for name, values in found.items()}

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Publish an event to each consumer five times a second, every second one twice."""
        over = Event()
        thread = Thread(target=self._publish_until, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _publish_until(self, over: Event) -> None:
        for number in count():
            if over.wait(PERIOD_SECONDS):
                return
            name = f"n-{number}"
            self.publish(*events(name))
            self.sent.append(name)
            if number % 2:
                self.publish(*events(self.sent[number // 2]))

    def publish(self, *messages: dict[str, Any]) -> None:
        for event in messages:
            attribute = {"type": {"DataType": "String", "StringValue": event["type"]}}
            topic = self.parts.ingress_topic_arn
            self.sns.publish(TopicArn=topic, Message=json.dumps(event), MessageAttributes=attribute)

    def bury(self, consumer: str, name: str) -> None:
        """Put an event into a dead-letter queue, as SQS moves it there."""
        url = self.parts.consumer(consumer).dead_letter_url
        self.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(events(name)[0]))

    def control(self, counter: str, **values: str) -> None:
        """Tell `probe` what to do when it counts."""
        item = {name: {"S": value} for name, value in {"id": counter, **values}.items()}
        self.dynamodb.put_item(TableName=self.parts.table("controls"), Item=item)

    def drain(self, *consumers: str) -> None:
        """Wait until the queues of consumers, those for dead letters included, are empty."""
        parts = [self.parts.consumer(name) for name in consumers]
        urls = [url for part in parts for url in (*part.queue_urls, part.dead_letter_url)]
        wait_until_empty(self.sqs, [*urls, str(self.parts.sweep_queue_url)], timeout=REST_SECONDS)

    def items(self, table: str) -> list[dict[str, str]]:
        """Return the items of a table, with values as text."""
        name = {**self.tables, **self.parts.tables}[table]
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=name, ConsistentRead=True)
        rows = [item for page in pages for item in page["Items"]]
        return [{name: next(iter(v.values())) for name, v in row.items()} for row in rows]

    def counted(self) -> Counter[str]:
        """Return how often `probe`, or `gauge`, has counted each event."""
        return Counter({item["id"]: int(item["amount"]) for item in self.items("counters")})

    def codes(self, event_type: str) -> set[str]:
        """Return which code has processed ticks of a type."""
        ticks = (item for item in self.items("ticks") if item["id"].startswith(event_type))
        return {item["seen_code"] for item in ticks}

    def unrouted(self, event_type: str) -> list[Any]:
        """Return the events of a type that have reached no consumer, and are kept."""
        queue = {"QueueUrl": self.parts.unrouted_queue_url}
        while found := self.sqs.receive_message(**queue, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                self.sqs.delete_message(**queue, ReceiptHandle=message["ReceiptHandle"])
                self._unrouted.append(json.loads(message["Body"]))
        return [event for event in self._unrouted if event.get("type") == event_type]

    def dead_letters(self) -> int:
        urls = self.sqs.list_queues(QueueNamePrefix=f"{SERVICE}-").get("QueueUrls", [])
        return sum(depth(self.sqs, url).total for url in urls if "unrouted" not in url)


def tick(event_type: str, name: str) -> dict[str, Any]:
    name = f"{event_type} {name}"
    return cloud_event(event_type, {"tick": name}, event_id=name)


def events(name: str) -> list[dict[str, Any]]:
    return [
        cloud_event("probe.asked", {"counter": name}, event_id=name),
        cloud_event("order.placed", {"order_id": name}, event_id=name),
        tick(MADE, name),
        tick(REMADE, name),
    ]


@dataclass
class Changed:
    """A service after all phases of its change.

    Attributes:
        due: the events that were published while both lines of a rename were there.
    """

    service: Changing
    due: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def changed(aws: EmbeddedAws) -> Changed:
    service = Changing(aws)
    found = Changed(service)
    service.bury("probe", "dead")
    service.control("later", waits="20")  # due about when both lines of the rename are there
    service.publish(events("later")[0])

    def codes(event_type: str, code: str) -> None:
        wait_until(
            f"{event_type} is processed by {code} code",
            lambda: code in service.codes(event_type),
            timeout=REST_SECONDS,
        )

    with service.traffic():
        codes(MADE, "old")
        service.deploy("renaming")
        found.due = {*service.sent}
        codes(MADE, "new")
        codes(REMADE, "new")
        service.deploy("retiring")
        redrive = ("dlq", "redrive", "--consumer", "probe", "--yes")
        once(aws, *redrive, "--service", SERVICE)
        service.drain("probe", "loyalty")
        service.deploy("after")
    service.drain("gauge", "ticks")
    return found


def test_h1_a_rename_and_a_removal_lose_and_double_nothing(changed: Changed) -> None:
    service = changed.service
    assert service.dead_letters() == 0
    assert service.counted() == Counter([*service.sent, "dead", "later"])
    assert [i["due_count"] for i in service.items("counters") if "due_count" in i] == ["1"]
    points = {item["order_id"]: item["points"] for item in service.items("points")}
    assert changed.due
    assert changed.due <= points.keys()
    assert {*points.values()} == {"1"}


def test_a_deployment_under_traffic_loses_doubles_and_dead_letters_nothing(
    changed: Changed,
) -> None:
    service = changed.service
    items = {item["id"]: item for item in service.items("ticks")}
    assert service.dead_letters() == 0
    assert {f"{MADE} {name}" for name in service.sent} <= items.keys()
    assert {item["amount"] for item in items.values()} == {"1"}
    # Code and variables are those of one version.
    assert [i for i in items.values() if i["seen_code"] != i["seen_release"]] == []
    # Before the new type was subscribed, its events were kept.
    kept = {event["id"] for event in service.unrouted(REMADE)}
    assert {f"{REMADE} {name}" for name in service.sent} <= items.keys() | kept
    assert service.codes(REMADE) == {"new"}


def test_restored_tables_take_the_place_of_the_old_ones(changed: Changed) -> None:
    service = changed.service
    known = service.counted()
    service.deploy("after", restored=service.restore())
    assert service.parts.dedup_table == f"restored-{DEDUP}"
    service.control("after", publishes="yes")
    for name in (service.sent[0], "after"):
        service.publish(events(name)[0])
    service.drain("gauge")
    assert service.counted() == known + Counter(["after"])
    wait_until(
        "the relay publishes from the restored table",
        lambda: any(e["data"]["counter"] == "after" for e in service.unrouted("probe.counted")),
        timeout=REST_SECONDS,
    )
