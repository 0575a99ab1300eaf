"""Redeems a gift card once. A card that was redeemed is skipped, whatever the message says."""

import os
from typing import Any

import boto3
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

client = boto3.resource("dynamodb").meta.client
processor = BatchProcessor(event_type=EventType.SQS)


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


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, redeem, processor, context)
