"""Jobs: changes that an operator has seen as a dry run, has confirmed, and watches."""

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from math import inf
from secrets import token_urlsafe

from botocore.exceptions import BotoCoreError, ClientError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from typer import BadParameter

from once.ops.console.rendering import FormData, Request, Response, page
from once.ops.console.state import state_of
from once.ops.errors import OpsError, StoppedError, error_with_remedy, unexpected_error_text


class JobPhase(StrEnum):
    """Phase of a job."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PlanGroup:
    """Things of a plan with one verdict, and what happens to them, such as `stay`.

    `things` has consumer and message id of some of them.
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
        changes: number of things that it would change; with 0 it cannot be confirmed.
        work: does it; takes the operator's reason and the progress to advance.
        groups: what the dry run found, by verdict.
        instead: another plan that may be meant, as with a box that was not ticked.
        needs_reason: whether it is refused without the operator's reason.
        fails_again: whether messages that it sends would be dead-lettered again.
        back: path of the page to return to, below the console's root.
    """

    title: str
    plan: Sequence[str]
    changes: int
    work: Callable[[str | None, Progress], None] = field(repr=False)
    undo: str = ""
    groups: Sequence[PlanGroup] = ()
    instead: NextStep | None = None
    deletes: bool = False
    needs_reason: bool = False
    fails_again: bool = False
    back: str = ""
    phase: JobPhase = JobPhase.PLANNED
    thread: threading.Thread | None = field(default=None, repr=False)
    progress: Progress = field(default_factory=Progress)
    error: str | None = None

    def start(self, why: str | None) -> None:
        """Run it in a thread of its own, once and only if it changes something."""
        with _starting:  # two tabs of a browser may confirm the same job
            if self.phase is not JobPhase.PLANNED or not self.changes:
                return
            self.phase = JobPhase.RUNNING
        self.thread = threading.Thread(target=self._run, args=[why], name=f"job {self.title}")
        self.thread.start()

    def stop(self) -> None:
        """End it after its present step, as Ctrl-C ends a command; wait, if it is under way."""
        self.progress.stop.set()
        if self.thread is not None:
            self.thread.join()

    def _run(self, why: str | None) -> None:
        try:
            self.work(why, self.progress)
            self.phase = JobPhase.DONE
        except StoppedError as error:
            self.phase, self.error = JobPhase.STOPPED, str(error)
        except (OpsError, BotoCoreError, ClientError) as error:
            self.phase, self.error = JobPhase.FAILED, error_with_remedy(error)
        except Exception as error:  # otherwise the error of a thread would be lost
            self.phase, self.error = JobPhase.FAILED, unexpected_error_text(error)


_starting = threading.Lock()


def planning(
    plan: Callable[[Request, FormData], Job | Response],
) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that answers a form: it plans a job, and leads to the job's page.

    `plan` returns the job; or a page, if the form must be corrected. It may take as long as the
    dead letters take to be read: the job's page shows that it is under way.
    """

    async def answer(request: Request) -> Response:
        form, job_id = await request.form(), token_urlsafe(12)
        found = await run_in_threadpool(
            state_of(request).plans.latest, job_id, lambda: plan(request, form), inf
        )
        if found.known and isinstance(found.known[0], Response):
            return found.known[0]
        return _to_page(request, job_id)

    return answer


def number_field(form: FormData, default: float, least: float, most: float) -> float:
    """Return the number in the field `rate` of a form."""
    text = str(form.get("rate") or default)
    with suppress(ValueError):
        if least <= (number := float(text)) <= most:
            return number
    raise BadParameter(f"{text!r} is no number from {least} to {most}", param_hint="--rate")


def job_page(request: Request) -> Response:
    return page(request, "job.html", job=_found(request))


async def start_job(request: Request) -> Response:
    """Run a confirmed job, and return to its page."""
    form, job = await request.form(), _found(request)
    why = str(form.get("why") or "").strip() or None
    if job.needs_reason and why is None:
        raise BadParameter("say why: the operator log keeps it", param_hint="--why")
    state_of(request).started.append(job)
    job.start(why)
    return _to_page(request, request.path_params["job_id"])


def stop_job(request: Request) -> Response:
    """Let a job end after its present step."""
    _found(request).progress.stop.set()
    return _to_page(request, request.path_params["job_id"])


def _found(request: Request) -> Job:
    def gone() -> Job:
        raise HTTPException(404, "there is no such job: it was planned too long ago")

    found: Job | Response = (
        state_of(request).plans.latest(request.path_params["job_id"], gone, inf).value
    )
    return found if isinstance(found, Job) else gone()


def _to_page(request: Request, job_id: str) -> Response:
    url = request.url_for("job", job_id=job_id).path
    return RedirectResponse(url, status_code=HTTPStatus.SEE_OTHER)
