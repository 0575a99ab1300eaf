"""Requests to AWS that need more than their parameters' plain form."""

import json
from pathlib import Path

import pytest

from redelivery.boundary.aws import AwsRequest, Names
from tests.conformance.handler_source import results

UPDATE = {"Update": {"TableName": "stock", "Key": {"sku": {"S": "tea"}}}}


@pytest.mark.parametrize("entry", [UPDATE, json.dumps(UPDATE).encode()])
def test_an_entry_of_a_transaction_may_be_encoded_by_the_handler(entry: object) -> None:
    names = Names({}, {"stock": ("sku",)})
    request = AwsRequest("dynamodb", "TransactWriteItems", {"TransactItems": [entry]}, names)
    assert request.touches == ("stock sku=tea",)


def test_a_message_that_the_handler_sends_again_is_delivered_and_no_effect(tmp_path: Path) -> None:
    found = results(
        tmp_path,
        """
        import json, os, boto3
        sqs, orders = boto3.client("sqs"), boto3.resource("dynamodb").Table("orders")
        def handler(event, context):
            for record in event["Records"]:
                if record["messageAttributes"]:
                    orders.put_item(Item=json.loads(record["body"]))
                else:
                    sqs.send_message(
                        QueueUrl=os.environ["QUEUE_URL"], MessageBody=record["body"],
                        DelaySeconds=60, MessageAttributes={
                            "later": {"DataType": "String", "StringValue": "1"}},
                    )
        """,
        "delivered-again",
        environment={"QUEUE_URL": "{source}"},
    )
    assert all(result.passed for result in found.values())
