"""The choice of calls to cut off and of processes to kill."""

import threading
from collections import Counter
from functools import partial
from typing import Any, cast

import psutil
import pytest

from demo.quiescence import wait_until
from emulator.embedded_aws import EmbeddedAws
from proof.soak.background import background
from proof.soak.drops import Drop, Drops
from proof.soak.kills import ProcessKills

PATIENCE_SECONDS = 20
SHARES = {Drop.ANSWER_LOST: 0.03, Drop.REFUSED: 0.02, Drop.LATE: 0.01}


def drawn(drops: Drops, *, is_retry: bool = False) -> dict[str, Drop]:
    found = {call: drops.drawn(call, is_retry=is_retry) for call in map(str, range(10_000))}
    return {call: drop for call, drop in found.items() if drop is not None}


def test_calls_are_chosen_by_the_seed_with_the_given_shares() -> None:
    found = drawn(Drops(7, SHARES))
    assert found == drawn(Drops(7, SHARES)) != drawn(Drops(8, SHARES))
    expected = {drop: pytest.approx(share * 10_000, rel=0.2) for drop, share in SHARES.items()}
    assert Counter(found.values()) == expected


@pytest.mark.parametrize("stubborn", [0, 0.5, 1])
def test_a_share_of_the_retries_is_cut_off_in_the_same_way(stubborn: float) -> None:
    drops = Drops(7, SHARES, stubborn)
    first, retries = drawn(drops), drawn(drops, is_retry=True)
    assert retries.items() <= first.items()
    assert len(retries) == pytest.approx(stubborn * len(first), rel=0.2)


class Process:
    """A process that can be killed once; one that has ended cannot."""

    def __init__(self, *, has_ended: bool = False) -> None:
        self.killed = False
        self.has_ended = has_ended

    def kill(self) -> None:
        self.killed = True
        if self.has_ended:
            raise psutil.NoSuchProcess(1)


class Functions:
    """The processes of each function, and the number of calls that they have made."""

    def __init__(self, **processes: list[Process]) -> None:
        self.processes = processes
        self.calls = 0
        self.polls = 0

    def function_processes(self, name: str) -> list[Any]:
        return [process for process in self.processes[name] if not process.killed]

    def count(self) -> int:
        self.polls += 1
        return self.calls

    def kills_of(self, *names: str) -> ProcessKills:
        return ProcessKills(cast(EmbeddedAws, self), names, self.count, every=1.0, seed=1)


def poll_twice(functions: Functions) -> None:
    last = functions.polls + 2
    wait_until("polled", lambda: functions.polls >= last, timeout=PATIENCE_SECONDS)


def test_processes_of_the_given_functions_are_killed_one_by_one_as_calls_are_made() -> None:
    functions = Functions(orders=[Process(), Process()], others=[Process()])
    kills = functions.kills_of("orders")
    with background("kills", kills.run):
        poll_twice(functions)
        assert not kills.killed
        for times in (1, 2):
            functions.calls += 100
            killed = partial(lambda wanted: kills.killed.total() == wanted, times)
            wait_until("killed", killed, timeout=PATIENCE_SECONDS)
            assert len(functions.function_processes("orders")) == 2 - times
        functions.calls += 100
        poll_twice(functions)
    assert kills.killed == {"orders": 2}
    assert not functions.processes["others"][0].killed


def test_a_process_that_has_ended_already_is_not_counted() -> None:
    process = Process(has_ended=True)
    functions = Functions(orders=[process])
    functions.calls = 100
    kills = functions.kills_of("orders")
    with background("kills", kills.run):
        wait_until("tried", lambda: process.killed, timeout=PATIENCE_SECONDS)
        poll_twice(functions)
    assert not kills.killed


def test_a_background_thread_ends_with_a_context_that_fails() -> None:
    events: list[threading.Event] = []
    with pytest.raises(ZeroDivisionError), background("background", events.append):
        _ = 1 / 0
    assert [over.is_set() for over in events] == [True]
    assert "background" not in [thread.name for thread in threading.enumerate()]
