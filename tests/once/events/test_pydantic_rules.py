"""Models with rules of pydantic: applied by pydantic, or refused when the function loads."""

import typing
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar
from uuid import UUID

import annotated_types
import attrs
import msgspec
import pydantic
import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    Field,
    HttpUrl,
    PlainSerializer,
    RootModel,
    SecretStr,
    computed_field,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from once import Call, Consumer, Key, Policy, Transaction
from once.errors import InvalidData, InvalidWrite, RegistrationError
from once.testing import cloud_event
from tests.in_memory import Start
from tests.once.support import facts

Positive = Annotated[int, Field(gt=0)]


@pydantic_dataclass
class Line:
    """A dataclass of pydantic."""

    amount: int = Field(gt=0)
    tags: list[str] = Field(default_factory=list)
    sku: str = Field(default="none", alias="SKU")


class Renamed(BaseModel):
    no: int = Field(validation_alias=AliasChoices("orderNo", "no"))


class OnlyRead(BaseModel):
    no: int = Field(validation_alias="orderNo")


class OnlyWritten(BaseModel):
    no: int = Field(serialization_alias="orderNo")


class ByPath(BaseModel):
    no: int = Field(validation_alias=AliasPath("order", "no"))


class ByName(BaseModel, alias_generator=str.upper, validate_by_name=True):
    order_id: int


class NeverByAlias(BaseModel, validate_by_alias=False, validate_by_name=True):
    no: int = Field(alias="orderNo")


class Computed(BaseModel, extra="forbid"):
    no: int

    @computed_field
    def twice(self) -> int:
        return 2 * self.no


class NeverWritten(BaseModel):
    no: int = Field(exclude=True)


class Secretive(BaseModel):
    tokens: dict[str, list[SecretStr]]


class Card:
    """A class that no library knows."""

    def __init__(self, number: str) -> None:
        self.number = number


def as_card(value: Any) -> Card:
    if isinstance(value, Card):
        return value
    if value == "secret":
        raise PydanticCustomError("bad_card", "the card {secret}")
    return Card(value)


class WithCard(BaseModel, arbitrary_types_allowed=True):
    """A model without a JSON schema."""

    name: str
    card: Annotated[Card, BeforeValidator(as_card)]


class WithWrittenCard(WithCard):
    card: Annotated[Card, BeforeValidator(as_card), PlainSerializer(lambda card: card.number)]


class WithBareCard(BaseModel, arbitrary_types_allowed=True):
    card: Card


class ALimit(msgspec.Struct):
    line: Positive


class AnAttrs(msgspec.Struct):
    line: Annotated[int, annotated_types.Gt(0)]


class StructOfLines(msgspec.Struct):
    lines: list[Line | None]


@attrs.define
class AttrsOfLine:
    line: Line


class StructOfUnion(msgspec.Struct):
    either: Renamed | ByName


class StructOfAddress(msgspec.Struct):
    address: IPv4Address


class StructOfSecret(msgspec.Struct):
    secret: SecretStr


class StructOfRows(msgspec.Struct):
    rows: list[OnlyRead]


@dataclass
class Strange:
    anything: object


class Hiding(msgspec.Struct):
    """A model of fields whose names msgspec does not write."""

    inner: "Hidden"


@dataclass
class Hidden:
    _no: int
    known: ClassVar[Path] = Path()


class Texts(BaseModel):
    numbers: pydantic.Json[list[int]]


class Foreign(BaseModel):
    amount: Annotated[int, msgspec.Meta(ge=1)]


class OldDict(typing.TypedDict):
    amount: Positive


class Late(BaseModel):
    other: "NotImported"  # type: ignore[name-defined]  # noqa: F821


class LateStruct(msgspec.Struct):
    other: "NotImported"  # type: ignore[name-defined]  # noqa: F821


def faults_of(consumer: Consumer) -> str:
    try:
        consumer.lambda_handler  # noqa: B018
    except RegistrationError as error:
        return str(error)
    return ""


def of_event(model: Any, key: Key | None = None) -> Consumer:
    consumer = Consumer("notes")
    consumer.handles("noted", model, key=key or Key.event())(lambda event, tx: None)
    return consumer


