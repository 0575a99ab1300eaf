"""A console of the deployment in memory, a browser's requests to it, and the jobs that it plans."""

import re
import threading
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest
from starlette.testclient import TestClient

from once.ops.aws.deployment import Deployment
from once.ops.console import overview_page
from once.ops.console import state as console_state
from once.ops.console.jobs import Job
from once.ops.console.server import Address, console_app
from once.ops.console.state import ConsoleState
from tests.ops.cloud import Cloud

ADDRESS = Address(port=8080, token="a-token")
OWN = {"origin": "http://127.0.0.1:8080", "sec-fetch-site": "same-origin"}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each page wait for its reading, which is not what most tests are about."""
    for module in (console_state, overview_page):
        monkeypatch.setattr(module, "PATIENCE_SECONDS", 60)


@pytest.fixture
def state(cloud: Cloud) -> ConsoleState:
    return ConsoleState(Deployment.find())


@pytest.fixture
def browser(state: ConsoleState) -> Iterator[TestClient]:
    """Sends the requests of the console's own pages; paths are below its root."""
    with TestClient(console_app(state, ADDRESS), base_url=ADDRESS.url, headers=OWN) as client:
        yield client


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
    job = state.plans.latest(found[1], lambda: None, inf).value
    assert isinstance(job, Job)
    return job


def page_of(state: ConsoleState, job: Job) -> str:
    """Return the path of a job's page."""
    [found] = [name for name, kept in state.plans._kept.items() if kept.value == (job,)]
    return f"jobs/{found}"


def confirmed(browser: TestClient, state: ConsoleState, job: Job, why: str = "") -> str:
    """Confirm a job, wait for it, and return its page."""
    path = page_of(state, job)
    browser.post(f"{path}/start", data={"why": why})
    finished(job)
    return browser.get(path).text
