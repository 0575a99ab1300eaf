"""Looking first when the look fails, and when duplicates come so often that all are looked up."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from once.consumer import Consumer, LambdaHandler
from once.testing import FakeAws, FakeContext, Fault, inject, never_sent, refused
from tests.in_memory import Start
from tests.once.batch.grouping import READ, WRITE, batch_of, groups, message, operations
from tests.once.support import Call, amounts, calls, consumer_of, failures, invoke

AGAIN: Any = {"receive_count": 2}
UNANSWERED = [
    never_sent(),
    refused("InternalServerError", status=500),
    refused("ThrottlingException"),
    refused("ProvisionedThroughputExceededException"),
    refused("AccessDeniedException"),
    refused("ResourceNotFoundException"),
]


@pytest.fixture
def consumer() -> Consumer:
    return consumer_of()


@pytest.fixture
def aws(start: Start, consumer: Consumer) -> FakeAws:
    return start(consumer)


@contextmanager
def unprocessed(aws: FakeAws, *left_out: int) -> Iterator[None]:
    """Leave so many keys out of the next answers of BatchGetItem, as DynamoDB does when busy."""
    numbers = iter(left_out)

    def leave_out(parsed: dict[str, Any], **_: Any) -> None:
        items, number = parsed["Responses"]["dedup"], next(numbers, 0)
        keys = [{"pk": item["pk"]} for item in items[:number]]
        del items[:number]
        parsed["UnprocessedKeys"] = {"dedup": {"Keys": keys}} if keys else {}

    events: Any = aws.runtime.dynamodb.meta.events
    events.register(f"after-call.dynamodb.{READ}", leave_out)
    try:
        yield
    finally:
        events.unregister(f"after-call.dynamodb.{READ}", leave_out)


def keys(made: list[Call]) -> list[int]:
    return [len(p["RequestItems"]["dedup"]["Keys"]) for name, p in made if name == READ]


@pytest.mark.parametrize("fault", UNANSWERED)
def test_a_look_that_fails_fails_nobody(aws: FakeAws, consumer: Consumer, fault: Fault) -> None:
    invoke(aws, consumer, *batch_of("known"))
    client = aws.runtime.dynamodb
    with inject(client, READ, fault) as left, calls(client) as made:
        assert invoke(aws, consumer, *batch_of("known", "a", "b", **AGAIN)) == []
    assert left == []
    assert groups(made) == [["known", "a", "b"], ["a", "b"]]
    assert amounts(aws) == {"known": 1, "a": 1, "b": 1}


def test_keys_that_were_not_processed_are_asked_for_again(aws: FakeAws, consumer: Consumer) -> None:
    invoke(aws, consumer, *batch_of(*"abcde"))
    with unprocessed(aws, 3, 1), calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of(*"abcde", **AGAIN)) == []
    assert operations(made) == [READ] * 3
    assert keys(made) == [5, 3, 1]


def test_keys_that_are_never_processed_fail_nobody(aws: FakeAws, consumer: Consumer) -> None:
    invoke(aws, consumer, *batch_of("known"))
    with unprocessed(aws, *[1] * 9), calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of("known", "a", "b", **AGAIN)) == []
    assert operations(made) == [READ] * 3 + [WRITE] * 2
    assert amounts(aws) == {"known": 1, "a": 1, "b": 1}


@pytest.mark.parametrize("receive_count", [1, 2], ids=["first delivery", "looked up"])
def test_a_record_that_cannot_be_read_is_the_fault_of_its_own_message(
    aws: FakeAws, consumer: Consumer, receive_count: int
) -> None:
    # Someone else's item under the key, or a record of a version to come.
    invoke(aws, consumer, *batch_of("odd"))
    [stored] = aws.items("dedup")
    aws.put("dedup", {"pk": stored["pk"], "state": "unheard of"})
    batch = [message("a"), message("odd", receive_count=receive_count), message("b")]
    assert invoke(aws, consumer, *batch) == ["odd"]
    assert amounts(aws) == {"odd": 1, "a": 1, "b": 1}


class Stream:
    """A function that stays warm, and batches of ten first deliveries for it."""

    def __init__(self, aws: FakeAws, consumer: Consumer) -> None:
        self.client: Any = aws.runtime.dynamodb
        self.handle: LambdaHandler = consumer.bound_to(aws.runtime)
        self.number = 0

    def deliver(self, *names: str) -> list[str]:
        """Return the operations that a batch takes; what it lacks to ten are new events."""
        new = range(self.number, self.number + 10 - len(names))
        self.number = new.stop
        batch = batch_of(*names, *(f"new {i}" for i in new))
        with calls(self.client) as made:
            assert failures(self.handle({"Records": batch}, FakeContext())) == []
        return operations(made)


@pytest.fixture
def stream(aws: FakeAws, consumer: Consumer) -> Stream:
    stream = Stream(aws, consumer)
    invoke(aws, consumer, *batch_of(*"abcdefghij"))
    return stream


def test_where_duplicates_run_high_first_deliveries_are_looked_up_as_well(stream: Stream) -> None:
    assert stream.deliver() == [WRITE]
    assert READ not in stream.deliver(*"abc")
    assert stream.deliver(*"abc")[0] == READ


def test_where_all_are_duplicates_a_batch_is_one_read(stream: Stream) -> None:
    stream.deliver(*"abcdefghij")
    assert stream.deliver(*"abcdefghij") == [READ]


def test_redelivered_duplicates_say_nothing_about_first_deliveries(
    aws: FakeAws, consumer: Consumer, stream: Stream
) -> None:
    for _ in range(5):
        again = batch_of(*"abcdefghij", **AGAIN)
        assert failures(stream.handle({"Records": again}, FakeContext())) == []
    assert stream.deliver() == [WRITE]
