"""The relay publishes each commit in the stream, and no other change of a record."""

import json
from typing import Any
from unittest.mock import Mock, call

import pytest

from once.outbox.stream_relay import Relay
from once.sdk import SDK
from tests.once.outbox.relaying import THEN, Station, change, image, outgoing

ONE, TWO = outgoing(0), outgoing(1)
THREE = outgoing(0, pk="notes#f")
PENDING = image(commit="pending")


def test_o1_a_relay_that_dies_between_send_and_checkpoint_publishes_the_same_events_again(
    station: Station,
) -> None:
    records = change(image(ONE, TWO)), change(image(THREE, pk="notes#f"))
    station.handle(*records)
    station.handle(*records)
    assert station.heard() == [ONE.body, TWO.body, THREE.body] * 2
    line = station.logged()[-1]
    assert (line["message"], line["published"]) == ("relayed", 3)


@pytest.mark.parametrize(
    ("new", "old", "published"),
    [
        pytest.param(image(ONE), None, True, id="a new record"),
        pytest.param(image(ONE, commit="d"), PENDING, True, id="pending turns done"),
        pytest.param(image(ONE, commit="d"), image(TWO), True, id="put over an expired record"),
        pytest.param(image(ONE), {"pk": {"S": "notes#e"}}, True, id="put over no commit"),
        pytest.param(PENDING, None, False, id="pending"),
        pytest.param(image(), None, False, id="done, without events"),
        pytest.param(image(ONE), image(ONE), False, id="changed outside a commit"),
        pytest.param(PENDING, PENDING, False, id="an effect taken over"),
        pytest.param(None, image(ONE), False, id="removed"),
        pytest.param(None, PENDING, False, id="removed while pending"),
    ],
)
def test_o5_the_commit_id_decides_what_is_published(
    station: Station, new: Any, old: Any, *, published: bool
) -> None:
    station.handle(change(new, old))
    assert station.heard() == ([ONE.body] if published else [])
    assert station.dead_letters() == []


def test_o5_a_removal_by_ttl_is_not_published(station: Station) -> None:
    ttl = {"userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"}}
    station.handle(change(None, image(ONE)) | ttl, change(image(THREE, pk="notes#f")))
    assert station.heard() == [THREE.body]


def test_o5_a_record_removed_and_committed_anew_in_one_batch_is_published_twice(
    station: Station,
) -> None:
    first, again = image(ONE), image(ONE, commit="d")
    station.handle(change(first), change(None, first), change(again))
    assert station.heard() == [ONE.body] * 2


def committed(milliseconds: int, *events: Any, pk: str = "notes#e") -> dict[str, Any]:
    """A new record, committed so many milliseconds after the others."""
    time = {"committed_at": {"N": str(THEN * 1000 + milliseconds)}}
    return change(image(*events, pk=pk) | time)


UNDATED = {name: value for name, value in image(ONE).items() if name != "committed_at"}
METRICS: dict[str, Any] = {
    "a record without events does not count": (
        (committed(-9000, pk="notes#f"), committed(0, ONE)),
        [([2500.0], [1.0])],
    ),
    "a clock behind the consumer's": ((committed(60_000, ONE),), [([0.0], [1.0])]),
    "a record without its time": ((change(UNDATED),), [(None, [1.0])]),
    "pending": ((change(PENDING),), []),
    "removed": ((change(None, image(ONE)),), []),
    "unreadable": ((change(image(outbox={"S": "no JSON"})),), []),
    "refused by the topic": ((change(image(outgoing(0, 300_000))),), []),
}


def metrics(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The metrics that were written, one object for each line."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]


@pytest.mark.parametrize(("records", "expected"), METRICS.values(), ids=METRICS)
def test_lag_and_number_of_published_events_are_measured(
    station: Station, capsys: pytest.CaptureFixture[str], records: Any, expected: Any
) -> None:
    station.handle(*records)
    found = [(line.get("RelayLag"), line["EventsPublished"]) for line in metrics(capsys)]
    assert found == expected


def test_the_lag_of_the_slowest_event_of_a_batch_is_measured_in_one_line(
    station: Station, capsys: pytest.CaptureFixture[str]
) -> None:
    station.handle(committed(0, ONE, TWO), committed(-4000, THREE, pk="notes#f"))
    [line] = metrics(capsys)
    assert line.pop("_aws")["CloudWatchMetrics"] == [
        {
            "Namespace": "Once",
            "Dimensions": [["service"]],
            "Metrics": [
                {"Name": "RelayLag", "Unit": "Milliseconds"},
                {"Name": "EventsPublished", "Unit": "Count"},
            ],
        }
    ]
    assert line == {"service": "shop-outbox_relay", "RelayLag": [6500.0], "EventsPublished": [3.0]}


def test_the_relay_of_a_function_has_its_region_and_the_sdk_settings(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boto3.client", client := Mock())
    relay = Relay.of(station.settings, region="eu-central-1")
    relay.sqs.list_queues()  # its client is made on first use
    made = [call(service, "eu-central-1", config=SDK) for service in ("sns", "sqs")]
    assert client.call_args_list == made
    assert relay.logger.service == "shop"
