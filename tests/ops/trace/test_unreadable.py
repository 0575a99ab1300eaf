"""`trace` of records and events that hold unreadable values."""

import json

import pytest

from tests.ops.support import answer_with, run
from tests.ops.tracing import Saga, body, moments, placed

WAY = [
    ("orders", "order.placed"),
    ("inventory", "order.placed"),
    ("payments", "stock.reserved"),
    ("inventory", "payment.captured"),
    ("orders", "payment.captured"),
    ("notifications", "payment.captured"),
]


@pytest.mark.parametrize("expires_at", ["1.5", "-1", "9" * 38, "1E+100"])
def test_a_record_is_told_of_whatever_its_expiry_is(saga: Saga, expires_at: str) -> None:
    saga.order("o-1")
    saga.commit("orders", placed("o-1"), expires_at={"N": expires_at})
    assert len(moments("o-1")) == len(WAY)
    assert run("trace", "o-1").exit_code == 0


def test_what_is_not_readable_in_a_record_is_said_so(saga: Saga) -> None:
    saga.commit(
        "orders",
        placed("o-1"),
        committed_at={"N": "1.5"},
        expires_at={"S": "soon"},
        event_type={"L": []},
        refusal={"S": "[bold]x[/]\x1b"},
    )
    [moment] = moments("o-1")
    assert (moment["time"], moment["event_type"]) == (None, "not-readable")
    assert moment["not_readable"] == ["committed_at", "expires_at"]
    table = run("trace", "o-1").stdout
    assert "not readable: committed_at, expires_at" in table
    assert "refusal: [bold]x[/]\\x1b" in table


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "soon"])
def test_a_log_is_asked_from_its_beginning_where_an_events_time_is_no_help(
    saga: Saga, time: str
) -> None:
    asked: list[str] = []
    answer_with("logs.FilterLogEvents", lambda params: asked.append(params["body"]))
    published = {**json.loads(body(placed("o-2"))), "time": time}
    saga.commit("inventory", placed("o-1"), outbox={"S": json.dumps([published])})
    run("trace", "o-1")
    since = [json.loads(request)["startTime"] for request in asked]
    assert since
    assert set(since) == {0}
