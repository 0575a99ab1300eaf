"""The outbox page shows what waits, and publishes again as `once outbox republish` does."""

import json

from starlette.testclient import TestClient

from once.names import RELAY
from once.ops.console.jobs import JobPhase
from once.ops.console.state import ConsoleState
from tests.ops.cloud import Cloud
from tests.ops.console.conftest import confirmed, page_of, planned
from tests.ops.outboxes import commit, commit_each, event, ids, published
from tests.ops.tracing import Saga

REPUBLISH = "outbox/republish"


def report(saga: Saga, published: int, lag: float) -> None:
    """Write the relay's figures into its log, from which CloudWatch makes the metrics."""
    described = {"Namespace": "Once", "Dimensions": [["service"]], "Metrics": []}
    figures = {"EventsPublished": [published], "RelayLag": [lag]}
    saga.write(RELAY, json.dumps({"_aws": {"CloudWatchMetrics": [described]}, **figures}))


def test_events_without_a_record_at_a_consumer_are_marked(saga: Saga, browser: TestClient) -> None:
    saga.now += 3000  # within the last hour
    saga.order("4711")
    report(saga, 3, 1500)
    report(saga, 2, 400)
    saga.cloud.bury(RELAY, reason="unpublishable")
    text = browser.get("outbox").text
    assert "events published in each minute of the last hour, 5 in all" in text
    assert "1.5 s" in text
    assert "dead-letters?consumer=outbox_relay" in text
    assert "recorded at 3 of 3" in text
    assert "recorded at 1 of 1" in text


def test_a_waiting_event_and_hostile_outboxes_are_text(saga: Saga, browser: TestClient) -> None:
    odd = "orders#<script>alert(1)</script>\u202e"
    reserved = event("inventory#waits", 0, "stock.reserved", data={"order_id": "1"})
    commit(
        saga.cloud, "inventory#waits", reserved.replace("{", '{"specversion":"1.0",', 1), age=0.1
    )
    commit(saga.cloud, odd, outbox="<script>not JSON", age=0.1)
    text = browser.get("outbox").text
    assert "no consumer has a record yet" in text
    assert "its outbox cannot be read" in text
    assert text.count('<tr class="stuck">') == 2
    assert "<script>alert" not in text
    assert "\u202e" not in text


def test_events_are_counted_and_published_again(
    browser: TestClient, state: ConsoleState, cloud: Cloud
) -> None:
    commit_each(cloud, "orders#a", "orders#b", age=1)
    commit_each(cloud, "inventory#old", age=5)
    job = planned(browser, state, REPUBLISH, since="2h", rate="1000")
    assert job.plan == ["order.placed: 2", "2 records, 2 events"]
    assert published(cloud) == set()
    text = confirmed(browser, state, job, "the relay was down")
    assert published(cloud) == ids("orders#a", "orders#b")
    assert "<dt>order.placed</dt><dd>2</dd>" in text
    intent, outcome = cloud.logged()
    assert (intent["why"], intent["arguments"]["since"]) == ("the relay was down", "2h")
    assert outcome["counts"] == {"records": 2, "events": 2}


def test_a_republish_is_stopped(browser: TestClient, state: ConsoleState, cloud: Cloud) -> None:
    commit_each(cloud, "orders#a", age=1)
    job = planned(browser, state, REPUBLISH, since="2h")
    browser.post(f"{page_of(state, job)}/stop")
    assert "events published twice are deduplicated" in confirmed(browser, state, job)
    assert job.phase is JobPhase.STOPPED
    assert published(cloud) == set()
    assert cloud.logged()[-1]["outcome"] == "stopped"
