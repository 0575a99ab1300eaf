"""Large events in the commands: `send` stores them, and dead letters keep their reference."""

import json
from dataclasses import replace
from typing import Any

import boto3
import pytest

from once.errors import PermanentError
from once.names import StackOutput
from tests.ops.cloud import Cloud
from tests.ops.letters import Shop
from tests.ops.notes import note
from tests.ops.output import stderr_of, stdout_of

BUCKET = "claims"
LARGE = json.dumps({"text": "x" * 300_000})
SEND = ("send", "--type", "order.placed", "--data", LARGE)


@pytest.fixture
def s3(cloud: Cloud) -> Any:
    """S3 with the claim-check bucket of the deployment."""
    client = boto3.client("s3", "us-east-1")
    client.create_bucket(Bucket=BUCKET)
    cloud.state[StackOutput.CLAIM_BUCKET] = BUCKET
    return client


@pytest.mark.parametrize("to", [(), ("--to", "orders")], ids=["topic", "queue"])
def test_a_large_event_is_stored_and_its_pointer_sent(
    cloud: Cloud, s3: Any, to: tuple[str, ...]
) -> None:
    stdout_of(*SEND, *to)
    [body] = cloud.take("orders").elements()
    _, pointer = json.loads(body)
    assert pointer["s3BucketName"] == BUCKET
    assert pointer["s3Key"].startswith("producers/")
    stored = s3.get_object(Bucket=BUCKET, Key=pointer["s3Key"])["Body"].read()
    assert json.loads(stored)["data"] == json.loads(LARGE)


@pytest.mark.usefixtures("cloud")
def test_without_a_bucket_a_large_event_is_refused_with_the_remedy() -> None:
    assert "set claim_check_mb= of the consumers that take it" in stderr_of(*SEND)


@pytest.fixture
def failed(shop: Shop, s3: Any) -> str:
    """The body of a dead letter whose event is in S3, and whose handler failed."""
    runtime = shop.aws.runtime
    settings = replace(runtime.settings, claim_bucket=BUCKET)
    shop.aws.runtime = replace(runtime, settings=settings, s3=s3)
    s3.put_object(Bucket=BUCKET, Key="producers/1", Body=json.dumps(note("a")).encode())
    shop.outside.faults = {"a": PermanentError("not now")}
    body = json.dumps(
        [
            "software.amazon.payloadoffloading.PayloadS3Pointer",
            {"s3BucketName": BUCKET, "s3Key": "producers/1"},
        ]
    )
    shop.process(body)
    shop.outside.faults = {}
    return body


def test_a_letter_is_shown_with_the_data_that_it_refers_to(shop: Shop, failed: str) -> None:
    shown = stdout_of("dlq", "show", shop.letter().message_id)
    assert json.loads(failed)[1]["s3Key"] in shown
    assert "its data, from S3:" in shown
    assert f'"name": "{note("a")["data"]["name"]}"' in shown


def test_a_redriven_letter_keeps_its_pointer_and_counts_once(shop: Shop, failed: str) -> None:
    assert shop.redrive("--unsafe").exit_code == 0
    [waiting] = shop.waiting()
    assert waiting["Body"] == failed
    shop.sqs.change_message_visibility(
        QueueUrl=shop.aws.queue, ReceiptHandle=waiting["ReceiptHandle"], VisibilityTimeout=0
    )
    shop.work_off()
    shop.process(note("a"))
    assert shop.counted() == {"a": 1}


def test_a_letter_whose_object_is_gone_says_so(shop: Shop, s3: Any, failed: str) -> None:
    s3.delete_object(Bucket=BUCKET, Key=json.loads(failed)[1]["s3Key"])
    shown = " ".join(stdout_of("dlq", "show", shop.letter().message_id).split())
    assert "claim-missing: the object that it refers to does not exist" in shown
    assert "the producer stores the data again" in shown
