"""The audit log: who changed what, when, why and with which outcome."""

from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from once.ops.console.audit_trail import TrailFilter, read_trail
from once.ops.console.rendering import page
from once.ops.console.state import state_of

_DAYS = (1, 7, 30, 365)


def _audit_log(request: Request) -> Response:
    chosen = _chosen(request)
    trail = read_trail(state_of(request).deployment.operator_log, chosen, datetime.now(UTC))
    return page(
        request,
        "audit_log.html",
        trail=trail,
        chosen=chosen,
        all_days=_DAYS,
        commands=sorted({change.command for change in trail.changes} | {chosen.command} - {""}),
    )


def _chosen(request: Request) -> TrailFilter:
    given = request.query_params
    days = given.get("days", "")
    return TrailFilter(
        who=given.get("who", "").strip(),
        command=given.get("command", "").strip(),
        days=int(days) if days in map(str, _DAYS) else 7,
    )


ROUTES = [Route("/audit-log", _audit_log, name="audit-log")]
