"""DynamoDB faults at an effect's writes: none causes a second charge or loses an outcome."""

import pytest

from once.effects.declaration import Policy
from once.errors import NotDone
from once.testing import Fault, answer_lost, cancelled, inject, never_sent
from tests.once.effects.provider import LEASE, TAKEOVER, Make, Till, after
from tests.once.support import Log, note, reasons

CONFLICT = cancelled("TransactionConflict")
NO_ANSWER = {"committed": answer_lost(), "not committed": never_sent()}
LOST = pytest.mark.parametrize("fault", NO_ANSWER.values(), ids=NO_ANSWER)
WRITES = pytest.mark.parametrize("before", [[], [None]], ids=["intent", "completion"])


@LOST
@WRITES
@pytest.mark.parametrize("policy", Policy)
def test_x1_a_write_without_an_answer_is_looked_up_and_called_once(
    make: Make, policy: Policy, before: list[None], fault: Fault
) -> None:
    till = make(policy=policy)
    with till.faults(*before, fault):
        assert till.deliver(note())
    till.assert_paid_once(calls=1)


@LOST
@WRITES
def test_x1_a_write_that_cannot_be_looked_up_is_settled_by_the_next_delivery(
    till: Till, before: list[None], fault: Fault
) -> None:
    event, client = note(), till.aws.runtime.dynamodb
    with till.faults(*before, fault), inject(client, "BatchGetItem", never_sent()):
        assert not till.deliver(event)
    assert len(till.provider.calls) == len(before)
    till.later()
    assert till.deliver(event)
    till.assert_paid_once(calls=len(till.provider.calls))


def test_a_completion_is_attempted_eleven_times_and_then_handed_back(till: Till) -> None:
    event = note()
    with till.faults(None, *[never_sent()] * 11):
        assert not till.deliver(event)
    assert len(till.aws.slept) == 10
    assert till.standing == "settled"  # the next delivery commits the outcome, at once
    assert till.deliver(event)
    till.assert_paid_once(calls=1)


def test_contention_at_the_intent_uses_no_attempts_of_the_completion(make: Make) -> None:
    till = make(policy=Policy.AT_MOST_ONCE)
    with till.faults(*[CONFLICT] * 10, None, cancelled("TransactionConflict", "None")):
        assert till.deliver(note())
    assert len(till.aws.slept) == 11
    till.assert_paid_once(calls=1)


@pytest.mark.parametrize(
    ("fault", "wait"),
    [
        pytest.param(answer_lost(), LEASE, id="no answer, committed"),
        pytest.param(never_sent(), LEASE, id="no answer, not committed"),
        pytest.param(CONFLICT, 0, id="conflict"),
        pytest.param(cancelled("ThrottlingError"), 0, id="throttled"),
    ],
)
def test_x1_a_takeover_that_fails_makes_no_call_and_is_left_to_the_next_delivery(
    till: Till, fault: Fault, wait: int
) -> None:
    event = till.leave_pending(charged=True)
    till.later()
    with till.faults(None, fault):  # the first write finds the pending record
        assert not till.deliver(event)
    assert len(till.provider.calls) == 1
    till.later(wait)
    assert till.deliver(event)
    till.assert_paid_once(calls=2)


@pytest.mark.parametrize(
    ("faults", "standing"),
    [
        ([answer_lost()], "unknown"),
        ([never_sent()], "unknown"),
        ([never_sent()] * 3, "in-flight"),
        ([CONFLICT], "unknown"),
    ],
)
def test_x1_a_hand_back_without_an_answer_is_retried_and_then_logged(
    till: Till, faults: list[Fault], standing: str
) -> None:
    event, log = note(), Log(till.aws)
    till.provider.plan = [after(TimeoutError())] * 3
    with till.faults(None, *faults):
        assert not till.deliver(event)
    assert till.standing == standing
    logged = "effect not handed back" in [line["message"] for line in log.lines()]
    assert logged == (standing == "in-flight")
    till.later()
    assert till.deliver(event)
    till.assert_paid_once(calls=4)


def test_an_effect_that_was_not_done_and_not_handed_back_is_unknown(make: Make) -> None:
    till, event = make(*[NotDone()] * 3, policy=Policy.AT_MOST_ONCE), note()
    with till.faults(None, *[never_sent()] * 3):
        assert not till.deliver(event)
    till.later(TAKEOVER)
    assert till.deliver(event)
    assert reasons(till.aws) == ["effect-unknown"]
