"""The console answers its operator alone; what it remembers, and the jobs that it runs."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from math import inf
from typing import Any

import pytest
from starlette.testclient import TestClient

from once.ops.console import dead_letter_pages
from once.ops.console import state as console_state
from once.ops.console.jobs import Job, JobPhase, Progress
from once.ops.console.server import console_app, console_server
from once.ops.console.state import ConsoleState, QueueReadings, Readings
from once.ops.dead_letters.dead_letter import DeadLetter
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.errors import OpsError
from tests.ops.cloud import Cloud
from tests.ops.console.conftest import ADDRESS, OWN, finished
from tests.ops.support import refuse

ROOT = "http://127.0.0.1:8080"
OTHER_SITE = {"origin": "https://example.com", "sec-fetch-site": "cross-site"}


SECOND: tuple[tuple[list[tuple[str, str]], tuple[str, str], int], ...] = (
    ([("host", "127.0.0.1:8080")], ("host", "attacker.example"), 421),
    ([("host", "127.0.0.1:8080")], ("host", "127.0.0.1:8080"), 421),
    ([], ("origin", "https://example.com"), 403),
    ([], ("origin", OWN["origin"]), 403),
    ([], ("sec-fetch-site", "cross-site"), 403),
    ([], ("sec-fetch-site", "same-origin"), 403),
)
"""A second header of a name: it is not defined which of the two counts."""
REQUESTS: list[tuple[str, dict[str, str] | list[tuple[str, str]], int]] = [
    ("", {}, 200),
    ("", {"host": "localhost:8080"}, 200),
    ("", {"host": "attacker.example"}, 421),
    ("", {"host": "127.0.0.1:9090"}, 421),
    (f"{ROOT}/other-token/", {}, 403),
    (f"{ROOT}/", {}, 403),
    ("", OTHER_SITE, 403),
    ("", {"origin": "http://127.0.0.1:9090", "sec-fetch-site": "same-site"}, 403),
    ("", {"origin": "null", "sec-fetch-site": "none"}, 403),
    ("", {"origin": OWN["origin"], "sec-fetch-site": "none"}, 200),
    *(("", [*OWN.items(), *first, second], status) for first, second, status in SECOND),
    ("static/console.css", {}, 200),
    ("static/%2e%2e/app.py", {}, 404),
    ("nothing", {}, 404),
]


def test_a_request_is_answered_if_it_is_the_operators(browser: TestClient) -> None:
    for path, headers, status in REQUESTS:
        answer = browser.get(path, headers=headers)
        assert (path, headers, answer.status_code) == (path, headers, status)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["referrer-policy"] == "same-origin"


def test_a_form_of_another_site_or_without_an_origin_is_refused(
    browser: TestClient, state: ConsoleState
) -> None:
    assert browser.post("jobs/x/start", headers=OTHER_SITE).status_code == 403
    assert browser.post("jobs/x/start").status_code == 404  # its own form; there is no job x
    with TestClient(console_app(state, ADDRESS), base_url=ADDRESS.url) as client:
        assert client.post("jobs/x/start").status_code == 403


def test_a_read_only_console_refuses_every_change(state: ConsoleState) -> None:
    read_only = ConsoleState(state.deployment, read_only=True)
    with TestClient(console_app(read_only, ADDRESS), base_url=ADDRESS.url, headers=OWN) as client:
        assert client.post("jobs/x/start").status_code == 403
        assert "read-only" in client.get("").text


def test_an_error_of_the_console_is_a_page_of_its_own(
    state: ConsoleState, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> None:
        raise ValueError("<b>a fault</b>")

    monkeypatch.setattr(console_state, "read_status", fails)
    app = console_app(state, ADDRESS)
    with TestClient(
        app, base_url=ADDRESS.url, headers=OWN, raise_server_exceptions=False
    ) as client:
        answer = client.get("")
    assert answer.status_code == 500
    assert "&lt;b&gt;a fault" in answer.text
    assert "content-security-policy" in answer.headers


def test_a_taken_port_is_an_error(state: ConsoleState) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = console_server(state, other.getsockname()[1])
        with pytest.raises(OpsError, match="another --port"):
            taken.__enter__()


def test_a_job_is_planned_confirmed_and_run_once(browser: TestClient, state: ConsoleState) -> None:
    reasons: list[str | None] = []

    def work(why: str | None, progress: Progress) -> None:
        reasons.append(why)
        progress.advance(2, {"sent": 2})

    job = Job("Redrive 2 messages", ["one", "<b>two</b>"], 2, work)
    state.plans.latest("x", lambda: job, inf)
    planned = browser.get("jobs/x").text
    assert "&lt;b&gt;two&lt;/b&gt;" in planned
    assert not reasons
    for _ in range(2):
        answer = browser.post("jobs/x/start", data={"why": " provider is back "})
        finished(job)
    assert reasons == ["provider is back"]
    assert "<dd>2</dd>" in answer.text


def test_a_plan_without_changes_cannot_be_started(browser: TestClient, state: ConsoleState) -> None:
    job = Job("Redrive nothing", [], 0, lambda why, progress: None)
    state.plans.latest("x", lambda: job, inf)
    assert "start" not in browser.get("jobs/x").text
    browser.post("jobs/x/start")
    assert job.phase is JobPhase.PLANNED


def readings_ended() -> None:
    for thread in threading.enumerate():
        if thread.name == "reading":
            thread.join(20)


@pytest.fixture
def read() -> Callable[[], int]:
    """Returns another number each time."""
    return count(1).__next__


def test_a_reading_is_kept_for_the_age_that_is_asked_for(read: Callable[[], int]) -> None:
    readings = Readings()
    found = [readings.latest("a", read, age).value for age in (30, 30, inf, 0, 30)]
    assert found == [1, 1, 1, 2, 2]
    assert readings.latest("b", read, 30).value == 3


def test_a_reading_that_failed_is_told_once_and_not_kept(read: Callable[[], int]) -> None:
    readings = Readings()

    def fail() -> int:
        raise OpsError("the queue is gone")

    with pytest.raises(OpsError):
        readings.latest("a", fail, 30)
    assert readings.latest("a", read, inf).value == 1


def test_a_page_keeps_its_last_reading_while_aws_is_gone(
    browser: TestClient, state: ConsoleState, cloud: Cloud
) -> None:
    cloud.bury("orders")
    assert "data-stale" not in browser.get("").text
    refuse("sqs.GetQueueAttributes", "ServiceUnavailable")
    state.readings._kept["queues"].at = -inf  # it is old
    text = browser.get("").text
    assert "data-stale" in text
    assert "AWS could not be read" in text
    assert "1 dead letter" in text


def test_a_reading_that_takes_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_state, "SLOW_SECONDS", 0)
    readings, end = Readings(), threading.Event()
    assert readings.latest("a", lambda: 1, 0).fault is None
    found = readings.latest("a", lambda: end.wait(20), 0, patience=0)
    assert (found.value, found.fault and found.fault.split(" has ")[0]) == (1, "The next reading")
    end.set()


def test_the_end_of_the_console_stops_a_job_with_its_sentence(
    state: ConsoleState, browser: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    begun = threading.Event()

    def work(why: str | None, progress: Progress) -> None:
        begun.set()
        assert progress.stop.wait(20)
        progress.check_stop(lambda: "stopped: 3 certainly sent back")

    job = Job("Redrive 9 messages", [], 9, work)
    state.plans.latest("x", lambda: job, inf)
    browser.post("jobs/x/start")
    assert begun.wait(20)
    with console_server(state) as server:
        monkeypatch.setattr(server, "run", lambda sockets: None)
        server.serve_until_stopped()
    assert job.phase is JobPhase.STOPPED
    assert "Redrive 9 messages: stopped: 3 certainly sent back" in capsys.readouterr().err


def test_a_page_does_not_wait_for_a_long_reading(
    browser: TestClient, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it reads, then shows a part, then all; and the last reading during the next."""
    cloud.bury("orders", reason="permanent", error="ValueError: first")
    monkeypatch.setattr(console_state, "PATIENCE_SECONDS", 0)
    monkeypatch.setattr(dead_letter_pages, "FRESH_SECONDS", 0)
    begun, shown = threading.Semaphore(0), threading.Semaphore(0)
    pages = QueueWalk.pages

    def slow_pages(walk: QueueWalk) -> Iterator[Sequence[DeadLetter]]:
        for some in pages(walk):
            begun.release()
            assert shown.acquire(timeout=20)
            yield some
        begun.release()
        assert shown.acquire(timeout=20)

    monkeypatch.setattr(QueueWalk, "pages", slow_pages)
    for first in ("Reading from AWS", "ValueError: first"):
        text = browser.get("dead-letters").text
        assert "data-reading" in text
        assert first in text
        assert begun.acquire(timeout=20)
        shown.release()
        assert begun.acquire(timeout=20)
        text = browser.get("dead-letters").text
        assert "data-reading" in text
        assert "ValueError: first" in text
        shown.release()
        readings_ended()
        text = browser.get("dead-letters", headers={"sec-fetch-dest": "empty"}).text
        assert "data-reading" not in text
        assert "ValueError: first" in text


def test_requests_at_the_same_time_read_once(read: Callable[[], int]) -> None:
    readings, begun, end, found = Readings(), threading.Event(), threading.Event(), list[int]()

    def read_slowly() -> int:
        begun.set()
        assert end.wait(10)
        return read()

    threads = [
        threading.Thread(target=lambda: found.append(readings.latest("a", read_slowly, 30).value))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    assert readings.latest("b", read, 30).value == 1  # another key does not wait
    end.set()
    for thread in threads:
        thread.join()
    assert found == [2, 2, 2]


def test_a_change_of_messages_ends_their_readings(read: Callable[[], int]) -> None:
    messages = QueueReadings()
    assert messages.latest("a", read, 15).value == 1
    with messages.changing():
        during = messages.latest("a", read, 0, patience=0.01)
        assert (during.value, during.under_way) == (1, True)
        assert messages.latest("b", read, 0, patience=0.01).known == ()
        with pytest.raises(OpsError, match="a change of this console"), messages.held():
            pass
    assert messages.latest("a", read, inf).value > 1
