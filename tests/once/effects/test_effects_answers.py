"""DynamoDB's answers to an effect's writes may be lost: none is a second charge, or a lost one."""

from collections.abc import Callable

import pytest

from once.errors import NotDone
from once.handlers.effect_declaration import Policy
from once.testing import Fault, answer_lost, cancelled, inject, never_sent
from tests.in_memory import Start
from tests.once.effects.provider import (
    LEASE,
    TAKEOVER,
    Killed,
    Provider,
    Till,
    after,
    start_till,
)
from tests.once.support import Log, amounts, note, reasons

WRITE = "TransactWriteItems"
Make = Callable[[Policy], Till]
LOST = pytest.mark.parametrize("fault", [answer_lost(), never_sent()], ids=["done", "not done"])
POLICIES = pytest.mark.parametrize("policy", Policy)


@pytest.fixture
def make(start: Start) -> Make:
    return lambda policy: start_till(start, Provider(), policy=policy)


@LOST
@POLICIES
def test_x1_a_lost_answer_to_the_intent_is_looked_up_and_then_there_is_one_call(
    make: Make, policy: Policy, fault: Fault
) -> None:
    till = make(policy)
    with inject(till.aws.runtime.dynamodb, WRITE, fault) as left:
        assert till.deliver(note())
    assert left == []
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {"a": 1}


@LOST
def test_x1_an_intent_that_cannot_be_looked_up_either_is_not_called(
    till: Till, fault: Fault
) -> None:
    event, client = note(), till.aws.runtime.dynamodb
    with inject(client, WRITE, fault), inject(client, "BatchGetItem", never_sent()):
        assert not till.deliver(event)
    assert till.provider.calls == []
    till.later()
    assert till.deliver(event)
    assert len(till.provider.calls) == 1


@LOST
@POLICIES
def test_x1_a_lost_answer_to_the_completion_is_looked_up_and_the_outcome_is_kept(
    make: Make, policy: Policy, fault: Fault
) -> None:
    till = make(policy)
    with inject(till.aws.runtime.dynamodb, WRITE, None, fault) as left:
        assert till.deliver(note())
    assert left == []
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {"a": 1}
    assert (till.standing, till.published) == ("done", ["paid"])


def test_a_completion_that_never_arrives_is_paused_for_and_ends_with_the_attempts(
    till: Till,
) -> None:
    event = note()
    with inject(till.aws.runtime.dynamodb, WRITE, None, *[never_sent()] * 11) as left:
        assert not till.deliver(event)
    assert left == []
    assert len(till.aws.slept) == 10
    assert till.standing == "unknown"  # handed back: the next delivery need not wait
    assert till.deliver(event)
    assert len(till.provider.charges) == 1


@LOST
def test_x1_a_completion_that_cannot_be_looked_up_either_completes_once_in_the_end(
    till: Till, fault: Fault
) -> None:
    event, client = note(), till.aws.runtime.dynamodb
    with inject(client, WRITE, None, fault), inject(client, "BatchGetItem", never_sent()):
        assert not till.deliver(event)
    assert till.deliver(event)
    assert len(till.provider.charges) == 1
    assert amounts(till.aws) == {"a": 1}


@LOST
def test_x1_a_lost_answer_to_the_takeover_is_no_call_and_then_one_after_the_lease(
    till: Till, fault: Fault
) -> None:
    event = note()
    till.provider.plan = [after(Killed())]
    till.killed(event)
    till.later()
    with inject(till.aws.runtime.dynamodb, WRITE, None, fault):
        # The first write is the intent, which finds the pending record.
        assert not till.deliver(event)
    assert len(till.provider.calls) == 1
    till.later()
    assert till.deliver(event)
    assert len(till.provider.charges) == 1
    assert amounts(till.aws) == {"a": 1}


@pytest.mark.parametrize(
    ("faults", "standing"),
    [([answer_lost()], "unknown"), ([never_sent()], "unknown"), ([never_sent()] * 3, "in-flight")],
)
def test_x1_a_hand_back_without_an_answer_is_tried_again_and_no_fault(
    till: Till, faults: list[Fault], standing: str
) -> None:
    event, log = note(), Log(till.aws)
    till.provider.plan = [after(TimeoutError())] * 3
    with inject(till.aws.runtime.dynamodb, WRITE, None, *faults) as left:
        assert not till.deliver(event)
    assert left == []
    assert till.standing == standing
    logged = "effect not handed back" in [line["message"] for line in log.lines()]
    assert logged == (standing == "in-flight")
    till.later()
    assert till.deliver(event)
    assert len(till.provider.charges) == 1


def test_what_was_not_done_and_not_handed_back_counts_as_unknown(make: Make) -> None:
    till, event = make(Policy.AT_MOST_ONCE), note()
    till.provider.plan = [NotDone()] * 3
    with inject(till.aws.runtime.dynamodb, WRITE, None, *[never_sent()] * 3):
        assert not till.deliver(event)
    till.later(TAKEOVER)
    assert till.deliver(event)
    assert reasons(till.aws) == ["effect-unknown"]


@pytest.mark.parametrize(
    "fault", [cancelled("TransactionConflict"), cancelled("ThrottlingError")], ids=str
)
def test_a_takeover_that_others_disturb_is_left_to_the_next_delivery(
    till: Till, fault: Fault
) -> None:
    event = note()
    till.provider.plan = [after(Killed())]
    till.killed(event)
    till.later(LEASE)
    with inject(till.aws.runtime.dynamodb, WRITE, None, fault) as left:
        assert not till.deliver(event)
    assert left == []
    assert till.deliver(event)
    assert len(till.provider.calls) == 2
