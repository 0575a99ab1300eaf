"""A command that is killed at any call loses no message, and its repetition succeeds."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import boto3
import pytest

from once.ops.aws import clients
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.archive import Archives
from once.ops.operator_notes import Archive, notes_of
from tests.once.support import Killed
from tests.ops.shop import Shop
from tests.ops.support import run, stdout_of

BEFORE, AFTER = "before", "after"
BAD = "{"
PAGE, NUMBER = 2, 3
READS = {
    "GetItem",
    "GetQueueAttributes",
    "BatchGetItem",
    "GetCallerIdentity",
    "GetFunctionConfiguration",
}
"""Calls that change nothing: a command that is killed at one is killed after the call before."""

CHOSEN = ("--consumer", "orders", "--reason", "retries-exhausted")
REDRIVE = ("dlq", "redrive", "--yes", "--rate", "1000", *CHOSEN)
IMPORT = ("dlq", "import", "--yes")
PURGE = ("dlq", "purge", "--yes", "--why", "tidy", *CHOSEN)


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
        """Run a command to its end, and record its calls."""
        self.calls, self._end = [], None
        stdout_of(*arguments)

    def kill(self, *arguments: object, end: tuple[int, str]) -> None:
        """Run a command that is killed; every later call fails as well."""
        self.calls, self._end = [], end
        with suppress(Killed):
            run(*arguments)
        assert len(self.calls) >= end[0], "it ended before"
        self._end = None

    def ends(self, *moments: str) -> Iterator[tuple[tuple[int, str], str]]:
        """Yield every point at which the last command can be killed, with a text for it.

        Before a call, a command that writes no file has done what it had done after the last one.
        """
        for number, name in enumerate([*self.calls], start=1):
            if name not in READS:
                yield from (((number, moment), f"{number}-{moment}-{name}") for moment in moments)

    def _before(self, model: Any, **_: Any) -> None:
        if model.service_model.service_name == "cloudformation":
            return  # does not exist in memory, and changes nothing
        self.calls.append(model.name)
        if self._is_over((len(self.calls), BEFORE)):
            raise Killed

    def _after(self, model: Any, **_: Any) -> None:
        if self._is_over((len(self.calls), AFTER)):
            raise Killed

    def _is_over(self, point: tuple[int, str]) -> bool:
        return self._end is not None and (point[0] > self._end[0] or point == self._end)


@pytest.fixture
def shop(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop with a message that each command receives, and does not select."""
    monkeypatch.setattr(clients, "BATCH_ENTRIES", PAGE)
    shop.dead_letter(BAD)
    return shop


def dead_letter(shop: Shop, prefix: str) -> set[str]:
    """Let messages be written; return the names of their counters."""
    names = [f"{prefix}-{number}" for number in range(NUMBER)]
    shop.fail(*names)
    return {*names}


def names_of(bodies: Iterable[str]) -> set[str]:
    return {json.loads(body)["data"]["name"] for body in bodies}


def archives() -> list[Archive]:
    return [*notes_of(Deployment.find()).archives]


def archived(*archives: Archive) -> set[str]:
    read = Archives(Deployment.find()).read
    return names_of(line.send.MessageBody for one in archives for line in read(one))


def test_a_redrive_that_is_killed_loses_nothing_and_ends_clean_the_next_time(shop: Shop) -> None:
    process = Process()
    expected = dead_letter(shop, "clean")
    process.run(*REDRIVE)
    assert set(process.calls) == {
        "GetQueueAttributes",
        "ReceiveMessage",
        "BatchGetItem",
        "GetFunctionConfiguration",
        "SendMessageBatch",
        "DeleteMessageBatch",
        "ChangeMessageVisibilityBatch",
        "GetCallerIdentity",
        "CreateLogStream",
        "PutLogEvents",
    }
    for end, name in process.ends(AFTER):
        expected |= dead_letter(shop, name)
        process.kill(*REDRIVE, end=end)
        shop.work_off()
        shop.show_hidden()
        process.run(*REDRIVE)
        shop.work_off()
        assert shop.only_dead_letter().original.body == BAD, name
        assert shop.counted() == dict.fromkeys(expected, 1), name


def test_import_that_is_killed_is_completed_by_the_next_without_a_second_copy(
    shop: Shop,
) -> None:
    process = Process()
    expected = dead_letter(shop, "letter")
    process.run(*PURGE)
    [archive] = archives()
    process.run(*IMPORT, archive.name)
    assert {"SendMessageBatch", "PutLogEvents"} < set(process.calls)
    for end, name in process.ends(BEFORE, AFTER):
        process.run(*PURGE)
        archive = archives()[0]
        process.kill(*IMPORT, archive.name, end=end)
        shop.show_hidden()
        process.run(*IMPORT, archive.name)
        bodies = [one.original.body for one in shop.dead_letters()]
        found = [json.loads(body)["data"]["name"] for body in bodies if body != BAD]
        assert sorted(found) == sorted(expected), name


def test_killed_purge_leaves_every_message_in_the_archive_or_in_the_queue(shop: Shop) -> None:
    process = Process()
    dead_letter(shop, "clean")
    process.run(*PURGE)
    assert {"ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"} < set(
        process.calls
    )
    for end, name in process.ends(BEFORE, AFTER):
        expected, before = dead_letter(shop, name), archives()
        process.kill(*PURGE, end=end)
        bodies = [one.original.body for one in shop.dead_letters()]
        left = names_of(body for body in bodies if body != BAD)
        assert archived(*(one for one in archives() if one not in before)) | left == expected, name
        if left:
            process.run(*PURGE)
        assert archived(*(one for one in archives() if one not in before)) == expected
        assert shop.only_dead_letter().original.body == BAD
