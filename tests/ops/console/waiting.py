"""Jobs of the console, planned by a form, confirmed and waited for."""

import re
import threading
from typing import Any

from starlette.testclient import TestClient

from once.ops.console.jobs import Job
from once.ops.console.state import ConsoleState


def finished(job: Job) -> None:
    """Wait until a job has ended."""
    for thread in threading.enumerate():
        if thread.name == f"job {job.title}":
            thread.join()


def planned(browser: TestClient, state: ConsoleState, path: str, **fields: Any) -> Job:
    """Send a form, and return the job that it planned."""
    answer = browser.post(path, data=fields)
    found = re.search(r"/jobs/([\w-]+)$", str(answer.url))
    assert found, answer.text
    job = state.jobs.find(found[1])
    assert job
    return job


def confirmed(browser: TestClient, job: Job, why: str = "") -> str:
    """Confirm a job, wait for it, and return its page."""
    browser.post(f"jobs/{job.id}/start", data={"why": why})
    finished(job)
    return browser.get(f"jobs/{job.id}").text
