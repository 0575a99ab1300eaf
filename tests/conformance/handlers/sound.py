"""Sound handlers: no fault makes a difference to them."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import requests
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

Event = dict[str, Any]

dynamodb = boto3.resource("dynamodb")
client = dynamodb.meta.client
sns = boto3.client("sns")
processor = BatchProcessor(event_type=EventType.SQS)
pool = ThreadPoolExecutor(max_workers=4)

WINDOW_SECONDS = 30 * 24 * 60 * 60


def table(variable: str) -> Any:
    return dynamodb.Table(os.environ[variable])


def each(event: Event, process: Callable[[Event], object]) -> Event:
    """Process the records one by one, and report those that fail."""
    failures = []
    for record in event["Records"]:
        try:
            process(json.loads(record["body"]))
        except Exception as error:
            print(f"not processed: {error!r}")  # noqa: T201 - it goes to CloudWatch Logs
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def announce_after(event: Event, context: Any) -> Event:
    """Stores a listing, then announces it. A duplicate announces it again: subscribers allow it."""
    return each(event, enlist)


def enlist(listing: Event) -> None:
    item = {name: listing[name] for name in ("listing_id", "street", "price")}
    listings = table("LISTINGS")
    try:
        listings.put_item(Item=item, ConditionExpression="attribute_not_exists(listing_id)")
    except client.exceptions.ConditionalCheckFailedException:
        found = listings.get_item(Key={"listing_id": item["listing_id"]}, ConsistentRead=True)
        if found["Item"] != item:
            raise
    # Also for a duplicate: the delivery that stored the listing may have ended before this.
    sns.publish(TopicArn=os.environ["TOPIC_ARN"], Message=json.dumps(item, sort_keys=True))


def fingerprint(event: Event, context: Any) -> Any:
    """Adds votes to a poll. The dedup record holds the vote's digest; other content is an error."""
    return process_partial_response(event, count, processor, context)


def count(record: SQSRecord) -> None:
    vote = record.json_body
    digest = hashlib.sha256(f"{vote['poll']}\n{vote['choice']}".encode()).hexdigest()
    expires_at = int(time.time()) + WINDOW_SECONDS
    dedup = {
        "TableName": os.environ["VOTES"],
        "Item": {"vote_id": vote["vote_id"], "digest": digest, "expires_at": expires_at},
        "ConditionExpression": "attribute_not_exists(vote_id)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    votes = {
        "TableName": os.environ["POLLS"],
        "Key": {"poll": vote["poll"], "choice": vote["choice"]},
        "UpdateExpression": "ADD votes :one",
        "ExpressionAttributeValues": {":one": 1},
    }
    try:
        client.transact_write_items(TransactItems=[{"Put": dedup}, {"Update": votes}])
    except client.exceptions.TransactionCanceledException as error:
        stored = error.response["CancellationReasons"][0].get("Item", {}).get("digest")
        if stored not in (digest, {"S": digest}):
            raise


def stable_charge_key(event: Event, context: Any) -> Any:
    """Charges an order and stores the payment. The Idempotency-Key is made of the order's id."""
    return process_partial_response(event, charge, processor, context)


def charge(record: SQSRecord) -> None:
    order, payments = record.json_body, table("PAYMENTS")
    request = {"amount": order["amount"], "card": order["card"]}
    # The provider forgets a key after a day. The stored payment is remembered longer.
    found = payments.get_item(Key={"order_id": order["order_id"]}, ConsistentRead=True)
    if "Item" in found:
        if found["Item"]["request"] != request:
            raise ValueError(f"{order['order_id']} was charged with another content")
        return
    answer = requests.post(
        os.environ["PAYMENTS_API"] + "/charges",
        json=request,
        headers={"Idempotency-Key": f"charge-{order['order_id']}"},
        timeout=10,
    )
    answer.raise_for_status()
    item = {"order_id": order["order_id"], "request": request, "charge_id": answer.json()["id"]}
    payments.put_item(Item=item)


def thread_pool(event: Event, context: Any) -> Event:
    """Adds deposits to balances, four messages at a time, with a record of each deposit."""
    records = event["Records"]
    succeeded = list(pool.map(deposit, [record["body"] for record in records]))
    failed = [r["messageId"] for r, ok in zip(records, succeeded, strict=True) if not ok]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def deposit(body: str) -> bool:
    try:
        add(json.loads(body))
    except client.exceptions.TransactionCanceledException as error:
        # The record of the deposit exists; other reasons are worth another attempt.
        return bool(error.response["CancellationReasons"][0]["Code"] == "ConditionalCheckFailed")
    except Exception as error:
        print(f"not deposited: {error!r}")  # noqa: T201 - it goes to CloudWatch Logs
        return False
    return True


def add(deposit: Event) -> None:
    record = {
        "TableName": os.environ["DEPOSITS"],
        "Item": {"deposit_id": deposit["deposit_id"]},
        "ConditionExpression": "attribute_not_exists(deposit_id)",
    }
    balance = {
        "TableName": os.environ["BALANCES"],
        "Key": {"account_id": deposit["account_id"]},
        "UpdateExpression": "ADD balance :amount",
        "ExpressionAttributeValues": {":amount": deposit["amount"]},
    }
    client.transact_write_items(TransactItems=[{"Put": record}, {"Update": balance}])


def upsert(event: Event, context: Any) -> Event:
    """Copies articles of a catalogue. An item is made of its message alone."""
    return each(event, lambda article: table("ARTICLES").put_item(Item=article))
