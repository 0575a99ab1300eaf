"""Claim check: large data is stored before the commit, and only declared places are read."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from msgspec import Struct
from msgspec.structs import replace

from once import Consumer, Transaction
from once.events.claim_check import POINTERS, Reference, event_key
from once.events.cloud_event import DATAREF
from once.events.outgoing import GROUP_EXTENSION
from once.names import SOURCE_PREFIX
from once.outbox.relay import found_in
from once.settings import RelaySettings
from once.testing import FakeAws, cloud_event
from tests.once.support import calls, reasons

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


# Fixtures: a publisher and a consumer of large data, in memory.


@pytest.fixture
def scanner() -> Iterator[FakeAws]:
    options = {**SETTINGS, "publishes": ("scan.done",)}
    with FakeAws(make_scanner(), {}, **options) as aws:
        yield aws


@pytest.fixture
def reader() -> Iterator[FakeAws]:
    """A consumer of internal events of `scanner`."""
    with FakeAws(make_reader(), TABLES, publishers={"scan.done": "scanner"}, **SETTINGS) as aws:
        yield aws


@pytest.fixture
def outsider() -> Iterator[FakeAws]:
    """The same consumer, for events of producers."""
    with FakeAws(make_reader(), TABLES, **SETTINGS) as aws:
        yield aws


# Claim check: large data is stored before the commit, under a key of its content.


def test_large_data_is_stored_before_the_commit_and_the_event_refers_to_it(
    scanner: FakeAws,
) -> None:
    scanner.deliver(asked(size=300_000))
    [event] = scanner.published()
    assert "data" not in event
    [(key, content)] = objects().items()
    assert event[DATAREF] == f"s3://{BUCKET}/{key}"
    assert key.startswith(f"consumers/scanner/{event['id']}/")
    assert json.loads(content) == {"id": "a-0", "text": "x" * 300_000, "copies": 1}


def test_events_that_do_not_fit_one_record_together_are_stored(scanner: FakeAws) -> None:
    assert scanner.deliver(asked(size=140_000, copies=4)) == {"batchItemFailures": []}
    assert ["data" in event for event in scanner.published()] == [True, True, False, False]
    assert len(objects()) == 2


def test_an_attempt_with_other_data_does_not_replace_the_committed_object(
    scanner: FakeAws,
) -> None:
    for _ in range(2):
        scanner.deliver(asked(size=300_000))
        [event] = scanner.published()
        [committed] = objects().items()
    scanner.deliver(asked(size=300_001), fails=True)  # the same key with other content
    assert scanner.published() == [event]
    assert committed in objects().items()
    assert reasons(scanner) == ["key-conflict"]


def test_data_over_the_largest_object_is_refused_before_the_commit(scanner: FakeAws) -> None:
    scanner.deliver(asked(size=MIB), fails=True)
    assert reasons(scanner) == ["too-large"]
    assert (objects(), scanner.items("dedup")) == ({}, [])


def test_without_its_object_nothing_is_committed(
    scanner: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = s3()
    scanner.runtime = with_s3(scanner, failing)

    def fail(**_: Any) -> None:
        raise EndpointConnectionError(endpoint_url="https://s3")

    monkeypatch.setattr(failing, "put_object", fail)
    answer = scanner.deliver(asked(size=300_000), fails=True)
    assert len(answer["batchItemFailures"]) == 1
    assert (scanner.items("dedup"), scanner.published()) == ([], [])


# Claim check: what a consumer reads from S3, and what it never follows.


def test_the_fingerprint_is_that_of_the_content(reader: FakeAws) -> None:
    data = b'{"id": "p", "text": "y"}'
    reader.deliver(claimed("e.0", stored("e.0", data)))
    inline = cloud_event("scan.done", json.loads(data), id="e.0", source=PUBLISHER)
    reader.deliver(inline)
    assert reasons(reader) == []
    reader.deliver(claimed("e.0", stored("e.0", b'{"id": "p", "text": "z"}')), fails=True)
    assert reasons(reader) == ["key-conflict"]
    assert reader.items("pages") == [{"id": "p", "letters": 1, "times": 1}]


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "after a byte order mark"])
@pytest.mark.parametrize("kind", POINTERS)
def test_a_producer_stores_the_whole_event_behind_a_pointer_or_its_data_only(
    outsider: FakeAws, kind: str, mark: str
) -> None:
    event = cloud_event("scan.done", {"id": "p", "text": "x" * 300_000}, source="/scans")
    for key, content in (("producers/1", event), ("producers/2", event["data"])):
        s3().put_object(Bucket=BUCKET, Key=key, Body=f"{mark}{json.dumps(content)}".encode())
    outsider.deliver(mark + pointer("producers/1", kind=kind))
    outsider.deliver(event)  # the same event inline is a duplicate
    outsider.deliver(claimed(event["id"], f"s3://{BUCKET}/producers/2", source="/scans"))
    assert outsider.items("pages") == [{"id": "p", "letters": 300_000, "times": 1}]
    assert reasons(outsider) == []


FOREIGN = [
    pointer("producers/1", bucket="other"),
    pointer("consumers/scanner/e.0/1"),
    pointer("elsewhere"),
    json.dumps([POINTERS[0], {"s3Key": "producers/1"}], separators=(",", ":")),
    json.dumps([POINTERS[0]]) + " ",
    f'["{POINTERS[0]}",' + "[" * 20_000,
    f'["{POINTERS[0]}",{{"s3BucketName":"b","more":' + "[" * 20_000,
    claimed("1", "s3://other/producers/1", source="/scans"),
    claimed("1", f"s3://{BUCKET}/consumers/scanner/1/2", source="/scans"),
    claimed("1", "https://example.com/data", source="/scans"),
    claimed("1", 7, source="/scans"),
]


@pytest.mark.parametrize("message", FOREIGN, ids=lambda message: str(message)[:80])
def test_a_reference_to_anything_else_is_quarantined_and_never_followed(
    outsider: FakeAws, message: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = s3()
    monkeypatch.setattr(client, "get_object", lambda **_: pytest.fail("it was followed"))
    outsider.runtime = with_s3(outsider, client)
    outsider.deliver(message, fails=True)
    assert reasons(outsider) == ["invalid-claim"]


def test_an_internal_event_refers_to_an_unchanged_object_of_its_own_only(reader: FakeAws) -> None:
    other, changed = (stored(name, b'{"id": "p"}') for name in ("other.0", "e.2"))
    s3().put_object(Bucket=BUCKET, Key=Reference.of_uri(changed).key, Body=b'{"id": "q"}')
    uris = (other, f"s3://{BUCKET}/producers/1", changed)
    reader.deliver(*(claimed(f"e.{n}", uri) for n, uri in enumerate(uris)), fails=True)
    assert reasons(reader) == ["invalid-claim"] * 3


def test_a_missing_object_is_retried_and_quarantined_in_the_end(reader: FakeAws) -> None:
    uri = stored("e.0", b'{"id": "p"}')
    s3().delete_object(Bucket=BUCKET, Key=Reference.of_uri(uri).key)
    answer = reader.deliver(claimed("e.0", uri), fails=True)
    assert (len(answer["batchItemFailures"]), reasons(reader)) == (1, [])
    reader.deliver(claimed("e.0", uri), receive_count=5, fails=True)
    assert set(reasons(reader)) == {"claim-missing"}


def test_an_object_over_the_limit_is_refused_before_it_is_read(
    outsider: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3().put_object(Bucket=BUCKET, Key="producers/1", Body=b" " * (MIB + 1))
    client = s3()
    get = client.get_object

    def unread(**arguments: Any) -> Any:
        answer = get(**arguments)
        monkeypatch.setattr(answer["Body"], "read", lambda *_: pytest.fail("it was read"))
        return answer

    monkeypatch.setattr(client, "get_object", unread)
    outsider.runtime = with_s3(outsider, client)
    outsider.deliver(pointer("producers/1"), fails=True)
    assert reasons(outsider) == ["too-large"]


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="https://s3"),
        ClientError({"Error": {"Code": "SlowDown"}}, "GetObject"),
        ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject"),
    ],
    ids=["no answer", "throttled", "denied"],
)
def test_while_s3_fails_messages_are_retried_and_the_breaker_opens(
    outsider: FakeAws, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = s3()

    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(client, "get_object", fail)
    outsider.runtime = with_s3(outsider, client)
    answer = outsider.deliver(pointer("producers/1"), receive_count=3, fails=True)
    assert (len(answer["batchItemFailures"]), reasons(outsider)) == (1, [])
    delays = _delays(outsider, pointer("producers/1"))
    assert min(delays) >= 60  # half of the breaker's shortest delay, and not the 2 s of a retry


def test_without_a_claim_check_references_are_quarantined() -> None:
    with FakeAws(make_reader(), TABLES) as aws:
        aws.deliver(
            pointer("producers/1"), claimed("1", "s3://b-1/producers/1", source="/s"), fails=True
        )
        dead_letters = aws.dead_letters()
    texts = [
        dead_letter["MessageAttributes"]["once-error"]["StringValue"]
        for dead_letter in dead_letters
    ]
    assert ["claim_check_mb=" in text for text in texts] == [True, True]


def test_neither_log_nor_dead_letter_has_the_content(
    outsider: FakeAws, capsys: pytest.CaptureFixture[str]
) -> None:
    s3().put_object(Bucket=BUCKET, Key="producers/1", Body=b'{"secret-text": 1}')
    outsider.deliver(pointer("producers/1"), fails=True)
    [dead_letter] = outsider.dead_letters()
    assert dead_letter["Body"] == pointer("producers/1")
    assert "secret-text" not in json.dumps(dead_letter) + capsys.readouterr().out


def _delays(aws: FakeAws, body: str) -> list[int]:
    """Deliver a message that is received the third time, and return the delays that were set."""
    with calls(aws.runtime.sqs) as made:
        aws.deliver(body, receive_count=3, fails=True)
    return [sent["VisibilityTimeout"] for name, sent in made if name == "ChangeMessageVisibility"]


# Claim check: the message group of an event whose data lies in S3 reaches the relay.


GROUPS = {"scan.done": "id"}
RELAY = RelaySettings(
    service="once",
    topic_arn="topic",
    dead_letter_url="letters",
    publishes={"scanner": ("scan.done",)},
    groups=GROUPS,
)


def groups_of(size: int) -> tuple[Any, list[str | None]]:
    """Return the published event for data of a size, and the groups in which it is published."""
    options = {**SETTINGS, "publishes": ("scan.done",), "groups": GROUPS}
    with FakeAws(make_scanner(), {}, **options) as aws:
        aws.deliver(asked(size))
        [item] = aws.dynamodb.scan(TableName="dedup")["Items"]
        [event] = aws.published()
    record = {"eventName": "INSERT", "dynamodb": {"Keys": {"pk": item["pk"]}, "NewImage": item}}
    found = list(found_in(record, item["pk"]["S"], RELAY))
    assert [error for _, error in found] == [None]
    return event, [each.group for each, _ in found]


@pytest.mark.parametrize(("size", "in_s3"), [(10, False), (300_000, True)])
def test_large_and_small_events_are_published_in_the_same_group(size: int, *, in_s3: bool) -> None:
    event, groups = groups_of(size)
    assert groups == ["a-0"]
    assert (GROUP_EXTENSION in event, "data" not in event) == (in_s3, in_s3)
