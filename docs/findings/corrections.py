"""Corrections of public handlers: the same work, written so that a check passes."""

import json
import os
from collections.abc import Callable
from typing import Any

import boto3

Event = dict[str, Any]


def batch_insert(event: Event, _: object) -> Event:
    """Write what DynamoDB did not process again; report what fails, by message."""
    client = boto3.client("dynamodb")

    def write(record: Event) -> None:
        requests = json.loads(record["body"])
        if not requests:
            raise ValueError("the message has no rows")
        while requests:  # in production with a pause that grows
            requests = client.batch_write_item(RequestItems=requests).get("UnprocessedItems")

    return _by_message(event, write)


def websocket_answer(event: Event, _: object) -> Event:
    """Report failures by message group. The client drops an answer whose requestId it knows."""
    client = boto3.client("apigatewaymanagementapi", endpoint_url=os.environ["ApiGatewayEndpoint"])  # noqa: SIM112 - its name

    def answer(record: Event) -> None:
        ids = {name: each["stringValue"] for name, each in record["messageAttributes"].items()}
        connection = ids["connectionId"]
        data = json.dumps({**ids, "message": record["body"]})
        client.post_to_connection(ConnectionId=connection, Data=data.encode())

    return _by_message(event, answer)


def tenant_dispatch(event: Event, _: object) -> Event:
    """Report failures by message group. The function drops an order whose id it knows."""
    client = boto3.client("lambda")

    def invoke(record: Event) -> None:
        if not isinstance(json.loads(record["body"]), dict):
            raise TypeError("the message is no JSON object")
        client.invoke(
            FunctionName=os.environ["TENANT_ISOLATED_FUNCTION_NAME"],
            InvocationType="Event",
            Payload=record["body"],
            TenantId=record["attributes"]["MessageGroupId"],
        )

    return _by_message(event, invoke)


def result_of_a_test(event: Event, _: object) -> Event:
    """Report failures by message: the others are stored, and do not come back."""
    results = boto3.resource("dynamodb").Table(os.environ["TESTRESULTSTABLE_TABLE_NAME"])

    def store(record: Event) -> None:
        data = json.loads(record["body"])["data"]
        queue = record["eventSourceARN"].rpartition(":")[2]
        results.put_item(Item={"id": data["id"], "Queue_Name": queue, "Message": data["message"]})

    return _by_message(event, store)


def _by_message(event: Event, work: Callable[[Event], None]) -> Event:
    """Work on each message; after one that fails, the rest of its group fails too."""
    failures: list[dict[str, str]] = []
    groups = set()
    for record in event["Records"]:
        group = record["attributes"].get("MessageGroupId", record["messageId"])
        try:
            if group not in groups:
                work(record)
                continue
        except Exception:
            groups.add(group)
        failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}
