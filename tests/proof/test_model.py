"""The explorer finds nothing in the real protocol, and has looked where it says."""

import pytest

from proof.model import SHORT, Explored, explore
from proof.model.calls import Checkpoint
from proof.model.carriers import Relay
from proof.model.consumer import Consumer
from proof.model.faults import Fault
from proof.model.moves import Parts
from proof.model.performer import Steps


@pytest.fixture(scope="module")
def explored() -> Explored:
    return explore(SHORT)


def test_the_real_protocol_breaks_no_promise_in_any_small_world(explored: Explored) -> None:
    assert [str(violation) for violation in explored.violations] == []


@pytest.mark.parametrize("fault", list(Fault))
def test_every_kind_of_fault_has_struck(fault: Fault, explored: Explored) -> None:
    assert explored.faults_by_kind[fault] > 0


def test_more_runs_than_states_are_covered(explored: Explored) -> None:
    assert explored.paths > explored.states > 0


def test_what_is_found_is_found_again(explored: Explored) -> None:
    scope = SHORT[0]

    assert explore([scope]) == explore([scope])


def test_without_faults_that_is_what_is_complained_of() -> None:
    found = explore([SHORT[0]._replace(faults=0)])

    assert {violation.oracle for violation in found.violations} == {
        f"the fault never struck: {fault}" for fault in Fault
    }


def test_every_scope_has_a_name_of_its_own() -> None:
    names = [scope.name for scope in SHORT]

    assert len(set(names)) == len(names)


class NeverMovesOn(Relay):
    def run(self) -> Steps:
        yield Checkpoint(0)


def test_a_protocol_that_never_rests_is_a_violation() -> None:
    [violation] = _broken_by(Parts(relay=NeverMovesOn))

    assert violation == "it goes round in a circle"


class NeverAnswers(Consumer):
    def run(self) -> Steps:
        yield from self._look_first()


def test_a_protocol_that_acknowledges_nothing_is_a_violation() -> None:
    [violation] = _broken_by(Parts(NeverAnswers))

    assert violation == "a dead letter that should not be: no reason"


def _broken_by(parts: Parts) -> list[str]:
    found = explore([SHORT[0]._replace(faults=0)], parts)
    return [violation.oracle for violation in found.violations if violation.actions]
