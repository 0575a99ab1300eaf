"""Record look-up: redelivered messages are looked up in one read before any handler runs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from once.names import CLOCK_MARGIN_SECONDS
from once.testing import Fault, never_sent, refused
from once.transaction import Transaction
from tests.once.batch.batches import READ, SECOND, WRITE, batch_of, message
from tests.once.batch.function import Function, Make
from tests.once.effects.provider import NOW, SETTINGS, TAKEOVER, Killed, Provider
from tests.once.effects.provider import consumer_of as effect_consumer_of
from tests.once.support import Note, consumer_of, count, invoke, record

TEN = [f"n{i}" for i in range(10)]


def test_known_keys_are_one_consistent_read_and_no_handler_runs(function: Function) -> None:
    # DynamoDB rejects a read that names a key twice.
    function.seed(*TEN)
    more = message("n0", message_id="again", **SECOND), message("n1", "n1", amount=5, **SECOND)
    made = function.run(*batch_of(*TEN, **SECOND), *more)
    assert made.operations == [READ]
    assert made.asked == [TEN]
    assert made.dynamodb[0][1]["RequestItems"]["dedup"]["ConsistentRead"] is True
    assert function.handled == []
    assert function.reasons() == ["key-conflict"]
    assert function.amounts == dict.fromkeys(TEN, 1)


def test_new_keys_commit_in_their_group_after_the_look_up(function: Function) -> None:
    made = function.run(*batch_of(*TEN, **SECOND))
    assert made.operations == [READ, WRITE]
    assert made.groups == [TEN]
    assert function.amounts == dict.fromkeys(TEN, 1)


def test_only_redelivered_messages_are_looked_up(function: Function) -> None:
    function.seed("known")
    known = [*batch_of("known", "poison", "new", **SECOND), record("{", "bad", **SECOND)]
    made = function.run(*batch_of("a", "b"), *known)
    assert made.asked[0] == ["known", "poison", "new"]
    assert made.groups == [["a", "b", "new"]]
    assert sorted(function.reasons()) == ["permanent", "unparseable"]


@pytest.mark.parametrize(
    ("settings", "batch", "writes"),
    [
        ({}, batch_of(*TEN), 1),
        ({}, batch_of("known", **SECOND), 1),
        ({"group_size": 1}, batch_of("known", "b", **SECOND), 2),
    ],
    ids=["first deliveries", "one message", "groups of one"],
)
def test_messages_that_spoil_no_group_are_not_looked_up(
    make: Make, settings: Any, batch: Any, writes: int
) -> None:
    function = make(**settings)
    function.seed("known")
    assert function.run(*batch).operations == [WRITE] * writes


def test_after_the_time_is_up_no_message_is_looked_up(function: Function) -> None:
    function.context.remaining_ms = 0
    made = function.run(*batch_of("a", "b", **SECOND), reports=["a", "b"])
    assert made.dynamodb == []


@pytest.mark.parametrize(("seconds_after", "amount"), [(0, 1), (1, 2)])
def test_an_expired_record_is_ignored(function: Function, seconds_after: int, amount: int) -> None:
    function.aws.time = NOW
    function.seed("a")
    window = function.aws.runtime.settings.dedup_window_seconds
    function.aws.time = NOW + window + CLOCK_MARGIN_SECONDS + seconds_after
    function.run(*batch_of("a", "b", **SECOND))
    assert function.amounts == {"a": amount, "b": 1}


def test_a_pending_record_is_neither_new_nor_a_duplicate(make: Make) -> None:
    # An earlier version of the consumer had an effect, and was killed while it called it.
    function, before = make(**SETTINGS), effect_consumer_of(Provider(plan=[Killed()]))
    with pytest.raises(Killed):
        invoke(function.aws, before, *batch_of("a"))
    function.run(*batch_of("a", "b", **SECOND), reports=["a"])
    assert function.reasons() == []  # its owner may still be calling it
    function.aws.time = time.time() + TAKEOVER
    function.run(*batch_of("a", "c", **SECOND))
    assert function.reasons() == ["effect-unknown"]
    assert function.handled == ["b", "c"]
    assert function.amounts == {"b": 1, "c": 1}


def test_a_record_that_is_committed_after_the_look_up_makes_a_duplicate(make: Make) -> None:
    def overtaken(event: Note, tx: Transaction) -> None:
        if event.name == "first":
            invoke(notes.aws, consumer_of(), *batch_of("second"))
        count(event, tx)

    notes = make(overtaken)
    notes.run(*batch_of("first", "second", **SECOND))
    assert notes.amounts == {"first": 1, "second": 1}
    assert notes.reasons() == []


def test_more_than_a_hundred_messages_take_a_second_read(function: Function) -> None:
    names = [f"n{i}" for i in range(101)]
    function.seed(*names)
    made = function.run(*batch_of(*names, **SECOND))
    assert made.operations == [READ, READ]
    assert made.asked == [names[:100], names[100:]]


@pytest.mark.parametrize(
    "fault",
    [
        never_sent(),
        refused("InternalServerError", status=500),
        refused("ThrottlingException"),
        refused("ProvisionedThroughputExceededException"),
        refused("AccessDeniedException"),
        refused("ResourceNotFoundException"),
    ],
)
def test_a_failed_look_up_fails_no_message(function: Function, fault: Fault) -> None:
    function.seed("known")
    made = function.run(*batch_of("known", "a", "b", **SECOND), reads=[fault])
    assert made.groups == [["known", "a", "b"], ["a", "b"]]
    assert function.amounts == {"known": 1, "a": 1, "b": 1}


@contextmanager
def unprocessed(function: Function, *left_out: int) -> Iterator[None]:
    """Leave so many keys out of the next answers of BatchGetItem, as DynamoDB does when busy."""
    numbers = iter(left_out)

    def leave_out(parsed: dict[str, Any], **_: Any) -> None:
        items, number = parsed["Responses"]["dedup"], next(numbers, 0)
        keys = [{"pk": item["pk"]} for item in items[:number]]
        del items[:number]
        parsed["UnprocessedKeys"] = {"dedup": {"Keys": keys}} if keys else {}

    events: Any = function.aws.runtime.dynamodb.meta.events
    events.register(f"after-call.dynamodb.{READ}", leave_out)
    try:
        yield
    finally:
        events.unregister(f"after-call.dynamodb.{READ}", leave_out)


@pytest.mark.parametrize(
    ("left_out", "asked", "writes"),
    [([3, 1], [5, 3, 1], 0), ([3] * 9, [5, 3, 3], 1)],
    ids=["answered in the end", "never answered"],
)
def test_unprocessed_keys_are_read_three_times_and_then_treated_as_new(
    function: Function, left_out: list[int], asked: list[int], writes: int
) -> None:
    function.seed(*"abcde")
    with unprocessed(function, *left_out):
        made = function.run(*batch_of(*"abcde", **SECOND))
    assert made.operations == [READ] * 3 + [WRITE] * writes
    assert [len(keys) for keys in made.asked] == asked
    assert function.amounts == dict.fromkeys("abcde", 1)


@pytest.mark.parametrize("receive_count", [1, 2], ids=["first delivery", "looked up"])
def test_an_unreadable_record_fails_its_message_only(
    function: Function, receive_count: int
) -> None:
    # Another program's item under the key, or a record of a later version.
    function.seed("odd")
    [stored] = function.aws.items("dedup")
    function.aws.put("dedup", {"pk": stored["pk"], "state": "unknown"})
    batch = [message("a"), message("odd", receive_count=receive_count), message("b")]
    function.run(*batch, reports=["odd"])
    assert function.amounts == {"odd": 1, "a": 1, "b": 1}


class Stream:
    """A warm function, and batches of ten for it."""

    def __init__(self, function: Function) -> None:
        self.number = 0
        self.function = function
        function.seed(*"abcdefghij")
        function.keep_warm()

    def deliver(self, known: str = "", **more: Any) -> list[str]:
        """Return the operations that a batch takes; new events make it ten messages."""
        new = range(self.number, self.number + 10 - len(known))
        self.number = new.stop
        batch = batch_of(*known, *(f"new {i}" for i in new), **more)
        return self.function.run(*batch).operations


def test_first_deliveries_are_looked_up_if_many_were_duplicates(function: Function) -> None:
    stream = Stream(function)
    assert stream.deliver() == [WRITE]
    assert READ not in stream.deliver("abc")
    assert stream.deliver("abc")[0] == READ
    stream.deliver("abcdefghij")
    assert stream.deliver("abcdefghij") == [READ]


def test_redelivered_duplicates_cause_no_look_up_of_first_deliveries(function: Function) -> None:
    stream = Stream(function)
    for _ in range(5):
        stream.deliver("abcdefghij", **SECOND)
    assert stream.deliver() == [WRITE]
