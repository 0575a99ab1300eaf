"""Models: the classes that a handler, an effect or a published event may use for data."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest
from boto3.dynamodb.types import TypeDeserializer
from pydantic import ConfigDict, Field

from once import Call, Consumer, Policy, Transaction
from once.business_tables import Table
from once.dynamodb_rules import serialize
from once.errors import InvalidData, InvalidWrite, RegistrationError, RetryableError
from once.events.models import as_builtins, model_of
from once.names import COMMIT_ATTRIBUTE
from once.testing import cloud_event
from tests.in_memory import Start
from tests.once.support import facts

Positive = Annotated[int, msgspec.Meta(ge=1)]


class AStruct(msgspec.Struct, frozen=True):
    name: str
    amount: Positive
    tags: list[str] = []


@dataclass(frozen=True)
class ADataclass:
    name: str
    amount: Positive
    tags: list[str] = field(default_factory=list)


class ADict(TypedDict):
    name: str
    amount: Positive
    tags: list[str]


class ATuple(NamedTuple):
    name: str
    amount: Positive
    tags: list[str]


@attrs.frozen
class AnAttrs:
    name: str
    amount: Positive
    tags: list[str] = attrs.Factory(list)


class APydantic(pydantic.BaseModel):
    name: str
    amount: int = Field(ge=1)
    tags: list[str] = []


MODELS: list[Any] = [AStruct, ADataclass, ADict, ATuple, AnAttrs, APydantic]
DATA = {"name": "a", "amount": 2, "tags": ["x"]}
every = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)


def buying(model: Any, seen: list[Any]) -> Consumer:
    """A consumer whose event, effect and published event all have data of this model."""
    consumer = Consumer("notes")
    consumer.table("counters")

    @consumer.effect("echo", model, policy=Policy.AT_LEAST_ONCE)
    def echo(request: Any, call: Call) -> model:
        seen.append(request)
        return request

    @consumer.handles("noted", model)
    def handle(event: Any, tx: Transaction) -> None:
        seen.append(event)
        tx.perform(echo, event)

    @consumer.completes(echo)
    def done(event: Any, outcome: Any, tx: Transaction) -> None:
        seen.append(outcome)
        tx.publish("echoed", outcome)

    return consumer


@every
def test_event_effect_outcome_and_published_data_are_of_the_model(start: Start, model: Any) -> None:
    seen: list[Any] = []
    aws = start(buying(model, seen), publishes=("echoed",), effect_timeout_seconds=2)
    given = model_of(model).read(DATA)
    aws.deliver(cloud_event("noted", given))
    assert seen == [given] * 3
    assert {type(each) for each in seen} == {dict if model is ADict else model}
    assert [event["data"] for event in aws.published()] == [DATA]


@every
@pytest.mark.parametrize(
    ("change", "path"),
    [({"amount": "secret"}, "$.amount"), ({"tags": ["x", {"secret": 1}]}, "$.tags[1]")],
)
def test_data_that_does_not_fit_is_dead_lettered_with_its_path_and_no_value(
    start: Start, model: Any, change: dict[str, Any], path: str
) -> None:
    aws = start(buying(model, []), publishes=("echoed",), effect_timeout_seconds=2)
    with pytest.raises(InvalidData):
        aws.deliver(cloud_event("noted", DATA | change))
    [dead_letter] = map(facts, aws.dead_letters())
    assert dead_letter["reason"] == "invalid-data"
    assert path in dead_letter["error"]
    assert "secret" not in dead_letter["error"]


class Color(Enum):
    RED = "red"


class One(msgspec.Struct, tag="one"):
    a: int = 0


class Two(msgspec.Struct, tag="two"):
    a: int = 0


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    color: Color | None = None
    size: Literal["s", "m"] | None = None
    tagged: One | Two | None = None
    by_color: dict[Color, int] = {}


class Checked(msgspec.Struct):
    name: str

    def __post_init__(self) -> None:
        raise ValueError(f"{self.name} is no name")


class Looking(Checked):
    def __post_init__(self) -> None:
        raise KeyError(self.name)


@dataclass
class Outside:
    inner: list[Checked]


@attrs.define
class Validated:
    name: str = attrs.field(validator=attrs.validators.matches_re("[a-z]+"))


class Missing(Enum):
    A = "a"

    @classmethod
    def _missing_(cls, value: object) -> None:
        raise TypeError(value)


@dataclass
class OfMissing:
    name: Missing


@pytest.mark.parametrize(
    ("model", "data", "shown"),
    [
        (Closed, {"color": "SECRET"}, "none of the allowed values - at `$.color`"),
        (Closed, {"size": "SECRET"}, "none of the allowed values - at `$.size`"),
        (Closed, {"tagged": {"type": "SECRET"}}, "the value is of no known tag - at `$.tagged.typ"),
        (Closed, {"by_color": {"SECRET": 1}}, "none of the allowed values - at `key` in `$.by_col"),
        (Closed, {"SECRET": 1}, "a field that the model forbids"),
        (Checked, {"name": "SECRET"}, "ValueError"),
        (Looking, {"name": "SECRET"}, "KeyError"),
        (Outside, {"inner": [{"name": "SECRET"}]}, "ValueError - at `$.inner[0]`"),
        (Validated, {"name": "SECRET"}, "ValueError"),
        (OfMissing, {"name": "SECRET"}, "$.name"),
    ],
)
def test_a_text_of_a_library_or_a_check_that_quotes_the_data_is_not_taken(
    start: Start, model: Any, data: dict[str, Any], shown: str
) -> None:
    aws = start(buying(model, []), publishes=("echoed",), effect_timeout_seconds=2)
    with pytest.raises(InvalidData):
        aws.deliver(cloud_event("noted", data))
    [dead_letter] = map(facts, aws.dead_letters())
    with pytest.raises(RetryableError) as raised:
        Table("notes", model).read(data)
    for text in (dead_letter["error"], str(raised.value)):
        assert f"does not fit {model.__name__}: " in text
        assert shown in text
        assert "SECRET" not in text


@every
def test_the_fields_of_a_model_are_those_of_its_json(model: Any) -> None:
    assert all(model_of(model).reaches(name) for name in DATA)
    assert not model_of(model).reaches("missing")
    assert as_builtins(model_of(model).read(DATA)) == DATA


@every
def test_an_item_of_a_table_is_of_its_model(start: Start, model: Any) -> None:
    consumer, seen = Consumer("notes"), list[Any]()
    counters = consumer.table("counters", model)

    @consumer.handles("noted", model)
    def handle(event: Any, tx: Transaction) -> None:
        seen.append(tx.get(counters, {"name": "old"}))
        assert tx.get(counters, {"name": "missing"}) is None
        tx.put(counters, event)

    aws = start(consumer)
    old = model_of(model).read(DATA | {"name": "old"})
    aws.given(counters, old)
    aws.deliver(cloud_event("noted", DATA))
    assert seen == [old]
    assert type(seen[0]) is (dict if model is ADict else model)
    assert aws.then(counters, "a") == DATA


@dataclass
class Account:
    name: str
    balance: Decimal
    entries: int
    key: bytes
    opened: datetime
    limits: dict[str, Decimal]
    labels: set[str]


def test_the_values_of_an_item_keep_their_types_in_a_table() -> None:
    table, opened = Table("accounts", Account), datetime(2026, 1, 2, tzinfo=UTC)
    given = Account("a", Decimal("0.10"), 3, b"k", opened, {"day": Decimal(5)}, {"new"})
    stored = serialize(table.item_of(given))
    assert stored["balance"] == {"N": "0.10"}
    assert stored["key"] == {"B": b"k"}
    deserialize = TypeDeserializer().deserialize
    assert table.read({name: deserialize(value) for name, value in stored.items()}) == given


def test_an_item_of_another_model_is_refused() -> None:
    with pytest.raises(InvalidWrite, match="accounts takes Account or a dict, not AStruct"):
        Table("accounts", Account).item_of(AStruct("a", 1))  # type: ignore[arg-type]
    with pytest.raises(InvalidWrite, match="notes takes a dict, not AStruct"):
        Table[Any]("notes").item_of(AStruct("a", 1))


@every
def test_a_stored_item_that_does_not_fit_is_an_error_with_its_path_and_no_value(model: Any) -> None:
    with pytest.raises(RetryableError) as raised:
        Table("notes", model).read({**DATA, "amount": "secret", COMMIT_ATTRIBUTE: "c"})
    assert f"an item of notes does not fit {model.__name__}" in str(raised.value)
    assert "$.amount" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_what_is_no_model_of_a_table_is_a_fault_of_the_registration(start: Start) -> None:
    consumer = Consumer("notes")
    consumer.table("counters", int)
    aws = start(consumer)
    with pytest.raises(RegistrationError, match=r"table\('counters'\): <class 'int'> is no model"):
        aws.deliver(cloud_event("noted", DATA))


class Strict(pydantic.BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    order_id: str = Field(alias="orderId")
    prices: dict[str, int] = {}

    @pydantic.field_validator("order_id")
    @classmethod
    def _is_no_test(cls, value: str) -> str:
        if value == "secret":
            raise LookupError(value)
        return value


@dataclass
class Outer:
    inner: Strict


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"orderId": 1}, "$.orderId: string_type"),
        ({"orderId": "o-1", "prices": {"secret": "a"}}, "$.prices[...]: int_type"),
        ({"orderId": "o-1", "secret": 1}, "$[...]: extra_forbidden"),
        ({}, "$.orderId: missing"),
        ({"orderId": "secret"}, "LookupError"),
    ],
)
def test_a_fault_of_a_pydantic_model_names_path_and_kind(data: Any, shown: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        model_of(Outer).read({"inner": data})
    assert str(raised.value) == f"{shown} - at `$.inner`"
