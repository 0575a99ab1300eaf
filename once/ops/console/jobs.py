"""Jobs: changes that an operator has seen as a dry run, has confirmed, and watches."""

import shlex
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from secrets import token_urlsafe
from typing import cast

from botocore.exceptions import BotoCoreError, ClientError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from typer import BadParameter

from once.ops.console.rendering import FormData, Request, Response, page
from once.ops.errors import OpsError, StoppedError, error_with_remedy, unexpected_error_text
from once.ops.terminal import DEFAULT_SERVICE

_MOST_KEPT = 100


class JobPhase(StrEnum):
    """Phase of a job."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PlanGroup:
    """Things of a plan with one verdict, and what happens to them.

    Attributes:
        kind: the kind of the verdict.
        number: how many they are.
        action: what happens to them, such as `stay`.
        why: the reasons, a line each.
        things: consumer and message id of some of them.
    """

    kind: str
    number: int
    action: str
    why: Sequence[str]
    things: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class NextStep:
    """A form that a job's page offers: its button's text, its path, and its fields."""

    label: str
    route: str
    fields: Sequence[tuple[str, str]]


@dataclass(slots=True)
class Progress:
    """Progress of a running job; its work sets the numbers, pages show them.

    `done` things of `total` were looked at, which is approximate on AWS, and None if not known.
    `counts` has results by name, such as `sent`; `result` what the operator should know of it
    afterwards, a line each; `undo` the form that undoes it. After `stop`, the work ends after what
    it is doing now.
    """

    total: int | None = None
    done: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    result: Sequence[str] = ()
    undo: Sequence[NextStep] = ()
    stop: threading.Event = field(default_factory=threading.Event)

    def advance(self, done: int, counts: Mapping[str, int] | None = None) -> None:
        """Set the numbers."""
        self.done = done
        self.counts = dict(counts or self.counts)

    def check_stop(self, text: Callable[[], str]) -> None:
        """Raise `StoppedError` with a text if the operator has stopped the job."""
        if self.stop.is_set():
            raise StoppedError(text())


@dataclass(slots=True)
class Job:
    """A change: first a plan, then its execution.

    Attributes:
        title: what it does, in words, such as `Redrive 3 dead letters of orders`.
        plan: what the dry run found, a line each.
        changes: number of things that it would change; with 0 it cannot be confirmed.
        work: does it; takes the operator's reason and the progress to advance.
        undo: what undoes it, in words.
        groups: what the dry run found, by verdict.
        instead: another plan that may be meant, as with a box that was not ticked.
        deletes: whether it deletes something.
        back: path of the page to return to, below the console's root.
        command: the command that does the same; None if there is none.
    """

    title: str
    plan: Sequence[str]
    changes: int
    work: Callable[[str | None, Progress], None] = field(repr=False)
    undo: str = ""
    groups: Sequence[PlanGroup] = ()
    instead: NextStep | None = None
    deletes: bool = False
    back: str = ""
    command: str | None = None
    id: str = field(default_factory=lambda: token_urlsafe(12))
    phase: JobPhase = JobPhase.PLANNED
    progress: Progress = field(default_factory=Progress)
    error: str | None = None


class Jobs:
    """The jobs of a console, the newest last; one that is not confirmed ends here."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def plan(self, job: Job) -> Job:
        """Keep a job until it is confirmed."""
        with self._lock:
            self._jobs[job.id] = job
            planned = [one for one in self._jobs.values() if one.phase is not JobPhase.RUNNING]
            for old in planned[: max(0, len(self._jobs) - _MOST_KEPT)]:
                del self._jobs[old.id]
        return job

    def find(self, job_id: str) -> Job | None:
        """Return a job; None if there is none, or it was planned too long ago."""
        with self._lock:
            return self._jobs.get(job_id)

    def start(self, job: Job, why: str | None) -> None:
        """Run a planned job in a thread of its own, once and only if it changes something."""
        with self._lock:
            if job.phase is not JobPhase.PLANNED or not job.changes:
                return
            job.phase = JobPhase.RUNNING
        threading.Thread(target=self._run, args=(job, why), name=f"job {job.title}").start()

    def _run(self, job: Job, why: str | None) -> None:
        try:
            job.work(why, job.progress)
            job.phase = JobPhase.DONE
        except StoppedError as error:
            job.phase, job.error = JobPhase.STOPPED, str(error)
        except (OpsError, BotoCoreError, ClientError) as error:
            job.phase, job.error = JobPhase.FAILED, error_with_remedy(error)
        except Exception as error:  # a thread's error would be seen by nobody
            job.phase, job.error = JobPhase.FAILED, unexpected_error_text(error)


def planning(
    plan: Callable[[Request, FormData], Job | Response],
) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that answers a form: it plans a job, and leads to the job's page.

    `plan` returns the job; or a page, if the form must be corrected.
    """

    async def answer(request: Request) -> Response:
        planned = await run_in_threadpool(plan, request, await request.form())
        if isinstance(planned, Response):
            return planned
        return _to_page(request, _jobs(request).plan(planned))

    return answer


def number_field(
    text: str, least: float, most: float, fault: str, option: str | None = None
) -> float:
    """Return the number in a field of a form.

    Raises:
        typer.BadParameter: it is no number from `least` to `most`; `fault` says so.
    """
    with suppress(ValueError):
        if least <= (number := float(text)) <= most:
            return number
    raise BadParameter(f"{text!r} {fault}", param_hint=option)


def shown_command(service: str, words: Sequence[str], options: Mapping[str, object]) -> str:
    """Return the command that does the same as a job, with the options that are set."""
    if service != DEFAULT_SERVICE:
        options = {**options, "service": service}
    told = [
        part
        for name, value in options.items()
        if value
        for part in (f"--{name.replace('_', '-')}", *([] if value is True else [str(value)]))
    ]
    return shlex.join(["once", *words, *told])


def job_page(request: Request) -> Response:
    """Return the page of a job."""
    return page(request, "job.html", job=_found(request))


async def start_job(request: Request) -> Response:
    """Run a confirmed job, and return to its page."""
    form = await request.form()
    job = _found(request)
    _jobs(request).start(job, str(form.get("why") or "").strip() or None)
    return _to_page(request, job)


def stop_job(request: Request) -> Response:
    """Let a job end after its present step."""
    job = _found(request)
    job.progress.stop.set()
    return _to_page(request, job)


def _found(request: Request) -> Job:
    job = _jobs(request).find(request.path_params["job_id"])
    if job is None:
        raise HTTPException(404, "there is no such job: it was planned too long ago")
    return job


def _jobs(request: Request) -> Jobs:
    return cast(Jobs, request.app.state.console.jobs)  # `state` imports this module


def _to_page(request: Request, job: Job) -> Response:
    url = request.url_for("job", job_id=job.id).path
    return RedirectResponse(url, status_code=HTTPStatus.SEE_OTHER)
