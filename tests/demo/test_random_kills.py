"""Random kills end processes of the given functions at the pace of a clock, and count them."""

from collections import Counter
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, cast

import psutil

from demo.kills import kill_at_random
from demo.quiescence import wait_until
from emulator.embedded_aws import EmbeddedAws

PATIENCE_SECONDS = 20


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

    def kills_of(self, *names: str, **options: Any) -> AbstractContextManager[Counter[str]]:
        aws = cast(EmbeddedAws, self)
        return kill_at_random(aws, names, every=1.0, clock=self.count, seed=1, **options)


def poll_twice(functions: Functions) -> None:
    last = functions.polls + 2
    wait_until("polled", lambda: functions.polls >= last, timeout=PATIENCE_SECONDS)


def test_processes_of_the_given_functions_are_killed_one_by_one_as_calls_are_made() -> None:
    functions = Functions(orders=[Process(), Process()], others=[Process()])
    with functions.kills_of("orders") as killed:
        poll_twice(functions)
        assert not killed
        for times in (1, 2):
            functions.calls += 100
            are_killed = partial(lambda wanted: killed.total() == wanted, times)
            wait_until("killed", are_killed, timeout=PATIENCE_SECONDS)
            assert len(functions.function_processes("orders")) == 2 - times
        functions.calls += 100
        poll_twice(functions)
    assert killed == {"orders": 2}
    assert not functions.processes["others"][0].killed


def test_a_process_that_has_ended_already_is_not_counted() -> None:
    process = Process(has_ended=True)
    functions = Functions(orders=[process])
    with functions.kills_of("orders") as killed:
        poll_twice(functions)
        functions.calls = 100
        wait_until("tried", lambda: process.killed, timeout=PATIENCE_SECONDS)
        poll_twice(functions)
    assert not killed


def test_kills_end_after_the_given_number() -> None:
    functions = Functions(orders=[Process(), Process()])
    with functions.kills_of("orders", most=1) as killed:
        poll_twice(functions)
        functions.calls = 100
        wait_until("killed", lambda: bool(killed), timeout=PATIENCE_SECONDS)
        functions.calls = 200
    assert killed == {"orders": 1}
    assert [process.killed for process in functions.processes["orders"]].count(True) == 1
