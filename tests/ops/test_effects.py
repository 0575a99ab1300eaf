"""`effects list` and `effects settle`: an outcome found out by hand, fenced, and completed once."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import pytest
import typer
from botocore.exceptions import ReadTimeoutError
from msgspec import Struct
from pydantic import BaseModel
from typer.testing import Result

from once.effects.declaration import Call, Effect, Policy, declared_text
from once.errors import Refusal
from once.events.identity import key_hash
from once.events.models import model_of
from once.names import CLOCK_MARGIN_SECONDS
from once.ops.effect_shapes import faults_of, shape_of
from once.testing import inject, never_sent
from tests.ops.cloud import Cloud
from tests.ops.outboxes import commit
from tests.ops.shop import KEY, Shop, note
from tests.ops.support import add_to_answer, run, stdout_of, words

PENDING: dict[str, Any] = {
    "state": {"S": "pending"},
    "effect": {"S": "charge"},
    "standing": {"S": "unknown"},
    "provider_key": {"S": "k-1"},
    "lease_until": {"N": "1790000000000"},
}


def test_unknown_effects_come_first_on_a_line_each(cloud: Cloud) -> None:
    now = time.time()
    for number, standing in enumerate(("not-done", "unknown")):
        effect: dict[str, Any] = {"effect": {"S": "charge"}, "standing": {"S": standing}}
        pk = f"orders#event#/shop#{number}"
        state: dict[str, Any] = {"state": {"S": "pending"}}
        cloud.put_record(pk, now - 60 * (2 - number), now, **state, **effect)
    first, second, summary = stdout_of("effects", "list").splitlines()
    assert first.split() == ["unknown", "1", "min", "charge", "orders#event#/shop#1"]
    assert second.startswith("not-done")
    assert max(map(len, (first, second))) <= 80
    assert summary.startswith("2 pending effects: 1 unknown")


def test_pending_effects_are_listed_oldest_first(cloud: Cloud) -> None:
    commit(cloud, "orders#young", age=1, **PENDING)
    commit(cloud, "orders#old", age=9, **PENDING)
    commit(cloud, "orders#done", state={"S": "done"})
    found = json.loads(stdout_of("effects", "list", "--json"))
    assert [one["key"] for one in found["effects"]] == ["orders#old", "orders#young"]
    assert (found["read"], found["left"]) == (3, 0)
    assert found["effects"][0]["provider_key"] == "k-1"
    text = stdout_of("effects", "list", "--limit", 1)
    assert "more were not: a pending effect may be among them" in text


WHY = ("--why", "seen at the provider")
DONE = ("--done", '"ref-1"')
Start = Callable[..., Shop]


class Declined(Refusal):
    """The provider declines."""


@pytest.fixture
def unknown(cloud: Cloud) -> Iterator[Start]:
    """Start a consumer whose effect may have happened, with the dead letter of its message."""
    with ExitStack() as stack:

        def start(policy: Policy = Policy.AT_MOST_ONCE, number: int = 1) -> Shop:
            shop = stack.enter_context(Shop(cloud, policy))
            for name in "abc"[:number]:
                shop.outside.answers = [TimeoutError()] * 3
                shop.dead_letter(note(name))
                shop.outside.answers = []
            return shop

        yield start


def settle(key: str, *options: object, answer: str | None = None) -> Result:
    return run("effects", "settle", key, *WHY, *options, answer=answer)


def settled(key: str, *options: object) -> str:
    """Settle an effect without a question; return the output."""
    result = settle(key, "--yes", *options)
    assert result.exit_code == 0, result.output
    return words(result.output)


def record(shop: Shop) -> dict[str, Any]:
    [item] = shop.aws.items("dedup")
    return item


@pytest.mark.parametrize("policy", Policy)
def test_an_effect_that_was_done_is_completed_without_a_call(
    unknown: Start, policy: Policy
) -> None:
    shop = unknown(policy)
    calls = len(shop.outside.calls)
    output = settled(shop.only_dead_letter().message_id, *DONE)
    assert f"next: `once dlq redrive {shop.only_dead_letter().message_id}`" in output
    assert "has a recorded outcome, which is committed without a call" in shop.verdict().why
    assert shop.redrive().exit_code == 0
    shop.work_off()
    assert shop.dead_letters() == []
    assert shop.counted() == {"a": 1}
    assert len(shop.outside.calls) == calls
    entry = json.loads(record(shop)["settlement"])
    assert entry.keys() == {"as", "by", "at", "why"}
    assert (entry["as"], entry["why"]) == ("done", WHY[1])
    assert entry["by"].startswith("arn:aws:")


@pytest.mark.parametrize(("options", "number"), [([], "1"), (["--new-key"], "2")])
def test_an_effect_that_was_not_done_is_called_again(
    unknown: Start, options: list[str], number: str
) -> None:
    shop = unknown()
    [key] = shop.outside.calls
    settled(KEY, "--not-done", *options)
    assert "was certainly not done" in shop.verdict().why
    assert shop.send_back() == []
    assert shop.outside.calls == [key, f"{key[:-1]}{number}"]
    assert shop.counted() == {"a": 1}
    assert json.loads(record(shop)["settlement"])["as"] == "not-done"


def test_a_refusal_of_the_provider_is_answered(unknown: Start) -> None:
    shop = unknown()
    texts: list[str] = []
    shop.consumer.rejects(Declined)(lambda event, refusal, tx: texts.append(str(refusal)))
    told = words(settle(KEY, "--refused", "Declined", "--yes").stderr)
    assert "it answers none; if another version serves now, --undeclared stores it" in told
    settled(KEY, "--refused", "Declined", "--text", "no money", "--undeclared")
    assert shop.send_back() == []
    assert texts == ["no money"]
    assert record(shop)["refusal"] == "Declined"
    assert len(shop.outside.calls) == 1


def test_an_outcome_that_a_dead_letter_carries_is_settled_from_it(cloud: Cloud) -> None:
    with Shop(cloud, Policy.AT_MOST_ONCE) as shop:
        lost = [never_sent()] * 14  # of the commit, and of the attempts to keep the outcome
        with inject(shop.aws.runtime.dynamodb, "TransactWriteItems", None, *lost):
            shop.dead_letter(note("a"))
        shop.aws.given("dedup", record(shop) | {"lease_until": 0})
        message_id = shop.only_dead_letter().message_id
        assert 'outcome {"returned":"reference"}' in words(stdout_of("dlq", "show", message_id))
        assert "no dead letter that was read" in settle(KEY, "--recorded", "--yes").stderr
        output = settled(message_id, "--recorded")
        assert 'settled as done, with the outcome "reference"' in output
        assert shop.send_back() == []
        assert (shop.counted(), len(shop.outside.calls)) == ({"a": 1}, 1)


@pytest.mark.parametrize("how", ["--yes", "--dry-run"])
def test_an_outcome_that_is_not_declared_is_refused_before_anything_is_written(
    unknown: Start, how: str
) -> None:
    shop = unknown()
    shop.consumer.rejects(Declined)(lambda event, refusal, tx: None)
    before = record(shop)
    for options, fault in (
        (["--done", '{"reference": "ref-1"}'], "$ is not string; the effect returns string"),
        (["--refused", "Refused"], "Refused is no refusal that the consumer answers"),
    ):
        result = settle(KEY, *options, how)
        assert result.exit_code == 1
        assert f"nothing was changed: {fault}" in words(result.stderr)
    assert record(shop) == before
    plan = words(settle(KEY, *DONE, "--dry-run").stdout)
    assert "policy: at-most-once; it returns string" in plan
    assert "the message fails again" in shop.verdict().why


class Line(Struct):
    sku: Literal["tea", "cup"]
    number: int = 1


@dataclass
class Receipt:
    charge_id: str | None
    lines: list[Line]
    place: tuple[int, float]


class Ticket(BaseModel):
    code: str
    note: str | None = None


SHAPES: list[tuple[Any, str, dict[str, str]]] = [
    (
        Receipt,
        """{"charge_id": string | null, "lines": [{"sku": 'cup' | 'tea', "number"?: integer}, …"""
        '], "place": [integer, number]}',
        {
            '{"charge_id": null, "lines": [{"sku": "tea"}], "place": [1.0, 2]}': "",
            '{"charge": "c", "lines": [], "place": [1, 2]}': "$.charge_id is missing",
            '{"charge_id": 7, "lines": [], "place": [1, 2]}': "$.charge_id is not string | null",
            '{"charge_id": "", "lines": [{"sku": "pot"}], "place": [1, 2]}': "$.lines[0].sku is",
            '{"charge_id": "", "lines": {}, "place": [1, 2]}': "$.lines is not [",
            '{"charge_id": "", "lines": [], "place": [1, true]}': "$.place[1] is not number",
            '{"charge_id": "", "lines": [], "place": [1]}': "$.place has 1 items and not 2",
            "[]": "$ is not {",
        },
    ),
    (
        Ticket,
        '{"code": string, "note"?: string',
        {'{"code": "x", "notes": ""}': "$.notes is no field"},
    ),
    (int, "integer", {"1": "", "1.5": "$ is not integer", "true": "$ is not integer"}),
    (dict[str, int], "object", {'{"a": 1}': "", "[]": "$ is not object"}),
]


@pytest.mark.parametrize(("kind", "shape", "values"), SHAPES)
def test_the_shape_of_an_outcome_is_shown_and_checked(
    kind: Any, shape: str, values: dict[str, str]
) -> None:
    schema = model_of(kind).schema
    assert shape_of(schema).startswith(shape)
    for text, fault in values.items():
        found = [*faults_of(json.loads(text), schema)]
        assert found[0].startswith(fault) if fault else not found, text


def test_a_schema_that_is_long_or_unknown_is_not_kept() -> None:
    def declared(returned: Any) -> Any:
        def call(request: Line, call: Call) -> None: ...

        call.__annotations__["return"] = returned
        effect = Effect[Line, Any]("e", Line, Policy.AT_MOST_ONCE, 0, call)
        return json.loads(declared_text(effect, (Declined,)))

    assert declared(str) == {
        "policy": "at-most-once",
        "returns": {"type": "string"},
        "refusals": ["Declined"],
    }
    assert declared(Literal[*map(str, range(1000))])["returns"] is None


def test_a_name_is_a_key_its_hash_or_the_id_of_a_message(unknown: Start) -> None:
    shop = unknown(number=2)
    [one, other] = [message.message_id for message in shop.dead_letters()]
    for name in (KEY, key_hash(KEY), one, one[:8], one[:4]):
        found = json.loads(settle(name, *DONE, "--dry-run", "--json").stdout)
        assert (found["key"], found["effect"], found["settled"]) == (KEY, "charge", False)
        assert found["message_ids"] == ([] if name == KEY else [one])
    for name in ("orders#event#/test#id-z", "0" * 64, "no-such", "unknown#key"):
        result = settle(name, *DONE)
        assert result.exit_code == 1
        assert "no dedup record of" in result.stderr or "no dead letter" in result.stderr
    assert other != one


def test_contradicting_options_are_refused(cloud: Cloud) -> None:
    for options, text in (
        ([], "exactly one of these"),
        ([*DONE, "--not-done"], "exactly one of these"),
        ([*DONE, "--text", "x"], "is an argument of the refusal"),
        ([*DONE, "--recorded"], "stands alone"),
        ([*DONE, "--new-key"], "is for an effect that is called again"),
        (["--done", "ref-1"], "it is no JSON"),
    ):
        result = settle(KEY, *options)
        assert result.exit_code == 2
        assert text in words(result.stderr)


def test_an_effect_whose_owner_may_be_running_is_not_settled(unknown: Start) -> None:
    shop = unknown()
    now = time.time()
    shop.aws.given(
        "dedup", record(shop) | {"standing": "in-flight", "lease_until": int(now * 1000)}
    )
    result = settle(KEY, "--not-done", "--yes")
    assert result.exit_code == 1
    assert "a function may be calling the provider until" in words(result.stderr)
    over = int((now - CLOCK_MARGIN_SECONDS - 1) * 1000)
    shop.aws.given("dedup", record(shop) | {"lease_until": over})
    settled(KEY, "--not-done")


def test_of_two_settlements_at_once_one_is_refused(
    unknown: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = unknown()
    monkeypatch.setattr(typer, "confirm", lambda *_, **__: settled(KEY, "--not-done"))
    result = settle(KEY, *DONE)
    assert result.exit_code == 1
    assert "a function or another operator has changed the record" in words(result.stderr)
    assert record(shop)["standing"] == "not-done"


def test_a_delivery_during_the_question_is_not_overwritten(
    unknown: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = unknown(Policy.PROVIDER_KEY)
    monkeypatch.setattr(typer, "confirm", lambda *_, **__: shop.send_back())
    assert settle(KEY, "--not-done").exit_code == 1
    assert shop.counted() == {"a": 1}
    result = settle(KEY, "--not-done", "--yes")
    assert "no effect is pending" in words(result.stderr)
    assert result.exit_code == 1


def test_a_settlement_whose_answer_is_lost_is_read_back(unknown: Start) -> None:
    shop = unknown()

    def lose(answer: Any) -> None:
        raise ReadTimeoutError(endpoint_url="dynamodb")

    add_to_answer("dynamodb.TransactWriteItems", lose)
    settled(KEY, *DONE)
    assert record(shop)["standing"] == "settled"


def test_a_decision_can_be_replaced_before_the_next_delivery(unknown: Start) -> None:
    shop = unknown()
    settled(KEY, *DONE)
    assert "effect_outcome" in record(shop)
    settled(KEY, "--not-done")
    assert "effect_outcome" not in record(shop)
    assert shop.send_back() == []
    assert len(shop.outside.calls) == 2
    assert shop.counted() == {"a": 1}
