"""The overview: depth of each queue, age of its oldest message, what is stuck."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from once.ops.console.rendering import page
from once.ops.console.state import state_of
from once.ops.status import MAX_AGE, read_status
from once.ops.terminal.timestamps import parse_age_option


def _overview(request: Request) -> Response:
    rows = read_status(state_of(request).deployment)
    most = parse_age_option(MAX_AGE, option="").total_seconds()
    stuck = {row.consumer: row.stuck(most) for row in rows}
    return page(request, "overview.html", rows=rows, stuck=stuck)


ROUTES = [Route("/", _overview, name="overview")]
