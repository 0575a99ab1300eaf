"""Stores a listing, then announces it. A duplicate announces again: subscribers tolerate that."""

import json
import os
from typing import Any

import boto3

sns = boto3.client("sns")
listings = boto3.resource("dynamodb").Table(os.environ["LISTINGS"])


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    failures = []
    for record in event["Records"]:
        try:
            listing = json.loads(record["body"])
            store({name: listing[name] for name in ("listing_id", "street", "price")})
        except Exception as error:
            print(f"not listed: {error!r}")  # noqa: T201 - it goes to CloudWatch Logs
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def store(listing: dict[str, Any]) -> None:
    try:
        listings.put_item(Item=listing, ConditionExpression="attribute_not_exists(listing_id)")
    except listings.meta.client.exceptions.ConditionalCheckFailedException:
        found = listings.get_item(Key={"listing_id": listing["listing_id"]}, ConsistentRead=True)
        if found["Item"] != listing:
            raise
    # Also for a duplicate: the delivery that stored the listing may have ended before this.
    sns.publish(TopicArn=os.environ["TOPIC_ARN"], Message=json.dumps(listing, sort_keys=True))
