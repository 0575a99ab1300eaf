"""Adds votes to a poll. The dedup record holds the vote's digest; other content is an error."""

import hashlib
import os
import time
from typing import Any

import boto3
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

dynamodb = boto3.client("dynamodb")
processor = BatchProcessor(event_type=EventType.SQS)

WINDOW_SECONDS = 30 * 24 * 60 * 60


def count(record: SQSRecord) -> None:
    vote = record.json_body
    digest = {"S": hashlib.sha256(f"{vote['poll']}\n{vote['choice']}".encode()).hexdigest()}
    expires_at = {"N": str(int(time.time()) + WINDOW_SECONDS)}
    dedup = {
        "TableName": os.environ["VOTES"],
        "Item": {"vote_id": {"S": vote["vote_id"]}, "digest": digest, "expires_at": expires_at},
        "ConditionExpression": "attribute_not_exists(vote_id)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    votes = {
        "TableName": os.environ["POLLS"],
        "Key": {"poll": {"S": vote["poll"]}, "choice": {"S": vote["choice"]}},
        "UpdateExpression": "ADD votes :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    try:
        dynamodb.transact_write_items(TransactItems=[{"Put": dedup}, {"Update": votes}])
    except dynamodb.exceptions.TransactionCanceledException as error:
        if error.response["CancellationReasons"][0].get("Item", {}).get("digest") != digest:
            raise


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, count, processor, context)
