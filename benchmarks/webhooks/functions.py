"""Both functions, warm, against the bench's DynamoDB."""

import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

from aws_lambda_powertools import Logger

from benchmarks.contenders.base import Connect
from benchmarks.dynamodb import CAPTURES, DEDUP, KEYS
from benchmarks.webhooks.deployed.verify_then_put import Handle, verify_then_put
from benchmarks.webhooks.requests import ENDPOINT, SECRET, TYPE
from once.settings import TableSettings
from once.webhooks.endpoint import STRIPE, Endpoint
from once.webhooks.ingress import WebhookIngress
from once.webhooks.settings import WebhookSettings
from once.webhooks.signature import SecretCache

PUT, INGRESS = "verify, then put", "webhook ingress"

_LOG = StringIO()
"""Target of log and metrics: writing them is part of the measured work."""

_DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class WebhookFunction:
    """One of both functions.

    Attributes:
        name: its name in the tables.
        prepare: makes the warm function; takes a function that makes clients.
    """

    name: str
    prepare: Callable[[Connect], Handle]


class _Secrets:
    """Secrets Manager with the one secret, which was never rotated."""

    def get_secret_value(self, *, SecretId: str, VersionStage: str) -> Any:  # noqa: N803, ARG002
        """Return the secret for each version."""
        return {"SecretString": SECRET}


def _put(connect: Connect) -> Handle:
    return verify_then_put(connect("dynamodb"), table=CAPTURES, secret=SECRET)


def _ingress(connect: Connect) -> Handle:
    ingress = WebhookIngress(
        settings=_settings(),
        dynamodb=connect("dynamodb"),
        secrets=SecretCache(_Secrets(), {ENDPOINT: "arn"}, time.time),
        logger=Logger(service="webhooks", stream=_LOG),
    )

    def handle(event: dict[str, Any], context: Any) -> Any:
        with redirect_stdout(_LOG):
            return ingress.handle(event, context)

    return handle


def _settings() -> WebhookSettings:
    endpoint = Endpoint(ENDPOINT, STRIPE, types=(TYPE,))
    return WebhookSettings(
        consumer="webhooks",
        dedup_table=DEDUP,
        tables={CAPTURES: TableSettings(CAPTURES, (KEYS[CAPTURES],))},
        dedup_window_seconds=45 * _DAY,
        publishes=endpoint.event_types,
        endpoints=(endpoint,),
        secrets={ENDPOINT: "arn"},
        capture_seconds=30 * _DAY,
    )


FUNCTIONS = (WebhookFunction(PUT, _put), WebhookFunction(INGRESS, _ingress))
"""The plain function first: ratios are to it."""
