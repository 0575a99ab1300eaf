"""Another message that a handler accepts, and what a FIFO queue does not deliver."""

from pathlib import Path
from typing import Any

import pytest

from redelivery.examination import examine
from redelivery.faults import Fault
from tests.conformance.handler_source import kinds, results, subject

COUNTER = """
    import boto3
    import json

    def handler(event, context):
        for record in event["Records"]:
            json.loads(record["body"])
            boto3.resource("dynamodb", region_name="us-east-1").Table("orders").update_item(
                Key={"order_id": "all"},
                UpdateExpression="ADD orders :one",
                ExpressionAttributeValues={":one": 1},
            )
"""


def test_the_effect_of_another_message_that_is_accepted_is_no_difference(tmp_path: Path) -> None:
    found = results(tmp_path, COUNTER, "neighbour-fails", "sent-again")
    assert {name: kinds(result) for name, result in found.items()} == {
        "neighbour-fails@first": [],
        "neighbour-fails@last": [],
        "sent-again": ["doubled"],
    }


def test_a_fifo_queue_delivers_no_copy_within_five_minutes(tmp_path: Path) -> None:
    faults = ("sent-again", "delivered-again", "twice-in-batch", "in-parallel", "redriven")
    found = examine(subject(tmp_path, COUNTER, fifo=True), only=faults)
    assert {result.scenario: kinds(result) for result in found.results} == {
        "sent-again": [],
        "redriven": ["doubled"],
        "in-parallel@1": ["doubled"],  # its visibility timeout ends too early
        "in-parallel@1,1": ["doubled"],
    }
    assert found.not_run.keys() == {Fault.DELIVERED_AGAIN, Fault.TWICE_IN_BATCH}


def test_a_fault_that_was_not_asked_for_needs_no_reason(tmp_path: Path) -> None:
    given = subject(tmp_path, COUNTER, fifo=True)
    assert examine(given, only=["redriven"]).not_run == {}


FORWARD = """
    import boto3
    import json
    import time

    sqs = boto3.client("sqs", region_name="us-east-1")
    url = sqs.get_queue_url(QueueName="{queue}")["QueueUrl"]

    def handler(event, context):
        for record in event["Records"]:
            body = {{**json.loads(record["body"]), **{more}}}
            group = {{"MessageGroupId": "g"}} if url.endswith(".fifo") else {{}}
            sqs.send_message(QueueUrl=url, MessageBody=json.dumps(body), **group)
"""
STAMP = '{"at": time.time()}'


@pytest.mark.parametrize(
    ("queue", "more", "repeatable", "expected"),
    [
        ("out", "{}", (), {"sent-again": ["doubled"], "redriven": ["doubled"]}),
        ("out.fifo", "{}", (), {"sent-again": [], "redriven": ["doubled"]}),
        ("out", STAMP, ("out",), {"sent-again": [], "redriven": []}),
    ],
    ids=["a queue takes a copy", "a FIFO queue drops a copy for five minutes", "declared"],
)
def test_a_copy_that_its_receiver_drops_is_no_difference(
    tmp_path: Path, queue: str, more: str, repeatable: tuple[str, ...], expected: dict[str, Any]
) -> None:
    found = results(
        tmp_path,
        FORWARD.format(queue=queue, more=more),
        *expected,
        queues=[queue],
        repeatable=repeatable,
    )
    assert {name: kinds(result) for name, result in found.items()} == expected
