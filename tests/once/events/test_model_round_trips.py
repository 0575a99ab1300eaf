"""Objects of generated models come back: from JSON, from a published event and from a table."""

import dataclasses
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from types import new_class
from typing import Any, Literal
from uuid import UUID

import attrs
import msgspec
import pydantic
from boto3.dynamodb.types import TypeDeserializer
from hypothesis import given
from hypothesis import strategies as st
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from once.business_tables import Table
from once.dynamodb_rules import serialize
from once.events.models import model_of
from once.events.outgoing import draft
from once.events.strict_json import parse
from tests.once.events.json_values import TEXT
from tests.once.support import quick

_DESERIALIZE = TypeDeserializer().deserialize


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


# Each field is drawn as its type and a value of it.
_INTEGERS = st.integers(-(2**53) + 1, 2**53 - 1)
_DECIMALS = st.decimals(-(10**9), 10**9, allow_nan=False, places=3)
_TIMES = st.datetimes(timezones=st.just(UTC))
_HASHABLE = st.one_of(
    st.tuples(st.just(int), _INTEGERS),
    st.tuples(st.just(str), TEXT),
    st.tuples(st.just(UUID), st.uuids()),
    st.tuples(st.just(date), st.dates()),
    st.tuples(st.just(Color), st.sampled_from(Color)),
    st.tuples(st.just(Size), st.sampled_from(Size)),
    st.tuples(st.just(Literal["a", "b"]), st.sampled_from(["a", "b"])),
)
_LEAF = st.one_of(
    _HASHABLE,
    st.tuples(st.just(bool), st.booleans()),
    st.tuples(st.just(Literal["a", 1]), st.sampled_from(["a", 1])),
    st.tuples(st.just(Decimal), _DECIMALS),
    st.tuples(st.just(datetime), _TIMES),
    st.tuples(st.just(timedelta), st.timedeltas(timedelta(-999), timedelta(999))),
    st.tuples(st.just(bytes), st.text("ab", max_size=5).map(str.encode)),
    st.tuples(st.just(type(None)), st.none()),
)


def _of(origin: Any, *arguments: Any) -> Any:
    """Return a generic type, whose arguments type checkers cannot know."""
    return origin[arguments]


def _within(inner: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    return st.one_of(
        inner.map(lambda each: (_of(list, each[0]), [each[1]] * 2)),
        inner.map(lambda each: (_of(tuple, each[0], ...), (each[1],))),
        st.tuples(_HASHABLE, inner).map(
            lambda pair: (_of(dict, pair[0][0], pair[1][0]), {pair[0][1]: pair[1][1]})
        ),
        _HASHABLE.map(lambda each: (_of(set, each[0]), {each[1]})),
        inner.map(lambda each: (each[0] | None, each[1])),
        inner.map(lambda each: (each[0] | None, None)),
    )


_FIELDS = st.lists(st.recursive(_LEAF, _within, max_leaves=3), min_size=1, max_size=4)
Make = Callable[[Mapping[str, Any]], Any]


def _annotated(fields: Mapping[str, Any]) -> Any:
    return new_class("Generated", (), {}, lambda names: names.update(__annotations__=dict(fields)))


create_model: Any = pydantic.create_model  # type checkers refuse the fields of a mapping
typed_dict: Any = TypedDict
MAKES: dict[str, Make] = {
    "struct": lambda fields: msgspec.defstruct("Generated", fields.items(), rename="camel"),
    "dataclass": lambda fields: dataclasses.make_dataclass("Generated", fields.items()),
    "typed dict": lambda fields: typed_dict("Generated", dict(fields)),
    "pydantic": lambda fields: create_model(
        "Generated",
        __config__={"strict": True, "alias_generator": str.upper, "extra": "forbid"},
        **{name: (kind, ...) for name, kind in fields.items()},
    ),
    "pydantic dataclass": lambda fields: pydantic_dataclass(_annotated(fields)),
    "attrs": lambda fields: attrs.define(_annotated(fields)),
}


@quick
@given(st.sampled_from([*MAKES]), _FIELDS, st.data())
def test_an_object_of_a_generated_model_comes_back(
    name: str, drawn: list[tuple[Any, Any]], data: st.DataObject
) -> None:
    fields = {f"the_{place}": kind for place, (kind, _) in enumerate(drawn)}
    values = {f"the_{place}": value for place, (_, value) in enumerate(drawn)}
    model = MAKES[name](fields)
    if name == "pydantic":
        values = {each.upper(): value for each, value in values.items()}
    made = model(**values)
    if data.draw(st.booleans(), "nested"):
        outer = MAKES[name]({"inner": model, "several": list[model]})  # type: ignore[valid-type]
        several = {"inner": made, "several": [made, made]}
        upper = {each.upper(): value for each, value in several.items()}
        model, made = outer, outer(**(upper if name == "pydantic" else several))

    text = msgspec.json.encode(model_of(model).written(made))
    assert model_of(model).read(parse(text.decode(), max_bytes=10**6)) == made
    assert model_of(model).read_text(text) == made
    if name != "typed dict":  # published, it is a dict like any other
        assert model_of(model).read(draft("noted", made, None).data) == made

    table = Table[Any]("notes", model)
    item = serialize(table.item_of(made))
    again = table.read({name: _DESERIALIZE(value) for name, value in item.items()})
    assert again == made
    assert type(again) is type(made)
