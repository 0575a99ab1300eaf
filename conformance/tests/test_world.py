"""The world of a run: resources, processes, answers to SQS, FIFO queues and other messages."""

import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from moto.core.base_backend import BackendDict
from moto.sqs.models import SQSBackend

from redelivery import SubjectError, Table
from redelivery.check import isolated
from redelivery.examination import examine
from redelivery.faults import Fault
from redelivery.world.queue import failed_ids
from redelivery.world.world import START, world

from .support import kinds, results, subject

BATCH = [{"messageId": "a"}, {"messageId": "b"}]


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        (None, set()),
        ({}, set()),
        ("done", set()),
        ({"batchItemFailures": []}, set()),
        ({"batchItemFailures": None}, set()),
        ({"batchItemFailures": [{"itemIdentifier": "a"}]}, {"a"}),
        ({"batchItemFailures": [{"itemIdentifier": "unknown"}]}, {"a", "b"}),
        ({"batchItemFailures": [{"itemIdentifier": ""}]}, {"a", "b"}),
        ({"batchItemFailures": [{"itemIdentifier": None}]}, {"a", "b"}),
        ({"batchItemFailures": [{"wrong": "a"}]}, {"a", "b"}),
        ({"batchItemFailures": "a"}, {"a", "b"}),
    ],
)
def test_messages_that_come_again(answer: Any, failed: set[str]) -> None:
    assert set(failed_ids(answer, BATCH, partial=True)) == failed


def test_without_report_batch_item_failures_every_answer_is_success() -> None:
    answer = {"batchItemFailures": [{"itemIdentifier": "a"}]}
    assert set(failed_ids(answer, BATCH, partial=False)) == set()


def unready() -> None:
    raise ConnectionError("no server")


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"queues": ["two words"]}, "queue two words cannot be created: .*alphanumeric"),
        ({"buckets": ["b"]}, "bucket b cannot be created: .*InvalidBucketName"),
        (
            {"tables": [Table("orders", "id", items=[{"id": "1", "price": 1.5}])]},
            "table orders cannot be created: Float types are not supported",
        ),
        (
            {"tables": [Table("orders", "id", items=[{"order": "1"}])]},
            "table orders cannot be created: .*ValidationException",
        ),
        ({"set_up": unready}, r"set_up fails: ConnectionError\('no server'\)"),
    ],
)
def test_the_error_names_what_cannot_be_created(
    tmp_path: Path, declared: dict[str, Any], message: str
) -> None:
    given = subject(tmp_path, "def handler(event, context): ...", **declared)
    with pytest.raises(SubjectError, match=message):
        examine(given)


