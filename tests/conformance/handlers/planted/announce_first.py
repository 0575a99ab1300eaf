"""Opens an account and announces it on a topic. The announcement comes before the condition."""

import json
import os
from typing import Any

import boto3
from botocore.exceptions import ClientError

sns = boto3.client("sns")
accounts = boto3.resource("dynamodb").Table(os.environ["ACCOUNTS"])


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    failures = []
    for record in event["Records"]:
        try:
            open_account(json.loads(record["body"]))
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def open_account(request: dict[str, Any]) -> None:
    account = {"account_id": request["account_id"], "owner": request["owner"]}
    sns.publish(TopicArn=os.environ["TOPIC_ARN"], Message=json.dumps(account))
    try:
        accounts.put_item(Item=account, ConditionExpression="attribute_not_exists(account_id)")
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
