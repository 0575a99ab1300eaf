"""Messages that used up their receives: not run again, and dead-lettered with the reason."""

import pytest

from tests.once.batch.batches import SPENT, message
from tests.once.batch.function import Function
from tests.once.effects.provider import Killed, Till, after
from tests.once.support import facts, note


def test_a_message_that_ended_the_function_in_each_delivery_is_dead_lettered_without_a_run(
    function: Function,
) -> None:
    function.run(message("kill", **SPENT))
    assert function.handled == []
    [letter] = function.aws.dead_letters()
    assert facts(letter)["reason"] == "unfinished"
    assert facts(letter)["error"] == (
        "Unfinished: the function died, timed out or was throttled in each of its 5 deliveries"
    )


@pytest.mark.parametrize("receive_count", [6, 7])
@pytest.mark.parametrize(
    ("name", "reasons"), [("a", []), ("b", ["key-conflict"])], ids=["duplicate", "key conflict"]
)
def test_a_record_decides_about_a_message_that_used_up_its_receives(
    function: Function, name: str, reasons: list[str], receive_count: int
) -> None:
    function.seed("a")
    function.run(message(name, "a", receive_count=receive_count))
    assert function.handled == []
    assert function.reasons() == reasons
    assert function.amounts == {"a": 1}


def test_the_dead_letter_of_an_unfinished_message_names_its_pending_effect(till: Till) -> None:
    till.provider.plan = [after(Killed())]
    event = note("a")
    assert till.killed(event)
    assert till.deliver(event, receive_count=6)
    assert till.standing == "in-flight"
    [(key, _)] = till.provider.calls
    [letter] = till.aws.dead_letters()
    assert facts(letter)["reason"] == "unfinished"
    assert f"its effect 'charge' is pending under the provider key {key}" in facts(letter)["error"]
