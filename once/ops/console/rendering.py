"""Rendering of pages from Jinja's templates, which escape every value."""

from datetime import UTC, datetime, timedelta
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from once.ops.console.state import state_of
from once.ops.terminal.formatting import escape_controls, format_age

NAVIGATION = (
    ("overview", "Overview"),
    ("dead-letters", "Dead letters"),
    ("message", "Message"),
    ("effects", "Effects"),
    ("outbox", "Outbox"),
    ("audit-log", "Audit log"),
)
"""Route and title of each page in the navigation."""


def _age(value: float | timedelta | None) -> str:
    if value is None:
        return "–"
    return format_age(value if isinstance(value, timedelta) else timedelta(seconds=value))


def _moment(value: datetime | None) -> str:
    return "–" if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


_templates = Environment(
    loader=PackageLoader("once.ops.console"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    # Control characters and those that change the direction of text deceive a reader too.
    finalize=lambda value: escape_controls(value) if type(value) is str else value,
)
_templates.filters |= {"age": _age, "moment": _moment}


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page.

    Args:
        request: the request.
        template: the template's file name, which extends `base.html`.
        status: the HTTP status.
        values: the template's values; all of them are escaped.
    """
    state = state_of(request)
    text = _templates.get_or_select_template(template).render(
        values
        | {
            "request": request,
            "link": lambda name, **parts: request.url_for(name, **parts).path,
            "service": state.deployment.service,
            "read_only": state.read_only,
            "navigation": NAVIGATION,
        }
    )
    return HTMLResponse(text, status_code=status)


def is_background(request: Request) -> bool:
    """Tell whether a page that is open is read again by its script, not opened by the operator."""
    return request.headers.get("sec-fetch-dest") == "empty"


def below_root(request: Request, name: str, **parts: str) -> str:
    """Return the path of a route below the console's root, as `Job.back` has it."""
    root = request.url_for("overview").path
    return request.url_for(name, **parts).path.removeprefix(root)
