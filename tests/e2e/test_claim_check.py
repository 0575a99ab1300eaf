"""Large data on the deployed service: through S3 from a publisher or a producer, applied once."""

import json
from typing import Any

from demo.quiescence import wait_until
from once.events.claim_check import Reference
from once.testing import cloud_event
from tests.e2e.deployment import REST_SECONDS, Deployment, attribute

LETTERS = 300_000


def scan(service: Deployment, name: str) -> dict[str, Any]:
    return service.get("scans", scan=name)


def asked(name: str) -> Any:
    return cloud_event("scan.asked", {"scan": name, "letters": LETTERS}, id=f"asked {name}")


def wait_until_archived(service: Deployment, name: str) -> None:
    wait_until("it is archived", lambda: "archived" in scan(service, name), timeout=REST_SECONDS)
    service.wait_until_empty("scanner", "archive")


def test_large_data_of_a_consumer_is_applied_once(service: Deployment) -> None:
    service.send("scanner", asked("published"), asked("published"))
    wait_until_archived(service, "published")
    service.send("scanner", asked("published"))
    service.wait_until_empty("scanner", "archive")
    found = scan(service, "published")
    assert (found["letters"], found["asked"], found["archived"]) == (str(LETTERS), "1", "1")


def test_a_pointer_of_a_producer_is_read_from_the_declared_bucket_only(
    service: Deployment,
) -> None:
    bucket = service.parts.claim_bucket
    assert bucket is not None
    event = cloud_event("scan.sent", {"scan": "sent", "text": "x" * LETTERS})
    service.aws.client("s3").put_object(
        Bucket=bucket, Key="producers/sent", Body=json.dumps(event).encode()
    )
    pointer = Reference(bucket, "producers/sent").pointer
    service.send("archive", pointer, pointer, Reference("elsewhere", "producers/sent").pointer)
    [letter] = service.dead_letters("archive", 1)
    assert attribute(letter, "once-reason") == "invalid-claim"
    wait_until_archived(service, "sent")
    found = scan(service, "sent")
    assert (found["letters"], found["archived"]) == (str(LETTERS), "1")
