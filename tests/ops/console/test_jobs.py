"""A job runs once, after its confirmation; its page shows the plan, the progress and the end."""

from starlette.testclient import TestClient

from once.ops.console.jobs import Job, JobPhase, Progress
from once.ops.console.state import ConsoleState
from once.ops.errors import OpsError
from tests.ops.console.waiting import finished


def test_a_job_is_planned_confirmed_and_run_once(browser: TestClient, state: ConsoleState) -> None:
    reasons: list[str | None] = []

    def work(why: str | None, progress: Progress) -> None:
        reasons.append(why)
        progress.advance(2, {"sent": 2})

    job = state.jobs.plan(Job("Redrive 2 letters", ["one", "<b>two</b>"], 2, work))
    planned = browser.get(f"jobs/{job.id}").text
    assert "&lt;b&gt;two&lt;/b&gt;" in planned
    assert not reasons
    for _ in range(2):
        answer = browser.post(f"jobs/{job.id}/start", data={"why": " provider is back "})
        finished(job)
    assert reasons == ["provider is back"]
    assert "<dd>2</dd>" in answer.text


def test_a_job_that_fails_says_why(browser: TestClient, state: ConsoleState) -> None:
    def work(why: str | None, progress: Progress) -> None:
        raise OpsError("the queue is gone")

    job = state.jobs.plan(Job("Purge", ["one"], 1, work))
    browser.post(f"jobs/{job.id}/start")
    finished(job)
    assert job.phase is JobPhase.FAILED
    assert "the queue is gone" in browser.get(f"jobs/{job.id}").text


def test_a_plan_without_changes_cannot_be_started(browser: TestClient, state: ConsoleState) -> None:
    job = state.jobs.plan(Job("Redrive nothing", [], 0, lambda why, progress: None))
    assert "start" not in browser.get(f"jobs/{job.id}").text
    browser.post(f"jobs/{job.id}/start")
    assert job.phase is JobPhase.PLANNED
