"""The exploration in its short form: small bounds, and broken protocols that it catches."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from proof.explore import execution
from proof.explore.scopes import Scope, scope_named
from proof.explore.search import Overgrown, _Search, explore, replayed
from proof.mutants import MUTANTS
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
}
"""Scopes, and the preemptions and faults that take a second or so; `make sim` explores all."""
OFTEN = "two deliveries of one event"

SLOW = "resumed is clean"
CHARGED_TWICE = (0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0)
"""A schedule that takes long to find: `make sim` finds it, and here it is repeated."""


def short(name: str) -> Scope:
    preemptions, faults = SHORT[name]
    return replace(scope_named(name), preemptions=preemptions, faults=faults)


@pytest.mark.parametrize("name", SHORT)
def test_no_schedule_of_a_scope_violates_an_oracle(name: str) -> None:
    found = explore(short(name))
    assert [one.violation for one in found.found] == []
    assert found.complete
    assert found.states > found.schedules / 2 > 0


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


def test_a_schedule_violates_its_clause_in_the_broken_protocol_alone() -> None:
    broken = MUTANTS[SLOW]
    assert broken.scope is not None
    scope = broken.scope.name
    with broken.patch():
        found = replayed(scope, CHARGED_TWICE)
    assert found is not None
    assert found.violation.startswith("charged twice: ")
    assert replayed(scope, CHARGED_TWICE) is None


def test_an_execution_that_does_not_come_to_rest_is_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution, "MOST_STEPS", 3)
    [found] = explore(short(OFTEN)).found
    assert found.violation.startswith("never at rest")


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
    assert f"not explored to the end: {OFTEN}" in Evidence([cut], SeedFigures(), {}).missing


def test_a_scope_that_grows_past_its_share_ends_at_once() -> None:
    with pytest.raises(Overgrown, match="more states than its share of 5: give it less traffic"):
        explore(replace(short(OFTEN), states=5))
