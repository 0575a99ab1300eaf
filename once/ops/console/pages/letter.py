"""One dead letter: all that `once dlq show` shows, and the form that edits its body."""

from datetime import UTC, datetime

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from once.events.cloud_event import CloudEvent
from once.ops.console.edit_job import edit_job
from once.ops.console.letter_query import query_text
from once.ops.console.letter_reading import read_letter
from once.ops.console.pages.jobs import to_job
from once.ops.console.rendering import below_root, is_background, page
from once.ops.console.state import state_of
from once.ops.dead_letters.assessment import AssessedLetter, remedy
from once.ops.dead_letters.edit import RefusedEditError, editable_text, printable_json
from once.ops.dead_letters.letter_text import body_text, claimed_text, letter_rows
from once.ops.errors import OpsError


def _letter(request: Request) -> Response:
    try:
        assessed = _read(request)
    except OpsError as error:
        return page(request, "dead_letter_gone.html", status=404, error=error)
    context, letter = assessed.context, assessed.context.letter
    pretty, todo = body_text(letter), remedy(letter.reason)
    return page(
        request,
        "dead_letter.html",
        letter=letter,
        rows=[*letter_rows(context, datetime.now(UTC))],
        verdict=assessed.verdict,
        todo=None if todo and todo in assessed.verdict.why else todo,
        pretty=pretty,
        raw=None if pretty == letter.original.body else letter.original.body,
        claimed=claimed_text(context),
        story=_story(request, assessed),
    )


def _edit(request: Request) -> Response:
    letter = _read(request).context.letter
    return _form(request, printable_json(editable_text(letter)))


async def _plan_edit(request: Request) -> Response:
    form = await request.form()
    body = str(form.get("body") or "").replace("\r\n", "\n").strip()  # as forms send a line break
    parts = request.path_params
    back = below_root(request, "letter", **parts)
    try:
        job = await run_in_threadpool(
            edit_job, state_of(request), parts["consumer"], parts["message_id"], body, back
        )
    except RefusedEditError as error:
        return _form(request, body, f"it cannot be sent so: {error}")
    return to_job(request, job)


def _form(request: Request, text: str, refused: str | None = None) -> Response:
    status = 200 if refused is None else 422
    return page(
        request,
        "dead_letter_edit.html",
        status=status,
        text=text,
        refused=refused,
        **request.path_params,
    )


def _read(request: Request) -> AssessedLetter:
    state, parts = state_of(request), request.path_params
    consumer, message_id = parts["consumer"], parts["message_id"]
    return state.letters.get(
        (consumer, message_id),
        lambda: read_letter(state.deployment, consumer, message_id),
        keep=is_background(request),
    )


def _story(request: Request, assessed: AssessedLetter) -> str:
    """Return the address of the story of the letter's event."""
    context = assessed.context
    event = context.event
    found = (
        {"key": event.id, "source": event.source}
        if isinstance(event, CloudEvent)
        else {"key": context.pk or context.letter.message_id}
    )
    return request.url_for("message").path + query_text(found)


_PATH = "/dead-letters/{consumer}/{message_id}"

ROUTES = [
    Route(_PATH, _letter, name="letter"),
    Route(f"{_PATH}/edit", _edit, name="edit-letter"),
    Route(f"{_PATH}/edit", _plan_edit, name="plan-edit", methods=["POST"]),
]
