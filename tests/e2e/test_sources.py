"""Events of other services reach their consumers in their envelopes, and count once."""

import json
from typing import Any

import pytest

from demo.quiescence import wait_until
from tests.e2e.deployment import REST_SECONDS, Deployment

BUCKET = "once-uploads"


def amount(service: Deployment, counter: str) -> str | None:
    found = service.get("counters", id=counter).get("amount")
    return None if found is None else str(found)


def wait_for(service: Deployment, consumer: str, counter: str) -> None:
    wait_until(
        f"{counter} of {consumer}",
        lambda: amount(service, counter) is not None,
        timeout=REST_SECONDS,
    )
    service.wait_until_empty(consumer)


def test_p8_an_event_that_is_put_twice_changes_state_once(service: Deployment) -> None:
    events = service.aws.client("events")
    changed = {"instance_id": "i-1", "state": "running"}
    entry: Any = {
        "Source": "test.instances",
        "DetailType": "Instance Changed",
        "Detail": json.dumps(changed),
    }
    ids = [events.put_events(Entries=[entry])["Entries"][0]["EventId"] for _ in range(2)]
    assert len({*ids}) == 2  # the envelope of the second one is another
    events.put_events(Entries=[{**entry, "DetailType": "Other"}])  # the rule does not select it
    wait_for(service, "instances", "i-1")
    assert (amount(service, "i-1"), service.take("instances")) == ("1", [])


@pytest.fixture
def bucket(service: Deployment) -> Any:
    """A bucket that notifies the queue: the CDK's function that does so lacks its SDK here."""
    s3 = service.aws.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    queue = service.sqs.get_queue_attributes(
        QueueUrl=service.queue("uploads"), AttributeNames=["QueueArn"]
    )["Attributes"]["QueueArn"]
    configuration: Any = {"QueueArn": queue, "Events": ["s3:ObjectCreated:*"]}
    s3.put_bucket_notification_configuration(  # S3 sends its test message now
        Bucket=BUCKET, NotificationConfiguration={"QueueConfigurations": [configuration]}
    )
    return s3


def test_p8_an_object_counts_once_and_a_test_message_is_no_dead_letter(
    service: Deployment, bucket: Any
) -> None:
    bucket.put_object(Bucket=BUCKET, Key="a b+c.txt", Body=b"x")
    wait_for(service, "uploads", "a b+c.txt")
    assert (amount(service, "a b+c.txt"), service.take("uploads")) == ("1", [])
