"""Commands on consumers with a claim check, an envelope of another source, or an earlier name."""

import json
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from msgspec.structs import replace

from once.errors import PermanentError
from once.event_sources import Source
from once.names import Reason, StackOutput
from tests.once.intake import documented_events
from tests.once.intake.documented_events import SNS
from tests.ops.cloud import Cloud
from tests.ops.shop import Shop, note
from tests.ops.support import stderr_of, stdout_of, words
from tests.ops.tracing import Saga, actions, body, moments, placed

BUCKET = "claims"
LARGE = json.dumps({"text": "x" * 300_000})
SEND = ("send", "--type", "order.placed", "--data")


@pytest.fixture
def s3(cloud: Cloud) -> Any:
    """S3 with the claim-check bucket of the deployment."""
    client = boto3.client("s3", "us-east-1")
    client.create_bucket(Bucket=BUCKET)
    cloud.state[StackOutput.CLAIM_BUCKET] = BUCKET
    return client


def test_the_data_of_a_large_event_is_stored_and_a_reference_sent(cloud: Cloud, s3: Any) -> None:
    for to in ((), ("--to", "orders")):
        stdout_of(*SEND, LARGE, *to)
        [body] = cloud.take("orders").elements()
        event = json.loads(body)
        assert "data" not in event
        key = event["dataref"].removeprefix(f"s3://{BUCKET}/")
        assert key.startswith("producers/")
        assert json.loads(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()) == json.loads(LARGE)
    del cloud.state[StackOutput.CLAIM_BUCKET]
    assert "set claim_check_mb= of the consumers that take it" in stderr_of(*SEND, LARGE)


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


def test_a_message_is_shown_with_the_data_that_it_refers_to(
    shop: Shop, s3: Any, failed: str
) -> None:
    key, message_id = json.loads(failed)[1]["s3Key"], shop.only_dead_letter().message_id
    shown = stdout_of("dlq", "show", message_id)
    assert key in shown
    assert "its data, from S3:" in shown
    assert f'"name": "{note("a")["data"]["name"]}"' in shown
    s3.delete_object(Bucket=BUCKET, Key=key)
    shown = words(stdout_of("dlq", "show", message_id))
    assert "claim-missing again: the object that it refers to does not exist" in shown
    assert "Have the producer store the data again" in shown


def test_a_redriven_message_keeps_its_pointer_and_counts_once(shop: Shop, failed: str) -> None:
    assert shop.redrive("--unsafe").exit_code == 0
    [waiting] = shop.waiting()
    assert waiting["Body"] == failed
    shop.sqs.change_message_visibility(
        QueueUrl=shop.aws.queue, ReceiptHandle=waiting["ReceiptHandle"], VisibilityTimeout=0
    )
    shop.work_off()
    shop.process(note("a"))
    assert shop.counted() == {"a": 1}


TOPIC = Source.sns(SNS["TopicArn"], type="order.placed")
DELIVERED = documented_events.published(
    {"order_id": "o-1"}, Timestamp=datetime.now(UTC).isoformat()
)
KEY = "orders#field#order.placed#order_id#str:o-1"


@pytest.fixture
def other(cloud: Cloud) -> Cloud:
    """The deployment, with `orders` behind a topic of another team."""
    source: dict[str, object] = {"source": TOPIC.to_builtins()}
    keys = {"order.placed": ["field", "order_id"]}
    cloud.set_types("orders", ["order.placed"], keys=keys, **source)  # type: ignore[arg-type]
    return cloud


def test_a_message_in_an_envelope_is_read_found_and_redriven_as_it_was(other: Cloud) -> None:
    other.sqs.send_message(QueueUrl=other.box("orders"), MessageBody=json.dumps(DELIVERED))
    [message] = json.loads(stdout_of("dlq", "list", "--consumer", "orders", "--json"))["letters"]
    shown = json.loads(stdout_of("dlq", "show", message["message_id"], "--json"))
    assert message["event_type"] == "order.placed"
    assert (shown["event_id"], shown["dedup_key"]) == (SNS["MessageId"], KEY)
    [moment] = moments("o-1", "--no-logs")  # a value inside the envelope
    assert (moment["consumer"], moment["event_type"]) == ("orders", "order.placed")
    stdout_of("dlq", "redrive", "--consumer", "orders", "--yes")
    assert [json.loads(body) for body in other.take("orders").elements()] == [DELIVERED]


def test_send_reaches_the_ingress_and_names_the_way_of_a_consumers_own_producers(
    other: Cloud,
) -> None:
    assert stdout_of(*SEND, "{}").startswith("sent order.placed to inventory;")
    other.set_types("inventory", [])
    for to in (("--to", "orders"), ()):
        error = stderr_of(*SEND, "{}", *to)
        assert "in the envelope of Source.sns, which this command does not write" in error
        assert "with `aws sns publish` to its topic" in error


@pytest.fixture
def renamed(saga: Saga) -> Saga:
    """The saga, with `warehouse` deployed beside `inventory`, its earlier name."""
    saga.cloud.deploy("warehouse", renamed_from="inventory")
    saga.cloud.log("warehouse")
    return saga


def test_a_message_of_an_event_that_its_first_name_committed_is_a_duplicate(renamed: Saga) -> None:
    event = placed("o-1")
    renamed.commit("inventory", event)
    renamed.cloud.bury("warehouse", body(event), reason=Reason.RETRIES_EXHAUSTED)
    renamed.cloud.bury("warehouse", body(placed("o-2")), reason=Reason.RETRIES_EXHAUSTED)
    judged = words(stdout_of("dlq", "redrive", "--consumer", "warehouse", "--dry-run"))
    assert judged.count("acknowledged as a duplicate") == 1


def test_trace_finds_the_records_of_its_first_name_and_the_logs_of_both(renamed: Saga) -> None:
    event = placed("o-1")
    renamed.commit("orders", event)
    renamed.commit("inventory", event)
    key_hash = renamed.hash("inventory", event)
    for consumer in ("inventory", "warehouse"):
        renamed.log(consumer, "duplicate", key_hash=key_hash, message_id="m")
    assert sorted(actions(event.id, "--source", "/shop")) == [
        ("inventory", "committed"),
        ("inventory", "duplicate"),
        ("orders", "committed"),
        ("warehouse", "duplicate"),
    ]
    assert ("inventory", "committed") in actions(renamed.pk("inventory", event))
