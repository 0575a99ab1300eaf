"""`trace`: the way of an event through every consumer, whatever its records hold."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from once.events.cloud_event import CloudEvent
from once.events.identity import Key, key_hash
from once.names import RELAY, Reason
from once.ops.dead_letters import queue_walk
from once.ops.dedup_records import STANDINGS
from once.outbox.due_events import schedule_name
from tests.ops.support import refuse, requests_of, run, stderr_of, stdout_of, words
from tests.ops.tracing import (
    ORDER_ID,
    SHOP,
    TABLE,
    TYPES,
    WAY,
    Saga,
    actions,
    body,
    moments,
    placed,
)


def way(*arguments: object) -> list[tuple[str, str]]:
    return [(moment["consumer"], moment["event_type"]) for moment in moments(*arguments)]


def looked_up(asked: list[Any]) -> list[str]:
    """The keys of requests of BatchGetItem."""
    batches = [request["RequestItems"][TABLE] for request in asked]
    return [key["pk"]["S"] for batch in batches for key in batch["Keys"]]


@pytest.mark.parametrize(
    "given",
    [
        ("order-1",),
        ("placed-order-1", *SHOP),
        ("inventory#event#/shop#placed-order-1",),
        (key_hash("payments#field#stock.reserved#order_id#str:order-1"),),
        (key_hash("payments#field#stock.reserved#order_id#str:order-1") + ".0",),
        ("order-1", "--consumer", "notifications"),
    ],
    ids=["business value", "event id", "dedup key", "hash", "outgoing event id", "one consumer"],
)
def test_whole_way_is_found_without_a_scan_for_few_reads(saga: Saga, given: tuple[str]) -> None:
    saga.order("order-1")
    saga.order("order-10")
    refuse("dynamodb.Scan")
    asked = requests_of("dynamodb.BatchGetItem")
    assert way(*given) == WAY
    assert len(looked_up(asked)) <= 16
    assert len(asked) <= 5  # one for the start, and one for each step of the way


def test_number_is_looked_up_as_number_and_as_text(saga: Saga) -> None:
    for value in (7, "7", "07", "7.0"):
        saga.commit(
            "payments", placed("x", type="stock.reserved", data={"order_id": value}), key=ORDER_ID
        )
    for key, number in {"7": 2, "07": 1, "7.0": 1}.items():
        assert len(moments(key, "--no-logs")) == number


def test_sources_that_are_known_are_searched_for_an_id(saga: Saga) -> None:
    for name, source in (("a", "/once-send"), ("b", "/shop"), ("c", "/desk")):
        saga.commit("orders", placed(name, source=source))
    saga.bury("inventory", placed("x"))
    for name, found in (("a", True), ("b", True), ("c", False)):
        result = run("trace", f"placed-{name}", "--no-logs")
        assert (result.exit_code == 0) is found
    assert "of its producer (searched: '/once-send', '/shop')" in result.stderr


def test_key_of_several_fields_is_looked_up_as_json(saga: Saga) -> None:
    names = ("order_id", "line.number")
    saga.cloud.set_types("orders", **TYPES["orders"], keys={"order.placed": ["field", *names]})
    event = placed("x", data={"order_id": "o-1", "line": {"number": 7}})
    saga.commit("orders", event, key=Key.field(*names))
    for given in (
        '{"order_id": "o-1", "line.number": 7}',
        '{"line":{"number":7},"order_id":"o-1"}',
    ):
        assert way(given) == WAY[:1]
    buried = placed("y", data={"order_id": "o-2", "line": {"number": 7}})
    saga.bury("orders", buried, key=saga.pk("orders", buried, Key.field(*names)))
    assert actions('{"order_id": "o-2", "line.number": 7}', "--no-logs") == [
        ("orders", "quarantined")
    ]
    said = stderr_of("trace", '{"order_id": "o-1"}')
    assert """all of them: '{"order_id": …, "line.number": …}'.""" in said


def test_attribute_is_looked_up_with_each_source(saga: Saga) -> None:
    rule = Key.attribute("delivery")
    saga.cloud.set_types(
        "orders", **TYPES["orders"], keys={"order.placed": ["attribute", "delivery"]}
    )
    saga.commit("orders", placed("a", extensions={"delivery": "d-1"}), key=rule)
    assert way("d-1", "--source", "/else", *SHOP) == WAY[:1]


def test_unknown_key_rule_is_noted(saga: Saga) -> None:
    saga.order("order-1")
    saga.cloud.set_types("notifications", **TYPES["notifications"] | {"keys": {}})
    output = stdout_of("trace", "order-1", "--no-logs")
    assert "note: the key rule of notifications for payment.captured is not known" in output
    assert "has no record" not in output
    assert way("order-1", "--no-logs") == WAY[:-1]
    unknown = "no key of notifications for payment.captured: its key rule is not known"
    assert unknown in stderr_of("trace", "order-9", "--no-logs")


def pending(saga: Saga, **attributes: Any) -> None:
    effect: dict[str, Any] = {"effect": {"S": "charge"}, "provider_key": {"S": "once-h-charge-1"}}
    saga.commit("orders", placed("o-1"), state={"S": "pending"}, **effect | attributes)


def test_pending_effect_is_shown_with_its_standing(saga: Saga) -> None:
    for standing, said in (*STANDINGS.items(), ("of-a-later-version",) * 2):
        pending(saga, standing={"S": standing})
        [moment] = moments("placed-o-1", *SHOP)
        assert (moment["what"], moment["standing"]) == ("pending effect", said)
        assert moment["provider_key"] == "once-h-charge-1"
        assert moment["since"] == moment["time"]


def test_pending_effect_is_shown_with_its_lease_and_the_expiry_of_its_key(saga: Saga) -> None:
    for seconds, lease, key in (
        (60, "leased_until", "provider_knows_key_until"),
        (-60, "lease_over_since", "provider_forgot_key"),
    ):
        at = int(saga.now) + 3600 + seconds
        pending(saga, lease_until={"N": str(at * 1000)}, key_expires_at={"N": str(at)})
        [moment] = moments("placed-o-1", *SHOP)
        assert moment[lease] == moment[key]
        assert not {"leased_until", "lease_over_since"} - {lease} & moment.keys()


def test_only_an_expired_record_is_shown_as_expired(saga: Saga) -> None:
    saga.commit("orders", placed("o-1"), expires_at={"N": str(int(saga.now))})
    saga.commit("inventory", placed("o-1"))
    assert ["expired" in moment for moment in moments("placed-o-1", *SHOP)] == [True, False]
    assert "expired: " in stdout_of("trace", "placed-o-1", *SHOP)


def test_options_leave_out_dead_letters_and_logs(saga: Saga) -> None:
    saga.order("order-1")
    for operation in ("sqs.ReceiveMessage", "sqs.GetQueueAttributes", "logs.FilterLogEvents"):
        refuse(operation)
    assert "note:" not in stdout_of("trace", "order-1", "--no-dead-letters", "--no-logs")


UNKNOWN = {
    ("order-7",): (
        "4 dedup keys in physical-dedup",
        "key payments#field#stock.reserved#order_id#str:order-7",
        "key notifications#field#payment.captured#order_id#str:order-7",
        "needs the --source of its producer (searched: '/once-send'), a command's key",
    ),
    ("order-7", "--consumer", "orders"): ("1 dedup keys", "key orders#event#/once-send#order-7"),
    ("e-7", *SHOP): ("4 dedup keys", "key orders#event#/shop#e-7", "key inventory#event#/shop#e-7"),
    ("orders#event#/shop#order-7",): ("1 dedup keys", "key orders#event#/shop#order-7"),
    ("0" * 64,): (f"key orders#event#/once/payments#{'0' * 64}.0",),
}


def test_a_function_that_cannot_start_is_the_reason_of_an_event_without_traces(
    saga: Saga,
) -> None:
    report = "INIT_REPORT Init Duration: 402.23 ms\tPhase: init\tStatus: error\tError Type: X"
    saga.cloud.log("orders", "[ERROR] ValueError: no rate\nTraceback", report)
    shown = stderr_of("trace", "order-9")
    assert shown.endswith(" once-orders cannot start: ValueError: no rate")
    assert "cannot start" not in stderr_of("trace", "order-9", "--no-logs")
    event = placed("order-1")
    saga.commit("inventory", event, "stock.reserved")
    shown = words(stdout_of("trace", event.id, "--source", event.source))
    assert "note: once-orders cannot start: ValueError: no rate" in shown


def test_error_for_an_unknown_key_lists_the_searched_places(saga: Saga) -> None:
    saga.order("order-1")
    for given, said in UNKNOWN.items():
        result = run("trace", *given, "--json")
        assert (result.exit_code, result.stdout) == (1, "")
        for text in (
            f"nothing is known of '{given[0]}'",
            "0 dead letters in 6 queues",
            "the logs of inventory, notifications, orders, payments",
            *said,
        ):
            assert text in result.stderr


def test_invalid_arguments_are_refused(saga: Saga) -> None:
    for arguments, said, code in (
        (("  ",), "it is blank", 2),
        (("order-1", "--since", "soon"), "'soon' is no point in time", 2),
        (("order-1", "--consumer", "refunds"), "no consumer 'refunds': choose one of", 1),
    ):
        assert said in stderr_of("trace", *arguments, code=code)


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


def test_id_with_separators_is_found(saga: Saga) -> None:
    saga.commit("orders", placed("a", id="50% #caf\u00e9"))
    assert way("50% #cafe\u0301", *SHOP) == way("50% #caf\u00e9", *SHOP) == WAY[:1]


def test_event_without_a_record_is_noted(saga: Saga) -> None:
    [reserved] = saga.commit("inventory", placed("o-1"), "stock.reserved")
    said = f"note: stock.reserved ({reserved.id}) has no record and no dead letter"
    for option in ("--no-logs", "--no-dead-letters"):
        output = words(stdout_of("trace", "placed-o-1", *SHOP, option))
        assert (f"{said}:" in output) is (option == "--no-logs")
        assert (f"{said} among those that were read:" in output) is (option != "--no-logs")
    saga.commit("payments", reserved, key=ORDER_ID)
    assert "note:" not in stdout_of("trace", "placed-o-1", *SHOP, "--no-logs")


def test_due_event_is_shown_at_its_time_with_what_set_it_and_whether_it_waits(saga: Saga) -> None:
    saga.cloud.add_schedules()
    standings = []
    for minutes, scheduled in ((30, False), (30, True), (90, False), (90, True)):
        order = placed(f"o-{minutes}-{scheduled}")
        after = timedelta(minutes=minutes)  # of an hour ago
        [event] = saga.commit("inventory", order, "stock.reserved", after=after)
        due = int(datetime.fromisoformat(event.time or "").timestamp())
        name = schedule_name(event.id, due)
        # A schedule whose name begins in the same way is that of another event.
        saga.cloud.add_schedules(f"{name}0", *([name] if scheduled else []))
        shown = {moment["what"]: moment for moment in moments(order.id, *SHOP)}
        committed, found = shown["committed"], shown["due"]
        assert committed["published_later"] == ["stock.reserved"]
        assert "published" not in committed
        assert datetime.fromisoformat(found["time"]).timestamp() == due
        assert (found["consumer"], found["event_type"]) == ("inventory", "stock.reserved")
        assert (found["set_by"], found["set_at"]) == ("order.placed", committed["time"])
        assert found["key_hash"] == committed["key_hash"]
        is_noted = "has no record" in words(stdout_of("trace", order.id, *SHOP))
        standings.append((found["standing"].partition(":")[0], is_noted))
    assert standings == [
        ("published", True),
        ("late", False),
        ("no schedule", False),
        ("waits for its time", False),
    ]
    refuse("scheduler.ListSchedules")
    assert moments(order.id, *SHOP)[-1]["standing"] == "waits for its time"
    assert "note: schedules could not be read" in stdout_of("trace", order.id, *SHOP)
    # A consumer has it, whatever the clock of this machine and the schedules say.
    saga.commit("payments", event, key=ORDER_ID)
    [shown_due] = [one for one in moments(order.id, *SHOP) if one["what"] == "due"]
    assert shown_due["standing"] == "published"


# Entries of dead letters and of the functions' logs.


COMMITTED = ("inventory", "committed")


def test_dead_letter_of_the_event_is_shown_with_its_reason(saga: Saga) -> None:
    event = placed("o-1")
    saga.commit("orders", event)
    pk = saga.pk("inventory", event)
    saga.bury("inventory", event, key=pk, error="InvalidData: no", receive_count="1")
    committed, quarantined = moments(event.id)
    assert committed["what"] == "committed"
    assert quarantined["consumer"] == "inventory"
    assert quarantined["event_type"] == "order.placed"
    assert (quarantined["key"], quarantined["key_hash"]) == (pk, key_hash(pk))
    assert (quarantined["reason"], quarantined["error"]) == ("invalid-data", "InvalidData: no")
    assert quarantined["receive_count"] == 1
    said = words(stdout_of("trace", event.id))
    assert "quarantined reason: invalid-data error: InvalidData: no" in said


def test_dead_letter_leads_to_the_records_of_its_event(saga: Saga) -> None:
    lineage = "id-1 invalid-data 2026-07-30T14:00:00+00:00,id-2"
    saga.bury("inventory", placed("o-1"), lineage=lineage)
    saga.cloud.bury("inventory", body(placed("o-2")))
    saga.commit("orders", placed("o-1"))
    for key in ("placed-o-1", "o-1"):
        assert sorted(actions(key)) == [("inventory", "quarantined"), ("orders", "committed")]
    [message] = [moment for moment in moments("o-1") if moment["what"] == "quarantined"]
    assert message["sent_back"] == ["id-1 invalid-data 2026-07-30T14:00:00+00:00"]
    [died] = moments("o-2")
    assert died["reason"] == "none was recorded: the function never finished it"


def test_dead_letters_of_caused_events_are_found(saga: Saga) -> None:
    [reserved] = saga.commit("inventory", placed("o-1"), "stock.reserved")
    saga.bury("payments", reserved, Reason.EFFECT_UNKNOWN)
    saga.bury("payments", placed("another"))
    assert actions("placed-o-1", "--source", "/shop") == [COMMITTED, ("payments", "quarantined")]


def test_unparseable_dead_letter_is_found_by_its_key_and_by_its_text(saga: Saga) -> None:
    pk = saga.pk("orders", placed("o-1"))
    text = '{"order_id": "o-1", "note": "caf\u00e9"'
    saga.bury("orders", text, Reason.UNPARSEABLE, key=pk, lineage="m-1")
    [message] = saga.cloud.sqs.receive_message(
        QueueUrl=saga.cloud.box("orders"), VisibilityTimeout=0
    )["Messages"]
    for key in (key_hash(pk), pk, "o-1", "caf\u00e9", message["MessageId"], "m-1"):
        [moment] = moments(key)
        assert (moment["reason"], moment["event_type"]) == ("unparseable", None)


def test_id_is_found_in_a_dead_letter_escaped_or_not(saga: Saga) -> None:
    for consumer, written in (("orders", "caf\u00e9"), ("inventory", "caf\\u00e9")):
        saga.bury(consumer, body(placed("cafe")).replace("cafe", written))
    assert sorted(actions("caf\u00e9")) == [
        ("inventory", "quarantined"),
        ("orders", "quarantined"),
    ]


def test_dead_letters_that_were_not_read_are_noted(
    saga: Saga, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_walk, "DEFAULT_LIMIT", 3)
    for _ in range(5):
        saga.bury("orders", placed("o-1"))
    saga.cloud.sqs.receive_message(QueueUrl=saga.cloud.box("orders"), VisibilityTimeout=600)
    output = stdout_of("trace", "o-1")
    assert "note: dead letters that were not read: 1 hidden until" in output
    assert "note: only 3 dead letters were looked at" in output


def notes(key: str) -> list[str]:
    return [
        line for line in stdout_of("trace", key, *SHOP).splitlines() if line.startswith("note: ")
    ]


def reserved(order: str) -> CloudEvent:
    return placed(order, id=f"reserved-{order}", type="stock.reserved")


def test_duplicate_is_shown_and_no_line_of_other_code(saga: Saga) -> None:
    event = saga.order("o-1")
    saga.order("o-2")
    hashed = saga.hash("orders", event)
    saga.log("orders", "duplicate", key_hash=hashed, message_id="m", receive_count=2)
    saga.log("orders", "duplicate", key_hash=key_hash("orders#x"), message_id="n")
    saga.log("orders", "batch", key_hash=hashed)
    for text in (f"START {hashed}", f'["{hashed}"]', f'"{hashed}"', f'{{"key_hash": "{hashed}"}}'):
        saga.cloud.log("orders", text)
    found = moments("o-1")
    assert len(found) == 7
    assert (found[-1]["what"], found[-1]["event_type"]) == ("duplicate", "order.placed")
    assert (found[-1]["message_id"], found[-1]["receive_count"]) == ("m", 2)


def test_quarantine_of_an_existing_dead_letter_is_shown_once(saga: Saga) -> None:
    event = placed("o-1")
    hashed = saga.hash("orders", event)
    saga.bury("orders", event, key=saga.pk("orders", event), lineage="m-1,m-2")
    for message in ("m-1", "m-2"):  # an earlier message, and the existing one
        fields = {"key_hash": hashed, "reason": "no-key", "receive_count": 1}
        saga.log("orders", "quarantined", message_id=message, **fields)
    assert sorted((m["message_id"] == "m-1", m["reason"]) for m in moments("o-1")) == [
        (False, "invalid-data"),
        (True, "no-key"),
    ]


def test_quarantine_by_the_relay_is_shown_once(saga: Saga) -> None:
    event = placed("o-1")
    [published] = saga.commit("inventory", event, "stock.reserved")
    hashed = saga.hash("inventory", event)
    saga.log(RELAY, "quarantined", key_hash=hashed, reason="unpublishable")
    expected = [("inventory", "committed"), (RELAY, "quarantined")]
    assert actions("placed-o-1", *SHOP) == expected
    saga.bury(RELAY, published, Reason.UNPUBLISHABLE, key=saga.pk("inventory", event))
    assert actions("placed-o-1", *SHOP) == expected


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00", None, "soon"])
def test_retries_of_an_event_without_a_record_are_shown(saga: Saga, time: str | None) -> None:
    times = {"o-1": time, "o-2": "2026-01-01T00:00:00Z"}
    published = [body(reserved(name), time=at) for name, at in times.items()]
    saga.commit("inventory", placed("o-1"), outbox={"S": f"[{','.join(published)}]"})
    for waiting in (reserved("o-1"), reserved("o-9")):
        hashed = saga.hash("payments", waiting, ORDER_ID)
        saga.log("payments", "will be retried", key_hash=hashed, error="Timeout", receive_count=3)
    tries = [m for m in moments("placed-o-1", *SHOP) if m["consumer"] == "payments"]
    assert [(m["what"], m["event_type"], m["error"]) for m in tries] == [
        ("will be retried", "stock.reserved", "Timeout")
    ]


def test_retries_are_found_by_every_key_of_an_order(saga: Saga) -> None:
    event = placed("o-1")
    saga.commit("orders", event)  # inventory takes the same event, and payments the same order
    saga.commit("notifications", placed("o-1", type="payment.captured"), key=ORDER_ID)
    tried = {"inventory": saga.hash("inventory", event)}
    tried["payments"] = saga.hash("payments", reserved("o-1"), ORDER_ID)
    for consumer, hashed in tried.items():
        saga.log(consumer, "will be retried", key_hash=hashed, error="Timeout", receive_count=3)
    assert ("inventory", "will be retried") in actions(event.id, *SHOP)
    assert ("payments", "will be retried") in actions("o-1")


def test_consumers_that_committed_two_contents_of_an_event_are_told(saga: Saga) -> None:
    event, other = placed("o-1"), placed("o-1", data={"order_id": "o-1", "lines": []})
    saga.commit("orders", event)
    saga.commit("inventory", event)
    assert notes(event.id) == []
    saga.commit("inventory", other)
    [note] = notes(event.id)
    assert note.startswith("note: consumers disagree: one event was committed with two")
    saga.bury("orders", other, Reason.KEY_CONFLICT, key=saga.pk("orders", event))
    saga.bury("inventory", event, Reason.KEY_CONFLICT, key=saga.pk("inventory", event))
    traced = json.loads(stdout_of("trace", event.id, "--source", "/shop", "--json"))
    [both] = traced["disagreements"]
    assert both["consumers"] == ["inventory", "orders"]
    assert both["fields"] == {
        "data.lines.0.sku": {"inventory": None, "orders": '"s-1"'},
        "data.lines.0.quantity": {"inventory": None, "orders": "1"},
        "data.lines": {"inventory": "[]", "orders": None},
    }
    assert "committed by orders" in words(stdout_of("trace", event.id, "--source", "/shop"))
    assert words(stdout_of("dlq", "list")).count("warning: consumers disagree: inventory and") == 1
    assert "warning: consumers disagree" in words(stdout_of("dlq", "purge", "--dry-run"))
    brief = {name: both[name] for name in ("consumers", "message_ids")}
    assert json.loads(stdout_of("dlq", "list", "--json"))["disagreements"] == [brief]
    for owner, name in (("orders", "inventory"), ("inventory", "orders")):
        [letter] = json.loads(stdout_of("dlq", "list", "--consumer", owner, "--json"))["letters"]
        shown = json.loads(stdout_of("dlq", "show", letter["message_id"], "--json"))
        verdict = shown["if_sent_back"]
        assert shown["disagreement"] == both
        assert verdict["verdict"] == "needs-a-person"
        assert f"and {name} committed this content" in verdict["why"]
        assert "Do not delete it yet" in verdict["advice"]
    saga.commit("inventory", event)
    [letter] = json.loads(stdout_of("dlq", "list", "--consumer", "orders", "--json"))["letters"]
    verdict = json.loads(stdout_of("dlq", "show", letter["message_id"], "--json"))["if_sent_back"]
    assert verdict["verdict"] == "fails-again"


def test_logs_are_read_from_the_given_time(saga: Saga) -> None:
    asked = requests_of("logs.FilterLogEvents")
    saga.order("o-1")
    moments("o-1", "--since", "2026-11-01")
    assert {query["startTime"] for query in asked} == {
        int(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000)
    }


def test_event_that_only_the_logs_know_is_found(saga: Saga) -> None:
    hashed = key_hash("orders#event#/s#gone")
    saga.log("orders", "duplicate", key_hash=hashed)
    for key in (hashed, "orders#event#/s#gone"):
        assert actions(key) == [("orders", "duplicate")]
    hashed = saga.hash("payments", reserved("o-1"), ORDER_ID)
    saga.log("payments", "will be retried", key_hash=hashed, error="Timeout", receive_count=3)
    assert actions("o-1") == [("payments", "will be retried")]


def test_logs_that_cannot_be_read_are_noted_on_one_line(saga: Saga) -> None:
    saga.order("o-1")
    refuse("logs.FilterLogEvents")
    [note] = notes("o-1")
    names = "inventory, notifications, orders, payments, outbox_relay"
    assert note.startswith(f"note: the logs of {names} could not be read: ")
    assert "AccessDenied" in note
