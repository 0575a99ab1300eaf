"""Plain webhook function: verifies Stripe's signature and puts one item, with boto3 alone."""

import base64
import hmac
import json
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from botocore.exceptions import ClientError

Handle = Callable[[dict[str, Any], Any], dict[str, Any]]

_TOLERANCE_SECONDS = 5 * 60
_KEPT_SECONDS = 30 * 24 * 60 * 60
_DUPLICATE = "ConditionalCheckFailedException"


def verify_then_put(client: Any, *, table: str, secret: str) -> Handle:
    """Return a function that stores each genuine webhook once.

    It publishes nothing, and keeps neither a second secret nor a second version of a webhook. The
    key of the table is `pk`.
    """

    def handle(event: dict[str, Any], _: Any) -> dict[str, Any]:
        text = event["body"]
        body = base64.b64decode(text) if event["isBase64Encoded"] else text.encode()
        if not _is_genuine(event["headers"].get("stripe-signature", ""), body, secret):
            return _answer(401)
        try:
            client.put_item(
                TableName=table,
                Item=_item(body),
                ConditionExpression="attribute_not_exists(pk)",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != _DUPLICATE:
                raise
        return _answer(200)

    return handle


def _is_genuine(header: str, body: bytes, secret: str) -> bool:
    parts = dict(part.split("=", 1) for part in header.split(",") if "=" in part)
    timestamp = parts.get("t", "")
    signed = hmac.new(secret.encode(), timestamp.encode() + b"." + body, sha256).hexdigest()
    if not hmac.compare_digest(signed.encode(), parts.get("v1", "").encode()):
        return False
    return abs(time.time() - int(timestamp)) <= _TOLERANCE_SECONDS


def _item(body: bytes) -> dict[str, Any]:
    webhook, now = json.loads(body), int(time.time())
    return {
        "pk": {"S": webhook["id"]},
        "type": {"S": webhook["type"]},
        "body": {"B": body},
        "received_at": {"N": str(now)},
        "expires_at": {"N": str(now + _KEPT_SECONDS)},
    }


def _answer(status: int) -> dict[str, Any]:
    return {"statusCode": status, "headers": {"content-type": "text/plain"}, "body": ""}
