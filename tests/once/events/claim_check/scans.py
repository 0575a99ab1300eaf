"""Consumers whose events do not fit into a topic, and what is in their bucket."""

import json
from dataclasses import replace
from typing import Any

import boto3
from msgspec import Struct

from once import Consumer, Transaction
from once.events.claim_check import POINTERS, Reference, event_key
from once.events.cloud_event import DATAREF
from once.names import SOURCE_PREFIX
from once.testing import FakeAws, cloud_event

MIB = 1024 * 1024
BUCKET = "claims"
PUBLISHER = SOURCE_PREFIX + "scanner"
SETTINGS: dict[str, Any] = {"claim_bucket": BUCKET, "max_body_bytes": MIB}
TABLES: dict[str, str | tuple[str, ...]] = {"pages": "id"}


class Scan(Struct):
    id: str
    text: str = ""
    copies: int = 1


def make_scanner() -> Consumer:
    scanner = Consumer("scanner")

    @scanner.handles("scan.asked", Scan)
    def scan(event: Scan, tx: Transaction) -> None:
        for copy in range(event.copies):
            tx.publish("scan.done", Scan(f"{event.id}-{copy}", text="x" * int(event.text)))

    return scanner


def make_reader() -> Consumer:
    reader = Consumer("reader")
    pages = reader.table("pages")

    @reader.handles("scan.done", Scan)
    def read(event: Scan, tx: Transaction) -> None:
        values = {":n": 1, ":size": len(event.text)}
        tx.update(pages, {"id": event.id}, "SET letters = :size ADD times :n", values)

    return reader


def s3() -> Any:
    return boto3.client("s3", "us-east-1")


def objects() -> dict[str, bytes]:
    """Return the content of each object, by its key."""
    found = s3().list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return {
        each["Key"]: s3().get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read()
        for each in found
    }


def asked(size: int, copies: int = 1, name: str = "a") -> dict[str, Any]:
    data = {"id": name, "text": str(size), "copies": copies}
    return cloud_event("scan.asked", data, id=name)


def reasons(aws: FakeAws) -> list[str]:
    letters = aws.dead_letters()
    return [letter["MessageAttributes"]["once-reason"]["StringValue"] for letter in letters]


def stored(event_id: str, data: bytes, consumer: str = "scanner") -> str:
    """Put the data of a consumer's event into the bucket, and return its URI."""
    key = event_key(consumer, event_id, data)
    s3().put_object(Bucket=BUCKET, Key=key, Body=data)
    return Reference(BUCKET, key).uri


def claimed(event_id: str, uri: object, source: str = PUBLISHER) -> dict[str, Any]:
    event = cloud_event("scan.done", None, id=event_id, source=source)
    del event["data"]
    return {**event, DATAREF: uri}


def pointer(key: str, bucket: str = BUCKET, kind: str = POINTERS[0]) -> str:
    return json.dumps([kind, {"s3BucketName": bucket, "s3Key": key}])


def with_s3(aws: FakeAws, client: Any) -> Any:
    """Return the runtime with another client of S3."""
    return replace(aws.runtime, s3=client)
