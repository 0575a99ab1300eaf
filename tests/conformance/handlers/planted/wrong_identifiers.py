"""Stores meter readings. A failed reading is reported by its receipt handle."""

import json
import os
from typing import Any

import boto3

readings = boto3.resource("dynamodb").Table(os.environ["READINGS"])


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    failures = []
    for record in event["Records"]:
        try:
            store(json.loads(record["body"]))
        except Exception as error:
            print(f"reading not stored: {error!r}")  # noqa: T201 - it goes to CloudWatch Logs
            failures.append({"itemIdentifier": record["receiptHandle"]})
    return {"batchItemFailures": failures}


def store(reading: dict[str, Any]) -> None:
    readings.put_item(
        Item={
            "meter_id": reading["meter_id"],
            "read_on": reading["read_on"],
            "kwh": reading["kwh"],
        }
    )
