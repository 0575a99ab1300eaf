"""Claim check: the message group of an event whose data lies in S3 reaches the relay."""

from typing import Any

import pytest

from once.events.outgoing import GROUP_EXTENSION
from once.outbox.relay import found_in
from once.settings import RelaySettings
from once.testing import FakeAws
from tests.once.events.claim_check.scans import SETTINGS, asked, make_scanner

GROUPS = {"scan.done": "id"}
RELAY = RelaySettings(
    service="once",
    topic_arn="topic",
    dead_letter_url="letters",
    publishes={"scanner": ("scan.done",)},
    groups=GROUPS,
)


def groups_of(size: int) -> tuple[Any, list[str | None]]:
    """Return the published event for data of a size, and the groups in which it is published."""
    options = {**SETTINGS, "publishes": ("scan.done",), "groups": GROUPS}
    with FakeAws(make_scanner(), {}, **options) as aws:
        aws.deliver(asked(size))
        [item] = aws.dynamodb.scan(TableName="dedup")["Items"]
        [event] = aws.published()
    record = {"eventName": "INSERT", "dynamodb": {"Keys": {"pk": item["pk"]}, "NewImage": item}}
    found = list(found_in(record, item["pk"]["S"], RELAY))
    assert [error for _, error in found] == [None]
    return event, [each.group for each, _ in found]


@pytest.mark.parametrize(("size", "in_s3"), [(10, False), (300_000, True)])
def test_large_and_small_events_are_published_in_the_same_group(size: int, *, in_s3: bool) -> None:
    event, groups = groups_of(size)
    assert groups == ["a-0"]
    assert (GROUP_EXTENSION in event, "data" not in event) == (in_s3, in_s3)
