"""A console remembers what its pages have read, as long as each of them allows."""

import threading
from collections.abc import Callable
from itertools import count
from math import inf

import pytest
from starlette.requests import Request

from once.ops.console import state
from once.ops.console.state import LetterReadings, PageUpdates, QueueDepths, Readings, max_age
from once.ops.errors import OpsError
from once.ops.status import QueueStatus


@pytest.fixture
def read() -> Callable[[], int]:
    """Returns another number each time."""
    return count(1).__next__


def test_a_reading_is_kept_for_the_age_that_is_asked_for(read: Callable[[], int]) -> None:
    readings = Readings()
    assert [readings.latest("a", read, age) for age in (30, 30, inf, 0, 30)] == [1, 1, 1, 2, 2]
    assert readings.latest("b", read, 30) == 3


def test_a_reading_that_failed_is_not_kept(read: Callable[[], int]) -> None:
    readings = Readings()

    def fail() -> int:
        raise OpsError("the queue is gone")

    with pytest.raises(OpsError):
        readings.latest("a", fail, 30)
    assert readings.latest("a", read, inf) == 1


def test_the_oldest_readings_are_forgotten(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], int]
) -> None:
    monkeypatch.setattr(state, "_MOST_KEPT", 2)
    readings = Readings()
    assert [readings.latest(key, read, inf) for key in "abcba"] == [1, 2, 3, 2, 4]


def test_requests_at_the_same_time_read_once(read: Callable[[], int]) -> None:
    readings, begun, end, found = Readings(), threading.Event(), threading.Event(), list[int]()

    def read_slowly() -> int:
        begun.set()
        assert end.wait(10)
        return read()

    threads = [
        threading.Thread(target=lambda: found.append(readings.latest("a", read_slowly, 30)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    assert readings.latest("b", read, 30) == 1  # another key does not wait
    end.set()
    for thread in threads:
        thread.join()
    assert found == [2, 2, 2]


def test_a_change_of_letters_ends_their_readings(read: Callable[[], int]) -> None:
    letters = LetterReadings()
    assert letters.latest("a", read, 15) == 1
    with letters.changing():
        assert letters.latest("a", read, 0) == 1
        with pytest.raises(OpsError, match="a change of this console"):
            letters.latest("b", read, 0)
    assert letters.latest("a", read, inf) == 2


@pytest.mark.parametrize(("headers", "age"), [([], 0), ([(b"sec-fetch-dest", b"empty")], 30)])
def test_only_a_refresh_shows_what_was_read_before(
    headers: list[tuple[bytes, bytes]], age: float
) -> None:
    assert max_age(Request({"type": "http", "headers": headers})) == age


def row(visible: int) -> QueueStatus:
    return QueueStatus(
        consumer="orders", visible=visible, in_flight=1, delayed=0, dead_letters=0, message_bytes=1
    )


def test_queue_depths_tell_of_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "QUEUE_SECONDS", 0.0)
    answers = iter([[row(1)], [row(1)], [row(2)]])
    updates = PageUpdates()
    queues = QueueDepths(lambda: next(answers), updates)
    queues.latest()
    told = []
    for _ in range(2):
        queues._tell_if_different()
        told.append(updates.number)
    assert told == [0, 1]
    assert queues.depths("orders") == [2, 2, 3]
