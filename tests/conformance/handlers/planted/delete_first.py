"""Stores the position of a parcel. Deletes the message first, so that it is not processed twice."""

import json
import os
from typing import Any

import boto3

sqs = boto3.client("sqs")
parcels = boto3.resource("dynamodb").Table(os.environ["PARCELS"])


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    failures = []
    for record in event["Records"]:
        try:
            scan = json.loads(record["body"])
            item = {"parcel_id": scan["parcel_id"], "depot": scan["depot"]}
            sqs.delete_message(
                QueueUrl=os.environ["QUEUE_URL"], ReceiptHandle=record["receiptHandle"]
            )
            parcels.put_item(Item=item)
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}
