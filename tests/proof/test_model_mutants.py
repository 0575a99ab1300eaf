"""Broken protocols are caught: what finds nothing in them would find nothing in the real one."""

import pytest

from proof.model.explorer import Violation, replay
from proof.model.moves import Parts
from proof.model.mutants import MUTANTS, caught

UNBACKED = "acknowledged without a committed effect or a dead letter"
DOUBLED = "two committed effects of one key"
CHARGED_TWICE = "two charges of one intent"
UNHEARD = "an effect without its one effect downstream"
HEARD_TWICE = "two effects downstream"
LETTER = "a dead letter that should not be"

BROKEN_PROMISES = {
    "claim-then-effect": UNBACKED,
    "effect-then-mark": DOUBLED,
    "lease": DOUBLED,
    "ack-first": UNBACKED,
    "cancel-is-failure": f"{LETTER}: retries-exhausted",
    "cancel-is-duplicate": UNBACKED,
    "one-reason-for-all": UNBACKED,
    "unknown-is-done": UNBACKED,
    "inline-publish": UNHEARD,
    "checkpoint-first": UNHEARD,
    "batch-answer-believed": UNHEARD,
    "no-downstream-dedup": HEARD_TWICE,
    "removals-relayed": HEARD_TWICE,
    "message-id-as-key": DOUBLED,
    "no-fingerprint": UNBACKED,
    "ttl-as-the-window": DOUBLED,
    "unsent-dead-letter": UNBACKED,
    "redrive-deletes-first": "lost: neither an effect nor a dead letter",
    "fresh-provider-key": CHARGED_TWICE,
    "failed-call-is-done": "written down as charged, and was not",
    "provider-key-for-ever": CHARGED_TWICE,
    "saved-error-is-not-done": CHARGED_TWICE,
    "completion-without-fence": DOUBLED,
    "pending-without-lease": f"{LETTER}: effect-unknown",
    "unknown-is-not-done": CHARGED_TWICE,
}


FORGOTTEN_DOUBT = Violation(
    scope="a day between charges",
    faults=3,
    oracle=CHARGED_TWICE,
    actions=(
        "SQS delivers message 1 to 1.1",
        "1.1: commit the intent of a as 1.1/2: done",
        "1.1: call the provider with a-1: crash after",
        "SQS delivers message 1 to 1.2",
        "1.2: commit the intent of a as 1.2/2: cancelled, the key is pending",
        "1.2: take a over from 1.1/1 as 1.2/3: done",
        "1.2: call the provider with a-1: refused",
        "1.2: call the provider with a-1: refused",
        "1.2: hand a back from 1.2/3 as not-done: done",
        "1.2: answer that 1 failed: done",
        "a day passes",
        "SQS delivers message 1 to 1.3",
        "1.3: commit the intent of a as 1.3/2: cancelled, the key is pending",
        "1.3: take a over from 1.2/3 as 1.3/3: done",
        "1.3: call the provider with a-1: done",
    ),
)
"""What catches `resumed-is-clean`: a search of seconds, so here it is only replayed."""


def test_each_broken_protocol_has_its_promise() -> None:
    assert {*BROKEN_PROMISES, "resumed-is-clean"} == set(MUTANTS)


def test_what_takes_long_to_find_replays() -> None:
    assert replay(FORGOTTEN_DOUBT, MUTANTS["resumed-is-clean"].parts) == CHARGED_TWICE
    with pytest.raises(LookupError, match="hand a back"):
        replay(FORGOTTEN_DOUBT, Parts())


@pytest.mark.parametrize(("name", "promise"), BROKEN_PROMISES.items())
def test_a_broken_protocol_is_caught_by_actions_that_replay(name: str, promise: str) -> None:
    parts = MUTANTS[name].parts

    violation = caught(MUTANTS[name])

    assert violation is not None
    assert violation.oracle == promise
    assert replay(violation, parts) == promise
    assert replay(violation._replace(actions=violation.actions[:-1]), parts) is None


def test_the_actions_of_one_protocol_are_not_those_of_another() -> None:
    violation = caught(MUTANTS["effect-then-mark"])
    assert violation is not None

    with pytest.raises(LookupError, match="is it the same protocol"):
        replay(violation, Parts())


def test_a_violation_names_its_world_its_promise_and_what_happened() -> None:
    assert str(caught(MUTANTS["effect-then-mark"])).splitlines() == [
        "the same event twice: two committed effects of one key",
        "   1. SQS delivers message 1 to 1.1",
        "   2. 1.1: read the record of a: no record",
        "   3. 1.1: write the row of a: done",
        "   4. SQS delivers message 2 to 2.1",
        "   5. 2.1: read the record of a: no record",
        "   6. 2.1: write the row of a: done",
    ]
