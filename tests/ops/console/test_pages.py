"""Pages of the console: overview, one message, outbox, pending effects and the operator log."""

import html
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree as ET

import boto3
import pytest
from starlette.testclient import TestClient

from once.effects.declaration import Policy
from once.names import RELAY, Metric, Outcome, Reason, Record
from once.ops.aws.deployment import Deployment
from once.ops.aws.function_figures import MINUTES, read_figures
from once.ops.console import operator_log_page, outbox_page, overview_page
from once.ops.console.dead_letter_pages import read_messages
from once.ops.console.jobs import JobPhase
from once.ops.console.overview_page import METRICS, needs
from once.ops.console.state import ConsoleState
from once.ops.operator_changes import logged_change
from once.ops.status import read_status
from tests.docs.test_commands import unknown_words
from tests.ops.checkout import FIGURES, SCOPE, SECRET, Door, some_requests
from tests.ops.cloud import OPERATOR_LOG, Cloud
from tests.ops.console.conftest import confirmed, page_of, planned
from tests.ops.outboxes import commit, commit_each, event, ids, published
from tests.ops.shop import KEY, Shop, note
from tests.ops.support import requests_of
from tests.ops.tracing import ORDER_ID, Saga, body, placed

NOW = datetime.now(UTC)


def metric_line(**figures: float) -> str:
    named = [{"Name": name} for name in figures]
    described: dict[str, Any] = {"Dimensions": [["service"]], "Metrics": named}
    aws = {"Timestamp": int(NOW.timestamp() * 1000), "CloudWatchMetrics": [described]}
    return json.dumps({"_aws": aws, "service": "once-orders", **figures})


def log_metrics(*messages: str) -> None:
    logs, group = boto3.client("logs"), "/aws/lambda/once-orders"
    for name in ("once-orders", "once-inventory"):
        logs.create_log_group(logGroupName=f"/aws/lambda/{name}")
    logs.create_log_stream(logGroupName=group, logStreamName="s")
    events = [{"timestamp": int(time.time() * 1000), "message": text} for text in messages]
    logs.put_log_events(logGroupName=group, logStreamName="s", logEvents=events)


def test_the_overview_shows_each_queue_and_each_consumer(browser: TestClient, cloud: Cloud) -> None:
    log_metrics(metric_line(Committed=3, DuplicatesResent=2))
    cloud.bury("orders", error="failed")
    text = browser.get("").text
    assert text.count(' class="stuck"') == 1
    assert "Committed in the last hour, a bar for five minutes: 3 in all" in text
    assert "Duplicates in the last hour, a bar for five minutes: 2 in all" in text


def test_the_charts_of_a_row_have_one_scale_and_failures_their_colour(browser: TestClient) -> None:
    log_metrics(metric_line(Committed=8, Quarantined=2))
    text = browser.get("").text
    heights = [
        chart.partition('height="')[2].partition('"')[0] for chart in text.split("<rect")[1:]
    ]
    assert heights == ["32.0", "8.0"]
    assert 'class="chart failures"' in text


