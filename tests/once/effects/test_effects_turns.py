"""Whose turn it is at an effect: one owner at a time, and an overtaken one writes nothing."""

from typing import Any

import pytest

from once.errors import NotDone
from once.handlers.effect_declaration import Policy
from tests.in_memory import Start
from tests.once.effects.provider import (
    LEASE,
    NOW,
    SETTINGS,
    Killed,
    Provider,
    Till,
    after,
    consumer_of,
)
from tests.once.support import Log, amounts, calls, note, reasons


def test_x1_two_deliveries_at_once_are_one_call(till: Till) -> None:
    event, second = note(), []
    till.provider.plan = [lambda: second.append(till.deliver(event))]
    assert till.deliver(event)
    assert second == [False]
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {"a": 1}


def test_a_delivery_in_flight_comes_again_when_the_lease_is_over(till: Till) -> None:
    event = note()
    till.provider.plan = [Killed()]
    till.killed(event)
    till.later(10.5)
    with calls(till.aws.runtime.sqs) as made:
        till.deliver(event)
    assert [parameters["VisibilityTimeout"] for _, parameters in made] == [LEASE - 10]


def test_in_flight_at_the_last_receive_is_quarantined_and_a_redrive_is_a_duplicate(
    till: Till,
) -> None:
    # SQS would do it next, without a reason. Whoever is at the effect finishes it all the same.
    event, last = note(), []
    till.provider.plan = [lambda: last.append(till.deliver(event, receive_count=5))]
    assert till.deliver(event)
    assert last == [True]
    assert reasons(till.aws) == ["not-tried"]
    assert till.deliver(event)
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {"a": 1}


def test_in_flight_before_the_last_receive_is_never_quarantined(till: Till) -> None:
    event = note()
    till.provider.plan = [Killed()]
    till.killed(event)
    assert [till.deliver(event, receive_count=n) for n in (1, 2, 3, 4)] == [False] * 4
    assert till.aws.dead_letters() == []


def overtaking(till: Till, event: Any, *plan: Any) -> Any:
    """A step of the plan: the owner is so slow that another delivery takes the effect over."""

    def overtake() -> None:
        till.later()
        till.provider.plan = list(plan)
        till.deliver(event)
        till.provider.plan = []

    return overtake


def test_x1_an_owner_that_was_overtaken_completes_nothing(till: Till) -> None:
    event = note()
    till.provider.plan = [overtaking(till, event)]
    assert till.deliver(event)
    assert len(till.provider.calls) == 2
    assert len(set(till.provider.calls)) == len(till.provider.charges) == 1
    assert amounts(till.aws) == {"a": 1}


def test_x1_the_late_completion_of_one_whose_successor_is_still_at_it_is_in_flight(
    till: Till,
) -> None:
    event, log = note(), Log(till.aws)

    def overtake() -> None:
        till.later()
        till.provider.plan = [Killed()]
        assert till.killed(event)  # the successor, which holds the lease now

    till.provider.plan = [overtake]
    with calls(till.aws.runtime.sqs) as made:
        assert not till.deliver(event)
    assert [parameters["VisibilityTimeout"] for _, parameters in made] == [LEASE]
    assert amounts(till.aws) == {}
    assert till.standing == "in-flight"
    assert "not handed back" not in log.text()  # what is not its own it does not even try to
    till.later()
    assert till.deliver(event)
    assert amounts(till.aws) == {"a": 1}
    assert len(till.provider.charges) == 1


def test_x1_an_owner_that_was_overtaken_hands_nothing_back(till: Till) -> None:
    event, owners = note(), []

    def overtake() -> None:
        till.later()
        till.provider.plan = [Killed()]
        till.killed(event)
        owners.append(till.record["owner"])
        till.provider.plan = [NotDone(), NotDone()]
        raise TimeoutError

    till.provider.plan = [overtake]
    assert not till.deliver(event)
    assert till.standing == "in-flight"
    assert [till.record["owner"]] == owners


def test_an_overtaken_owner_goes_on_where_its_successor_gave_up(till: Till) -> None:
    event = note()
    lost = after(TimeoutError())
    till.provider.plan = [overtaking(till, event, lost, lost, lost)]
    assert till.deliver(event)
    assert len(till.provider.charges) == 1
    assert amounts(till.aws) == {"a": 1}


def test_each_takeover_is_an_owner_and_a_lease_of_its_own(till: Till) -> None:
    event, seen = note(), []
    till.provider.plan = [Killed(), lambda: seen.append(till.record)]
    till.killed(event)
    first = till.record
    till.later()
    assert till.deliver(event, remaining_ms=9_000)
    [second] = seen
    assert second["owner"] != first["owner"]
    assert first["lease_until"] == (NOW + LEASE) * 1000
    assert second["lease_until"] == (NOW + LEASE + 9) * 1000
    same = ("provider_key", "request", "key_expires_at", "effect", "fingerprint", "commit")
    assert {name: second[name] for name in same} == {name: first[name] for name in same}


def test_the_lease_ends_when_lambda_ends_the_function_and_not_before(till: Till) -> None:
    till.provider.plan = [Killed()]
    with pytest.raises(Killed):
        till.deliver(note(), remaining_ms=12_345)
    assert till.record["lease_until"] == NOW * 1000 + 12_345


@pytest.mark.parametrize("policy", [Policy.AT_LEAST_ONCE, Policy.PROVIDER_KEY])
def test_two_in_one_batch_are_one_call(start: Start, policy: Policy) -> None:
    provider = Provider()
    aws = start(consumer_of(provider, policy=policy), **SETTINGS)
    event = note()
    assert aws.deliver(event, event) == {"batchItemFailures": []}
    assert len(provider.calls) == 1
    assert amounts(aws) == {"a": 1}


def test_one_effect_that_fails_takes_no_neighbour_along(start: Start) -> None:
    provider = Provider(plan=[NotDone()] * 3)
    aws = start(consumer_of(provider), **SETTINGS)
    answer = aws.deliver(note("a"), note("b"))
    assert len(answer["batchItemFailures"]) == 1
    assert amounts(aws) == {"b": 1}
