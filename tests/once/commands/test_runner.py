"""Commands by `run`: one effect and one answer for a key, whatever fails on the way."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from unittest.mock import ANY, Mock

import boto3
import pytest
from msgspec.structs import replace

from once import Answer, Commands, Policy, Problem, Refusal, Transaction
from once.business_tables import Table
from once.commands.answer import ANSWER_BYTES
from once.commands.runner import MAX_KEY_BYTES, CommandRuntime
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
from once.events.identity import command_key, key_hash
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


def test_the_handler_sees_the_command_as_an_event() -> None:
    seen: list[Any] = []
    with small(lambda command, tx: seen.append(tx.event)) as aws:
        aws.run("do", {"order_id": "a"}, key="k")
    event = seen[0]
    assert (event.id, event.source, event.type) == ("k", "/commands/small", "do")
    assert event.data == {"order_id": "a"}


ANSWERS: dict[str, tuple[Any, int, Any]] = {
    "nothing": (None, 204, {}),
    "a value": ("x", 200, {"content-type": "application/json"}),
    "a problem": (Problem("t", 422), 422, {"content-type": "application/problem+json"}),
    "a problem with another status": (Answer(Problem("t"), 410), 410, ANY),
    "the largest": ("x" * (ANSWER_BYTES - 2), 200, ANY),
}


@pytest.mark.parametrize(("returned", "status", "headers"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_has_the_status_of_its_kind(returned: Any, status: int, headers: Any) -> None:
    with small(lambda command, tx: returned) as aws:
        reply = aws.run("do", OrderId("a"))
        assert (reply.status, reply.headers) == (status, headers)


def test_problem_details_have_the_members_that_were_given() -> None:
    members = {"type": "about:blank", "title": "t", "status": 409, "order": 1}
    assert Problem("t", more={"order": 1}).members() == members


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
    unknown = aws.run("cancel-order", OrderId("o-1"))
    assert (unknown.status, unknown.value, unknown.refusal) == (409, {"unknown": "o-1"}, "Unknown")


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


_UNTIL = "until the time was up; the command may be sent again under its key"
HINDERED = {
    "another request with the key": (
        cancelled("TransactionConflict", "None"),
        *(InProgress, f"another request under this key was running, {_UNTIL}"),
    ),
    "another writer": (cancelled("None", "TransactionConflict"), Contention, _UNTIL),
    "no right": (refused("AccessDeniedException"), RequestRefused, "AccessDenied"),
}


@pytest.mark.parametrize(("fault", "error", "text"), HINDERED.values(), ids=HINDERED)
def test_a_command_that_cannot_commit_in_time_stores_nothing(
    aws: FakeAws, fault: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as raised, inject(aws._library, WRITE, *[fault] * 1000):
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


@pytest.mark.parametrize(("seen", "runs"), [(5, 2), (0, 1)])
def test_a_refusal_that_depends_on_what_was_read_commits_only_if_that_still_holds(
    seen: int, runs: int
) -> None:
    """Another writer fills the stock after it was read."""
    commands, ran = Commands("small"), list[int]()

    @commands.handles("do", OrderId)
    def do(command: OrderId, tx: Transaction) -> str:
        found = tx.get(PLAIN, {"order_id": "stock"}) or {}
        ran.append(int(found.get("n", 0)))
        if len(ran) == 1 and seen:
            tables.given("orders", {"order_id": "stock", "n": seen, "once_commit": "other"})
        if not ran[-1]:
            raise Gone
        return "taken"

    @commands.rejects(Gone)
    def gone(command: OrderId, refusal: Gone, tx: Transaction) -> str:
        return type(refusal).__name__

    with FakeAws(commands, {"orders": "order_id"}, deliveries=1) as tables:
        tables.given("orders", {"order_id": "stock", "n": 0, "once_commit": "first"})
        assert tables.run("do", OrderId("a")).value == ("taken" if seen else "Gone")
        assert len(ran) == runs


def test_a_refusal_by_a_condition_commits_without_what_was_read() -> None:
    """An item that the handler read is not the reason: it may change, and the refusal holds."""
    commands, ran = Commands("small"), list[str]()

    @commands.handles("do", OrderId)
    def do(command: OrderId, tx: Transaction) -> None:
        ran.append(command.order_id)
        tx.get(PLAIN, {"order_id": "price"})
        unknown = {"order_id": "unknown"}
        tx.delete(PLAIN, unknown, condition="attribute_exists(order_id)", otherwise=Gone())

    @commands.rejects(Gone)
    def gone(command: OrderId, refusal: Gone, tx: Transaction) -> str:
        tables.given("orders", {"order_id": "price", "once_commit": "other"})
        return "gone"

    with FakeAws(commands, {"orders": "order_id"}, deliveries=1) as tables:
        assert tables.run("do", OrderId("a")).value == "gone"
        assert ran == ["a"]


def test_a_refusal_whose_answer_is_refused_is_an_error() -> None:
    commands = Commands("small")

    @commands.handles("do", OrderId)
    def do(command: OrderId, tx: Transaction) -> None:
        raise Gone(command.order_id)

    @commands.rejects(Gone)
    def gone(command: OrderId, refusal: Gone, tx: Transaction) -> None:
        if command.order_id == "at once":
            raise Gone("again")
        tx.delete(PLAIN, {"order_id": "b"}, condition="attribute_exists(order_id)", otherwise=AGAIN)

    with FakeAws(commands, {"orders": "order_id"}) as aws:
        for name in ("at once", "by its condition"):
            with pytest.raises(UnhandledRefusal, match=r"Gone\('again'\)"):
                aws.run("do", OrderId(name))
        assert aws.items("dedup") == []


def test_pauses_grow_with_each_attempt(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    runs = iter(range(3))

    def place(command: PlaceOrder, tx: Transaction) -> None:
        tx.get(PLAIN, {"order_id": "a"})
        if next(runs, None) is not None:
            aws.given("orders", {"order_id": "a", "once_commit": str(len(aws.slept))})
        tx.put(PLAIN, {"order_id": "a"})

    changing = replace(api.handlers["place-order"], function=place)
    monkeypatch.setitem(api.handlers, "place-order", changing)
    api.run("place-order", ORDER, key="k", scope="s")
    assert aws.slept == [0.025, 0.05, 0.1]


def test_data_of_an_event_that_is_too_large_for_it_is_stored_before_the_commit() -> None:
    def do(command: OrderId, tx: Transaction) -> None:
        tx.publish("done", {"text": "y" * 300_000})

    options: dict[str, Any] = {"claim_bucket": "claims", "max_body_bytes": 400_000}
    with small(do, publishes=("done",), **options) as aws:
        aws.run("do", OrderId("a"))
        [event] = aws.published()
        bucket, _, key = str(event["dataref"]).removeprefix("s3://").partition("/")
        stored = boto3.client("s3", "us-east-1").get_object(Bucket=bucket, Key=key)
        assert json.loads(stored["Body"].read()) == {"text": "y" * 300_000}
        assert "/small/" in key


def test_data_over_the_largest_object_is_refused() -> None:
    def do(command: OrderId, tx: Transaction) -> None:
        tx.publish("done", {"text": "y" * 300_000})

    options: dict[str, Any] = {"claim_bucket": "claims", "max_body_bytes": 300_000}
    with small(do, publishes=("done",), **options) as aws:
        with pytest.raises(TooLarge):
            aws.run("do", OrderId("a"))
        assert aws.items("dedup") == []


def test_a_deployed_function_has_the_clients_that_it_needs(
    aws: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = api.runner.runtime.settings
    monkeypatch.setattr(boto3, "client", client := Mock())
    plain = CommandRuntime.of(settings, region="eu-west-1")
    client.assert_called_once_with("dynamodb", "eu-west-1", config=ANY)
    assert (plain.s3, plain.logger.service) == (None, "checkout")
    with_bucket = CommandRuntime.of(replace(settings, claim_bucket="b"), region="eu-west-1")
    assert with_bucket.s3 is not None
    with_bucket.s3.get_object(Bucket="b", Key="k")
    client.assert_called_with("s3", "eu-west-1", config=ANY)


class Gone(Refusal):
    """A refusal, in some tests without an answer of its own."""


AGAIN = Gone("again")


def _performing(command: OrderId, tx: Transaction) -> None:
    effect = Effect[OrderId, Any]("charge", OrderId, Policy.AT_LEAST_ONCE, 0, lambda *_: None)
    tx.perform(effect, command)


def _refusing(command: OrderId, tx: Transaction) -> None:
    raise Gone


def _failing(command: OrderId, tx: Transaction) -> None:
    tx.update(PLAIN, {"order_id": "a"}, set={"n": 1}, condition="attribute_exists(x)")


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "an effect": (
        _performing,
        InvalidWrite,
        "^a command performs no effect.* publish an event, and let",
    ),
    "a refusal without an answer": (_refusing, UnhandledRefusal, "Gone"),
    "a condition without otherwise": (_failing, ConditionFailed, "Update on orders"),
    "too large": (
        lambda c, tx: "x" * ANSWER_BYTES,
        InvalidWrite,
        f"has {ANSWER_BYTES + 2} bytes, and a record keeps {ANSWER_BYTES}: answer with an id",
    ),
    "no JSON": (lambda c, tx: object(), InvalidWrite, "no form in JSON"),
    "a server error": (lambda c, tx: Answer("x", 500), InvalidWrite, "repeated. To have the com"),
    "no status": (
        lambda c, tx: Answer("x", 299),
        InvalidWrite,
        "^the status.* HTTP from 200 to 499",
    ),
    "content without content": (lambda c, tx: Answer("x", 204), InvalidWrite, "return None"),
    "content to reset": (lambda c, tx: Answer("x", 205), InvalidWrite, "return None"),
    "content as before": (lambda c, tx: Answer("x", 304), InvalidWrite, "return None"),
    "a header that is no text": (
        lambda c, tx: Answer("x", headers={"a": 1}),  # type: ignore[dict-item]
        InvalidWrite,
        r"^a header of an answer is no name and value in ASCII \(RFC 9110\)",
    ),
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
        "the header content-length is not an answer's: leave it out",
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


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "an unknown command": ({"name": "place"}, UnknownType, "checkout has no command of this name"),
    "no key": ({"key": ""}, NoKey, "the key of a command is a text that is not blank"),
    "a blank key": ({"key": " "}, NoKey, "the key of"),
    "a key that is no text": ({"key": 7}, NoKey, "the key of"),
    "a lone surrogate in the key": (
        {"key": "\ud800"},
        *(NoKey, "^key and scope of a command are Unicode text"),
    ),
    "a lone surrogate in the scope": ({"scope": "\ud800"}, NoKey, "Unicode text"),
    "a long key": ({"key": "k" * (MAX_KEY_BYTES + 1)}, TooLarge, f"{MAX_KEY_BYTES} bytes in UTF-8"),
    "no scope": ({"scope": ""}, NoKey, "the scope of"),
    "data of another model": ({"data": {"order_id": "o-1"}}, InvalidData, "amount"),
    "data with NaN": (
        {"data": {**ORDER, "amount": float("nan")}},
        *(InvalidData, "the data of place-order is not strict JSON"),
    ),
    "data that is no JSON": (
        {"data": {"order_id": object()}},
        *(InvalidData, "the data of place-order has no form in JSON"),
    ),
    "a lone surrogate in the data": (
        {"data": {**ORDER, "sent_at": "\ud800"}},
        *(InvalidData, "place-order does not fit PlaceOrder"),
    ),
}


@pytest.mark.parametrize(("change", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_a_request_that_cannot_be_a_command_is_refused(
    aws: FakeAws, change: dict[str, Any], error: type[Exception], text: str
) -> None:
    given = {"name": "place-order", "data": ORDER, "key": "k", "scope": "s", **change}
    with pytest.raises(error, match=text):
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
    assert line["command"] == {**given, **change}.get("name", "place-order")
    assert not {"alice", "first", "second"} & {*text.replace('"', " ").split()}


def test_the_time_of_a_command_and_the_hash_of_its_key_are_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def do(command: OrderId, tx: Transaction) -> None:
        tables.time = 1_800_000_000.5123456

    with small(do) as tables:
        tables.time = 1_800_000_000.0
        tables.run("do", OrderId("a"), key="k")
        [record] = tables.items("dedup")
    line = json.loads(capsys.readouterr().out.splitlines()[0])
    assert line[Metric.COMMAND_MS] == [512.346]
    assert line["key_hash"] == key_hash(str(record["pk"]))


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("do", ValueError("x"), "ValueError"),
        ("do", Gone(), "UnhandledRefusal"),
        ("un", None, "Unk"),
    ],
)
def test_a_failed_command_is_logged_by_the_hash_of_its_key(
    name: str, error: Exception | None, text: str
) -> None:
    def do(command: OrderId, tx: Transaction) -> None:
        raise error or AssertionError

    with small(do) as aws:
        runner = vars(aws._consumer)["runner"]
        runner.runtime = replace(runner.runtime, logger=(logger := Mock()))
        with pytest.raises((ValueError, OnceError)):
            aws.run(name, OrderId("a"), key="k")
    hashed = key_hash(command_key("small", scope="test", command="do", key="k"))
    fields = {
        "command": name,
        "key_hash": hashed if name == "do" else "",
        "error": ANY,
    }
    logger.warning.assert_called_once_with("command failed", extra=fields)
    assert logger.warning.call_args.kwargs["extra"]["error"].startswith(text)


def test_a_command_is_answered_though_its_figures_cannot_be_reported(
    aws: FakeAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = replace(api.runner.runtime, metrics=Mock(report=Mock(side_effect=OSError)))
    monkeypatch.setattr(api.runner, "runtime", runtime)
    assert api.run("place-order", ORDER, key="k", scope="s").status == 201
