"""The shop's ingress, which dies or writes past the transaction if a request's header says so."""

import os
import signal
from typing import Any

import boto3
from botocore.exceptions import ClientError

from once.runtime.deadline import Context
from once.webhooks.endpoint import CAPTURES, WebhookSettings
from once.webhooks.ingress import WebhookIngress
from once.webhooks.webhook import LambdaAnswer, answer

SETTINGS = WebhookSettings.from_env()
INGRESS = WebhookIngress.of(SETTINGS)


def lambda_handler(event: dict[str, Any], context: Context) -> LambdaAnswer:
    fault = event["headers"].get("x-fault")
    if fault == "die-before":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "write":
        return _write_directly()
    answered = INGRESS.handle(event, context)
    if fault == "die-after":
        os.kill(os.getpid(), signal.SIGKILL)
    return answered


def _write_directly() -> LambdaAnswer:
    table = SETTINGS.tables[CAPTURES].name
    try:
        boto3.client("dynamodb").put_item(TableName=table, Item={"pk": {"S": "direct"}})
    except ClientError as error:
        return answer(500, error.response["Error"]["Code"])
    return answer(200)
