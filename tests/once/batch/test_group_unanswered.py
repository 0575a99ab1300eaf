"""Groups whose answer is lost: each message counts once, whatever was heard of its commit."""

from contextlib import suppress
from typing import Any

import pytest

from once.consumer import Consumer
from once.testing import FakeAws, Fault, answer_lost, inject, never_sent, refused
from tests.in_memory import Start
from tests.once.batch.grouping import READ, WRITE, Entries, batch_of, faults, groups, operations
from tests.once.effects.provider import Killed, kill
from tests.once.support import Log, amounts, calls, consumer_of, count, invoke

NAMES = ("a", "b", "c", "d", "e")
GROUP = list(NAMES)
ONE_EACH = dict.fromkeys(NAMES, 1)
SILENCE = (never_sent(), refused("InternalServerError", status=500))

handled: list[str] = []


def handle(event: Any, tx: Any) -> None:
    handled.append(event.name)
    count(event, tx)


@pytest.fixture
def consumer() -> Consumer:
    handled.clear()
    return consumer_of(handle)


@pytest.fixture
def aws(start: Start, consumer: Consumer) -> FakeAws:
    return start(consumer)


def redeliver(aws: FakeAws, consumer: Consumer) -> list[str]:
    """Deliver the batch again, and nothing is in the way; return the operations of that."""
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of(*NAMES, receive_count=2)) == []
    return operations(made)


def fates(log: Log) -> dict[str, int]:
    [line] = [line for line in log.lines() if line["message"] == "batch"]
    found: dict[str, int] = line["fates"]
    return found


def test_an_answer_that_is_lost_after_the_commit_is_found_in_the_records(
    aws: FakeAws, consumer: Consumer
) -> None:
    client, log = aws.runtime.dynamodb, Log(aws)
    with inject(client, WRITE, answer_lost()), calls(client) as made:
        assert invoke(aws, consumer, *batch_of(*NAMES)) == []
    assert operations(made) == [WRITE, READ]
    assert handled == GROUP
    assert fates(log) == {"committed": 5}
    assert redeliver(aws, consumer) == [READ]
    assert amounts(aws) == ONE_EACH


@pytest.mark.parametrize("fault", SILENCE)
def test_a_group_that_did_not_arrive_goes_again_together(
    aws: FakeAws, consumer: Consumer, fault: Fault
) -> None:
    client = aws.runtime.dynamodb
    with inject(client, WRITE, fault), calls(client) as made:
        assert invoke(aws, consumer, *batch_of(*NAMES)) == []
    assert groups(made) == [GROUP, GROUP]
    assert handled == GROUP
    assert redeliver(aws, consumer) == [READ]
    assert amounts(aws) == ONE_EACH


@pytest.mark.parametrize("unread", [*SILENCE, refused("ThrottlingException")])
@pytest.mark.parametrize("fault", [answer_lost(), *SILENCE])
def test_where_the_records_cannot_be_read_either_all_come_again_and_count_once(
    aws: FakeAws, consumer: Consumer, fault: Fault, unread: Fault
) -> None:
    client = aws.runtime.dynamodb
    with inject(client, WRITE, fault), inject(client, READ, unread) as left:
        assert invoke(aws, consumer, *batch_of(*NAMES)) == GROUP
    assert left == []
    assert amounts(aws) == (ONE_EACH if fault.done else {})
    assert redeliver(aws, consumer) == ([READ] if fault.done else [READ, WRITE])
    assert amounts(aws) == ONE_EACH
    assert aws.dead_letters() == []


def test_a_commit_that_arrives_after_its_records_were_looked_for_counts_once(
    aws: FakeAws, consumer: Consumer
) -> None:
    log, under_way = Log(aws), list[Entries]()

    def late(entries: Entries) -> Fault | None:
        if not under_way:
            under_way.append(entries)
            return never_sent()
        aws.dynamodb.transact_write_items(TransactItems=under_way[0])
        return None

    with faults(aws.runtime.dynamodb, late), calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of(*NAMES)) == []
    assert operations(made) == [WRITE, READ, WRITE]
    assert amounts(aws) == ONE_EACH
    assert fates(log) == {"committed": 5}


def test_a_duplicate_in_a_group_that_did_not_arrive_is_acknowledged(
    aws: FakeAws, consumer: Consumer
) -> None:
    invoke(aws, consumer, *batch_of("b"))
    client = aws.runtime.dynamodb
    with inject(client, WRITE, never_sent()), calls(client) as made:
        assert invoke(aws, consumer, *batch_of(*NAMES)) == []
    assert groups(made) == [GROUP, ["a", "c", "d", "e"]]
    assert amounts(aws) == ONE_EACH


@pytest.mark.parametrize("silent", [1, 3])
def test_silence_that_lasts_is_waited_out_by_the_group(
    aws: FakeAws, consumer: Consumer, silent: int
) -> None:
    client = aws.runtime.dynamodb
    with inject(client, WRITE, *[never_sent()] * silent), calls(client) as made:
        assert invoke(aws, consumer, *batch_of(*NAMES)) == []
    assert groups(made) == [GROUP] * (silent + 1)
    assert len(aws.slept) == silent


def test_silence_without_end_is_left_to_the_queue(aws: FakeAws, consumer: Consumer) -> None:
    with inject(aws.runtime.dynamodb, WRITE, *[never_sent()] * 50):
        assert invoke(aws, consumer, *batch_of(*NAMES)) == GROUP
    assert amounts(aws) == {}
    assert redeliver(aws, consumer) == [READ, WRITE]
    assert amounts(aws) == ONE_EACH


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_function_that_is_killed_at_the_commit_of_a_group_counts_each_once(
    aws: FakeAws, consumer: Consumer, *, done: bool
) -> None:
    with kill(aws.runtime.dynamodb, 1, done=done), suppress(Killed):
        invoke(aws, consumer, *batch_of(*NAMES))
    assert amounts(aws) == (ONE_EACH if done else {})
    assert redeliver(aws, consumer) == ([READ] if done else [READ, WRITE])
    assert amounts(aws) == ONE_EACH


def test_between_two_groups_a_kill_loses_and_doubles_nothing(
    start: Start, consumer: Consumer
) -> None:
    aws = start(consumer, group_size=3)
    with kill(aws.runtime.dynamodb, 2, done=False), suppress(Killed):
        invoke(aws, consumer, *batch_of(*NAMES))
    assert amounts(aws) == dict.fromkeys("abc", 1)
    assert redeliver(aws, consumer) == [READ, WRITE]
    assert amounts(aws) == ONE_EACH