def test_figures_and_depths_stay_in_their_time(
    browser: TestClient, state: ConsoleState, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_metrics(metric_line(Committed=8))
    begin = re.search(r'data-at="(\S+?)"', browser.get("").text)
    assert begin
    state.queues[-1] = (NOW - timedelta(minutes=5), state.queues[-1][1])
    later = Mock(now=lambda zone: NOW + timedelta(minutes=15))
    monkeypatch.setattr(overview_page, "datetime", later)
    assert f'data-at="{begin[1]}"' in browser.get("").text
    [row] = [one for one in state.queues[-1][1] if one.consumer == "orders"]
    state.queues.append((NOW, [replace(row, visible=7)]))
    assert state.depths("orders", NOW) == [0] * 30 + [7]
    assert state.depths("orders", NOW + timedelta(minutes=6)) == [7] + [0] * 36


def test_verdicts_that_are_older_than_the_number_beside_them_say_so(
    shop: Shop, state: ConsoleState
) -> None:
    shop.fail("a")
    [row] = [one for one in read_status(state.deployment) if one.consumer == "orders"]
    known, then = read_messages(state, 0).value.rows, NOW - timedelta(minutes=1)
    later = known[0].sent_at + timedelta(minutes=1)
    newest = replace(known[0], reason="unparseable", sent_at=later)
    known = [*known, newest]
    for number, at in ((2, None), (3, then)):
        found = needs([replace(row, dead_letters=number)], [], known, NOW, then)
        [need] = [one for one in found if one.query]
        assert (sum(need.kinds.values()), need.kinds_at) == (2, at)
        assert (need.since, need.step_since) == (known[0].sent_at, newest.sent_at)


PAGES = {
    "": "once status --service once",
    "retries": "once retries --service once",
    "dead-letters?reason=permanent&key=a b": (
        "once dlq list --reason permanent --key 'a b' --service once"
    ),
    "dead-letters/letters?page=2&consumer=orders": "once dlq list --consumer orders --service once",
    "message?key=4711&source=/shop": "once trace 4711 --source /shop --service once",
    "effects": "once effects list --service once",
}


@pytest.mark.parametrize(("path", "command"), PAGES.items())
def test_a_page_names_the_command_that_shows_the_same(
    browser: TestClient, saga: Saga, path: str, command: str
) -> None:
    saga.order("4711")
    assert f"<code>{html.escape(command, quote=False)}</code>" in html.unescape(
        browser.get(path).text
    )
    assert unknown_words(command.removeprefix("once ")) == []


def test_figures_of_the_logs_are_summed_by_minute(cloud: Cloud) -> None:
    by_reason = json.loads(metric_line(Quarantined=1))
    by_reason["_aws"]["CloudWatchMetrics"][0]["Dimensions"] = [["service", "reason"]]
    lines = [
        metric_line(Committed=3),
        metric_line(Committed=4, Quarantined=1),
        '"CloudWatchMetrics"',
    ]
    log_metrics(*lines, json.dumps(by_reason))
    figures = read_figures(["once-orders", "once-inventory"], datetime.now(UTC), METRICS)
    assert sum(figures.minutes("once-orders", [Metric.COMMITTED])) == 7
    assert sum(figures.minutes("once-orders", [Metric.QUARANTINED])) == 1
    assert figures.minutes("once-inventory", [Metric.COMMITTED]) == [0.0] * MINUTES
    assert figures.source == "the functions' logs"


def test_figures_of_cloudwatch_come_first(cloud: Cloud) -> None:
    boto3.client("cloudwatch").put_metric_data(
        Namespace=Metric.NAMESPACE,
        MetricData=[
            {
                "MetricName": Metric.COMMITTED,
                "Dimensions": [{"Name": "service", "Value": "once-orders"}],
                "Timestamp": NOW,
                "Value": 5,
            }
        ],
    )
    figures = read_figures(["once-orders"], datetime.now(UTC), METRICS)
    assert sum(figures.minutes("once-orders", [Metric.COMMITTED])) == 5
    assert figures.source == "CloudWatch's metrics"


# One message: what `once trace` shows, as a picture and as a list.


HOSTILE = "</title><script>alert(1)</script>\u202e\x1b]0;owned\x07'\"&"


def picture_of(text: str) -> ET.Element:
    start = text.index('<svg class="sequence"')
    return ET.fromstring(text[start : text.index("</svg>", start) + len("</svg>")])


def labels(text: str) -> list[tuple[str, str]]:
    """The class and the title of each step of the picture."""
    steps = [g for g in picture_of(text).iter("g") if g.get("class", "").startswith("step")]
    return [(g.get("class", "").removeprefix("step "), g[0].text or "") for g in steps]


def test_the_story_of_an_order_is_a_picture_and_a_list(saga: Saga, browser: TestClient) -> None:
    event = saga.order("4711")
    saga.log("orders", "duplicate", key_hash=saga.hash("orders", event))
    text = browser.get("message", params={"key": event.id, "source": event.source}).text
    shown = labels(text)
    assert ("delivered", "producer → orders: order.placed") in shown
    assert ("committed", "inventory → dedup table: committed") in shown
    assert ("published", "dedup table → relay and topic: stock.reserved") in shown
    assert ("delivered", "relay and topic → payments: stock.reserved") in shown
    assert ("duplicate", "producer → orders: order.placed: duplicate") in shown
    assert shown.index(("published", "dedup table → relay and topic: stock.reserved")) < (
        shown.index(("delivered", "relay and topic → payments: stock.reserved"))
    )
    lanes = [text.text for text in picture_of(text).iter("text") if text.get("class") == "name"]
    assert lanes[:3] == ["producer", "relay and topic", "orders"]
    assert lanes[-1] == "dedup table"
    assert text.count("<strong>committed</strong>") == 6
    assert "&#34;amount&#34;: 700" in text  # an event that was published, indented


def test_due_events_are_in_the_story_and_do_not_wait_in_the_outbox(
    saga: Saga, browser: TestClient
) -> None:
    event = placed("o-1")
    saga.now += 600  # within the last hour
    for consumer, minutes in {"orders": 10, "inventory": 115}.items():
        saga.commit(consumer, event, "stock.reserved", after=timedelta(minutes=minutes))
    text = browser.get("message", params={"key": event.id, "source": event.source}).text
    shown, place = labels(text), "dedup table → relay and topic: stock.reserved"
    assert ("published", f"{place}: published") in shown
    assert ("pending", f"{place}: waits for its time") in shown
    assert "set by: order.placed" in text
    assert ">in 1 h</time>" in text
    text = browser.get("outbox").text
    assert text.count('<tr class="stuck">') == 1
    assert "no consumer has a record yet" in text
    assert "due later" in text


def test_refusals_retries_and_dead_letters_are_in_the_story(
    saga: Saga, browser: TestClient
) -> None:
    event = placed("4712")
    refused: dict[str, Any] = {
        Record.OUTCOME: {"S": Outcome.REFUSED},
        Record.REFUSAL: {"S": "OutOfStock"},
    }
    saga.commit("inventory", event, **refused)
    saga.bury("orders", event, Reason.PERMANENT, error="no such customer")
    saga.log(
        "inventory", "will be retried", key_hash=saga.hash("inventory", event), receive_count=2
    )
    text = browser.get("message", params={"key": event.id, "source": event.source}).text
    assert {
        ("refused", "inventory → dedup table: refused: OutOfStock"),
        ("quarantined", "orders → dead letters: permanent"),
        ("retried", "producer → inventory: order.placed: will be retried (receive 2)"),
    } <= {*labels(text)}
    assert "no such customer" in text
    assert "/dead-letters/orders/" in text


def test_contents_about_which_consumers_disagree_are_side_by_side(
    saga: Saga, browser: TestClient
) -> None:
    event, other = placed("o-1"), placed("o-1", data={"order_id": "o-1", "lines": []})
    for owner, kept, refused in (("orders", event, other), ("inventory", other, event)):
        saga.commit(owner, kept)
        saga.bury(owner, refused, Reason.KEY_CONFLICT, key=saga.pk(owner, kept))
    groups = browser.get("dead-letters").text
    assert groups.count("placed-o-1 at ") == 2
    letter = re.search(r'href="(\S+)">placed-o-1 at orders', groups)
    assert letter
    for path in (letter[1].removeprefix("/a-token/"), "message?key=placed-o-1&source=/shop"):
        text = browser.get(path).text
        assert "<th>Committed by inventory</th><th>Committed by orders</th>" in text
        assert '<td data-label="inventory"><code>[]</code></td>' in text
        landmarks = re.findall(r'aria-label="(Verdict on .+?)"', text)
        assert len({*landmarks}) == len(landmarks) > 0


def test_hostile_content_is_text(saga: Saga, browser: TestClient) -> None:
    event = placed(HOSTILE, data={"order_id": HOSTILE})
    saga.commit("payments", event, "payment.captured", key=ORDER_ID)
    saga.bury("orders", body(event), error=HOSTILE.replace("\x1b", "").replace("\x07", ""))
    saga.bury("orders", "<script>not JSON " + "x" * 30_000, key="orders#" + event.id)
    for key in (HOSTILE, event.id):
        answer = browser.get("message", params={"key": key, "source": "/shop"})
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "\u202e" not in answer.text
        assert "\x1b" not in answer.text
        assert len(answer.text) < 120_000
    picture_of(answer.text)


# The outbox: what waits, and `once outbox republish`.


REPUBLISH = "outbox/republish"


def report(saga: Saga, published: int, lag: float) -> None:
    """Write the relay's figures into its log, from which CloudWatch makes the metrics."""
    described = {"Namespace": "Once", "Dimensions": [["service"]], "Metrics": []}
    figures = {"EventsPublished": [published], "RelayLag": [lag]}
    saga.cloud.log(RELAY, json.dumps({"_aws": {"CloudWatchMetrics": [described]}, **figures}))


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


def test_an_outbox_of_which_a_part_was_read_is_not_called_safe(
    browser: TestClient, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_page, "MAX_READ", 1)
    for key in ("orders#a", "orders#b"):
        commit_each(cloud, key, age=0.1)
    text = browser.get("outbox").text
    assert "Nothing needs you" not in text
    assert "were not looked at" in text


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


# Pending effects, and `once effects settle`.


SETTLE = "effects/settle"


@pytest.fixture
def unknown(cloud: Cloud) -> Iterator[Shop]:
    """A consumer whose effect may have happened."""
    with Shop(cloud, Policy.AT_MOST_ONCE) as shop:
        shop.outside.answers = [TimeoutError()] * 3
        shop.dead_letter(note("a"))
        shop.outside.answers = []
        yield shop


def test_an_unknown_effect_is_listed_and_settled_after_a_dry_run(
    unknown: Shop, browser: TestClient, state: ConsoleState
) -> None:
    text = browser.get("effects").text
    assert text.count('<tr class="stuck">') == 1
    assert "charge" in text
    assert f"message?key={KEY.replace('#', '%23')}" in text
    story = browser.get("message", params={"key": KEY}).text
    assert "pending: unknown" in story
    assert "effects/one?key=" in story
    form = browser.get("effects/one", params={"key": KEY}).text
    assert "it returns string" in form
    assert 'name="done" placeholder="string"' in form
    evidence = "<b>seen</b> at the provider"
    given = {"key": KEY, "outcome": "done", "done": '"ref-1"', "why": evidence}
    refused = browser.post(SETTLE, data=given | {"done": "7"})
    assert refused.status_code == 409
    assert "$ is not string" in refused.text
    job = planned(browser, state, SETTLE, **given)
    shown = browser.get(page_of(state, job)).text
    assert "&lt;b&gt;seen&lt;/b&gt;" in shown
    [before] = unknown.aws.items("dedup")
    assert before["standing"] == "unknown"
    assert "<dd>1</dd>" in confirmed(browser, state, job, "ticket 7")
    [after] = unknown.aws.items("dedup")
    assert after["standing"] == "settled"
    assert json.loads(after["settlement"])["why"] == f"{evidence}; ticket 7"
    intent, outcome = unknown.cloud.logged()
    assert (intent["command"], outcome["counts"]) == ("effects settle", {"settled": 1})


# The operator log: each change once, and whether it has an outcome.


def log(cloud: Cloud, entry: Any, *, age_days: float = 0) -> None:
    """Write an entry, as an operator's machine would have so long ago."""
    at = time.time() - age_days * 86400
    name = f"stream-{at}"
    cloud.logs.create_log_stream(logGroupName=OPERATOR_LOG, logStreamName=name)
    text = entry if isinstance(entry, str) else json.dumps(_whole(entry, at))
    event = {"timestamp": int(at * 1000), "message": text}
    cloud.logs.put_log_events(logGroupName=OPERATOR_LOG, logStreamName=name, logEvents=[event])


def _whole(entry: dict[str, Any], at: float) -> dict[str, Any]:
    facts = {"change": "c1", "who": "arn:aws:iam::1:user/ann", "command": "dlq purge"}
    moment = datetime.fromtimestamp(at, UTC).isoformat()
    return facts | {"phase": "intent", "arguments": {}, "at": moment} | entry


def rows(browser: TestClient, query: str = "") -> list[str]:
    """The rows of the table."""
    text = html.unescape(browser.get(f"operator-log{query}").text)
    return text.partition("<tbody>")[2].partition("</tbody>")[0].split("<tr")[1:]


def test_intent_and_outcome_are_one_row(browser: TestClient) -> None:
    told = {"reason": "unparseable", "limit": 10_000}
    with logged_change(Deployment.find(), "dlq redrive", told, "provider is back") as change:
        change.counts = {"sent": 2, "failed": 0}
        change.message_ids = ["m-1", "m-2"]
    [row] = rows(browser)
    for part in ("dlq redrive", "unparseable", "provider is back", "done, sent 2", "m-2", "user/"):
        assert part in row
    assert "failed" not in row


def test_change_without_an_outcome_is_marked(browser: TestClient, cloud: Cloud) -> None:
    log(cloud, {})
    [row] = rows(browser)
    assert 'class="stuck"' in row
    assert "killed" in row


def test_newest_is_first_and_filters_select(browser: TestClient, cloud: Cloud) -> None:
    log(cloud, {"change": "1", "why": "first"}, age_days=2)
    log(cloud, {"change": "2", "why": "second", "who": "bob"}, age_days=1.5)
    log(cloud, {"change": "3", "why": "third", "command": "dlq redrive"})
    log(cloud, {"change": "4", "why": "old"}, age_days=8)

    def found(query: str) -> list[str]:
        whys = ("first", "second", "third", "old")
        return [why for row in rows(browser, query) for why in whys if f"<td>{why}</td>" in row]

    assert found("") == ["third", "second", "first"]
    assert found("?who=ann") == ["third", "first"]
    assert found("?command=dlq+purge") == ["second", "first"]
    assert found("?days=1") == ["third"]
    assert found("?days=30") == ["third", "second", "first", "old"]
    assert found("?days=99999999") == ["third", "second", "first"]


def test_outcome_of_the_next_day_belongs_to_its_intent(browser: TestClient, cloud: Cloud) -> None:
    log(cloud, {}, age_days=1.5)
    log(cloud, {"phase": "outcome", "outcome": "stopped", "counts": {"sent": 1}})
    [row] = rows(browser)
    assert "stopped, sent 1" in row


def test_reading_ends_when_enough_changes_are_found(
    browser: TestClient, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_log_page, "MAX_CHANGES", 1)
    log(cloud, {"change": "1"}, age_days=0.5)
    log(cloud, {"change": "2"})
    asked = requests_of("logs.FilterLogEvents")
    assert len(rows(browser)) == 1
    oldest = datetime.fromtimestamp(asked[-1]["startTime"] / 1000, UTC)
    assert datetime.now(UTC) - oldest < timedelta(days=1)
    assert len(asked) == 1
    assert "There are more changes than are shown" in browser.get("operator-log").text


ODD = (
    "no JSON",
    "[" * 100_000,
    '"text"',
    '{"change": 1, "phase": "intent"}',
    '{"change": "c", "phase": "other"}',
    '{"change": "c", "phase": "intent", "arguments": 1, "why": {"a": "<b>"}, "at": "never"}',
    '{"change": "c", "phase": "outcome", "counts": [1], "message_ids": 3}',
    json.dumps({"change": "<script>", "phase": "intent", "who": "\u202e", "command": "\x1b[2J"}),
)


def test_any_entry_can_be_shown(browser: TestClient, cloud: Cloud) -> None:
    for entry in ODD:
        log(cloud, entry)
        answer = browser.get("operator-log")
        assert answer.status_code == 200, entry[:80]
        assert "<script>" not in answer.text
        assert all(c.isprintable() or c in "\n\t" for c in answer.text)
    assert "entries have another form" in answer.text
    assert rows(browser)


def test_a_republish_is_stopped(browser: TestClient, state: ConsoleState, cloud: Cloud) -> None:
    commit_each(cloud, "orders#a", age=1)
    job = planned(browser, state, REPUBLISH, since="2h")
    browser.post(f"{page_of(state, job)}/stop")
    assert "events published twice are deduplicated" in confirmed(browser, state, job)
    assert job.phase is JobPhase.STOPPED
    assert published(cloud) == set()
    assert cloud.logged()[-1]["outcome"] == "stopped"


# Commands: the outcomes of their requests, and the page of a record.


def test_the_console_shows_requests_and_a_function_that_cannot_start(
    door: Door, browser: TestClient
) -> None:
    some_requests(door)
    report = "INIT_REPORT Init Duration: 402.23 ms\tPhase: init\tStatus: error\tError Type: X"
    door.cloud.log("checkout", "[ERROR] ValueError: no rate\nTraceback", report)
    text = browser.get("").text
    for outcome, number in FIGURES.items():
        assert f'data-label="{outcome.capitalize()}">{number}</td>' in text
    assert "its function cannot start: ValueError: no rate" in text


def test_the_console_shows_a_record_with_its_answer_folded(door: Door, browser: TestClient) -> None:
    door.request("k-1", order_id="o-1")
    door.request("k-1", order_id="o-1")
    text = browser.get("message", params={"key": "k-1", "scope": SCOPE}).text
    assert "answer with status 201, 23 bytes" in text
    assert "<summary>Answer" in text
    assert SECRET in text[text.index("<summary>Answer") :]
    assert SECRET not in text[: text.index("<summary>Answer")]
    assert "place-order: repeated" in text
