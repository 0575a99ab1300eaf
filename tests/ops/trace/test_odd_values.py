"""`trace`: control characters, long keys, and values of records that cannot be read."""

from typing import Any

import pytest

from tests.ops.output import stdout_of, words
from tests.ops.support import requests_of
from tests.ops.tracing import SHOP, WAY, Saga, body, moments, placed


def test_markup_and_control_characters_are_escaped(saga: Saga) -> None:
    error = "InvalidData: [red]not[/red] \x9b31m a model[0]"
    saga.bury("orders", placed("o-1", type="order.[b]placed\x9b"), error=error)
    saga.commit("orders", placed("o-1"), "stock.[b]reserved")
    said = words(stdout_of("trace", "placed-o-1", *SHOP))
    assert "[red]not[/red] \\x9b31m a model[0]" in said
    assert "order.[b]placed\\x9b" in said
    assert "note: stock.[b]reserved (" in said


def test_record_with_an_unreadable_outbox_is_shown(saga: Saga) -> None:
    item = {"pk": {"S": "orders#event#/shop#e-1"}, "outbox": {"S": "no JSON"}}
    saga.cloud.dynamodb.put_item(TableName="physical-dedup", Item=item)
    [moment] = moments("e-1", *SHOP)
    assert moment["published"] == "cannot be read: see the relay's dead letters"


@pytest.mark.parametrize("expires_at", ["1.5", "-1", "9" * 38, "1E+100"])
def test_record_with_an_invalid_expiry_is_shown(saga: Saga, expires_at: str) -> None:
    saga.order("o-1")
    saga.commit("orders", placed("o-1"), expires_at={"N": expires_at})
    assert len(moments("placed-o-1", *SHOP)) == len(WAY)
    stdout_of("trace", "placed-o-1", *SHOP)


def test_unreadable_attributes_of_a_record_are_named(saga: Saga) -> None:
    unreadable: dict[str, Any] = {"committed_at": {"N": "1.5"}, "expires_at": {"S": "soon"}}
    more: dict[str, Any] = {"event_type": {"L": []}, "refusal": {"S": "[bold]x[/]\x1b"}}
    saga.commit("orders", placed("o-1"), **unreadable, **more)
    [moment] = moments("placed-o-1", *SHOP)
    assert (moment["time"], moment["event_type"]) == (None, "not-readable")
    assert moment["not_readable"] == ["committed_at", "expires_at"]
    table = stdout_of("trace", "placed-o-1", *SHOP)
    assert "not readable: committed_at, expires_at" in table
    assert "refusal: [bold]x[/]\\x1b" in table


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "soon"])
def test_logs_are_read_from_their_beginning_if_the_event_time_is_invalid(
    saga: Saga, time: str
) -> None:
    asked = requests_of("logs.FilterLogEvents")
    saga.commit("inventory", placed("o-1"), outbox={"S": f"[{body(placed('o-2'), time=time)}]"})
    stdout_of("trace", "placed-o-1", *SHOP)
    entries = [each for each in asked if "INIT_REPORT" not in each["filterPattern"]]
    assert {request["startTime"] for request in entries} == {0}
