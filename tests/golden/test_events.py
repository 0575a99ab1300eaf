"""Outbox, stream and topic: events that one version commits, another publishes and reads."""

from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from once.events.cloud_event import read_event
from once.events.outgoing import OutgoingEvent, events_in
from once.names import SCHEMA_VERSION
from once.outbox.publisher import Publisher
from tests.golden.test_records import LATER
from tests.golden.versions import Item, cases, golden
from tests.once.outbox.relaying import RelayHarness

LARGEST = 10_000


def outgoing(case: Item) -> OutgoingEvent:
    head = case["id"], case["read"]["source"], case["type"], case["body"]
    return OutgoingEvent(*head, due=case.get("due"))


def read_today(body: str) -> Item:
    return dict(msgspec.to_builtins(read_event(body, max_bytes=LARGEST)))


@pytest.mark.parametrize(("version", "case"), cases("events"))
def test_an_event_in_a_record_of_any_version_is_published_unchanged(
    version: int, case: Item
) -> None:
    item, sent = golden(version, "records")[case["record"]]["item"], []
    assert outgoing(case) in events_in(item)
    assert outgoing(case) in events_in(item | LATER)

    def publish_batch(**request: Any) -> Item:
        sent.extend(request["PublishBatchRequestEntries"])
        return {"Successful": [{"Id": "0"}]}

    client: Any = SimpleNamespace(publish_batch=publish_batch)
    assert Publisher(client, "topic").publish([outgoing(case)]) == []
    assert sent == [{"Id": "0", **case["entry"]}]


@pytest.mark.parametrize(("version", "case"), cases("events"))
def test_a_consumer_of_today_reads_the_events_of_every_version(version: int, case: Item) -> None:
    assert read_today(case["body"]) == case["read"]
    more = read_today(case["body"].replace("{", '{"later":{"x":1},', 1))
    assert more["extensions"].pop("later") == {"x": 1}
    assert more == case["read"]


@pytest.mark.parametrize(("version", "case"), cases("changes"))
def test_todays_relay_publishes_the_commits_of_every_version(version: int, case: Item) -> None:
    harness = RelayHarness({"orders": ("order.stored", "order.counted")})
    change: Item = deepcopy(case["change"])
    for image in case["images"]:
        change["dynamodb"][image] |= LATER
    harness.handle(change)
    assert [read_today(body)["id"] for body in harness.published()] == case["published"]
    assert harness.dead_letters() == []


def test_every_kind_of_change_is_kept() -> None:
    kinds = {case["change"]["eventName"] for case in golden(SCHEMA_VERSION, "changes").values()}
    assert kinds == {"INSERT", "MODIFY", "REMOVE"}
