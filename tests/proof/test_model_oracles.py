"""Each oracle says no to a world that breaks its promise."""

import pytest

from proof.model.calls import Event, Letter
from proof.model.oracles import broken, unrest
from proof.model.performer import EFFECT_UNKNOWN, KEY_CONFLICT, RETRIES_EXHAUSTED
from proof.model.scopes import Scope
from proof.model.world import Applied, Message, Streamed, World

EVENT = Event("a", "x", "stock")
ROW = Applied("a", "x", "stock", refused=False)
PAYMENT = EVENT._replace(effect="charge")
SCOPE = Scope("one", (EVENT,))
MESSAGE = Message("1", EVENT, faults=2, receives=1, acknowledged=True, deleted=True)
WELL = World(faults=2, queue=(MESSAGE,), lettered=(), applied=(ROW,), reached=("a",), seen=("a",))


def letter(reason: str, event: Event = EVENT, *, lineage: int = 0, excused: bool = False) -> Letter:
    return Letter("1c1", event, reason, lineage, excused)


def test_one_effect_and_one_downstream_is_well() -> None:
    assert broken(WELL) is None
    assert unrest(SCOPE, WELL) is None


@pytest.mark.parametrize(
    ("world", "oracle"),
    [
        (WELL._replace(applied=(ROW, ROW)), "two committed effects of one key"),
        (WELL._replace(charges=("a", "a")), "two charges of one intent"),
        (WELL._replace(reached=("a", "a")), "two effects downstream"),
        (WELL._replace(applied=(ROW, ROW._replace(key="b"))), "the last piece was given twice"),
        (
            WELL._replace(applied=()),
            "acknowledged without a committed effect or a dead letter",
        ),
        (
            WELL._replace(applied=(ROW._replace(content="y"),)),
            "acknowledged without a committed effect or a dead letter",
        ),
    ],
)
def test_a_broken_state_is_told(world: World, oracle: str) -> None:
    assert broken(world) == oracle


def test_a_dead_letter_is_as_durable_as_an_effect() -> None:
    assert broken(WELL._replace(applied=(), lettered=("1",))) is None


def test_a_refusal_takes_no_piece() -> None:
    refusal = Applied("b", "x", "stock", refused=True)

    assert broken(WELL._replace(applied=(ROW, refusal))) is None


@pytest.mark.parametrize(
    ("world", "oracle"),
    [
        (
            WELL._replace(queue=(MESSAGE._replace(deleted=False),)),
            "something is left that nobody works on",
        ),
        (
            WELL._replace(stream=(Streamed("a", removed=False),)),
            "something is left that nobody works on",
        ),
        (WELL._replace(reached=()), "an effect without its one effect downstream"),
        (WELL._replace(reached=("a", "b")), "an effect without its one effect downstream"),
        (
            WELL._replace(applied=(), reached=()),
            "lost: neither an effect nor a dead letter",
        ),
    ],
)
def test_what_is_not_well_at_rest_is_told(world: World, oracle: str) -> None:
    assert unrest(SCOPE, world) == oracle


def test_a_charge_that_is_written_down_must_have_been_made() -> None:
    scope = Scope("one", (PAYMENT,))

    assert unrest(scope, WELL) == "written down as charged, and was not"
    assert unrest(scope, WELL._replace(charges=("a",))) is None


@pytest.mark.parametrize("reason", [RETRIES_EXHAUSTED, ""])
def test_retries_are_used_up_by_faults_alone(reason: str) -> None:
    assert _told_of(letter(reason, excused=True)) is None
    assert _told_of(letter(reason)) == f"a dead letter that should not be: {reason or 'no reason'}"


def test_a_key_conflict_needs_the_other_event() -> None:
    other = letter(KEY_CONFLICT, EVENT._replace(content="y"))

    assert _told_of(other) is None
    assert _told_of(letter(KEY_CONFLICT)) == "a dead letter that should not be: key-conflict"


def test_an_effect_is_unknown_only_after_a_fault() -> None:
    unknown = letter(EFFECT_UNKNOWN, PAYMENT)

    assert _told_of(unknown, faults=1) is None
    assert _told_of(unknown) == "a dead letter that should not be: effect-unknown"
    assert _told_of(letter(EFFECT_UNKNOWN), faults=1) is not None


def test_who_waited_for_anothers_effect_in_a_redrive_may_come_back() -> None:
    assert _told_of(letter(RETRIES_EXHAUSTED, PAYMENT, lineage=1)) is None
    assert _told_of(letter(RETRIES_EXHAUSTED, PAYMENT)) is not None
    assert _told_of(letter(RETRIES_EXHAUSTED, lineage=1)) is not None


def _told_of(found: Letter, *, faults: int = 2) -> str | None:
    return unrest(SCOPE, WELL._replace(faults=faults, letters=(found,)))
