"""A console of a deployment whose consumer `orders` writes real dead letters."""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from once.ops.aws.deployment import Deployment
from once.ops.console.jobs import Job
from once.ops.console.state import ConsoleState
from tests.ops.letters import Shop

Plan = Callable[..., Job]


@pytest.fixture
def state(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConsoleState:
    """The console; exports go into a temporary folder."""
    monkeypatch.chdir(tmp_path)
    return ConsoleState(Deployment.find())


@pytest.fixture
def plan(browser: TestClient, state: ConsoleState) -> Plan:
    """Posts a form that plans a job; returns the job."""

    def post(path: str, **form: Any) -> Job:
        answer = browser.post(path, data=form, follow_redirects=False)
        assert answer.status_code == 303, answer.text
        job = state.jobs.find(answer.headers["location"].rsplit("/", 1)[-1])
        assert job is not None
        return job

    return post


@pytest.fixture
def confirm(browser: TestClient) -> Callable[[Job], str]:
    """Confirms a job, and returns its page after its end."""

    def run(job: Job) -> str:
        browser.post(f"jobs/{job.id}/start", data={"why": "mended"})
        for thread in threading.enumerate():
            if thread.name == f"job {job.title}":
                thread.join()
        return words(browser.get(f"jobs/{job.id}").text)

    return run


def words(html: str) -> str:
    """The page's text with single blanks."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())
