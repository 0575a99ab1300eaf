"""Handlers whose verdict is known. The first word of each says whether it is sound or broken."""

import io
import json
import os
from pathlib import Path
from typing import Any

import boto3
import urllib3
from botocore.exceptions import ClientError

Event = dict[str, Any]

dynamodb, sqs, s3 = boto3.client("dynamodb"), boto3.client("sqs"), boto3.client("s3")
http = urllib3.PoolManager()


def orders(event: Event) -> list[Event]:
    return [json.loads(record["body"]) for record in event["Records"]]


def item(order: Event) -> Event:
    return {"order_id": {"S": order["order_id"]}, "amount": {"N": str(order["amount"])}}


def addition(order: Event) -> Event:
    return {
        "TableName": "orders",
        "Key": {"order_id": {"S": order["order_id"]}},
        "UpdateExpression": "ADD amount :amount",
        "ExpressionAttributeValues": {":amount": {"N": str(order["amount"])}},
    }


def ack_before_write(event: Event, _: object) -> None:
    """Broken: the message is deleted before its order is stored. A crash in between loses it."""
    for record, order in zip(event["Records"], orders(event), strict=True):
        sqs.delete_message(QueueUrl=os.environ["QUEUE_URL"], ReceiptHandle=record["receiptHandle"])
        dynamodb.put_item(TableName="orders", Item=item(order))


def get_then_put(event: Event, _: object) -> None:
    """Broken: two invocations both find no order, and both add to the total."""
    for order in orders(event):
        key = {"order_id": {"S": order["order_id"]}}
        if "Item" not in dynamodb.get_item(TableName="orders", Key=key, ConsistentRead=True):
            dynamodb.update_item(**addition(order))


def message_id_as_key(event: Event, _: object) -> None:
    """Broken: the MessageId is the idempotency key, and a message sent again has a new one."""
    for record, order in zip(event["Records"], orders(event), strict=True):
        marker = {
            "TableName": "processed",
            "Item": {"message_id": {"S": record["messageId"]}},
            "ConditionExpression": "attribute_not_exists(message_id)",
        }
        try:
            dynamodb.transact_write_items(
                TransactItems=[{"Put": marker}, {"Update": addition(order)}]
            )
        except ClientError as error:
            if "ConditionalCheckFailed" not in str(error):
                raise


def token_alone(event: Event, _: object) -> None:
    """Broken: DynamoDB remembers a request token for ten minutes, and no longer."""
    for order in orders(event):
        dynamodb.transact_write_items(
            TransactItems=[{"Update": addition(order)}], ClientRequestToken=order["order_id"]
        )


def charge_without_key(event: Event, _: object) -> None:
    """Broken: the provider cannot recognise a second attempt to charge."""
    for order in orders(event):
        http.request("POST", "https://payments.example/charges", body=json.dumps(order))


def marker_in_a_file(event: Event, _: object) -> None:
    """Not to be judged: a file outlives the simulated process."""
    for order in orders(event):
        marker = Path(os.environ["FOLDER"], order["order_id"])
        if not marker.exists():
            marker.write_text("processed")
            dynamodb.update_item(**addition(order))


def upload(event: Event, _: object) -> None:
    """Sound: a stream is sent again from its beginning, to the same key."""
    for order in orders(event):
        body = io.BytesIO(json.dumps(order).encode())
        s3.put_object(Bucket="orders", Key=order["order_id"], Body=body)
