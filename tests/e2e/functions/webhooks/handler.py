"""The shop's ingress, which dies before or after its work if a request's header says so."""

import os
import signal
from typing import Any

from once.runtime.deadline import Context
from once.runtime.lambda_http import LambdaAnswer
from once.webhooks.endpoint import WebhookSettings
from once.webhooks.ingress import Ingress

INGRESS = Ingress.of(WebhookSettings.from_env())


def lambda_handler(event: dict[str, Any], context: Context) -> LambdaAnswer:
    fault = event["headers"].get("x-fault")
    if fault == "die-before":
        os.kill(os.getpid(), signal.SIGKILL)
    answered = INGRESS.handle(event, context)
    if fault == "die-after":
        os.kill(os.getpid(), signal.SIGKILL)
    return answered
