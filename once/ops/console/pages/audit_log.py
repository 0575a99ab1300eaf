"""The audit log: who changed what and when, from the operator log of the deployment."""

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from once.ops.aws.clients import client
from once.ops.console.rendering import page
from once.ops.console.state import state_of

_MOST = 200


def _audit_log(request: Request) -> Response:
    return page(
        request, "audit_log.html", entries=_entries(state_of(request).deployment.operator_log)
    )


def _entries(group: str) -> list[dict[str, Any]]:
    """Return the entries of the operator log, the newest first."""
    pages = client("logs").get_paginator("filter_log_events").paginate(logGroupName=group)
    events = [event for found in pages for event in found["events"]]
    newest = sorted(events, key=lambda event: -event["timestamp"])[:_MOST]
    return [json.loads(event["message"]) for event in newest]


ROUTES = [Route("/audit-log", _audit_log, name="audit-log")]
