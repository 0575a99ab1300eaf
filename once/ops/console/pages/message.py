"""One message: a search as `once trace` has it, and the story of what was found."""

from collections.abc import Mapping
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from once.ops.aws.deployment import Deployment
from once.ops.console.rendering import page
from once.ops.console.state import state_of
from once.ops.console.story import Story, find_story, shortened
from once.ops.terminal.timestamps import parse_time_option

_SINCE = "2d"
"""The logs are read from then on; they alone show duplicates and retries."""


def _message(request: Request) -> Response:
    names = ("key", "source", "consumer", "since")
    given = {name: request.query_params.get(name, "").strip() for name in names}
    given["since"] = given["since"] or _SINCE
    state, found = state_of(request), None
    if given["key"]:
        asked = ("message", *given.values())
        found = state.kept.latest(request, asked, lambda: _find(state.deployment, given))
    return page(
        request,
        "message.html",
        given=given,
        consumers=[*state.deployment.consumers],
        story=None if isinstance(found, str) else found,
        not_found=found if isinstance(found, str) else None,
        shortened=shortened,
    )


def _find(deployment: Deployment, given: Mapping[str, str]) -> Story | str:
    now = datetime.now(UTC)
    return find_story(
        deployment,
        given["key"],
        consumer=given["consumer"] or None,
        sources=[given["source"]] if given["source"] else (),
        since=parse_time_option(given["since"], now=now, option="Logs since"),
        now=now,
    )


ROUTES = [Route("/message", _message, name="message")]
