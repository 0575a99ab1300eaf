"""`ack`: who works on failures, and where commands show it."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from once.ops.aws.deployment import Deployment
from once.ops.errors import ExitCode
from once.ops.operator_notes import Acknowledgement, read_notes, write_acknowledgement
from tests.ops.cloud import Cloud
from tests.ops.support import refuse, run, stderr_of, stdout_of, words


@pytest.fixture
def failed(cloud: Cloud) -> Cloud:
    """Orders and inventory have dead letters, orders those of two reasons."""
    cloud.bury("orders", reason="permanent", error="NoCard at pay:7")
    cloud.bury("orders", reason="invalid-data", error="a")
    cloud.bury("inventory", reason="permanent", error="NoCard at pay:7")
    return cloud


def test_others_see_who_works_on_a_group_until_it_is_done(failed: Cloud) -> None:
    group = ("orders", "--reason", "permanent", "--error", "NoCard at pay:9")
    assert "orders: noted for 4 h" in words(stdout_of("ack", *group, "--why", "rolling back"))
    told = "orders, permanent, NoCard at pay:…: moto works on it since"
    assert told in words(stdout_of("dlq", "list"))
    assert told not in words(stdout_of("dlq", "list", "--reason", "invalid-data"))
    assert "rolling back" in stderr_of("status", code=ExitCode.STUCK)
    taken = json.loads(stdout_of("ack", *group, "--done", "--json"))
    assert (taken["done"], taken["earlier"].rpartition("/")[2]) == (True, "moto")
    assert told not in words(stdout_of("dlq", "list"))
    assert [(e["command"], e["why"]) for e in failed.logged()[::2]] == [
        ("ack", "rolling back"),
        ("ack", None),
    ]


@pytest.mark.usefixtures("failed")
def test_a_note_ends_by_itself_and_the_next_one_removes_it(cloud: Cloud) -> None:
    deployment, now = Deployment.find(), datetime.now(UTC)
    for reason, hours in (("invalid-data", 1), ("permanent", -1)):
        until = now + timedelta(hours=hours)
        write_acknowledgement(
            deployment, Acknowledgement("orders", reason, None, "a", now, until, "")
        )
    notes = read_notes(deployment)
    assert [one.reason for one in notes.acknowledged] == ["invalid-data"]
    assert len(notes.over) == 1
    assert "noted for 1 h" in stdout_of("ack", "inventory", "--for", "90m")
    assert read_notes(deployment).over == []


@pytest.mark.usefixtures("failed")
def test_a_consumer_that_does_not_exist_is_refused_and_unread_notes_take_nothing_away() -> None:
    assert "has no consumer 'ordrs'" in stderr_of("ack", "ordrs")
    refuse("dynamodb.GetItem")
    assert "1 dead letter" in run("status").stderr


THEN, LATER = "2026-01-01T00:00:00Z", "2126-01-01T00:00:00Z"
STORED: dict[str, dict[str, object]] = {
    "paused#orders": {"who": "a", "since": THEN, "why": "w", "oldest": THEN},
    "acknowledged#orders#0": {
        "consumer": "orders",
        "reason": None,
        "error": None,
        "who": "a",
        "since": THEN,
        "until": LATER,
        "why": "",
    },
    "archive#n": {
        "name": "n",
        "who": "a",
        "at": THEN,
        "until": LATER,
        "why": "w",
        "consumers": {"orders": 2},
        "pieces": 1,
    },
}
"""Notes as they are stored: another form needs a reader of this one."""


def test_stored_notes_are_read(cloud: Cloud) -> None:
    item = {
        "pk": {"S": "#operators#us-east-1"},
        **{n: {"S": json.dumps(v)} for n, v in STORED.items()},
    }
    cloud.dynamodb.put_item(TableName="physical-dedup", Item=item)
    notes = read_notes(Deployment.find())
    assert notes.pauses["orders"].why == "w"
    assert [one.consumer for one in notes.acknowledged] == ["orders"]
    assert [one.number for one in notes.archives] == [2]