def of_table(model: Any) -> Consumer:
    consumer = of_event(Named)
    consumer.table("counters", model)
    return consumer


def of_effect(model: Any) -> Consumer:
    consumer = of_event(Named)

    def echo(request: Any, call: Call) -> Any:
        return request

    echo.__annotations__["return"] = model
    effect = consumer.effect("echo", model, policy=Policy.AT_LEAST_ONCE)(echo)
    consumer.completes(effect)(lambda event, outcome, tx: None)
    return consumer


class Named(msgspec.Struct):
    """The data of an event that only starts a handler."""

    name: str


@pytest.mark.parametrize("of", [of_event, of_table, of_effect], ids=lambda of: of.__name__)
@pytest.mark.parametrize(
    ("model", "fault"),
    [
        (Secretive, "has a field of SecretStr: a secret has no place"),
        (StructOfSecret, "has a field of SecretStr: a secret has no place"),
        (ALimit, "uses FieldInfo of pydantic, which ALimit does not apply"),
        (AnAttrs, "uses Gt of pydantic, which AnAttrs does not apply"),
        (StructOfLines, "uses Line of pydantic, which StructOfLines does not apply"),
        (AttrsOfLine, "uses Line of pydantic, which AttrsOfLine does not apply"),
        (StructOfUnion, "of pydantic, which StructOfUnion does not apply"),
        (StructOfAddress, "has a field of IPv4Address, which JSON cannot hold"),
        (Strange, "has a field of object, which JSON cannot hold"),
        (Foreign, "has limits of msgspec.Meta, which pydantic does not apply"),
        (WithBareCard, "has a field of Card, which pydantic does not read from JSON"),
        (Late, "'NotImported' is not defined: import the name at run time"),
        (LateStruct, "'NotImported' is not defined: import the name at run time"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_model_that_no_library_reads_whole_is_refused(
    of: Callable[[Any], Consumer], model: Any, fault: str
) -> None:
    assert fault in faults_of(of(model))


@pytest.mark.parametrize("of", [of_table, of_effect], ids=lambda of: of.__name__)
@pytest.mark.parametrize(
    ("model", "fault"),
    [
        (OnlyRead, "OnlyRead writes no as 'no', and does not read it by this name"),
        (OnlyWritten, "OnlyWritten writes no as 'orderNo'"),
        (ByPath, "ByPath writes no as 'no'"),
        (NeverByAlias, "NeverByAlias writes no as 'orderNo'"),
        (Computed, "Computed writes the computed field 'twice', and forbids it"),
        (NeverWritten, "NeverWritten reads no, and never writes it: give the field a default"),
        (StructOfRows, "OnlyRead writes no as 'no'"),
        (Hiding, "Hiding does not write _no of Hidden"),
        (Texts, "Texts has a field of pydantic's Json"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_model_that_cannot_read_what_it_writes_is_refused(
    of: Callable[[Any], Consumer], model: Any, fault: str
) -> None:
    assert fault in faults_of(of(model))
    assert not faults_of(of_event(model))


class ADict(TypedDict):
    name: str
    line: Line


@dataclass
class ADataclass:
    name: str
    line: Line | None
    amount: Positive = 1


class ATuple(NamedTuple):
    name: str
    line: list[Line]


class Limited(TypedDict):
    name: str
    amount: Annotated[int, annotated_types.Gt(0)]


class AModel(BaseModel):
    name: str
    line: ADict


@pytest.mark.parametrize(
    ("model", "data", "path"),
    [
        (Line, {"amount": 0}, "$.amount: greater_than"),
        (Line, {"amount": 1, "SKU": 5}, "$.SKU: string_type"),
        (ADict, {"line": {"amount": 0}}, "$.line.amount: greater_than"),
        (ADataclass, {"line": {"amount": 0}}, "$.line.amount: greater_than"),
        (ADataclass, {"line": None, "amount": 0}, "$.amount: greater_than"),
        (ATuple, {"line": [{"amount": 0}]}, "$.line[0].amount: greater_than"),
        (Limited, {"amount": 0}, "$.amount: greater_than"),
        (AModel, {"line": {"name": "b", "line": {"amount": 0}}}, "$.line.line.amount: greater"),
        (WithCard, {"name": 5, "card": "c"}, "$.name: string_type"),
        (WithCard, {"card": "secret"}, "$.card: bad_card"),
    ],
)
def test_the_rules_of_pydantic_apply(
    start: Start, model: Any, data: dict[str, Any], path: str
) -> None:
    aws = start(of_event(model))
    with pytest.raises(InvalidData):
        aws.deliver(cloud_event("noted", {"name": "a", **data}))
    [dead_letter] = map(facts, aws.dead_letters())
    assert path in dead_letter["error"]
    assert "secret" not in dead_letter["error"]


class StrictRow(BaseModel, strict=True):
    name: str
    at: datetime
    id: UUID
    price: Decimal
    labels: set[str]
    pair: tuple[int, str]
    kind: Literal["a"]


class Open(BaseModel, strict=True, extra="allow"):
    name: str
    seen: datetime
    key: bytes
    limit: Decimal
    more: dict[int, Any] = {}


class Foreigners(BaseModel):
    name: str
    url: HttpUrl
    address: IPv4Address
    path: Path
    hidden: int = Field(default=1, exclude=True)


ItemT = TypeVar("ItemT")


class Page(BaseModel, Generic[ItemT]):
    name: str
    items: list[ItemT]


class Cat(BaseModel):
    name: str
    kind: Literal["cat"]
    weight: Decimal


class Dog(BaseModel):
    name: str = Field(alias="name", serialization_alias="name")
    kind: Literal["dog"]
    born: datetime


class Pet(RootModel[Annotated[Cat | Dog, Field(discriminator="kind")]]): ...


class Mapped(msgspec.Struct):
    name: str
    counts: dict[int, dict[UUID, Decimal]]


AT, ID = "2026-01-02T03:04:05Z", "00000000-0000-0000-0000-000000000001"
LINE = {"amount": 1, "tags": [], "SKU": "none"}
COMES_BACK: list[tuple[Any, dict[str, Any]]] = [
    (
        StrictRow,
        {"at": AT, "id": ID, "price": "0.10", "labels": ["x"], "pair": [1, "a"], "kind": "a"},
    ),
    (Open, {"seen": AT, "key": "k", "limit": "5", "more": {"1": "a"}, "other": 1}),
    (Foreigners, {"url": "https://x.test/a", "address": "10.0.0.1", "path": "/tmp"}),
    (Page[Renamed], {"items": [{"no": 1}]}),
    (Pet, {"kind": "dog", "born": AT}),
    (ADict, {"line": LINE}),
    (ADataclass, {"line": LINE, "amount": 2}),
    (ATuple, {"line": [LINE]}),
    (WithWrittenCard, {"card": "c"}),
    (Mapped, {"counts": {"1": {ID: "0.10"}}}),
]


class Parent(BaseModel):
    name: str


class Child(Parent):
    more: int


def test_an_object_of_a_subclass_is_written_whole(start: Start) -> None:
    consumer = Consumer("notes")
    table = consumer.table("counters", Parent)
    consumer.handles("noted", Child)(lambda event, tx: tx.put(table, event))
    aws = start(consumer)
    aws.deliver(cloud_event("noted", {"name": "a", "more": 1}))
    assert aws.then(table, "a") == {"name": "a", "more": 1}


def returning(model: Any, seen: list[Any]) -> Consumer:
    """A consumer that writes an object of a model, and reads what it wrote."""
    consumer = Consumer("notes")
    table = consumer.table("counters", model)

    @consumer.handles("noted", model)
    def handle(event: Any, tx: Transaction) -> None:
        seen.append((event, tx.get(table, {"name": "a"})))
        tx.put(table, event)
        tx.publish("echoed", event)
        tx.publish("wrapped", {"events": [event]})

    return consumer


@pytest.mark.parametrize(("model", "data"), COMES_BACK, ids=lambda v: getattr(v, "__name__", ""))
def test_what_a_model_writes_and_publishes_it_reads(
    start: Start, model: Any, data: dict[str, Any]
) -> None:
    seen: list[Any] = []
    aws = start(returning(model, seen), publishes=("echoed", "wrapped"))
    data = {"name": "a", **data}
    aws.deliver(cloud_event("noted", data))
    aws.deliver(cloud_event("noted", data))
    assert seen[0][1] is None
    if model is not WithWrittenCard:  # a card is equal to itself only
        assert seen[1][1] == seen[0][0]
    assert type(seen[1][1]) is type(seen[0][0])
    inner = [*data.values()] if model is ATuple else data  # within other data, it is an array
    assert [event["data"] for event in aws.published()] == [data, {"events": [inner]}] * 2


class Growing(BaseModel):
    """A model whose validator does not accept, unchanged, what it writes."""

    name: str
    amount: int

    @pydantic.field_validator("amount")
    @classmethod
    def _grow(cls, value: int) -> int:
        return value + 1


class Colliding(BaseModel):
    name: str
    first: int = Field(validation_alias=AliasChoices("second", "first"))
    second: int


class Number(msgspec.Struct):
    name: str
    amount: Annotated[int, msgspec.Meta(ge=1)]


@dataclass
class PlainNumber:
    name: str
    amount: int


class NumberDict(TypedDict):
    name: str
    amount: int


@pytest.mark.parametrize(
    ("model", "make"),
    [
        (Growing, lambda: Growing(name="a", amount=1)),
        (Colliding, lambda: Colliding.model_construct(name="a", first=1, second=2)),
        (Renamed, lambda: Renamed.model_construct(no="secret")),
        (WithCard, lambda: WithCard(name="a", card=Card("secret-1"))),
        (Number, lambda: Number("a", 0)),
        (PlainNumber, lambda: PlainNumber("a", "secret")),  # type: ignore[arg-type]
        (NumberDict, lambda: {"name": "a"}),
        (Open, lambda: Open.model_construct(name="a", seen="secret", key=b"", limit=Decimal(1))),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_object_that_could_not_be_read_again_is_never_written(
    start: Start, model: Any, make: Callable[[], Any]
) -> None:
    consumer = Consumer("notes")
    table = consumer.table("counters", model)

    @consumer.handles("noted", Named)
    def handle(event: Any, tx: Transaction) -> None:
        if event.name == "put":
            tx.put(table, make())
        else:
            tx.publish("echoed", [{"inner": make()}])

    aws = start(consumer, publishes=("echoed",))
    for how in ("put", "publish") if model is not NumberDict else ("put",):  # else it is a dict
        with pytest.raises(InvalidWrite) as raised:
            aws.deliver(cloud_event("noted", {"name": how}))
        assert "secret" not in str(raised.value)
    assert {facts(each)["reason"] for each in aws.dead_letters()} == {"invalid-write"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Secretive(tokens={}), "a secret has no place"),
        ({"token": SecretStr("secret-1")}, "SecretStr"),
        (OnlyRead(orderNo=1), "does not read it by this name"),  # type: ignore[call-arg]
        ({"address": IPv4Address(1)}, "IPv4Address"),
        (
            Open(name="a", seen=datetime(2026, 1, 2, tzinfo=UTC), key=b"\xff", limit=Decimal(1)),
            "no form",
        ),
    ],
)
def test_a_published_value_without_a_form_is_refused_at_once(
    start: Start, value: Any, text: str
) -> None:
    consumer = Consumer("notes")
    consumer.handles("noted", Named)(lambda event, tx: tx.publish("echoed", value))
    with pytest.raises(InvalidWrite, match=text) as raised:
        start(consumer, publishes=("echoed",)).deliver(cloud_event("noted", {"name": "a"}))
    assert "secret-1" not in str(raised.value)


def test_an_item_keeps_bytes_and_numbers_of_a_strict_model(start: Start) -> None:
    seen: list[Any] = []
    consumer = Consumer("notes")
    table = consumer.table("counters", Open)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    given = Open(name="a", seen=at, key=b"\xff", limit=Decimal("0.10"), more={1: Decimal("0.20")})

    @consumer.handles("noted", Named)
    def handle(event: Any, tx: Transaction) -> None:
        seen.append(tx.get(table, {"name": "a"}))
        tx.put(table, given)

    aws = start(consumer)
    for _ in range(2):
        aws.deliver(cloud_event("noted", {"name": "a"}))
    assert seen == [None, given]
    assert (aws.then(table, "a") or {})["limit"] == Decimal("0.10")


class AnyFields(BaseModel, extra="allow"):
    name: str


class Root(RootModel[Renamed | ByName]): ...


class Deep(BaseModel):
    order: ByName
    by_sku: dict[str, Line] = {}
    lines: list[Line] = []


class Validated(BaseModel):
    no: int

    @pydantic.model_validator(mode="before")
    @classmethod
    def _renamed(cls, data: Any) -> Any:
        return {"no": data["number"]}


@pytest.mark.parametrize(
    ("model", "accepted", "refused"),
    [
        (Renamed, ["orderNo", "no"], ["order_no", "orderNo.x"]),
        (ByName, ["ORDER_ID", "order_id"], ["orderId"]),
        (NeverByAlias, ["no"], ["orderNo"]),
        (OnlyRead, ["orderNo"], ["no"]),
        (ByPath, ["order.no", "order"], ["no"]),
        (AnyFields, ["name", "anything"], ["name.x"]),
        (Root, ["orderNo", "ORDER_ID"], ["x"]),
        (Pet, ["kind", "born", "weight"], ["x"]),
        (Line, ["SKU", "amount"], ["sku"]),
        (ADict, ["line.SKU"], ["line.sku"]),
        (Deep, ["order.ORDER_ID", "by_sku.any.SKU"], ["order.x", "by_sku.a.sku", "lines.SKU"]),
        (Validated, ["number", "no"], []),
        (StructOfRows, ["rows"], ["rows.orderNo", "x"]),
        (Mapped, ["counts.1"], ["name.x"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_key_is_a_path_in_the_json_of_its_model(
    model: Any, accepted: list[str], refused: list[str]
) -> None:
    assert [faults_of(of_event(model, Key.field(path))) for path in accepted] == [""] * len(
        accepted
    )
    for path in refused:
        fault = f"names the field {path!r}, which {model.__name__} does not have"
        assert fault in faults_of(of_event(model, Key.field(path)))


class PriceStruct(msgspec.Struct):
    price: Decimal
    limits: dict[str, Decimal]
    inner: list["PriceModel"]


class PriceModel(BaseModel, strict=True):
    price: Decimal = Field(alias="PRICE")
    ratio: float = 0.5
    history: tuple[Decimal, ...] = ()


class PriceDict(TypedDict):
    price: Decimal


class PriceTuple(NamedTuple):
    price: Decimal


class PriceChoice(RootModel[PriceModel | list[Decimal]]): ...


@pytest.mark.parametrize(
    ("model", "data", "shown"),
    [
        (
            PriceStruct,
            '{"price":1.50,"limits":{"a":2.0},"inner":[{"PRICE":0.10}]}',
            "1.50 2.0 0.10 0.5",
        ),
        (PriceModel, '{"PRICE":0.10,"ratio":0.50,"history":[1E2,2.00]}', "0.10 0.5 1E+2 2.00"),
        (PriceChoice, "[1.10]", "1.10"),
        (PriceChoice, '{"PRICE":1.10}', "1.10 0.5"),
        (PriceDict, '{"price":3.00}', "3.00"),
        (PriceDict, '{"price":789.34000000000003}', "789.34000000000003"),
        (PriceTuple, '{"price":3.00}', "3.00"),
    ],
)
def test_a_number_for_a_decimal_keeps_its_text(
    start: Start, model: Any, data: str, shown: str
) -> None:
    seen: list[Any] = []
    consumer = Consumer("notes")
    consumer.handles("noted", model)(lambda event, tx: seen.append(event))
    event = msgspec.json.encode(cloud_event("noted", None) | {"data": msgspec.Raw(data.encode())})
    start(consumer).deliver(event.decode())
    assert " ".join(numbers_in(seen[0])) == shown


def numbers_in(value: Any) -> list[str]:
    if isinstance(value, Decimal | float):
        return [str(value)]
    if isinstance(value, BaseModel):
        value = [member for _, member in value]
    elif isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    members = value.values() if isinstance(value, dict) else value
    return [number for member in members for number in numbers_in(member)]
