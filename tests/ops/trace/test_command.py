"""`trace`: one event's way through every consumer, whatever it is asked by."""

import json
from typing import Any

import pytest

from once.events.dedup_key import Key, key_hash
from tests.ops.support import run
from tests.ops.tracing import Saga, body, moments, placed, refuse_all, words

WAY = [
    ("orders", "order.placed"),
    ("inventory", "order.placed"),
    ("payments", "stock.reserved"),
    ("inventory", "payment.captured"),
    ("orders", "payment.captured"),
    ("notifications", "payment.captured"),
]


def way(*arguments: object) -> list[tuple[str, str]]:
    return [(moment["consumer"], moment["event_type"]) for moment in moments(*arguments)]


@pytest.mark.parametrize("form", ["event", "business", "pk", "hash", "part", "published"])
def test_the_whole_way_is_found_by_whatever_an_operator_has(saga: Saga, form: str) -> None:
    event = saga.order("order-1")
    saga.order("order-10")
    pk = saga.pk("inventory", event)
    key = {
        "event": event.id,
        "business": "order-1",
        "pk": pk,
        "hash": key_hash(pk),
        "part": "/shop#placed-order-1",
        "published": f"{key_hash(pk)}.0",
    }[form]
    # Where it is no whole part of a key, whatever contains it is taken.
    assert way(key) == (WAY * 2 if form == "part" else WAY)


def test_an_id_with_separators_in_it_is_found_in_keys(saga: Saga) -> None:
    saga.commit("orders", placed("a", id="50% #caf\u00e9"))
    assert way("50% #cafe\u0301") == way("50% #caf\u00e9") == WAY[:1]


def test_a_whole_key_is_read_without_a_scan(saga: Saga) -> None:
    event = saga.order("order-1")
    refuse_all("dynamodb.Scan")
    assert way(saga.pk("orders", event)) == WAY
    assert way(saga.pk("orders", event), "--no-scan") == WAY


def test_part_of_a_key_is_looked_for_in_the_whole_table(saga: Saga) -> None:
    saga.order("order-1")
    assert way("orders#event#/shop") == WAY


def test_table_tells_when_who_did_what(saga: Saga) -> None:
    saga.order("order-1")
    said = run("trace", "order-1").stdout
    assert "Trace of order-1" in said
    rows = [line for line in said.splitlines() if "committed" in line]
    assert [line.split("│")[2].strip() for line in rows] == [consumer for consumer, _ in WAY]
    assert "published: stock.reserved" in said
    assert "\x1b" not in said


def test_the_scan_is_told_with_its_progress_and_not_among_the_json(saga: Saga) -> None:
    saga.order("order-1")
    result = run("trace", "order-1", "--json")
    assert "reading the whole table physical-dedup" in result.stderr
    assert "100%" in result.stderr
    assert set(json.loads(result.stdout)) == {"key", "moments", "notes"}


def test_a_refusal_is_named(saga: Saga) -> None:
    refused: dict[str, Any] = {"outcome": {"S": "refused"}, "refusal": {"S": "OutOfStock"}}
    saga.commit("inventory", placed("o-1"), "stock.refused", **refused)
    [moment] = moments("o-1")
    assert (moment["what"], moment["refusal"]) == ("refused", "OutOfStock")
    assert moment["published"] == ["stock.refused"]
    assert "refused refusal: OutOfStock published: stock.refused" in words(
        run("trace", "o-1").stdout
    )


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        ("in-flight", "in flight: its owner is at it, or died at it"),
        ("not-done", "certainly not done"),
        ("unknown", "perhaps done: nobody knows"),
        ("of-a-later-version", "of-a-later-version"),
    ],
)
def test_a_pending_effect_says_where_it_stands(saga: Saga, standing: str, said: str) -> None:
    pending(saga, standing={"S": standing})
    [moment] = moments("placed-o-1")
    assert (moment["what"], moment["standing"]) == ("pending effect", said)
    assert moment["provider_key"] == "once-h-charge-1"
    assert moment["since"] == moment["time"]


@pytest.mark.parametrize(
    ("away", "lease", "key"),
    [
        (60, "leased_until", "provider_knows_key_until"),
        (-60, "lease_over_since", "provider_forgot_key"),
    ],
)
def test_a_pending_effect_says_what_time_has_run_out(
    saga: Saga, away: int, lease: str, key: str
) -> None:
    at = int(saga.now) + 3600 + away
    pending(saga, lease_until={"N": str(at * 1000)}, key_expires_at={"N": str(at)})
    [moment] = moments("placed-o-1")
    assert moment[lease] == moment[key]
    assert not {"leased_until", "lease_over_since"} - {lease} & moment.keys()


