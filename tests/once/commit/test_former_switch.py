"""The switch from Powertools: both functions get one event, in each order and with each crash.

The former function is real: Powertools' decorator around a plain write. Deliveries to the other
function take place between its steps.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import pytest

from once.testing import FakeAws
from tests.once.former import (
    TABLES,
    FormerFunction,
    Killed,
    consumer_after_powertools,
    end_leases,
)
from tests.once.support import amounts, failures, note, reasons

FORMER, ONCE, LEASE_ENDS = "former", "once", "lease ends"
AFTER = (
    (ONCE, FORMER),
    (FORMER, ONCE),
    (LEASE_ENDS, ONCE, FORMER, ONCE),
    (LEASE_ENDS, FORMER, ONCE),
)


class Schedule(NamedTuple):
    """A delivery to the former function, and the steps during and after it.

    Attributes:
        point: where `meanwhile` takes place; see `FormerFunction.between`.
        killed_at: the point at which the former function ends; None if it does not.
    """

    point: int
    meanwhile: str | None
    killed_at: int | None
    after: tuple[str, ...]


class Ending(NamedTuple):
    """The changes of both functions, the reasons of dead letters, and the last acknowledgement."""

    by_former: int
    by_once: int
    letters: list[str]
    acknowledged: bool


def schedules(after: tuple[str, ...]) -> Iterator[Schedule]:
    meanwhile = ((0, None), *product(range(4), (FORMER, ONCE)))
    for (point, step), killed_at in product(meanwhile, (None, 1, 2)):
        yield Schedule(point, step, killed_at, after)


class Switch:
    """The former function and a consumer, which both receive the event with this name."""

    def __init__(
        self, aws: FakeAws, function: FormerFunction, schedule: Schedule, name: str
    ) -> None:
        self._aws, self._function, self._schedule = aws, function, schedule
        self._name, self._event = name, note(name, event_id=name)
        function.changes = 0
        self._acknowledged = False

    def play(self) -> Ending:
        """Play the schedule."""
        self._function.between = self._between
        self._take(FORMER)
        for step in self._schedule.after:
            self._take(step)
        by_former = self._function.changes
        by_once = amounts(self._aws).get(self._name, 0) - by_former
        return Ending(by_former, by_once, reasons(self._aws), self._acknowledged)

    def _between(self, point: int) -> None:
        schedule, hook = self._schedule, self._function.between
        self._function.between = lambda point: None  # later deliveries are not disturbed
        if schedule.meanwhile and schedule.point == point:
            self._take(schedule.meanwhile)
        if schedule.killed_at == point:
            raise Killed
        if point < 3:
            self._function.between = hook

    def _take(self, step: str) -> None:
        if step == FORMER:
            self._acknowledged = self._function.deliver(self._event)
        elif step == ONCE:
            self._acknowledged = not failures(self._aws.deliver(self._event, fails=None))
        else:
            end_leases(self._aws)


def endings(after: tuple[str, ...], *, former: bool = True) -> Iterator[tuple[Schedule, Ending]]:
    with FakeAws(consumer_after_powertools(former=former), TABLES) as aws:
        function = FormerFunction(aws)
        for number, schedule in enumerate(schedules(after)):
            yield schedule, Switch(aws, function, schedule, f"e-{number}").play()


@pytest.mark.parametrize("after", AFTER, ids=", ".join)
def test_one_function_changes_the_data_and_no_event_is_lost(after: tuple[str, ...]) -> None:
    for schedule, end in endings(after):
        assert end.by_once <= 1, schedule
        assert not (end.by_former and end.by_once), schedule
        settled = end.by_former or end.by_once or end.letters == ["former-unfinished"]
        assert settled or not end.acknowledged, schedule
        # The former function repeats its work when its lease ended, as it did before the switch.
        assert end.by_former <= 1 or (schedule.killed_at == 2 and LEASE_ENDS in after), schedule


def test_without_the_former_records_both_functions_change_the_data() -> None:
    doubled = [s for s, end in endings(AFTER[0], former=False) if end.by_former and end.by_once]
    assert doubled
