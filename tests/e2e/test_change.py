"""Steps of the runbook: a consumer is renamed or removed, an endpoint removed, tables restored."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event, Thread
from typing import Any

import pytest

from demo.quiescence import wait_until, wait_until_empty
from emulator.cdk_cli import bootstrap, deploy
from emulator.embedded_aws import ROOT, EmbeddedAws
from once.cdk.deployment_options import DEDUP
from once.ops.aws.clients import depth
from once.ops.aws.deployment import Deployment
from once.testing import cloud_event

SERVICE = "change"
PERIOD_SECONDS = 0.2
REST_SECONDS = 120.0


class Changing:
    """A deployment that changes, and the events that were published to it."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.aws, self.sqs, self.sns = aws, aws.client("sqs"), aws.client("sns")
        self.sent: list[str] = []
        bootstrap(aws)
        self.deploy("before")
        self.tables = self.parts.tables

    def deploy(self, phase: str, **more: str) -> None:
        outputs = self.aws.state_dir / f"change-{phase}.json"
        context = {"service": SERVICE, "phase": phase, **more}
        app = "python3 -m tests.e2e.changing_app"
        stacks = deploy(self.aws, app=app, context=context, outputs=outputs)
        values = {name: value for stack in stacks.values() for name, value in stack.items()}
        self.parts = Deployment.of(SERVICE, values)

    def restore(self) -> dict[str, dict[str, str]]:
        """Restore every table under a new name; return each as `existing_tables` takes it."""
        dynamodb = self.aws.client("dynamodb")
        found = {}
        for name, table in {**self.parts.tables, DEDUP: self.parts.dedup_table}.items():
            restored = dynamodb.restore_table_to_point_in_time(
                SourceTableName=table,
                TargetTableName=f"restored-{name}",
                UseLatestRestorableTime=True,
            )
            found[name] = {"arn": restored["TableDescription"]["TableArn"]}
        stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        changed = dynamodb.update_table(TableName=f"restored-{DEDUP}", StreamSpecification=stream)
        found[DEDUP]["stream_arn"] = changed["TableDescription"]["LatestStreamArn"]
        return found

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
        asked, _ = events(name)
        url = self.parts.consumer(consumer).dead_letter_url
        self.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(asked))

    def redrive(self, consumer: str) -> None:
        command = ("dlq", "redrive", "--consumer", consumer, "--yes", "--service", SERVICE)
        subprocess.run(
            [sys.executable, "-m", "once.ops", *command],
            check=True,
            cwd=ROOT,
            env={**os.environ, **self.aws.environment()},
        )

    def drain(self, *consumers: str) -> None:
        """Wait until the queues of consumers, those for dead letters included, are empty."""
        parts = [self.parts.consumer(name) for name in consumers]
        urls = [url for part in parts for url in (*part.queue_urls, part.dead_letter_url)]
        wait_until_empty(self.sqs, urls, timeout=REST_SECONDS)

    def counted(self, table: str, key: str, value: str) -> Counter[str]:
        """Return the number of effects of each event."""
        name = {**self.tables, **self.parts.tables}[table]
        pages = self.aws.client("dynamodb").get_paginator("scan").paginate(TableName=name)
        items = [item for page in pages for item in page["Items"]]
        return Counter({item[key]["S"]: int(item[value]["N"]) for item in items})

    def relayed(self) -> set[str]:
        """Take what reached no consumer out of its queue; return the counters of `probe.counted`.

        Events of types whose consumer was removed are there too.
        """
        queue, counters = {"QueueUrl": self.parts.unrouted_queue_url}, set()
        while found := self.sqs.receive_message(**queue, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                self.sqs.delete_message(**queue, ReceiptHandle=message["ReceiptHandle"])
                event = json.loads(message["Body"])
                if event.get("type") == "probe.counted":
                    counters.add(event["data"]["counter"])
        return counters

    def dead_letters(self) -> int:
        urls = self.sqs.list_queues(QueueNamePrefix=f"{SERVICE}-").get("QueueUrls", [])
        return sum(depth(self.sqs, url).total for url in urls if "unrouted" not in url)


def events(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return (
        cloud_event("probe.asked", {"counter": name}, event_id=name),
        cloud_event("order.placed", {"order_id": name}, event_id=name),
    )


@pytest.fixture(scope="module")
def changing(aws: EmbeddedAws) -> Changing:
    return Changing(aws)


def test_h1_a_rename_and_a_removal_lose_and_double_nothing(changing: Changing) -> None:
    changing.bury("probe", "dead")
    with changing.traffic():
        changing.deploy("renaming")
        due = set(changing.sent)
        changing.deploy("retiring")
        changing.redrive("probe")
        changing.drain("probe", "loyalty")
        changing.deploy("after")
    changing.drain("gauge")
    assert changing.dead_letters() == 0
    counters = changing.counted("counters", "id", "amount")
    assert counters == Counter([*changing.sent, "dead"])
    points = changing.counted("points", "order_id", "points")
    assert due
    assert due <= points.keys()
    assert set(points.values()) == {1}


def test_restored_tables_take_the_place_of_the_old_ones(changing: Changing) -> None:
    known = changing.counted("counters", "id", "amount")
    changing.deploy("restored", restored=json.dumps(changing.restore()))
    assert changing.parts.dedup_table == f"restored-{DEDUP}"
    publishes = {"id": {"S": "after"}, "publishes": {"S": "yes"}}
    controls = changing.parts.table("controls")
    changing.aws.client("dynamodb").put_item(TableName=controls, Item=publishes)
    for name in (changing.sent[0], "after"):
        asked, _ = events(name)
        changing.publish(asked)
    changing.drain("gauge")
    assert changing.counted("counters", "id", "amount") == known + Counter(["after"])
    wait_until(
        "the relay publishes from the restored table",
        lambda: "after" in changing.relayed(),
        timeout=REST_SECONDS,
    )
