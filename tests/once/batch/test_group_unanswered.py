"""Groups whose answer is lost: each message counts once, whether or not its commit took place."""

import pytest

from once.testing import Fault, answer_lost, never_sent, refused
from tests.once.batch.batches import READ, SECOND, WRITE, Entries, batch_of
from tests.once.batch.function import Function, Make, fates
from tests.once.effects.provider import kill
from tests.once.support import Log

GROUP = ["a", "b", "c", "d", "e"]
ONE_EACH = dict.fromkeys(GROUP, 1)
SERVER_ERROR = refused("InternalServerError", status=500)
FIRST, AGAIN = batch_of(*GROUP), batch_of(*GROUP, **SECOND)


def redeliver(function: Function, *, committed: bool) -> None:
    """Deliver the batch again, without faults; check that each message has counted once."""
    assert function.run(*AGAIN).operations == ([READ] if committed else [READ, WRITE])
    assert function.amounts == ONE_EACH
    assert function.aws.dead_letters() == []


def test_a_lost_answer_is_found_in_the_records(function: Function) -> None:
    log = Log(function.aws)
    assert function.run(*FIRST, writes=[answer_lost()]).operations == [WRITE, READ]
    assert function.handled == GROUP
    assert fates(log) == {"committed": 5}
    redeliver(function, committed=True)


@pytest.mark.parametrize("faults", [[SERVER_ERROR], [never_sent()], [never_sent()] * 3])
def test_a_group_that_did_not_arrive_is_repeated(function: Function, faults: list[Fault]) -> None:
    assert function.run(*FIRST, writes=faults).groups == [GROUP] * (len(faults) + 1)
    assert len(function.aws.slept) == len(faults)
    assert function.handled == GROUP
    redeliver(function, committed=True)


@pytest.mark.parametrize("unread", [never_sent(), SERVER_ERROR, refused("ThrottlingException")])
@pytest.mark.parametrize("fault", [answer_lost(), never_sent(), SERVER_ERROR])
def test_without_any_answer_each_counts_once(
    function: Function, fault: Fault, unread: Fault
) -> None:
    function.run(*FIRST, reports=GROUP, writes=[fault], reads=[unread])
    assert function.amounts == (ONE_EACH if fault.done else {})
    redeliver(function, committed=fault.done)


def test_a_commit_that_arrives_after_the_look_up_counts_once(function: Function) -> None:
    log, under_way = Log(function.aws), list[Entries]()

    def late(entries: Entries) -> Fault | None:
        if not under_way:
            under_way.append(entries)
            return never_sent()
        function.aws.dynamodb.transact_write_items(TransactItems=under_way[0])
        return None

    assert function.run(*FIRST, writes=late).operations == [WRITE, READ, WRITE]
    assert function.amounts == ONE_EACH
    assert fates(log) == {"committed": 5}


def test_a_duplicate_in_a_group_that_did_not_arrive_is_acknowledged(function: Function) -> None:
    function.run(*batch_of("b"))
    made = function.run(*FIRST, writes=[never_sent()])
    assert made.groups == [GROUP, ["a", "c", "d", "e"]]
    assert function.amounts == ONE_EACH


def test_a_group_that_never_arrives_is_reported(function: Function) -> None:
    function.run(*FIRST, reports=GROUP, writes=lambda entries: never_sent())
    assert function.amounts == {}
    redeliver(function, committed=False)


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_kill_at_the_commit_of_a_group_counts_each_once(
    function: Function, *, done: bool
) -> None:
    with kill(function.aws.runtime.dynamodb, 1, done=done):
        function.run(*FIRST, reports=None)
    assert function.amounts == (ONE_EACH if done else {})
    redeliver(function, committed=done)


def test_a_kill_between_two_groups_counts_each_once(make: Make) -> None:
    function = make(group_size=3)
    with kill(function.aws.runtime.dynamodb, 2, done=False):
        function.run(*FIRST, reports=None)
    assert function.amounts == dict.fromkeys("abc", 1)
    redeliver(function, committed=False)
