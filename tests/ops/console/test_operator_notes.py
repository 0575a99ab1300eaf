"""Notes of operators on the console's pages: a pause, and who works on a failure."""

from datetime import UTC, datetime

from starlette.testclient import TestClient

from once.ops.console.jobs import JobPhase
from once.ops.console.state import ConsoleState
from once.ops.operator_notes import Pause, write_pause
from tests.ops.cloud import Cloud
from tests.ops.console.conftest import confirmed, planned
from tests.ops.mappings import QUEUE, Lambda
from tests.ops.support import stdout_of


def test_the_console_pauses_with_a_reason_and_shows_the_pause(
    cloud: Cloud,
    mappings: Lambda,
    browser: TestClient,
    state: ConsoleState,
) -> None:
    job = planned(browser, state, "pause", consumer="orders")
    assert "say why" in confirmed(browser, state, job) or job.phase is JobPhase.PLANNED
    confirmed(browser, state, job, why="rolling back")
    assert (job.phase, mappings.states[QUEUE]) == (JobPhase.DONE, "Disabled")
    state.readings._kept.clear()
    page = browser.get("").text
    assert "paused since" in page
    assert "rolling back" in page
    for path in ("retries", "dead-letters?consumer=orders", "dead-letters/letters?consumer=orders"):
        assert "rolling back" in browser.get(path).text
    assert "orders is paused since" in stdout_of("retries")
    resumed = planned(browser, state, "pause", consumer="orders", resume="yes")
    confirmed(browser, state, resumed)
    assert (resumed.phase, mappings.states[QUEUE]) == (JobPhase.DONE, "Enabled")
    assert [entry["command"] for entry in cloud.logged()] == ["pause"] * 2 + ["resume"] * 2


def test_the_console_notes_it_and_shows_it_at_the_group_and_the_need(
    cloud: Cloud,
    browser: TestClient,
    state: ConsoleState,
) -> None:
    for reason in ("permanent", "invalid-data"):
        cloud.bury("orders", reason=reason, error="NoCard at pay:7")
    for path in ("dead-letters/letters?consumer=orders", ""):
        assert "works on it" not in browser.get(path).text
    job = planned(browser, state, "acknowledge", consumer="orders", reason="permanent")
    confirmed(browser, state, job, why="rolling back")
    state.readings._kept.clear()
    paths = ("", "dead-letters", "dead-letters/letters?consumer=orders&reason=permanent")
    for path in paths:
        assert browser.get(path).text.count("rolling back") == 1
    now = datetime.now(UTC)
    write_pause(state.deployment, "orders", Pause("a", now, "provider is down", now))
    state.readings._kept.clear()
    page = browser.get("").text
    assert ("provider is down" in page, page.count("rolling back")) == (True, 1)
    other = browser.get("dead-letters/letters?consumer=orders&reason=invalid-data").text
    assert "rolling back" not in other
