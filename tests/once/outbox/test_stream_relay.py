"""The relay: what commits is published, again after a crash, and what is no commit is not."""

import json
from typing import Any
from unittest.mock import Mock

import pytest

from once.outbox.stream_relay import Relay
from once.sdk import SDK
from tests.once.outbox.relaying import THEN, Station, change, image, outgoing

ONE, TWO = outgoing(0), outgoing(1)
THREE = outgoing(0, pk="notes#f")


@pytest.fixture
def station(monkeypatch: pytest.MonkeyPatch) -> Station:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "shop-outbox_relay")
    return Station()


def test_what_commits_is_published_in_its_order(station: Station) -> None:
    station.handle(change(image(ONE, TWO)), change(image(THREE, pk="notes#f")))
    assert station.heard() == [ONE.body, TWO.body, THREE.body]


def test_o1_a_relay_that_dies_between_send_and_checkpoint_publishes_the_same_events_again(
    station: Station,
) -> None:
    record = change(image(ONE, TWO))
    station.handle(record)
    station.handle(record)
    assert station.heard() == [ONE.body, TWO.body] * 2


PENDING = image(commit="pending")


@pytest.mark.parametrize(
    ("new", "old", "published"),
    [
        pytest.param(image(ONE), None, True, id="a new record"),
        pytest.param(image(ONE, commit="d"), PENDING, True, id="pending turns done"),
        pytest.param(image(ONE, commit="d"), image(TWO), True, id="put over an expired record"),
        pytest.param(image(ONE), {"pk": {"S": "notes#e"}}, True, id="put over no commit"),
        pytest.param(PENDING, None, False, id="pending"),
        pytest.param(image(), None, False, id="done, with nothing to tell"),
        pytest.param(image(ONE), image(ONE), False, id="changed by others"),
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
    removal = change(None, image(ONE)) | {
        "userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    }
    station.handle(removal, change(image(THREE, pk="notes#f")))
    assert station.heard() == [THREE.body]


def test_o5_a_record_removed_and_committed_anew_in_one_batch_is_published_twice(
    station: Station,
) -> None:
    first, again = image(ONE), image(ONE, commit="d")
    station.handle(change(first), change(None, first), change(again))
    assert station.heard() == [ONE.body] * 2


def measured(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The metrics that were written, one line each."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]


def test_the_slowest_event_of_a_batch_is_measured_in_one_line(
    station: Station, capsys: pytest.CaptureFixture[str]
) -> None:
    older = image(THREE, pk="notes#f") | {"committed_at": {"N": str(THEN * 1000 - 4000)}}
    station.handle(change(image(ONE, TWO)), change(older), change(image(pk="notes#g")))
    [line] = measured(capsys)
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


def test_what_publishes_nothing_does_not_count_among_the_slow(
    station: Station, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = image(pk="notes#f") | {"committed_at": {"N": "0"}}
    station.handle(change(silent), change(image(ONE)))
    assert [line["RelayLag"] for line in measured(capsys)] == [[2500.0]]


def test_a_clock_behind_the_consumers_measures_no_lag_below_zero(
    station: Station, capsys: pytest.CaptureFixture[str]
) -> None:
    ahead = image(ONE) | {"committed_at": {"N": str(THEN * 1000 + 60_000)}}
    station.handle(change(ahead))
    assert [line["RelayLag"] for line in measured(capsys)] == [[0.0]]


def test_a_record_that_does_not_say_when_it_was_committed_is_published_all_the_same(
    station: Station, capsys: pytest.CaptureFixture[str]
) -> None:
    undated = image(ONE)
    del undated["committed_at"]
    station.handle(change(undated))
    assert station.heard() == [ONE.body]
    [line] = measured(capsys)
    assert "RelayLag" not in line
    assert line["EventsPublished"] == [1.0]


@pytest.mark.parametrize(
    "record",
    [
        change(PENDING),
        change(None, image(ONE)),
        change(image(outbox={"S": "no JSON"})),
        change(image(outgoing(0, 300_000))),
    ],
    ids=["pending", "removed", "unreadable", "refused by the topic"],
)
def test_where_nothing_is_published_nothing_is_measured(
    station: Station, capsys: pytest.CaptureFixture[str], record: Any
) -> None:
    station.handle(record)
    assert measured(capsys) == []


def test_a_batch_is_logged_with_what_was_published(station: Station) -> None:
    station.handle(change(image(ONE, TWO)), change(image(outbox={"S": "no JSON"})))
    line = json.loads(station.stream.getvalue().splitlines()[-1])
    assert (line["message"], line["published"]) == ("relayed", 2)


def test_the_relay_of_a_function_takes_the_functions_region_and_the_sdk_as_we_set_it(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, Any] = {}

    def client(service: str, region: str, *, config: Any = None) -> Any:
        made[service] = (region, config)
        return Mock()

    monkeypatch.setattr("boto3.client", client)
    relay = Relay.of(station.settings, region="eu-central-1")
    relay.sqs.list_queues()  # its client is made when it is first used
    assert made == {"sns": ("eu-central-1", SDK), "sqs": ("eu-central-1", SDK)}
    assert relay.logger.service == "shop"
