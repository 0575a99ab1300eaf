"""A fault is offered only where it can strike."""

import pytest

from proof.model.calls import DONE, Answer, Charge, Event, Publish
from proof.model.faults import Fault, outcomes
from proof.model.services import serve
from proof.model.world import World

CARD = Charge(Event("a", "x", "row a", "charge"), "a-1")
MAIL = Charge(Event("a", "x", "row a", "mail"), "a-1")
WORLD = World(faults=1)
SAVED_ERRORS = {Fault.SAVED_ERROR, Fault.SAVED_ERROR_DONE}


def _offered(world: World, call: Charge | Publish | Answer) -> set[Fault]:
    return {outcome.fault for outcome in outcomes(world, "1.1", call)}


def test_one_event_cannot_be_half_published() -> None:
    assert Fault.HALF not in _offered(WORLD, Publish(("a",)))
    assert Fault.HALF in _offered(WORLD, Publish(("a", "b")))


def test_only_a_first_attempt_with_a_key_ends_in_a_saved_error() -> None:
    charged, reply = serve(WORLD, "1.1", CARD)

    assert reply == DONE
    assert _offered(WORLD, CARD) >= SAVED_ERRORS
    assert _offered(charged, CARD).isdisjoint(SAVED_ERRORS)
    assert _offered(WORLD, MAIL).isdisjoint(SAVED_ERRORS)


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.CRASH_AFTER])
def test_what_is_done_is_done_though_nobody_hears_of_it(fault: Fault) -> None:
    [lost] = [outcome for outcome in outcomes(WORLD, "1.1", CARD) if outcome.fault is fault]

    assert lost.reply != DONE
    assert lost.world.charges == ("a",)


def test_what_is_late_is_not_done_yet() -> None:
    [late] = [outcome for outcome in outcomes(WORLD, "1.1", CARD) if outcome.fault is Fault.LATE]

    assert late.world.charges == ()
    assert late.world.air == (CARD,)


def test_an_answer_to_lambda_may_never_be_given() -> None:
    assert _offered(WORLD, Answer(())) == {Fault.CRASH_BEFORE}
