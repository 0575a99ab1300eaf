"""A command that is killed at any call: nothing is lost, and running it again ends clean."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pytest

from once.ops.dead_letters import queue_walk as walk
from tests.ops.letters import Shop, note
from tests.ops.support import Cloud, run

BEFORE, AFTER = "before", "after"
BAD = "{"
PAGE, LETTERS = 2, 3

REDRIVE = ("dlq", "redrive", "--rate", "1000", "--reason", "retries-exhausted")
PURGE = ("dlq", "purge", "--yes", "--reason", "retries-exhausted")


class Killed(BaseException):
    """Stands for the end of the process: from here on, it makes no call."""


class Process:
    """Runs commands that are killed before or after a call of AWS, by its number."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._end: tuple[int, str] | None = None
        session = boto3.DEFAULT_SESSION
        assert session is not None
        session.events.register_first("before-call", self._before)
        session.events.register_last("after-call", self._after)

    def run(self, *arguments: object) -> None:
        """Run a command to its end, and note its calls."""
        self.calls, self._end = [], None
        result = run(*arguments)
        assert result.exit_code == 0, result.output

    def kill(self, *arguments: object, end: tuple[int, str]) -> None:
        """Run a command that is killed; whatever it does on its way out fails as well."""
        self.calls, self._end = [], end
        with suppress(Killed):
            run(*arguments)
        assert len(self.calls) >= end[0], "it was over before"
        self._end = None

    def _before(self, model: Any, **_: Any) -> None:
        if model.service_model.service_name == "cloudformation":
            return  # it does not exist in memory, and changes nothing
        self.calls.append(model.name)
        if self._is_over((len(self.calls), BEFORE)):
            raise Killed

    def _after(self, model: Any, **_: Any) -> None:
        if self._is_over((len(self.calls), AFTER)):
            raise Killed

    def _is_over(self, point: tuple[int, str]) -> bool:
        if self._end is None:
            return False
        return point[0] > self._end[0] or point == self._end


@pytest.fixture
def shop(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setattr(walk, "BATCH_ENTRIES", PAGE)
    with Shop(cloud) as shop:
        shop.give_up(BAD)  # it is looked at, and given back
        yield shop


def ends(calls: list[str]) -> list[tuple[int, str]]:
    return [(n, moment) for n in range(1, len(calls) + 1) for moment in (BEFORE, AFTER)]


def give_up(shop: Shop, prefix: str) -> set[str]:
    """Have letters written; return the names of their counters."""
    names = [f"{prefix}-{number}" for number in range(LETTERS)]
    shop.give_up(*map(note, names), error=ValueError())
    return {*names}


def names_of(bodies: list[str]) -> set[str]:
    return {json.loads(body)["data"]["name"] for body in bodies}


def test_a_redrive_that_is_killed_loses_nothing_and_ends_clean_the_next_time(shop: Shop) -> None:
    process = Process()
    expected = give_up(shop, "clean")
    process.run(*REDRIVE, "--consumer", "orders")
    calls = process.calls
    assert set(calls) == {
        "GetQueueAttributes",
        "ReceiveMessage",
        "BatchGetItem",
        "SendMessageBatch",
        "DeleteMessageBatch",
        "ChangeMessageVisibilityBatch",
    }
    for number, moment in ends(calls):
        expected |= give_up(shop, f"{number}-{moment}")
        process.kill(*REDRIVE, "--consumer", "orders", end=(number, moment))
        shop.work_off()
        shop.show_hidden()
        process.run(*REDRIVE, "--consumer", "orders")
        shop.work_off()
        assert shop.letter().original.body == BAD, (calls[number - 1], moment)
        assert shop.counted() == dict.fromkeys(expected, 1), (calls[number - 1], moment)


def test_a_purge_that_is_killed_has_every_letter_in_a_file_or_still_here(
    shop: Shop, tmp_path: Path
) -> None:
    process = Process()
    give_up(shop, "clean")
    process.run(*PURGE, "--consumer", "orders", "--export", tmp_path / "clean")
    calls = process.calls
    assert {"ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"} < set(calls)
    for number, moment in ends(calls):
        expected = give_up(shop, f"{number}-{moment}")
        files = [tmp_path / f"{number}-{moment}-{time}" for time in ("first", "second")]
        process.kill(*PURGE, "--consumer", "orders", "--export", files[0], end=(number, moment))
        exported = in_file(files[0])
        left = [one.original.body for one in shop.letters() if one.original.body != BAD]
        assert exported | names_of(left) == expected, (calls[number - 1], moment)
        if left:
            process.run(*PURGE, "--consumer", "orders", "--export", files[1])
        assert exported | in_file(files[1]) == expected
        assert shop.letter().original.body == BAD


def in_file(file: Path) -> set[str]:
    lines = file.read_text().splitlines() if file.exists() else []
    return names_of([json.loads(line)["send"]["MessageBody"] for line in lines])
