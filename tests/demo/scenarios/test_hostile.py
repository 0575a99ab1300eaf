from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from demo.scenarios import hostile_messages as messages
from demo.scenarios.hostile import FinalState, count_effects
from demo.scenarios.hostile_messages import SKU, SentMessages

STOCK = 100
SENT = SentMessages(orders={"o-1"}, counters={"c-1"}, refused={"poison-0"}, forged={"hidden-0"})
REASON = {"once-reason": {"StringValue": "unparseable"}}
DEAD_LETTER = {"Body": "no JSON: poison-0", "MessageAttributes": REASON}
PAID = {"o-1": {"status": {"S": "paid"}}}
CLEAN = FinalState(
    tables={
        "orders": PAID,
        "reservations": {"o-1": {"status": {"S": "sold"}}},
        "customers": {"customer-o-1": {"orders_placed": {"N": "1"}}},
        "counters": {"c-1": {"amount": {"N": "1"}}},
        "stock": {SKU: {"available": {"N": "99"}}},
        "payments": {"o-1": {}},
        "notifications": {"o-1": {}},
    },
    dead_letters=[DEAD_LETTER],
    charged=Counter(["o-1"]),
    mailed={"o-1@example.com"},
)
COUNTER_DEAD_LETTER = {"Body": messages.counter("c-1").body, "MessageAttributes": REASON}


def with_tables(**tables: Any) -> FinalState:
    return replace(CLEAN, tables={**CLEAN.tables, **tables})


FORGED = {"forged_accepted": 1}
NOT_COMMITTED = {"healthy_committed": 1, "lost": 1}
FAULTS: dict[str, tuple[FinalState, dict[str, int]]] = {
    "order not paid": (with_tables(orders={"o-1": {"status": {"S": "placed"}}}), NOT_COMMITTED),
    "counter not raised": (with_tables(counters={}), NOT_COMMITTED),
    "healthy message dead-lettered": (
        replace(with_tables(counters={}), dead_letters=[DEAD_LETTER, COUNTER_DEAD_LETTER]),
        {"healthy_committed": 1, "healthy_dead_lettered": 1, "dead_lettered": 2},
    ),
    "poison without a dead letter": (
        replace(CLEAN, dead_letters=[]),
        {"dead_lettered": 0, "lost": 1},
    ),
    "dead letter without a reason": (
        replace(CLEAN, dead_letters=[DEAD_LETTER, {"Body": "no JSON: poison-0"}]),
        {"dead_lettered": 2, "letters_without_reason": 1},
    ),
    "forged order": (with_tables(orders={**PAID, "hidden-0": {"status": {"S": "paid"}}}), FORGED),
    "forged charge": (replace(CLEAN, charged=Counter(["o-1", "hidden-0"])), FORGED),
    "counter raised twice": (with_tables(counters={"c-1": {"amount": {"N": "2"}}}), {"doubled": 1}),
    "charged twice": (replace(CLEAN, charged=Counter({"o-1": 2})), {"doubled": 1}),
}


def figures(final: FinalState) -> dict[str, int]:
    return count_effects(SENT, final, STOCK)


def test_a_clean_run_has_no_fault() -> None:
    assert figures(CLEAN) == {
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


def test_sqs_may_move_a_message_that_ends_the_function_without_a_reason() -> None:
    sent = replace(SENT, fatal={"dying-0"}, refused={*SENT.refused, "dying-0"})
    moved = {"Body": messages.counter("dying-0", "die").body}
    found = count_effects(sent, replace(CLEAN, dead_letters=[DEAD_LETTER, moved]), STOCK)
    assert (found["dead_lettered"], found["letters_without_reason"], found["lost"]) == (2, 0, 0)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_changes_its_figures_only(name: str) -> None:
    final, changed = FAULTS[name]
    assert figures(final) == figures(CLEAN) | changed


def test_every_message_is_found_by_its_name_in_its_body() -> None:
    sent = [*messages.poison(14), *messages.bombs(2), messages.counter("dying-1", "die")]
    sent += [m for _, _, m in messages.forged_events("queue", 2)]
    names = {m.name for m in sent}
    letters = [{"Body": m.body, "MessageAttributes": REASON} for m in sent]
    sent_only = replace(SENT, refused=names)
    assert count_effects(sent_only, replace(CLEAN, dead_letters=letters), STOCK)["lost"] == 0
    assert len(names) == len(sent)
