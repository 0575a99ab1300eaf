"""Copies articles of a catalogue. An item is made of its message alone, and may be put again."""

import json
import os
from typing import Any

import boto3

articles = boto3.resource("dynamodb").Table(os.environ["ARTICLES"])


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    failures = []
    for record in event["Records"]:
        try:
            article = json.loads(record["body"])
            articles.put_item(
                Item={"sku": article["sku"], "name": article["name"], "price": article["price"]}
            )
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}
