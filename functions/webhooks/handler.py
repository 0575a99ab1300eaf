"""Webhooks: the endpoints are in the registry, `stacks/webhooks.py`."""

import os
from functools import cache
from typing import Any

from once.runtime.deadline import Context
from once.runtime.lambda_http import LambdaAnswer
from once.webhooks.endpoint import WebhookSettings
from once.webhooks.ingress import Ingress


@cache
def _ingress() -> Ingress:
    return Ingress.of(WebhookSettings.from_env())


def lambda_handler(event: dict[str, Any], context: Context) -> LambdaAnswer:
    """Answer one webhook."""
    return _ingress().handle(event, context)


if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    _ingress()  # missing settings fail the start of the function, and not its first webhook
