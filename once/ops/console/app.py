"""The console's application: its pages, static files and stream of changes."""

from importlib.resources import as_file, files

from botocore.exceptions import BotoCoreError, ClientError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from typer import BadParameter

from once.ops.console.access import Access, Address
from once.ops.console.pages import (
    audit_log,
    dead_letters,
    effects,
    jobs,
    letter,
    letter_changes,
    message,
    outbox,
    overview,
)
from once.ops.console.rendering import page
from once.ops.console.state import ConsoleState, state_of
from once.ops.errors import OpsError, error_with_remedy, unexpected_error_text

_PAGES = (
    *(overview, letter_changes, dead_letters, letter),
    *(message, effects, outbox, jobs, audit_log),
)


def console_app(state: ConsoleState, address: Address) -> ASGIApp:
    """Return the application of a console; every answer passes `Access`, errors included.

    Args:
        state: the deployment that it shows, and what it remembers.
        address: the console's own address; requests to others are refused.
    """
    with as_file(files("once.ops.console") / "static") as static:
        routes = [
            *(route for one in _PAGES for route in one.ROUTES),
            Route("/changes", _changes, name="changes"),
            Mount("/static", StaticFiles(directory=static), name="static"),
        ]
    app = Starlette(
        routes=[Mount(f"/{address.token}", routes=routes)],
        exception_handlers={
            **dict.fromkeys((OpsError, BotoCoreError, ClientError), _failed),
            BadParameter: _misused,
            Exception: _unexpected,  # is raised again, so that the terminal shows where it was
        },
    )
    app.state.console = state
    return Access(app, address, read_only=state.read_only)


async def _changes(request: Request) -> Response:
    events = state_of(request).changes.events(request.is_disconnected)
    return StreamingResponse(events, media_type="text/event-stream")


def _failed(request: Request, error: Exception) -> Response:
    return page(request, "error.html", status=502, error=error_with_remedy(error))


def _unexpected(request: Request, error: Exception) -> Response:
    return page(request, "error.html", status=500, error=unexpected_error_text(error))


def _misused(request: Request, error: Exception) -> Response:
    """Answer a form whose fields do not fit, in the words of the command's option."""
    text = error.format_message() if isinstance(error, BadParameter) else str(error)
    return page(request, "error.html", status=400, error=text)
