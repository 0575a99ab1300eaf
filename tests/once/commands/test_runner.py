"""Commands by `run`: one effect and one answer for a key, whatever fails on the way."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from once import Answer, Commands, Policy, Refusal, Transaction
from once.business_tables import Table
from once.commands.answer import ANSWER_BYTES
from once.commands.runner import MAX_KEY_BYTES
from once.effects.declaration import Effect
from once.errors import (
    ConditionFailed,
    Contention,
    InProgress,
    InvalidData,
    InvalidWrite,
    KeyConflict,
    NoKey,
    OnceError,
    OutcomeUnknown,
    RequestRefused,
    TooLarge,
    UnhandledRefusal,
    UnknownType,
)
from once.names import Metric
from once.testing import FakeAws, answer_lost, cancelled, inject, never_sent, refused
from tests.once.commands.shop import ORDER, ORDERS, Order, OrderId, PlaceOrder, api, shop

WRITE, READ = "TransactWriteItems", "BatchGetItem"
PLAIN = Table[Any]("orders")


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    with shop() as aws:
        yield aws


def small(function: Callable[[Any, Transaction], Any], **more: Any) -> FakeAws:
    """Return tables with one command, `do`."""
    commands = Commands("small")
    commands.handles("do", OrderId)(function)
    return FakeAws(commands, {"orders": "order_id"}, **more)


def test_a_command_takes_effect_once_and_is_answered_the_same(aws: FakeAws) -> None:
    first = aws.run("place-order", ORDER, key="k")
    assert (first.status, first.value, first.repeated) == (201, {"order_id": "o-1"}, False)
    again = api.run("place-order", ORDER, key="k", scope="test")
    assert again.repeated
    assert (again.status, again.headers, again.body) == (first.status, first.headers, first.body)
    assert first.headers == {"content-type": "application/json", "location": "/orders/o-1"}
    assert aws.items(ORDERS) == [ORDER]
    assert [event["type"] for event in aws.published()] == ["order.placed"]


def test_a_repeated_command_is_one_request(aws: FakeAws) -> None:
    api.run("place-order", ORDER, key="k", scope="s")
    calls: list[str] = []
    aws._library.meta.events.register("before-call", lambda model, **_: calls.append(model.name))
    assert api.run("place-order", ORDER, key="k", scope="s").repeated
    assert calls == [WRITE]


def test_the_data_is_json_or_an_object_of_a_model(aws: FakeAws) -> None:
    aws.run("place-order", PlaceOrder("o-1", 5), key="k")
    assert api.run("place-order", {**ORDER, "sent_at": ""}, key="k", scope="test").repeated


def test_volatile_fields_may_differ(aws: FakeAws) -> None:
    aws.run("place-order", ORDER, key="k")
    assert api.run("place-order", {**ORDER, "sent_at": "later"}, key="k", scope="test").repeated


def test_a_key_with_other_content_is_refused_and_changes_nothing(aws: FakeAws) -> None:
    aws.run("place-order", ORDER, key="k")
    with pytest.raises(KeyConflict):
        aws.run("place-order", {**ORDER, "amount": 6}, key="k")
    assert aws.items(ORDERS) == [ORDER]


@pytest.mark.parametrize("change", [{"scope": "other"}, {"key": "K"}, {"key": "k "}])
def test_another_scope_or_key_is_another_command(aws: FakeAws, change: dict[str, str]) -> None:
    aws.run("place-order", ORDER, key="k", scope="s")
    other = aws.run(
        "place-order", {**ORDER, "order_id": "o-2"}, **{"key": "k", "scope": "s", **change}
    )
    assert other.value == {"order_id": "o-2"}


COMPOSED, DECOMPOSED = "\u00e9", "e\u0301"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"scope": COMPOSED}, {"scope": DECOMPOSED}),
        ({"key": COMPOSED}, {"key": DECOMPOSED}),
        ({"scope": "a", "key": "b#c"}, {"scope": "a#b", "key": "c"}),
        ({"key": "b#c"}, {"key": "b%23c"}),
    ],
)
def test_no_two_pairs_of_scope_and_key_are_one(
    aws: FakeAws, one: dict[str, str], other: dict[str, str]
) -> None:
    given = {"scope": "s", "key": "k"}
    aws.run("place-order", ORDER, **{**given, **one})
    assert aws.run("place-order", {**ORDER, "order_id": "o-2"}, **{**given, **other}).status == 201


def test_two_commands_may_have_one_key(aws: FakeAws) -> None:
    aws.run("place-order", ORDER, key="k")
    assert aws.run("cancel-order", OrderId("o-1"), key="k").status == 204


def test_a_scope_is_not_stored_in_clear(aws: FakeAws) -> None:
    aws.run("place-order", ORDER, key="k", scope="alice@example.com")
    assert "alice" not in str(aws.items("dedup"))


def test_a_refusal_commits_and_is_repeated_like_a_success(aws: FakeAws) -> None:
    aws.given(ORDERS, Order("o-1", 1))
    reply = aws.run("place-order", ORDER, key="k")
    assert (reply.status, reply.refusal) == (409, "AlreadyThere")
    assert reply.headers == {"content-type": "application/problem+json"}
    assert reply.value == {
        "type": "about:blank",
        "title": "The order exists",
        "status": 409,
        "detail": "Choose another id.",
        "order": "o",
    }
    aws.dynamodb.delete_item(TableName="orders", Key={"order_id": {"S": "o-1"}})
    again = api.run("place-order", ORDER, key="k", scope="test")
    assert (again.body, again.refusal, again.repeated) == (reply.body, "AlreadyThere", True)
    assert [event["type"] for event in aws.published()] == ["order.refused"]


def test_a_handler_that_no_longer_finds_what_it_has_changed_is_answered(aws: FakeAws) -> None:
    """Its second run raises a Refusal, for which the record has another answer."""
    aws.given(ORDERS, Order("o-1", 1))
    assert aws.run("cancel-order", OrderId("o-1")).status == 204
    assert aws.run("cancel-order", OrderId("o-1")).refusal == "Unknown"


def test_an_error_of_the_handler_stores_nothing_and_the_next_attempt_runs_anew() -> None:
    errors: list[Exception] = [ValueError("out of luck")]

    def do(command: OrderId, tx: Transaction) -> str:
        tx.put(PLAIN, {"order_id": command.order_id})
        if errors:
            raise errors.pop()
        return "done"

    with small(do) as aws:
        with pytest.raises(ValueError, match="out of luck"):
            aws.run("do", OrderId("a"), key="k")
        assert aws.items("dedup") == aws.items(ORDERS) == []
        assert aws.run("do", OrderId("a"), key="k").value == "done"


def test_an_error_of_a_repeated_run_is_no_error() -> None:
    """The first run has taken what the handler asserts."""

    def do(command: OrderId, tx: Transaction) -> str:
        assert tx.get(PLAIN, {"order_id": "stock"}) is not None
        tx.delete(PLAIN, {"order_id": "stock"})
        return "taken"

    with small(do) as aws:
        aws.given("orders", {"order_id": "stock"})
        assert aws.run("do", OrderId("a"), key="k").value == "taken"
        with pytest.raises(KeyConflict):
            aws.run("do", OrderId("b"), key="k")


def test_a_stricter_model_still_gets_the_stored_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with shop() as aws:
        first = aws.run("place-order", ORDER, key="k")
        strict = type("Strict", (PlaceOrder,), {"__annotations__": {"coupon": str}}, kw_only=True)
        newer = Commands("checkout")
        newer.handles("place-order", strict, volatile=("sent_at",))(lambda command, tx: "newer")
        runner = newer.bound_to(_only(api.runner.runtime, "place-order"))
        monkeypatch.setitem(vars(newer), "runner", runner)
        again = newer.run("place-order", ORDER, key="k", scope="test")
        assert (again.body, again.repeated) == (first.body, True)
        with pytest.raises(InvalidData, match="coupon"):
            newer.run("place-order", ORDER, key="other", scope="test")


def _only(runtime: Any, *commands: str) -> Any:
    return replace(runtime, settings=replace(runtime.settings, commands=commands))


LOST = {
    "the answer": [answer_lost()],
    "the request": [never_sent()],
    "the answer to the refused condition": [refused("InternalServerError", status=500)],
    "a conflict": [cancelled("TransactionConflict", "None")],
    "a conflict on the item": [cancelled("None", "TransactionConflict")],
    "throttled": [refused("ThrottlingException")],
}


@pytest.mark.parametrize("faults", LOST.values(), ids=LOST)
def test_a_lost_or_hindered_commit_ends_with_the_answer(aws: FakeAws, faults: list[Any]) -> None:
    aws.fails_at(WRITE, *faults)
    assert aws.run("place-order", ORDER, key="k").value == {"order_id": "o-1"}
    assert len(aws.items(ORDERS)) == len(aws.published()) == 1


HINDERED = {
    "another request with the key": (cancelled("TransactionConflict", "None"), InProgress),
    "another writer": (cancelled("None", "TransactionConflict"), Contention),
    "no right": (refused("AccessDeniedException"), RequestRefused),
}


@pytest.mark.parametrize(("fault", "error"), HINDERED.values(), ids=HINDERED)
def test_a_command_that_cannot_commit_in_time_stores_nothing(
    aws: FakeAws, fault: Any, error: type[Exception]
) -> None:
    with pytest.raises(error) as raised, inject(aws._library, WRITE, *[fault] * 1000):
        api.run("place-order", ORDER, key="k", scope="s", seconds=5)
    assert type(raised.value) is error
    assert aws.items("dedup") == aws.items(ORDERS) == []


def test_a_commit_that_nobody_can_confirm_is_unknown(aws: FakeAws) -> None:
    lost, unread = inject(aws._library, WRITE, *[answer_lost()] * 99), never_sent()
    with pytest.raises(OutcomeUnknown), lost, inject(aws._library, READ, *[unread] * 999):
        api.run("place-order", ORDER, key="k", scope="s", seconds=2)
    assert api.run("place-order", ORDER, key="k", scope="s").repeated


def test_a_read_item_that_changes_runs_the_handler_again() -> None:
    runs: list[int] = []

    def do(command: OrderId, tx: Transaction) -> int:
        found = tx.get(PLAIN, {"order_id": "a"}) or {}
        runs.append(int(found.get("n", 0)))
        if len(runs) == 1:  # another writer comes between
            tables.given("orders", {"order_id": "a", "n": 7, "once_commit": "other"})
        tx.put(PLAIN, {"order_id": "a", "n": runs[-1] + 1})
        return runs[-1]

    with small(do) as tables:
        assert tables.run("do", OrderId("a"), key="k").value == 7
        assert runs[:2] == [0, 7]


class Gone(Refusal):
    """A refusal without an answer of its own."""


def _performing(command: OrderId, tx: Transaction) -> None:
    effect = Effect[OrderId, Any]("charge", OrderId, Policy.AT_LEAST_ONCE, 0, lambda *_: None)
    tx.perform(effect, command)


def _refusing(command: OrderId, tx: Transaction) -> None:
    raise Gone


def _failing(command: OrderId, tx: Transaction) -> None:
    tx.update(PLAIN, {"order_id": "a"}, set={"n": 1}, condition="attribute_exists(x)")


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "an effect": (_performing, InvalidWrite, "performs no effect.*publish an event"),
    "a refusal without an answer": (_refusing, UnhandledRefusal, "Gone"),
    "a condition without otherwise": (_failing, ConditionFailed, "Update on orders"),
    "too large": (
        lambda c, tx: "x" * ANSWER_BYTES,
        InvalidWrite,
        f"has {ANSWER_BYTES + 2} bytes, and a record keeps {ANSWER_BYTES}",
    ),
    "no JSON": (lambda c, tx: object(), InvalidWrite, "no form in JSON"),
    "a server error": (lambda c, tx: Answer("x", 503), InvalidWrite, "raise an error"),
    "no status": (lambda c, tx: Answer("x", 299), InvalidWrite, "from 200 to 499"),
    "content without content": (lambda c, tx: Answer("x", 204), InvalidWrite, "return None"),
    "a header in two lines": (
        lambda c, tx: Answer("x", headers={"location": "/a\r\nset-cookie: b"}),
        InvalidWrite,
        "RFC 9110",
    ),
    "a header's name": (lambda c, tx: Answer("x", headers={"a b": "c"}), InvalidWrite, "RFC 9110"),
    "a blank header": (lambda c, tx: Answer("x", headers={"a": ""}), InvalidWrite, "RFC 9110"),
    "a header of the connection": (
        lambda c, tx: Answer("x", headers={"Content-Length": "1"}),
        InvalidWrite,
        "leave it out",
    ),
}


@pytest.mark.parametrize(("function", "error", "text"), WRONG.values(), ids=WRONG)
def test_a_wrong_handler_stores_nothing_and_says_what_is_wrong(
    function: Any, error: type[Exception], text: str
) -> None:
    with small(function) as aws:
        with pytest.raises(error, match=text):
            aws.run("do", OrderId("a"))
        assert aws.items("dedup") == aws.items("orders") == []


def test_an_answer_and_events_that_are_too_large_together_are_refused() -> None:
    def do(command: OrderId, tx: Transaction) -> str:
        tx.publish("done", {"text": "y" * 200_000})
        return "x" * 250_000

    with small(do, publishes=("done",)) as aws, pytest.raises(TooLarge, match="answer less"):
        aws.run("do", OrderId("a"))


REFUSED: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "an unknown command": ({"name": "place"}, UnknownType),
    "no key": ({"key": ""}, NoKey),
    "a blank key": ({"key": " "}, NoKey),
    "a key that is no text": ({"key": 7}, NoKey),
    "a lone surrogate in the key": ({"key": "\ud800"}, NoKey),
    "a lone surrogate in the scope": ({"scope": "\ud800"}, NoKey),
    "a long key": ({"key": "k" * (MAX_KEY_BYTES + 1)}, TooLarge),
    "no scope": ({"scope": ""}, NoKey),
    "data of another model": ({"data": {"order_id": "o-1"}}, InvalidData),
    "data with NaN": ({"data": {**ORDER, "amount": float("nan")}}, InvalidData),
    "data that is no JSON": ({"data": {"order_id": object()}}, InvalidData),
    "a lone surrogate in the data": ({"data": {**ORDER, "sent_at": "\ud800"}}, InvalidData),
}


@pytest.mark.parametrize(("change", "error"), REFUSED.values(), ids=REFUSED)
def test_a_request_that_cannot_be_a_command_is_refused(
    aws: FakeAws, change: dict[str, Any], error: type[Exception]
) -> None:
    given = {"name": "place-order", "data": ORDER, "key": "k", "scope": "s", **change}
    with pytest.raises(error):
        api.run(given.pop("name"), given.pop("data"), **given)
    assert aws.items("dedup") == []


@pytest.mark.parametrize("key", ["k" * MAX_KEY_BYTES, "#" * MAX_KEY_BYTES, "\u00e9"])
def test_every_allowed_key_fits_the_partition_key(aws: FakeAws, key: str) -> None:
    assert aws.run("place-order", ORDER, key=key, scope="s" * 10_000).status == 201


def test_a_command_after_its_window_is_a_new_one(aws: FakeAws) -> None:
    aws.time = 1_800_000_000.0
    api.run("place-order", ORDER, key="k", scope="s")
    aws.time += 28 * 86400 + 600
    assert api.run("place-order", ORDER, key="k", scope="s").repeated
    aws.time += 1
    assert not api.run("place-order", {**ORDER, "order_id": "o-2"}, key="k", scope="s").repeated


METRICS: dict[str, tuple[dict[str, Any], str]] = {
    "committed": ({}, Metric.COMMANDS_COMMITTED),
    "repeated": ({"key": "first", "data": ORDER}, Metric.COMMANDS_REPEATED),
    "conflicting": ({"key": "first", "data": {**ORDER, "amount": 1}}, Metric.COMMAND_CONFLICTS),
    "refused": ({"data": ORDER}, Metric.COMMANDS_REFUSED),
    "invalid": ({"data": {}}, Metric.COMMANDS_INVALID),
    "failed": ({"name": "unknown"}, Metric.COMMANDS_FAILED),
}


@pytest.mark.parametrize(("change", "metric"), METRICS.values(), ids=METRICS)
def test_each_end_is_counted_without_key_or_scope(
    aws: FakeAws, change: dict[str, Any], metric: str, capsys: pytest.CaptureFixture[str]
) -> None:
    api.run("place-order", ORDER, key="first", scope="alice")
    capsys.readouterr()
    new = {**ORDER, "order_id": "new"}
    given = {"name": "place-order", "data": new, "key": "second", "scope": "alice", **change}
    with suppress(OnceError):
        api.run(given.pop("name"), given.pop("data"), **given)
    text = capsys.readouterr().out
    [line] = map(json.loads, text.splitlines())
    assert line[metric] == [1.0]
    assert len(line[Metric.COMMAND_MS]) == 1
    assert not {"alice", "first", "second"} & {*text.replace('"', " ").split()}
