"""Plans of a redrive and of a purge: forms of the pages of dead letters lead here."""

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typer import BadParameter

from once.ops.console.letter_query import letter_options, query_text, query_values
from once.ops.console.pages.jobs import to_job
from once.ops.console.purge_job import purge_job
from once.ops.console.redrive_job import redrive_job
from once.ops.console.rendering import below_root
from once.ops.console.state import state_of
from once.ops.dead_letters.redrive import RedriveRequest
from once.ops.dead_letters.selection import LetterOptions

_MOST_PER_SECOND = 1000


async def _redrive(request: Request) -> Response:
    form = await request.form()
    options, ids = _chosen(request, form)
    asked = RedriveRequest(
        options=options,
        message_ids=ids,
        returning=bool(form.get("returning")),
        rate=_rate(str(form.get("rate") or "10")),
    )
    back = _back(request, form)
    return to_job(request, await run_in_threadpool(redrive_job, state_of(request), asked, back))


async def _purge(request: Request) -> Response:
    form = await request.form()
    options, ids = _chosen(request, form)
    back = _back(request, form)
    return to_job(
        request, await run_in_threadpool(purge_job, state_of(request), options, ids, back)
    )


def _chosen(request: Request, form: FormData) -> tuple[LetterOptions, list[str]]:
    """Return the filter and no ids; or ids, of which no filter is wanted but the consumer."""
    values = {name: form.get(name) for name in form}
    options = letter_options(values, state_of(request).deployment.service)
    if form.get("which") != "chosen":
        return options, []
    if not (ids := [str(one) for one in form.getlist("id")]):
        raise BadParameter("no letter is chosen: check one, or take all that match the filter")
    return LetterOptions(consumer=options.consumer, service=options.service), ids


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0
    if not 0.1 <= rate <= _MOST_PER_SECOND:
        raise BadParameter(
            f"{text!r} is no rate: give messages a second, from 0.1 to {_MOST_PER_SECOND}"
        )
    return rate


def _back(request: Request, form: FormData) -> str:
    values = {name: form.get(name) for name in form}
    options = letter_options(values, state_of(request).deployment.service)
    return below_root(request, "dead-letters") + query_text(query_values(options))


ROUTES = [
    Route("/dead-letters/redrive", _redrive, name="plan-redrive", methods=["POST"]),
    Route("/dead-letters/purge", _purge, name="plan-purge", methods=["POST"]),
]
