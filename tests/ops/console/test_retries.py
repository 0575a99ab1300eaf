"""Messages under retry and open breakers, from the lines that a consumer really logs."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from once.errors import NotDone, RetryableError
from once.events.identity import key_hash
from once.ops.aws.deployment import Deployment
from once.ops.aws.function_logs import ISOLATED, RETRIED, LogEntry
from once.ops.console.state import ConsoleState
from once.ops.errors import ExitCode
from once.ops.retries import retries_of
from tests.once.support import Log
from tests.ops.shop import KEY, Shop, note
from tests.ops.support import refuse, run, stderr_of, stdout_of, words


class Logged:
    """A consumer with messages in flight, whose log is in CloudWatch."""

    def __init__(self, shop: Shop, *names: str) -> None:
        self.shop, self.log, self._written = shop, Log(shop.aws), 0
        for name in names:
            shop.send(note(name))
        self.messages = shop.waiting()

    def deliver(self, error: Exception | None = None, receive_count: int = 1) -> None:
        """Deliver each message in a batch of its own; its handler raises the error."""
        bodies = [json.loads(message["Body"]) for message in self.messages]
        faults = dict.fromkeys((body["data"]["name"] for body in bodies), error)
        self.shop.outside.faults = {name: fault for name, fault in faults.items() if fault}
        for message in self.messages:
            self.shop._work_off([message], receive_count)
        lines = self.log.text().splitlines()
        self.shop.cloud.log("orders", *lines[self._written :])
        self._written = len(lines)


@pytest.fixture
def state(shop: Shop) -> ConsoleState:
    """The console of a deployment whose consumer `orders` writes real log lines."""
    return ConsoleState(Deployment.find())


def retrying() -> list[dict[str, Any]]:
    return list(json.loads(stdout_of("retries", "--json"))["retrying"])


def test_a_message_is_under_retry_until_it_commits(shop: Shop) -> None:
    logged = Logged(shop, "a", "b")
    assert "no message is under retry" in stdout_of("retries")
    logged.deliver(RetryableError("later"))
    logged.deliver(RetryableError("later"), 2)
    a, b = sorted(retrying(), key=lambda one: str(one["key_hash"] != key_hash(KEY)))
    assert (a["consumer"], a["key_hash"], a["event_type"]) == ("orders", key_hash(KEY), "noted")
    assert (a["receives"], a["receives_left"]) == (2, 3)
    assert a["error"].startswith("RetryableError")
    assert a["failing_since"] < a["next_attempt"]
    assert f"orders noted {a['error']} 2 3 " in words(stdout_of("retries"))
    row = json.loads(run("status", "--json").stdout)["queues"][1]
    assert (row["consumer"], row["retrying"], row["stuck"]) == ("orders", 2, [])
    logged.messages = [one for one in logged.messages if one["MessageId"] == b["message_id"]]
    logged.deliver(receive_count=3)
    assert [one["message_id"] for one in retrying()] == [a["message_id"]]


def test_a_dead_letter_is_no_more_under_retry(shop: Shop) -> None:
    logged = Logged(shop, "a")
    logged.deliver(RetryableError("later"), 4)
    assert len(retrying()) == 1
    logged.deliver(RetryableError("later"), 5)
    assert retrying() == []


def test_a_message_that_was_held_back_unread_and_isolated_counts_once() -> None:
    """A message that was not read has no key, by which its isolated copy would be known."""
    lines = [("m-1", RETRIED), ("m-2", RETRIED), ("m-1", ISOLATED), ("m-3", RETRIED)]
    entries = [
        LogEntry(datetime.now(UTC), "orders", message, {"message_id": name})
        for name, message in lines
    ]
    assert [one.message_id for one in retries_of("orders", entries).messages] == ["m-2", "m-3"]


def test_an_open_breaker_is_told_until_an_attempt_succeeds(shop: Shop, browser: TestClient) -> None:
    logged = Logged(shop, "a", "b", "c", "d")
    with shop.warm():
        logged.deliver(NotDone("503"))
    said = "its circuit breaker is open since"
    for shown in (stdout_of("retries"), stderr_of("status", code=ExitCode.STUCK)):
        assert f"orders: {said}" in words(shown)
        assert "after NotDone" in words(shown)
        assert "4 messages under retry" in words(shown)
    assert sorted(one["error"].split(" at ")[0] for one in retrying()) == [
        *["NotDone"] * 3,
        "Suspended",
    ]
    for path in ("", "retries"):
        assert "its circuit breaker is open" in browser.get(path).text
    logged.deliver(receive_count=2)
    assert said not in stdout_of("retries")
    stdout_of("status")


def test_a_log_that_cannot_be_read_is_named(shop: Shop, browser: TestClient) -> None:
    Logged(shop, "a").deliver(RetryableError("later"))
    refuse("logs.FilterLogEvents")
    assert "not all logs could be read: inventory:" in stderr_of("retries")
    assert "could not be read" in browser.get("retries").text
    row = json.loads(stdout_of("status", "--json"))["queues"][1]
    assert row["retrying"] is None
