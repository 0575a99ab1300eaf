"""Claim check: what a consumer reads from S3, and what it never follows."""

import json
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from once.events.claim_check import POINTERS, Reference
from once.testing import FakeAws, cloud_event
from tests.once.events.claim_check.scans import (
    BUCKET,
    MIB,
    PUBLISHER,
    TABLES,
    claimed,
    make_reader,
    pointer,
    reasons,
    s3,
    stored,
    with_s3,
)


def test_a_consumer_reads_the_data_once(reader: FakeAws) -> None:
    data = json.dumps({"id": "p", "text": "x" * 300_000}).encode()
    event = claimed("e.0", stored("e.0", data))
    reader.deliver(event)
    reader.deliver(event, event)
    assert reader.items("pages") == [{"id": "p", "letters": 300_000, "times": 1}]


def test_the_fingerprint_is_that_of_the_content(reader: FakeAws) -> None:
    data = b'{"id": "p", "text": "y"}'
    reader.deliver(claimed("e.0", stored("e.0", data)))
    inline = cloud_event("scan.done", json.loads(data), id="e.0", source=PUBLISHER)
    reader.deliver(inline)
    assert reasons(reader) == []
    reader.deliver(claimed("e.0", stored("e.0", b'{"id": "p", "text": "z"}')), fails=True)
    assert reasons(reader) == ["key-conflict"]
    assert reader.items("pages") == [{"id": "p", "letters": 1, "times": 1}]


@pytest.mark.parametrize("kind", POINTERS)
def test_a_pointer_of_the_extended_clients_stands_for_the_whole_event(
    outsider: FakeAws, kind: str
) -> None:
    event = cloud_event("scan.done", {"id": "p", "text": "x" * 300_000}, source="/scans")
    s3().put_object(Bucket=BUCKET, Key="producers/1", Body=json.dumps(event).encode())
    outsider.deliver(pointer("producers/1", kind=kind))
    outsider.deliver(event)  # the same event inline is a duplicate
    assert outsider.items("pages") == [{"id": "p", "letters": 300_000, "times": 1}]


def test_a_producer_may_store_the_data_only(outsider: FakeAws) -> None:
    s3().put_object(Bucket=BUCKET, Key="producers/1", Body=b'{"id": "p"}')
    outsider.deliver(claimed("1", f"s3://{BUCKET}/producers/1", source="/scans"))
    assert outsider.items("pages") == [{"id": "p", "letters": 0, "times": 1}]


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


def test_an_internal_event_refers_to_an_object_of_its_own_only(reader: FakeAws) -> None:
    other = stored("other.0", b'{"id": "p"}')
    reader.deliver(claimed("e.0", other), claimed("e.1", f"s3://{BUCKET}/producers/1"), fails=True)
    assert reasons(reader) == ["invalid-claim"] * 2


def test_an_object_that_was_changed_is_refused(reader: FakeAws) -> None:
    uri = stored("e.0", b'{"id": "p"}')
    s3().put_object(Bucket=BUCKET, Key=Reference.of_uri(uri).key, Body=b'{"id": "q"}')
    reader.deliver(claimed("e.0", uri), fails=True)
    assert reasons(reader) == ["invalid-claim"]


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
        letters = aws.dead_letters()
    texts = [letter["MessageAttributes"]["once-error"]["StringValue"] for letter in letters]
    assert ["claim_check_mb=" in text for text in texts] == [True, True]


def test_neither_log_nor_dead_letter_has_the_content(
    outsider: FakeAws, capsys: pytest.CaptureFixture[str]
) -> None:
    s3().put_object(Bucket=BUCKET, Key="producers/1", Body=b'{"secret-text": 1}')
    outsider.deliver(pointer("producers/1"), fails=True)
    [letter] = outsider.dead_letters()
    assert letter["Body"] == pointer("producers/1")
    assert "secret-text" not in json.dumps(letter) + capsys.readouterr().out


def _delays(aws: FakeAws, body: str) -> list[int]:
    """Deliver a message that is received the third time, and return the delays that were set."""

    class Recorder:
        def __init__(self) -> None:
            self.delays: list[int] = []

        def change_message_visibility(self, *, VisibilityTimeout: int, **_: Any) -> None:  # noqa: N803
            self.delays.append(VisibilityTimeout)

    recorder: Any = Recorder()
    aws.runtime = replace(aws.runtime, sqs=recorder)
    aws.deliver(body, receive_count=3, fails=True)
    return list(recorder.delays)
