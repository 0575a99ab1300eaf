"""Stores the result of a survey in the background, so that the function answers at once."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3

results = boto3.resource("dynamodb").Table(os.environ["RESULTS"])
background = ThreadPoolExecutor(max_workers=2)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    failures = []
    for record in event["Records"]:
        try:
            answers = json.loads(record["body"])
            item = {"survey_id": answers["survey_id"], "score": answers["score"]}
            background.submit(store, item)
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def store(item: dict[str, Any]) -> None:
    results.put_item(Item=item)
