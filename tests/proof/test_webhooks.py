"""The webhook ingress with few seeds: the unmodified code, and broken forms that the runs catch."""

from collections import Counter

import pytest

from proof.crashpoints.campaign import KINDS
from proof.crashpoints.exploration import Tally, explore, parts, singles
from proof.crashpoints.scenarios import SCENARIOS, Scenario
from proof.mutants.webhooks import WEBHOOK_MUTANTS
from proof.replays import repeat, run
from proof.shop.replay import Replay
from proof.sim.search import SeedFigures, run_seeds, run_webhook_seed, webhook_mutant_caught
from proof.sim.shrink import shrunk
from proof.traffic import ATTACKS, WEBHOOKS, Story, Traffic, drawn_webhooks
from proof.world.faults import Fault
from proof.world.plan import Action, PlatformFault, script

SEEDS = range(40)
MAX_SEEDS = 100
NOT_POSSIBLE = {Fault.HALF, Fault.SAVED_DONE, Fault.SAVED_NOT_DONE}
UNCAPTURED = "accepted and not captured"
CAUGHT_BY = {
    "no check of signatures": "accepted a forgery",
    "no tolerance for the future": "accepted a forgery",
    "no limit of age": "accepted a forgery",
    "secrets that are never read again": "refused",
    "secrets that are kept for ever": "accepted a forgery",
    "the current secret alone": "refused",
    "the content type decides how a body is read": UNCAPTURED,
    "another type is a duplicate": UNCAPTURED,
    "another type is another webhook": "conflict",
    "another topic is a conflict": "conflict",
    "an id that nobody signed is the key": "more than one event",
    "success whatever the ingress did": UNCAPTURED,
    "success before the commit is sure": UNCAPTURED,
    "the dedup record before the capture": UNCAPTURED,
    "the capture before the dedup record": UNCAPTURED,
    "a record without its event": "accepted without an event",
    "a capture that is written anew": UNCAPTURED,
    "a forgery is captured, and refused": "captured what was not sent",
    "a conflict is dropped": UNCAPTURED,
    "a duplicate is refused": "failed without a fault",
    "a body that may not be stored": "captured what was not sent",
}
"""The oracle that catches each broken form first."""


SOME = range(2)
"""Seeds that draw when an attacker's copy comes: before the genuine webhook, with it, after it."""
TAKEN = next(s for s in SCENARIOS if s.name == "a webhook is verified, captured, and handed on")
COPIES = ("replayed", "renamed", "stale", "other content type", "other type", "unknown type")


def points_of(scenario: Scenario) -> Tally:
    """Try every single fault at every call of a scenario."""
    tally = Tally()
    for part in parts([scenario], pairs=False):
        tally.add(explore(part))
    return tally


@pytest.fixture(scope="module")
def figures() -> SeedFigures:
    return run_seeds(SEEDS, lambda seed: [run_webhook_seed(seed)])


def test_no_seed_breaks_a_promise_of_the_ingress(figures: SeedFigures) -> None:
    assert [(r.replay.seed, str(r.violation)) for r in figures.violations] == []
    assert figures.fired.keys() >= {*Fault, *PlatformFault} - NOT_POSSIBLE


def test_the_seeds_have_every_webhook_and_every_attack() -> None:
    stories = [story for seed in SEEDS for story in drawn_webhooks(seed)]
    assert {story.webhook for story in stories} == {*WEBHOOKS}
    assert {story.attack for story in stories} == {"", *ATTACKS}


def test_every_broken_ingress_has_an_oracle() -> None:
    assert CAUGHT_BY.keys() == WEBHOOK_MUTANTS.keys()


@pytest.mark.parametrize("mutant", WEBHOOK_MUTANTS)
def test_a_broken_ingress_is_caught(mutant: str) -> None:
    result = webhook_mutant_caught(mutant, MAX_SEEDS)
    assert result is not None
    assert result.violation is not None
    assert result.violation.oracle in CAUGHT_BY[mutant].split("|")


def test_w5_no_fault_at_any_call_loses_a_webhook_that_was_accepted() -> None:
    tally = points_of(TAKEN)
    assert [str(result.violation) for _, result in tally.broken] == []
    assert (tally.points[1], tally.in_vain) == (len(singles(TAKEN, TAKEN.run())), 0)
    assert tally.kinds.keys() >= {str(kind) for kind in KINDS}


def test_w5_success_before_the_commit_is_caught_by_one_fault() -> None:
    place = "once.commit.committer.Committer._send dynamodb.TransactWriteItems"
    with WEBHOOK_MUTANTS["success before the commit is sure"]():
        violation = TAKEN.run([Action(place, 1, Fault.REFUSED)]).violation
    assert violation is not None
    assert violation.oracle == UNCAPTURED


def test_w2_no_copy_makes_a_second_event_however_it_comes() -> None:
    stories = [tuple(Story(webhook, attack, copies=3) for webhook in WEBHOOKS) for attack in COPIES]
    results = [
        run(script(()), Traffic((), webhooks=each), seed) for each in stories for seed in SOME
    ]
    assert [str(result.violation) for result in results if result.violation] == []


@pytest.mark.parametrize("seed", [6, 7])
def test_a_run_is_determined_by_its_replay(seed: int) -> None:
    result = run_webhook_seed(seed)
    assert Counter(result.replay.actions)
    assert repeat(result.replay).log == result.log


def test_a_shrunk_run_has_less_traffic() -> None:
    mutant = "a conflict is dropped"
    one, other = Story("conflict"), Story("push", copies=2)
    with WEBHOOK_MUTANTS[mutant]():
        small = shrunk(Replay(1, Traffic((), webhooks=(other, one))), UNCAPTURED)
    assert small.traffic.webhooks == (one,)
    assert Traffic.read(small.traffic.as_json()) == small.traffic
