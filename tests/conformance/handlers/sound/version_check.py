"""Applies the numbered changes of a contract in their order, each to the version before it."""

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
from boto3.dynamodb.conditions import Attr

contracts = boto3.resource("dynamodb").Table(os.environ["CONTRACTS"])
processor = BatchProcessor(event_type=EventType.SQS)


def apply(record: SQSRecord) -> None:
    change = record.json_body
    found = contracts.get_item(Key={"contract_id": change["contract_id"]}, ConsistentRead=True)
    contract = found["Item"]
    if change["number"] <= contract["version"]:
        return  # applied before
    if change["number"] > contract["version"] + 1:
        raise ValueError(f"change {change['number']} came before its predecessor")
    seats = contract["seats"] + change["more_seats"]
    contracts.put_item(
        Item=contract | {"version": change["number"], "seats": seats},
        ConditionExpression=Attr("version").eq(contract["version"]),
    )


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, apply, processor, context)