def test_the_callers_log_handlers_and_filters_are_untouched(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    root = logging.getLogger()
    before = (root.level, root.handlers[:], warnings.filters[:])
    with isolated():
        logging.basicConfig(stream=sys.stdout, level=logging.DEBUG, format="%(message)s")
        logging.getLogger("app").debug("logged")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert (root.level, root.handlers, warnings.filters[:]) == before
    assert caplog.records == []
    assert capsys.readouterr() == ("logged\n", "")


def test_without_a_fault_it_is_an_error_and_no_exit_of_the_check(tmp_path: Path) -> None:
    source = "import sys\ndef handler(event, context): sys.exit(1)"
    with pytest.raises(SubjectError, match="the handler ends its process"):
        examine(subject(tmp_path, source))


def test_two_services_that_are_first_used_in_two_runs_are_both_emptied(tmp_path: Path) -> None:
    made = []
    with world(subject(tmp_path, "def handler(event, context): ...")) as shared:
        for _ in range(3):  # the first one also makes the kit's clients
            shared.reset(START, 1)  # so that the handler's random numbers are the same
            made.append(BackendDict(SQSBackend, "sqs"))
    assert hash(made[1]) != hash(made[2])  # what moto distinguishes them by


HAS_A_HOOK_AND_A_COUNTER = """
    import boto3
    import json

    client, handled = boto3.client("dynamodb", region_name="us-east-1"), []

    def add_one(params, **_):
        params["Item"]["n"]["N"] = str(int(params["Item"]["n"]["N"]) + 1)

    client.meta.events.register("before-parameter-build.dynamodb.PutItem", add_one)

    def handler(event, context):
        for record in event["Records"]:
            order = json.loads(record["body"])
            handled.append(order)
            client.put_item(
                TableName="orders",
                Item={"order_id": {"S": order["order_id"]}, "n": {"N": str(len(handled))}},
            )
"""


def test_a_new_process_has_new_modules_and_new_clients(tmp_path: Path) -> None:
    found = results(tmp_path, HAS_A_HOOK_AND_A_COUNTER, "dies-before", "delivered-again")
    assert {name: kinds(result) for name, result in found.items()} == {
        "dies-before@1.1": [],
        "delivered-again@warm": ["overwritten"],  # the process, and its counter, are the same
        "delivered-again@cold": [],
    }


def test_an_error_at_import_has_its_line(tmp_path: Path) -> None:
    source = "import os\n\nTABLE = os.environ['NO_SUCH_TABLE']\n"
    with pytest.raises(SubjectError, match=r"app cannot be imported: KeyError.* at app\.py:3"):
        examine(subject(tmp_path, source))


def test_what_the_handler_warns_of_is_reported_once(tmp_path: Path) -> None:
    source = COUNTER.replace("    def handler", "    import warnings\n\n    def handler").replace(
        "for record", "warnings.warn('no key was found', stacklevel=1)\n        for record"
    )
    found = examine(subject(tmp_path, source), only=["redriven"])
    assert found.warnings == ("app.py:8 warns: no key was found",)


# Another message that a handler accepts, and what a FIFO queue does not deliver.


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
    assert examine(subject(tmp_path, COUNTER, fifo=True), only=["redriven"]).not_run == {}


FORWARD = """
    import boto3

    sqs = boto3.client("sqs", region_name="us-east-1")
    url = sqs.get_queue_url(QueueName="out.fifo")["QueueUrl"]

    def handler(event, context):
        for record in event["Records"]:
            sqs.send_message(QueueUrl=url, MessageBody=record["body"], MessageGroupId="g")
"""


def test_a_fifo_queue_that_the_handler_sends_to_drops_a_copy(tmp_path: Path) -> None:
    found = results(tmp_path, FORWARD, "sent-again", "redriven", queues=["out.fifo"])
    expected = {"sent-again": [], "redriven": ["doubled"]}
    assert {name: kinds(result) for name, result in found.items()} == expected


CALLS_AT_IMPORT = """
    import boto3, json
    orders = boto3.resource("dynamodb").Table("orders")
    try:
        orders.put_item(Item={"order_id": "settings"})
    except Exception as error:
        raise ValueError("there are no settings") from error
    def handler(event, context):
        for record in event["Records"]:
            orders.put_item(Item=json.loads(record["body"]))
"""


def test_after_a_fault_at_a_call_of_an_import_the_module_is_imported_anew(tmp_path: Path) -> None:
    faults = (Fault.REFUSED, Fault.DIES_BEFORE, Fault.DEADLINE)
    found = results(tmp_path, CALLS_AT_IMPORT, *faults)
    at_import = [result for result in found.values() if result.site.startswith("app.py:5")]
    assert {result.fault for result in at_import} == {*faults}
    assert all(result.fired and not result.differences for result in at_import)
    [refused] = [result for result in at_import if result.fault is Fault.REFUSED]
    assert sum("order_id=settings" in sentence for sentence in refused.course) == 2


def test_an_import_is_not_interrupted_by_another_one(tmp_path: Path) -> None:
    found = results(tmp_path, CALLS_AT_IMPORT, Fault.IN_PARALLEL)
    assert [kinds(result) for result in found.values() if result.differences] == []
    assert found["in-parallel@2"].fired
    assert not found["in-parallel@1"].fired


def test_a_package_of_another_platform_is_named_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "fast").mkdir()
    (tmp_path / "fast" / "__init__.py").write_text("import fast._core\n")
    with pytest.raises(SubjectError, match="of another platform: give the source with --root"):
        results(tmp_path, "import fast._core\ndef handler(event, context): ...", Fault.REDRIVEN)
