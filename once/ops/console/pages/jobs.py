"""A job: its plan with a confirmation, its progress while it runs, its result."""

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from once.ops.console.jobs import Job
from once.ops.console.rendering import page
from once.ops.console.state import state_of


def to_job(request: Request, job: Job) -> RedirectResponse:
    """Keep a planned job, and send the browser to its page."""
    state_of(request).jobs.plan(job)
    url = request.url_for("job", job_id=job.id).path
    return RedirectResponse(url, status_code=HTTPStatus.SEE_OTHER)


def _job(request: Request) -> Response:
    return page(request, "job.html", job=_found(request))


async def _start(request: Request) -> Response:
    form = await request.form()
    job = _found(request)
    state_of(request).jobs.start(job, str(form.get("why") or "").strip() or None)
    url = request.url_for("job", job_id=job.id).path
    return RedirectResponse(url, status_code=HTTPStatus.SEE_OTHER)


def _stop(request: Request) -> Response:
    job = _found(request)
    job.progress.stop.set()
    url = request.url_for("job", job_id=job.id).path
    return RedirectResponse(url, status_code=HTTPStatus.SEE_OTHER)


def _found(request: Request) -> Job:
    job = state_of(request).jobs.find(request.path_params["job_id"])
    if job is None:
        raise HTTPException(404, "there is no such job: it was planned too long ago")
    return job


ROUTES = [
    Route("/jobs/{job_id}", _job, name="job"),
    Route("/jobs/{job_id}/start", _start, name="start-job", methods=["POST"]),
    Route("/jobs/{job_id}/stop", _stop, name="stop-job", methods=["POST"]),
]
