"""The page of the operator log shows each change once, and says if it has no outcome."""

import html
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from once.ops.aws.deployment import Deployment
from once.ops.console import operator_log
from once.ops.operator_log import logged_change
from tests.ops.cloud import OPERATOR_LOG, Cloud
from tests.ops.support import requests_of


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
    monkeypatch.setattr(operator_log, "MOST_CHANGES", 1)
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
