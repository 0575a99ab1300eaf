"""The exploration in its short form: small bounds, and broken protocols that it catches."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from proof.explore import execution
from proof.explore.execution import Execution
from proof.explore.scopes import CAUGHT_IN, Scope, scope_named
from proof.explore.search import Explored, Overgrown, _Search, caught, explore, replayed
from proof.mutants import MUTANTS
from proof.service import EVENTS, Violation
from proof.sim import Evidence, SeedFigures, replay

SHORT = {
    "two deliveries of one event": (2, 0),
    "two contents under one key": (1, 0),
    "a duplicate beside another event": (1, 0),
    "relay and downstream": (1, 0),
    "relay and expiry": (1, 1),
    "charge": (0, 1),
    "two deliveries of a charge": (1, 0),
    "charge and outage": (1, 0),
    "two deliveries of an e-mail": (1, 0),
    "e-mail settled by hand": (1, 0),
    "redrive": (1, 0),
    "entries of one account": (1, 0),
    "a body that ends the function beside another event": (0, 0),
}
"""Scopes, and the preemptions and faults that take a second or so."""
OFTEN = "two deliveries of one event"

ORACLES = {
    "claim, then effect": "acknowledged without effect",
    "effect, then mark": "stock",
    "no condition on the record": "committed twice",
    "acknowledged before the commit": "acknowledged without effect",
    "any cancellation is a failure": "unexplained dead letter",
    "any cancellation is a duplicate": "acknowledged without effect",
    "no answer is done": "acknowledged without effect",
    "checkpoint first": "committed and not published",
    "a fresh key on each delivery": "stock",
    "the message's id as the key": "stock",
    "a lease in place of the transaction": "acknowledged without effect",
    "published inline": "committed and not published",
    "a batch's answer is believed": "committed and not published",
    "one reason for all": "acknowledged without effect",
    "no fingerprint": "acknowledged without effect",
    "dead letters only in name": "acknowledged without effect",
    "no deduplication downstream": "mailed twice",
    "removals are relayed": "published after its record expired",
    "a window shorter than a message lives": "committed twice",
    "an expiry without a margin for clocks": "committed twice",
    "a fresh provider key on each attempt": "charged twice",
    "a failed call is done": "outcome of another order",
    "a saved error is not done": "charged twice",
    "a provider key for ever": "charged twice",
    "completion without a fence": "committed twice",
    "pending without a lease": "unknown while it is done",
    "never in doubt": "mailed twice",
    "settled while its owner runs": "mailed twice",
    "a lease without a margin for clocks": "unknown while it is done",
}
ORACLES["bodies are read before messages are isolated"] = "unexplained dead letter"
ORACLES["redrive deletes first"] = "lost"
ORACLES |= dict.fromkeys(
    ("a group goes on after a failed message", "a later event after a failed one"), "out of order"
)
REPLAYED = {
    "resumed is clean": (
        "charged twice", (0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0),
    ),
}  # fmt: skip
"""Schedules that take long to find: `make sim` finds them, and here they are repeated."""


def short(name: str) -> Scope:
    preemptions, faults = SHORT[name]
    return replace(scope_named(name), preemptions=preemptions, faults=faults)


@cache
def explored(name: str) -> Explored:
    return explore(short(name))


@pytest.mark.parametrize("name", SHORT)
def test_no_schedule_of_a_scope_violates_an_oracle(name: str) -> None:
    found = explored(name)
    assert [one.violation for one in found.found] == []
    assert found.complete
    assert found.states > found.schedules / 2 > 0


def test_an_exploration_is_deterministic() -> None:
    first, again = explored("relay and expiry"), explore(short("relay and expiry"))
    assert (again.schedules, again.states, again.calls) == (
        first.schedules, first.states, first.calls,
    )  # fmt: skip


def test_what_is_pruned_leads_to_no_other_state(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = replace(scope_named(OFTEN), preemptions=1, faults=0)
    pruned, whole = _Search(scope), _Search(scope)
    _follow_all(pruned)
    monkeypatch.setattr(
        _Search, "_check_new", lambda self, state, left: self.seen.setdefault(state, [left])
    )
    _follow_all(whole)
    assert pruned.seen.keys() == whole.seen.keys()
    assert pruned.explored.calls < whole.explored.calls


def _follow_all(search: _Search) -> None:
    while search.waiting:
        search.follow(search.waiting.pop())


def test_every_broken_protocol_of_a_scope_is_tried() -> None:
    assert {*CAUGHT_IN} == {*ORACLES, *REPLAYED}
    assert {*CAUGHT_IN} <= {*MUTANTS}


@pytest.mark.parametrize("name", ORACLES)
def test_a_broken_protocol_is_caught_by_a_schedule_that_replays(name: str) -> None:
    found = caught(name)
    assert found is not None
    assert found.violation.startswith(f"{ORACLES[name]}: ")
    with MUTANTS[name].patch():
        assert replayed(found.scope, found.choices) == found


@pytest.mark.parametrize("name", REPLAYED)
def test_a_schedule_violates_its_oracle_in_the_broken_protocol_alone(name: str) -> None:
    oracle, choices = REPLAYED[name]
    scope = CAUGHT_IN[name].name
    with MUTANTS[name].patch():
        found = replayed(scope, choices)
    assert found is not None
    assert found.violation.startswith(f"{oracle}: ")
    assert replayed(scope, choices) is None


def test_an_execution_that_does_not_come_to_rest_is_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution, "MOST_STEPS", 3)
    [found] = explore(short(OFTEN)).found
    assert found.violation.startswith("never at rest")


def test_an_event_that_no_row_accounts_for_is_a_violation() -> None:
    one = Execution(short(OFTEN), (), lambda *_: None)
    event = {"id": "e", "type": "stock.reserved", "data": {"order_id": "o-9"}}
    one.world.topics.publish(EVENTS, "stock.reserved", json.dumps(event))
    with pytest.raises(Violation, match="published and not committed"):
        one.ledger.check_rest()


def test_a_schedule_of_other_code_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    file.write_text(json.dumps({"scope": OFTEN, "choices": [99]}))
    with pytest.raises(LookupError, match="no choice 99 in step 0"):
        replay(file)
    file.write_text(json.dumps({"scope": "nowhere", "choices": []}))
    with pytest.raises(LookupError, match="no scope is called 'nowhere'"):
        replay(file)


def test_a_scope_that_is_not_explored_to_the_end_is_told() -> None:
    cut = explore(short(OFTEN), 3)
    assert (cut.complete, cut.schedules) == (False, 3)
    assert f"not explored to the end: {OFTEN}" in Evidence([cut], SeedFigures(), {}).missing


def test_a_scope_that_grows_past_its_share_ends_at_once() -> None:
    told = list[int]()
    with pytest.raises(Overgrown, match="more states than its share of 5: give it less traffic"):
        explore(replace(short(OFTEN), states=5), tell=told.append)
    assert told == sorted(told)
    assert told[-1] < 50
