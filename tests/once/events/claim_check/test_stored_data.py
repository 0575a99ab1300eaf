"""Claim check: large data is stored before the commit, under a key of its content."""

import json
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from once.events.cloud_event import DATAREF
from once.testing import FakeAws
from tests.once.events.claim_check.scans import BUCKET, MIB, asked, objects, reasons, s3, with_s3


def test_small_data_stays_in_the_event(scanner: FakeAws) -> None:
    scanner.deliver(asked(size=100_000))
    [event] = scanner.published()
    assert len(event["data"]["text"]) == 100_000
    assert DATAREF not in event
    assert objects() == {}


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


def test_a_duplicate_stores_the_same_object_again(scanner: FakeAws) -> None:
    scanner.deliver(asked(size=300_000))
    before = objects()
    scanner.deliver(asked(size=300_000))
    assert objects() == before
    assert len(scanner.published()) == 1


def test_an_attempt_with_other_data_does_not_replace_the_committed_object(
    scanner: FakeAws,
) -> None:
    scanner.deliver(asked(size=300_000))
    [event] = scanner.published()
    committed = objects()
    scanner.deliver(
        asked(size=300_001), fails=True
    )  # the same key with other content: a key conflict
    assert scanner.published() == [event]
    assert objects().items() >= committed.items()
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