def pending(saga: Saga, **attributes: Any) -> None:
    effect: dict[str, Any] = {"effect": {"S": "charge"}, "provider_key": {"S": "once-h-charge-1"}}
    saga.commit("payments", placed("o-1"), state={"S": "pending"}, **effect | attributes)


def test_a_record_past_its_time_is_said_to_be_expired(saga: Saga) -> None:
    saga.commit("orders", placed("o-1"), expires_at={"N": str(int(saga.now))})
    saga.commit("inventory", placed("o-1"))
    expired, fresh = moments("placed-o-1")
    assert "expired" in expired
    assert "expired" not in fresh
    assert "expired: " in run("trace", "placed-o-1").stdout


def test_a_record_that_holds_hardly_anything_is_shown_all_the_same(saga: Saga) -> None:
    key = {"pk": {"S": "orders#event#/s#e-1"}}
    saga.cloud.dynamodb.put_item(
        TableName="physical-dedup", Item=key | {"outbox": {"S": "no JSON"}}
    )
    [moment] = moments("e-1")
    assert moment["published"] == "cannot be read: see the relay's dead letters"


def test_an_event_that_nobody_has_worked_off_is_noted(saga: Saga) -> None:
    [reserved] = saga.commit("inventory", placed("o-1"), "stock.reserved")
    said = run("trace", "o-1", "--no-logs").stdout
    assert f"note: stock.reserved ({reserved.id}) has no record and no dead letter" in said
    saga.commit("payments", reserved, key=Key.field("order_id"))
    assert "note:" not in run("trace", "o-1", "--no-logs").stdout


def test_what_is_not_to_be_asked_is_not_asked(saga: Saga) -> None:
    saga.order("order-1")
    for operation in ("sqs.ReceiveMessage", "sqs.GetQueueAttributes", "logs.FilterLogEvents"):
        refuse_all(operation)
    result = run("trace", "order-1", "--no-dead-letters", "--no-logs")
    assert result.exit_code == 0
    assert "note:" not in result.stdout


@pytest.mark.parametrize("key", ["order-7", "0" * 64, "orders#event#/shop#order-7"])
def test_nothing_found_tells_what_was_searched_and_what_to_try(saga: Saga, key: str) -> None:
    saga.order("order-1")
    result = run("trace", key, "--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"nothing is known of '{key}'" in result.stderr
    assert "6 records in physical-dedup" in result.stderr
    assert "0 dead letters in 6 queues" in result.stderr
    assert "the logs of inventory, notifications, orders, payments" in result.stderr
    assert "Try the event's own id" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("order-1", "--no-scan"), "'order-1' is no whole dedup key"),
        (("refunds#event#/s#e", "--no-scan"), "the consumers are inventory, notifications, orders"),
        (("  ",), "every record would match"),
    ],
)
def test_keys_that_cannot_be_are_refused(saga: Saga, arguments: tuple[str, ...], said: str) -> None:
    result = run("trace", *arguments)
    assert result.exit_code == 2
    assert said in words(result.stderr)


def test_texts_of_others_are_shown_as_they_are_and_harmless(saga: Saga) -> None:
    error = "InvalidData: [red]not[/red] \x9b31m a model[0]"
    saga.bury("orders", body(placed("o-1", type="order.[b]placed\x9b")), error=error)
    saga.commit("orders", placed("o-1"), "stock.[b]reserved")
    said = words(run("trace", "o-1").stdout)
    assert "[red]not[/red] \\x9b31m a model[0]" in said
    assert "order.[b]placed\\x9b" in said
    assert "note: stock.[b]reserved (" in said


def test_a_dead_letter_without_an_event_has_a_row_like_any(saga: Saga) -> None:
    saga.bury("orders", '"o-1"')
    assert "orders – quarantined" in words(run("trace", "o-1").stdout)


def test_a_provider_key_is_shown_whole_on_a_narrow_terminal(
    saga: Saga, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    key = f"once-{'0123456789abcdef' * 4}-charge-1"
    pending(saga, provider_key={"S": key})
    assert key in words(run("trace", "placed-o-1").stdout).replace(" ", "")
