"""Notes the address of a customer. The function was written for batches of one message."""

import json
import os
from typing import Any

import boto3

customers = boto3.resource("dynamodb").Table(os.environ["CUSTOMERS"])


def handler(event: dict[str, Any], context: Any) -> None:
    customer = json.loads(event["Records"][0]["body"])
    customers.put_item(
        Item={"customer_id": customer["customer_id"], "address": customer["address"]}
    )
