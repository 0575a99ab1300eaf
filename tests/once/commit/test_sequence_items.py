"""Sequence items: one for each message group of a commit, and never two commits at once on one."""

import json
from typing import Any

import pytest

from once.events.identity import RULES
from once.names import SEQUENCE
from once.testing import FakeAws
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.support import Note, consumer_of, note

GROUPS = {"counted": "name", "seen": "name"}


def publishing(event: Note, tx: Transaction) -> None:
    """Publish, for each word of the name, an ordered event of its group and one without order."""
    for name in event.name.split():
        tx.publish("counted", {"name": name, "amount": event.amount})
        tx.publish("seen", {"name": name})


@pytest.fixture
def aws(start: Start) -> FakeAws:
    return start(
        consumer_of(publishing),
        publishes=("counted", "seen"),
        groups=GROUPS,
        ordered_types=("counted",),
    )


def stored(aws: FakeAws) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The dedup records, and the sequence items by message group."""
    items = aws.items("dedup")
    sequences = {each["pk"]: each for each in items if "dedup_key" in each}
    groups = {pk.removeprefix("notes#sequence#"): one for pk, one in sequences.items()}
    return [each for each in items if "dedup_key" not in each], groups


def outbox(item: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(event["type"], event["data"]["name"]) for event in json.loads(item["outbox"])]


def test_a_commit_writes_its_ordered_events_into_an_item_of_each_group(aws: FakeAws) -> None:
    aws.deliver(note("a b a"))
    [[record], sequences] = stored(aws)
    assert outbox(record) == [(kind, name) for name in "aba" for kind in ("counted", "seen")]
    assert record["sequenced"] == {"counted"}
    assert {group: outbox(item) for group, item in sequences.items()} == {
        "a": [("counted", "a")] * 2,
        "b": [("counted", "b")],
    }
    for item in sequences.values():
        assert item["dedup_key"] == record["pk"]
        assert item["expires_at"] == record["expires_at"]


def test_events_that_the_record_repeats_count_once(aws: FakeAws) -> None:
    aws.deliver(note("a"))
    assert [event["type"] for event in aws.published()] == ["counted", "seen"]


def test_messages_with_one_outgoing_group_commit_in_requests_of_their_own(aws: FakeAws) -> None:
    requests: list[int] = []
    aws.runtime.dynamodb.meta.events.register(
        "provide-client-params.dynamodb.TransactWriteItems",
        lambda params, **_: requests.append(len(params["TransactItems"])),
    )
    assert aws.deliver(note("a", 1), note("a", 2), note("b"))["batchItemFailures"] == []
    assert requests == [4, 2]
    records, sequences = stored(aws)
    assert len(records) == 3
    assert json.loads(sequences["a"]["outbox"])[0]["data"]["amount"] == 2


@pytest.mark.parametrize("data", [{}, {"name": " "}, {"name": 1.5}, {"name": None}])
@pytest.mark.parametrize("kind", ["counted", "seen"])
def test_data_without_the_group_is_refused_before_the_commit(
    start: Start, kind: str, data: dict[str, Any]
) -> None:
    aws = start(
        consumer_of(lambda event, tx: tx.publish(kind, data)),
        publishes=tuple(GROUPS),
        groups=GROUPS,
        ordered_types=("counted",),
    )
    aws.deliver(note(), fails=True)
    assert aws.items("dedup") == []
    [letter] = aws.dead_letters()
    attributes = letter["MessageAttributes"]
    assert attributes["once-reason"]["StringValue"] == "invalid-write"
    assert "its message group is the field 'name'" in attributes["once-error"]["StringValue"]


def test_each_group_counts_among_the_hundred_actions(aws: FakeAws) -> None:
    names = " ".join(f"n{n}" for n in range(100))
    aws.deliver(note(names.rpartition(" ")[0]), note(names), fails=True)
    assert len(stored(aws)[1]) == 99
    [letter] = aws.dead_letters()
    error = letter["MessageAttributes"]["once-error"]["StringValue"]
    assert "each message group of ordered events" in error


def test_the_key_of_a_sequence_item_is_no_dedup_key() -> None:
    assert SEQUENCE not in RULES
