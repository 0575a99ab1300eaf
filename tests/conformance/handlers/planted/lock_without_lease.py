"""Renews a subscription under a lock. A message that finds the lock is sent again for later."""

import json
import os
from typing import Any

import boto3

sqs = boto3.client("sqs")
dynamodb = boto3.resource("dynamodb")
renewals = dynamodb.Table(os.environ["RENEWALS"])
locks = dynamodb.Table(os.environ["LOCKS"])
Locked = renewals.meta.client.exceptions.ConditionalCheckFailedException


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    failures = []
    for record in event["Records"]:
        try:
            renewal = json.loads(record["body"])
            item = {"renewal_id": renewal["renewal_id"], "until": renewal["until"]}
            locks.put_item(
                Item={"renewal_id": item["renewal_id"]},
                ConditionExpression="attribute_not_exists(renewal_id)",
            )
            renewals.put_item(Item=item)
            locks.delete_item(Key={"renewal_id": item["renewal_id"]})
        except Locked:
            later(record["body"])
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def later(body: str) -> None:
    sqs.send_message(QueueUrl=os.environ["QUEUE_URL"], MessageBody=body, DelaySeconds=60)
