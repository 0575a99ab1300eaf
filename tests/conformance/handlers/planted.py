"""Handlers with one planted bug each, as teams write them."""

import json
import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import httpx
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from botocore.exceptions import BotoCoreError, ClientError

Event = dict[str, Any]

dynamodb = boto3.resource("dynamodb")
client = dynamodb.meta.client
sns, sqs = boto3.client("sns"), boto3.client("sqs")
logger = Logger(service="access-log")
processor = BatchProcessor(event_type=EventType.SQS)
background = ThreadPoolExecutor(max_workers=2)


def table(variable: str) -> Any:
    return dynamodb.Table(os.environ[variable])


def each(event: Event, process: Callable[[Event], object], identifier: str = "messageId") -> Event:
    """Process the records one by one, and report those that fail."""
    failures = []
    for record in event["Records"]:
        try:
            process(json.loads(record["body"]))
        except Exception:
            failures.append({"itemIdentifier": record[identifier]})
    return {"batchItemFailures": failures}


def announce_first(event: Event, context: Any) -> Event:
    """Opens an account and announces it on a topic. The announcement precedes the condition."""
    return each(event, open_account)


def open_account(account: Event) -> None:
    sns.publish(TopicArn=os.environ["TOPIC_ARN"], Message=json.dumps(account))
    try:
        table("ACCOUNTS").put_item(
            Item=account, ConditionExpression="attribute_not_exists(account_id)"
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise


def background_thread(event: Event, context: Any) -> Event:
    """Stores the result of a survey in the background, so that the function answers at once."""
    return each(event, lambda answers: background.submit(store_result, answers))


def store_result(item: Event) -> None:
    table("RESULTS").put_item(Item=item)


def conflict_is_duplicate(event: Event, context: Any) -> Event:
    """Takes a sold article out of stock. A cancelled transaction counts as a duplicate."""
    return each(event, sell)


def sell(sale: Event) -> None:
    put = {
        "TableName": os.environ["SALES"],
        "Item": sale,
        "ConditionExpression": "attribute_not_exists(sale_id)",
    }
    stock = {
        "TableName": os.environ["STOCK"],
        "Key": {"sku": sale["sku"]},
        "UpdateExpression": "SET available = available - :quantity",
        "ExpressionAttributeValues": {":quantity": sale["quantity"]},
    }
    try:
        client.transact_write_items(TransactItems=[{"Put": put}, {"Update": stock}])
    except client.exceptions.TransactionCanceledException:
        return  # sold before


def counter_beside_put(event: Event, context: Any) -> Any:
    """Registers a user, then counts the registrations of the day: two calls, no transaction."""
    return process_partial_response(event, register, processor, context)


def register(record: SQSRecord) -> None:
    user = record.json_body
    try:
        table("USERS").put_item(Item=user, ConditionExpression="attribute_not_exists(user_id)")
    except client.exceptions.ConditionalCheckFailedException:
        return  # registered before
    table("STATISTICS").update_item(
        Key={"day": user["day"]},
        UpdateExpression="ADD registrations :one",
        ExpressionAttributeValues={":one": 1},
    )


def first_record(event: Event, context: Any) -> None:
    """Notes the address of a customer. The function was written for batches of one message."""
    table("CUSTOMERS").put_item(Item=json.loads(event["Records"][0]["body"]))


def fresh_charge_key(event: Event, context: Any) -> Any:
    """Charges an order and stores the payment. Each attempt has an Idempotency-Key of its own."""
    return process_partial_response(event, charge, processor, context)


def charge(record: SQSRecord) -> None:
    order, payments = record.json_body, table("PAYMENTS")
    if "Item" in payments.get_item(Key={"order_id": order["order_id"]}, ConsistentRead=True):
        return
    answer = httpx.post(
        os.environ["PAYMENTS_API"] + "/charges",
        headers={"Idempotency-Key": str(uuid.uuid4())},
        json={"amount": order["amount"], "card": order["card"]},
    )
    answer.raise_for_status()
    payments.put_item(
        Item={"order_id": order["order_id"], "charge_id": answer.json()["id"]},
        ConditionExpression="attribute_not_exists(order_id)",
    )


def lock_without_lease(event: Event, context: Any) -> Event:
    """Renews a subscription under a lock. A message that finds the lock is sent for later."""
    return each(event, renew)


def renew(renewal: Event) -> None:
    locks, lock = table("LOCKS"), {"renewal_id": renewal["renewal_id"]}
    try:
        locks.put_item(Item=lock, ConditionExpression="attribute_not_exists(renewal_id)")
    except client.exceptions.ConditionalCheckFailedException:
        body = json.dumps(renewal)
        sqs.send_message(QueueUrl=os.environ["QUEUE_URL"], MessageBody=body, DelaySeconds=60)
        return
    table("RENEWALS").put_item(Item=renewal)
    locks.delete_item(Key=lock)


def look_up_first(event: Event, context: Any) -> Event:
    """Books stock movements. One read finds those of the batch that were booked before."""
    booked = booked_before([record["body"] for record in event["Records"]])

    def unless_booked(movement: Event) -> None:
        if movement["movement_id"] not in booked:
            book(movement)

    return each(event, unless_booked)


def booked_before(bodies: list[str]) -> set[str]:
    keys = [{"movement_id": key} for key in {movement_id(body) for body in bodies} if key]
    if not keys:
        return set()
    request = {os.environ["MOVEMENTS"]: {"Keys": keys, "ConsistentRead": True}}
    answer = dynamodb.batch_get_item(RequestItems=request)
    return {str(item["movement_id"]) for item in answer["Responses"][os.environ["MOVEMENTS"]]}


def movement_id(body: str) -> Any:
    try:
        return json.loads(body).get("movement_id")
    except ValueError:
        return None


def book(movement: Event) -> None:
    stock = {
        "TableName": os.environ["STOCK"],
        "Key": {"sku": movement["sku"]},
        "UpdateExpression": "ADD available :quantity",
        "ExpressionAttributeValues": {":quantity": movement["quantity"]},
    }
    put = {"TableName": os.environ["MOVEMENTS"], "Item": movement}
    client.transact_write_items(TransactItems=[{"Put": put}, {"Update": stock}])


def no_fingerprint(event: Event, context: Any) -> Any:
    """Redeems a gift card once. A card that was redeemed is skipped, whatever the message says."""
    return process_partial_response(event, redeem, processor, context)


def redeem(record: SQSRecord) -> None:
    card = record.json_body
    spent = {
        "TableName": os.environ["CARDS"],
        "Item": {"card_id": card["card_id"]},
        "ConditionExpression": "attribute_not_exists(card_id)",
    }
    credit = {
        "TableName": os.environ["CUSTOMERS"],
        "Key": {"customer_id": card["customer_id"]},
        "UpdateExpression": "ADD credit :amount",
        "ExpressionAttributeValues": {":amount": card["amount"]},
    }
    try:
        client.transact_write_items(TransactItems=[{"Put": spent}, {"Update": credit}])
    except client.exceptions.TransactionCanceledException as error:
        if error.response["CancellationReasons"][0]["Code"] != "ConditionalCheckFailed":
            raise


def swallowed_errors(event: Event, context: Any) -> Any:
    """Stores the entries of an access log. An entry that cannot be stored is logged and left."""
    return process_partial_response(event, store_entry, processor, context)


def store_entry(record: SQSRecord) -> None:
    entry = record.json_body
    item = {name: entry[name] for name in ("entry_id", "user", "action")}
    try:
        table("ENTRIES").put_item(Item=item)
    except (BotoCoreError, ClientError):
        logger.exception("the entry is not stored", extra={"entry_id": entry["entry_id"]})


def wrong_identifiers(event: Event, context: Any) -> Event:
    """Stores meter readings. A failed reading is reported by its receipt handle."""
    return each(event, store_reading, identifier="receiptHandle")


def store_reading(reading: Event) -> None:
    table("READINGS").put_item(
        Item={name: reading[name] for name in ("meter_id", "read_on", "kwh")}
    )
