"""The plain webhook function as it is deployed."""

import os
from typing import Any

import boto3

from once.runtime.sdk import SDK

from .verify_then_put import verify_then_put

_handle = verify_then_put(
    boto3.client("dynamodb", config=SDK),
    table=os.environ["WEBHOOKS_TABLE"],
    secret=os.environ["WEBHOOKS_SECRET"],
)


def lambda_handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one webhook."""
    answer = _handle(event, context)
    # One line for each request, as the ingress writes it: the embedded AWS is slower without one.
    print(answer["statusCode"])  # noqa: T201
    return answer
