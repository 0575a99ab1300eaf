"""A handler that ends its own process, as Lambda sees it."""

from pathlib import Path

import pytest

from redelivery import SubjectError
from redelivery.examination import examine
from tests.conformance.handler_source import kinds, results, subject

EXITS_ON_DUPLICATES = """
    import boto3
    import json
    import sys

    def handler(event, context):
        orders = boto3.resource("dynamodb", region_name="us-east-1").Table("orders")
        for record in event["Records"]:
            order = json.loads(record["body"])
            if "Item" in orders.get_item(Key={"order_id": order["order_id"]}):
                sys.exit(1)
            orders.put_item(Item=order)
"""


def test_its_batch_is_delivered_again_to_a_new_process(tmp_path: Path) -> None:
    result = results(tmp_path, EXITS_ON_DUPLICATES, "sent-again")["sent-again"]
    assert kinds(result) == ["dead-lettered"]
    ends = [n for n, step in enumerate(result.course) if step == "the handler ends its process"]
    assert "process 2" in result.course[ends[0] + 2]


def test_without_a_fault_it_is_an_error_and_no_exit_of_the_check(tmp_path: Path) -> None:
    source = "import sys\ndef handler(event, context): sys.exit(1)"
    with pytest.raises(SubjectError, match="the handler ends its process"):
        examine(subject(tmp_path, source))
