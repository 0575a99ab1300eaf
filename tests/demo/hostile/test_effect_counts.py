"""The hostile scenario's counting notices every way in which a promise can be broken."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from demo.scenarios.hostile import messages
from demo.scenarios.hostile.effect_counts import (
    FinalState,
    SentMessages,
    _DeadLetter,
    count_effects,
)
from demo.scenarios.hostile.messages import SKU

STOCK = 100
SENT = SentMessages(orders={"o-1"}, counters={"c-1"}, refused={"poison-0"}, forged={"hidden-0"})
REASON = {"once-reason": {"StringValue": "unparseable"}}
LETTER = {"Body": "no JSON: poison-0", "MessageAttributes": REASON}


def _tables() -> dict[str, dict[str, Any]]:
    return {
        "orders": {"o-1": {"status": {"S": "paid"}}},
        "reservations": {"o-1": {"status": {"S": "sold"}}},
        "customers": {"customer-o-1": {"orders_placed": {"N": "1"}}},
        "counters": {"c-1": {"amount": {"N": "1"}}},
        "stock": {SKU: {"available": {"N": "99"}}},
        "payments": {"o-1": {}},
        "notifications": {"o-1": {}},
    }


def _found(**tables: Any) -> FinalState:
    return FinalState(
        tables={**_tables(), **tables},
        letters=[LETTER],
        charged=Counter(["o-1"]),
        mailed={"o-1@example.com"},
    )


def _figures(found: FinalState) -> dict[str, int]:
    return count_effects(SENT, found, STOCK)


def test_a_clean_run_has_no_fault() -> None:
    assert _figures(_found()) == {
        "healthy_sent": 2,
        "healthy_committed": 2,
        "healthy_dead_lettered": 0,
        "refused_sent": 1,
        "dead_lettered": 1,
        "forged_sent": 1,
        "forged_accepted": 0,
        "letters_without_reason": 0,
        "lost": 0,
        "doubled": 0,
    }


@pytest.mark.parametrize(
    "tables",
    [
        {"orders": {"o-1": {"status": {"S": "placed"}}}},
        {"orders": {}},
        {"reservations": {"o-1": {"status": {"S": "reserved"}}}},
        {"counters": {}},
    ],
)
def test_a_healthy_message_without_its_effect_is_lost(tables: dict[str, Any]) -> None:
    found = _figures(_found(**tables))
    assert (found["healthy_committed"], found["lost"]) == (1, 1)


def test_a_healthy_message_in_a_dead_letter_queue_is_counted_there_and_is_not_lost() -> None:
    body = messages.counter("c-1").body
    letter = {"Body": body, "MessageAttributes": REASON}
    found = _figures(replace(_found(counters={}), letters=[LETTER, letter]))
    assert (found["healthy_dead_lettered"], found["lost"]) == (1, 0)


def test_poison_that_is_in_no_dead_letter_queue_is_lost() -> None:
    assert _figures(replace(_found(), letters=[]))["lost"] == 1


def test_a_letter_without_a_reason_is_counted() -> None:
    letters: list[_DeadLetter] = [LETTER, {"Body": "no JSON: poison-0"}]
    assert _figures(replace(_found(), letters=letters))["letters_without_reason"] == 1


@pytest.mark.parametrize(
    "found",
    [
        _found(orders={**_tables()["orders"], "hidden-0": {"status": {"S": "paid"}}}),
        _found(payments={"hidden-0": {}}),
        replace(_found(), charged=Counter(["o-1", "hidden-0"])),
        replace(_found(), mailed={"hidden-0@example.com"}),
    ],
)
def test_a_forgery_that_left_a_trace_was_accepted(found: FinalState) -> None:
    assert _figures(found)["forged_accepted"] == 1


@pytest.mark.parametrize(
    "found",
    [
        _found(counters={"c-1": {"amount": {"N": "2"}}}),
        _found(customers={"customer-o-1": {"orders_placed": {"N": "2"}}}),
        _found(stock={SKU: {"available": {"N": "98"}}}),
        replace(_found(), charged=Counter({"o-1": 2})),
    ],
)
def test_what_happened_twice_is_doubled(found: FinalState) -> None:
    assert _figures(found)["doubled"] == 1


def test_every_message_is_found_again_by_its_name_in_its_body() -> None:
    sent = [*messages.poison(14), *messages.bombs(2), messages.counter("dying-1", "die")]
    sent += [m for _, _, m in messages.forged_events("queue", 2)]
    names = {m.name for m in sent}
    letters = [{"Body": m.body, "MessageAttributes": REASON} for m in sent]
    sent_only = replace(SENT, refused=names)
    assert count_effects(sent_only, replace(_found(), letters=letters), STOCK)["lost"] == 0
    assert len(names) == len(sent)
