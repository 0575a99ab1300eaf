"""One message: a search as `once trace` has it, and the story of what was found."""

from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from once.ops.console.rendering import page
from once.ops.console.state import state_of
from once.ops.console.story import find_story, shortened
from once.ops.terminal.timestamps import parse_time_option

_SINCE = "2d"
"""The logs are read from then on; they alone show duplicates and retries."""


def _message(request: Request) -> Response:
    given = {name: request.query_params.get(name, "").strip() for name in ("source", "consumer")}
    key = request.query_params.get("key", "").strip()
    since = request.query_params.get("since", "").strip() or _SINCE
    deployment, now = state_of(request).deployment, datetime.now(UTC)
    found = None
    if key:
        found = find_story(
            deployment,
            key,
            consumer=given["consumer"] or None,
            sources=[given["source"]] if given["source"] else (),
            since=parse_time_option(since, now=now, option="Logs since"),
            now=now,
        )
    return page(
        request,
        "message.html",
        key=key,
        since=since,
        given=given,
        consumers=[*deployment.consumers],
        story=None if isinstance(found, str) else found,
        not_found=found if isinstance(found, str) else None,
        shortened=shortened,
    )


ROUTES = [Route("/message", _message, name="message")]
