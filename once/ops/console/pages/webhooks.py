"""Webhooks: the captures of the ingress, and one of them with its headers and its exact body."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typer import BadParameter

from once.ops.console.rendering import page
from once.ops.console.state import ConsoleState, state_of
from once.ops.errors import OpsError
from once.ops.webhooks.capture_text import (
    body_text,
    capture_rows,
    name_of,
    received_at,
    standing_text,
)
from once.ops.webhooks.captures import LIST_PERIOD, CaptureFilter, Captures
from once.webhooks.capture import Capture, Standing

MOST_READ = 5000
"""Most entries of the index that a page reads."""

_MOST_SHOWN = 100
_FIELDS = ("endpoint", "type", "since", "until", "standing")


def _webhooks(request: Request) -> Response:
    state = state_of(request)
    given = fields_of(request.query_params)
    if state.deployment.webhooks is None:
        return page(request, "webhooks.html", given=given, deployed=None, captures=[], more=False)
    asked = ("webhooks", *given.values())
    found = state.kept.latest(request, asked, lambda: _listed(state, given))
    return page(
        request,
        "webhooks.html",
        given=given,
        deployed=state.deployment.webhooks,
        captures=found[:_MOST_SHOWN],
        more=len(found) > _MOST_SHOWN,
        **_choices(state),
        **_TEXTS,
    )


def _listed(state: ConsoleState, given: Mapping[str, str]) -> list[Capture]:
    found = captures_of(state).matching(conditions_of(given))
    return [*islice(found, _MOST_SHOWN + 1)]


def _webhook(request: Request) -> Response:
    state = state_of(request)
    captures = captures_of(state)
    capture = captures.get(request.query_params.get("key", ""))
    try:
        body, fault = body_text(captures.body(capture)), None
    except OpsError as error:
        body, fault = None, str(error)
    return page(
        request,
        "webhook.html",
        capture=capture,
        rows=capture_rows(capture, datetime.now(UTC)),
        body=body,
        fault=fault,
        **_choices(state),
        **_TEXTS,
    )


def captures_of(state: ConsoleState) -> Captures:
    """Return the captures of a console, which reads at most `MOST_READ`.

    Raises:
        OpsError: the deployment has no ingress.
    """
    return Captures.of(state.deployment, MOST_READ)


def fields_of(form: Mapping[str, object]) -> dict[str, str]:
    """Return the fields of the filter, as texts."""
    return {name: str(form.get(name) or "").strip() for name in _FIELDS}


def conditions_of(given: Mapping[str, str]) -> CaptureFilter:
    """Return the filter of a form's fields; without a time, that of the last day.

    Raises:
        typer.BadParameter: a field cannot be read.
    """
    standing = given["standing"]
    if standing and standing not in [*Standing]:
        raise BadParameter(f"{standing!r} is none of {', '.join(Standing)}", param_hint="standing")
    return CaptureFilter.of(
        given["since"] or None,
        given["until"] or None,
        LIST_PERIOD,
        endpoint=given["endpoint"] or None,
        webhook_type=given["type"] or None,
        standing=Standing(standing) if standing else None,
    )


def _choices(state: ConsoleState) -> dict[str, Any]:
    """Return what the forms let an operator choose from."""
    consumers = [name for name, one in state.deployment.consumers.items() if one.events]
    return {"standings": [one.value for one in Standing], "consumers": consumers}


_TEXTS: dict[str, Any] = {
    "name_of": name_of,
    "received_at": received_at,
    "standing_text": standing_text,
}

ROUTES = [
    Route("/webhooks", _webhooks, name="webhooks"),
    Route("/webhooks/one", _webhook, name="webhook"),
]
