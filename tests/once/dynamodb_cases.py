"""Writes at the edges of DynamoDB's rules, with the outcome that AWS documents for each."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any
from uuid import UUID

from boto3.dynamodb.conditions import Attr
from pydantic import BaseModel

from once.transaction import Transaction
from tests.once.support import COUNTERS

ITEM: dict[str, Any] = {
    "name": "a",
    "n": 5,
    "t": "text",
    "u": "é",
    "b": b"xy",
    "l": ["x", 1],
    "m": {"k": 1},
    "ss": {"x", "y"},
    "ns": {1, 2},
    "bs": {b"q"},
    "bool": True,
    "null": None,
}
"""The item in the table before each write."""

KEY = {"name": "a"}
Write = Callable[[Transaction], None]


def put(**values: Any) -> Write:
    return lambda tx: tx.put(COUNTERS, KEY | values)


def update(text: str | None = None, key: dict[str, Any] = KEY, **terms: Any) -> Write:
    return lambda tx: tx.update(COUNTERS, key, text, **terms)


def check(condition: Any, key: dict[str, Any] = KEY, **terms: Any) -> Write:
    return lambda tx: tx.check(COUNTERS, key, condition=condition, **terms)


def nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = wrap(value)
    return value


def by_name(value: Any) -> Any:
    return {"a": value}


def listed(value: Any) -> Any:
    return [value]


def attributes(number: int) -> Any:
    condition: Any = Attr("n").eq(5)
    for _ in range(number - 1):
        condition |= Attr("n").eq(5)
    return condition


class Customer(BaseModel):
    iban: str = "SECRET"


@dataclass
class Line:
    iban: str = "SECRET"


class Color(Enum):
    RED = "SECRET"


A, TRUE = {":a": 1}, True
AT = datetime(2026, 1, 2, tzinfo=UTC)
ID = UUID("00000000-0000-0000-0000-00005ec2e700")

ACCEPTED: dict[str, Write] = {
    "empty text": put(x="", y=b"", z=[], w={}),
    "empty text in a set": put(x={"", "a"}),
    "31 lists": put(x=nested(31, listed)),
    "31 maps": put(x=nested(31, by_name)),
    "38 digits": put(x=10**38 - 1, y=Decimal("1E-130"), z=Decimal("9.9E+125")),
    "a key of 2,048 bytes": update(set={"x": 1}, key={"name": "x" * 2048}),
    "a name of 65,535 bytes": put(**{"x" * 65535: 1}),
    "100 options": check(Attr("n").is_in([*range(100)])),
    "299 operators": check(attributes(150)),
    "an index in a text": update("SET l[0] = :a", values=A),
    "past the end of a list": update("SET l[9] = :a", values=A),
    "add of a number with an exponent": update(add={"n": Decimal("1E+2")}),
    "add of 38 digits": update(add={"n": Decimal("1." + "1" * 36)}),
    "equal bounds": check(Attr("n").between(5, 5)),
}

HOLDS: dict[str, Any] = {
    "size of text": Attr("t").size().eq(4),
    "size of text in characters": Attr("u").size().eq(1),
    "size of bytes": Attr("b").size().eq(2),
    "size of a set": Attr("ss").size().eq(2),
    "not size of a missing one": ~Attr("missing").size().gt(1),
    "begins with bytes": Attr("b").begins_with(b"x"),
    "bytes in order": Attr("b").lt(b"z"),
    "a number in another form": Attr("n").eq(Decimal("5.0")),
    "a list": Attr("l").eq(["x", Decimal("1.0")]),
    "a set in another order": Attr("ns").eq({2, 1}),
    "a null": Attr("null").eq(None),
    "not equal to a list": Attr("n").ne([1]),
    "not equal to a missing one": Attr("missing").ne(1),
    "contains, in a list": Attr("l").contains(1),
    "contains, in a set of bytes": Attr("bs").contains(b"q"),
    "a list among values": Attr("l").is_in([["x", 1]]),
    "not less than a missing one": ~Attr("missing").lt(1),
    "type": Attr("ns").attribute_type("NS"),
}
"""Conditions that hold for the item."""

FAILS: dict[str, Any] = {
    "size of a missing one": Attr("missing").size().gt(0),
    "size of a missing one, less": Attr("missing").size().lt(9),
    "size of a number": Attr("n").size().gt(0),
    "size of a bool": Attr("bool").size().gte(0),
    "less, of a missing one": Attr("missing").lt(1),
    "text and number": Attr("n").gt("1"),
    "number and text": Attr("t").gt(1),
    "list and number": Attr("l").lt(1),
    "bool and number": Attr("bool").gte(1),
    "map and text": Attr("m").lt("x"),
    "bytes and text": Attr("b").lt("z"),
    "two attributes": Attr("n").lt(Attr("t")),
    "bool and 1": Attr("bool").eq(1),
    "null and missing": Attr("missing").eq(None),
    "bytes and equal text": Attr("b").eq("xy"),
    "set and list": Attr("ss").eq(["x", "y"]),
    "in, of another type": Attr("n").is_in(["5"]),
    "in, of a missing one": Attr("missing").is_in([None]),
    "between, of text": Attr("t").between(1, 9),
    "between, of a missing one": Attr("missing").between(1, 9),
    "prefix of a number": Attr("n").begins_with("5"),
    "contains, a number in text": Attr("t").contains(1),
    "contains, a name in a map": Attr("m").contains("k"),
    "contains, a bool in a list with 1": Attr("l").contains(TRUE),
    "contains, in a missing one": Attr("missing").contains(1),
}
"""Conditions that do not hold for it, and are no error either."""

REFUSED: dict[str, tuple[Write, str]] = {
    "empty set": (put(x=set()), "x is an empty set, .* leave the attribute out"),
    "empty set inside": (put(m={"x": [frozenset()]}), r"m\.x\[0\] is an empty set"),
    "empty set of a change": (update(set={"x": set()}), "set= of 'x': it is an empty set"),
    "empty set inside a change": (update(set={"x": [set()]}), r"set= of 'x': \[0\] is an empty"),
    "empty set of a condition": (check(Attr("n").eq(set())), ":v0 is an empty set"),
    "empty set of a text": (update("DELETE ss :a", values={":a": set()}), ":a is an empty set"),
    "set of two types": (put(x={1, "SECRET"}), "x is a set of int and str; give text, numbers or"),
    "set of bools": (put(x={True}), "x is a set of bool"),
    "set of None": (put(x={None}), "x is a set of NoneType"),
    "32 lists": (put(x=nested(32, listed)), r"x\[0\].* is nested deeper than 31"),
    "32 maps": (update(set={"x": nested(32, by_name)}), r"a\.a.* is nested deeper than 31"),
    "39 digits": (put(x=int("1" * 39)), "x is a number that DynamoDB cannot hold: at most 38 dig"),
    "number too large": (put(x=Decimal("1E+126")), "x is a number"),
    "number too small": (put(x={Decimal("1E-131")}), "x is a number"),
    "no number": (put(x=Decimal("NaN")), "x is a number"),
    "a float": (put(x=[{"y": 1.5}]), r"x\[0\]\.y is a float, .* minor units of money"),
    "a time": (put(x={"at": AT}), r"counters: x\.at is of the type datetime, .*value\.isoformat"),
    "a model": (put(x={"by": Customer()}), r"x\.by is of the type Customer, .* value\.model_dump"),
    "a dataclass": (put(x=[Line()]), r"x\[0\] is of the type Line, .* dataclasses\.asdict"),
    "an enum": (put(x={"c": Color.RED}), r"x\.c is of the type Color, .* give the member's value"),
    "a UUID": (put(x={"id": ID}), r"x\.id is of the type UUID, .* text, such as str\(value\)"),
    "an object": (
        put(x={"SECRET 1": object()}),
        r"x\[\.\.\.\] is of the type object, .* give text",
    ),
    "a name that is no text": (put(x={("SECRET",): 1}), "x has a name of the type tuple"),
    "a name of a mapping in a tuple": (put(x=(MappingProxyType({1: 2}),)), r"x\[0\] has a name of"),
    "a lone surrogate in a name": (put(x={"SECRET \ud800": 1}), "x is or has text with a lone"),
    "an empty name": (put(**{"": 1}), "an attribute with an empty name"),
    "an empty name of a change": (
        update(set={("",): 1}),
        "counters: it has an attribute with an empty",
    ),
    "a long name": (put(**{"x" * 65536: 1}), "a name of more than 65535 bytes"),
    "a lone surrogate": (put(x=["SECRET \ud800"]), r"x\[0\] is or has text with a lone surrogate"),
    "a bool as key": (lambda tx: tx.delete(COUNTERS, {"name": True}), "the key of counters is"),
    "a long key": (check("attribute_exists(n)", key={"name": "é" * 1025}), "2050 bytes in name"),
    "an unused value": (update("SET n = :a", values={**A, ":b": 1}), "no expression has :b"),
    "an object as placeholder": (update("SET n = :a", values={**A, ID: 1}), "expression has UUID"),
    "an unused name": (check("attribute_exists(n)", names={"#x": "y"}), "no expression has #x"),
    "values without a text": (lambda tx: tx.put(COUNTERS, KEY, A), "no expression has :a"),
    "an undefined value": (update("SET n = :b", values={}), ":b is not defined; give a name in na"),
    "an undefined name": (check("attribute_exists(#x)"), "#x is not defined"),
    "a long text": (
        check("attribute_exists(n)" + " " * 4096),
        "has 4115 bytes, and DynamoDB takes",
    ),
    "a value in a text": (check("n > 1"), "its text holds a value; write a placeholder"),
    "text in a text": (check("t = 'x'"), "its text holds a value"),
    "three summands": (update("SET n = n + :a - :a", values=A), "adds three values"),
    "no options": (check(Attr("n").is_in([])), r"is_in\(\) takes from 1 to 100 values"),
    "101 options": (check(Attr("n").is_in([*range(101)])), r"is_in\(\) takes from 1 to 100"),
    "301 operators": (check(attributes(151)), "its condition has 301 operators"),
    "a bool in order": (check(Attr("n").lt(TRUE)), "has the type BOOL, and a comparison by order"),
    "a list in order": (check(Attr("n").gte([1])), "has the type L, and a comparison by order"),
    "a null in order": (check(":a < n", values={":a": None}), "has the type NULL"),
    "bounds without order": (check(Attr("n").between([1], [2])), "has the type L"),
    "bounds of two types": (check(Attr("n").between(1, "9")), r"between\(\) are of two types"),
    "bounds exchanged": (check(Attr("n").between(9, 1)), r"lower bound of between\(\) is over"),
    "a number as prefix": (
        check(Attr("t").begins_with(1)),
        r"the type N, and begins_with\(\) takes",
    ),
    "no type's name": (
        check(Attr("n").attribute_type("Number")),
        r"attribute_type\(\) takes one of",
    ),
    "a number as type": (check(Attr("n").attribute_type(1)), "the type N, and attribute_type"),
    "a float in order": (check(Attr("n").lt(1.5)), "the value :v0: it is a float"),
    "a path of an object": (update(set={("x", Line): 1}), "a tuple names no attribute"),
    "no text": (update(5), "has a int in place of its text"),  # type: ignore[arg-type]
}
"""Writes that the library refuses before a request; the text of the error."""

INVALID: dict[str, Write] = {
    "unknown function": check("nope(n)"),
    "a value without a path": check("attribute_exists(:a)", values=A),
    "an empty text": check(" "),
    "change of a name in text": update(set={"t.x": 1}),
    "change of a name in a list": update(set={"l.x": 1}),
    "change below a missing map": update(set={"missing.x": 1}),
    "add to text": update(add={"t": 1}),
    "sum with text": update("SET n = t + :a", values=A),
    "append to text": update(append={"t": [1]}),
    "overflow": update(add={"n": Decimal("9.9E+125")}),
    "39 digits of a sum": update(add={"n": Decimal("9." + "1" * 37)}),
    "number as key": lambda tx: tx.delete(COUNTERS, {"name": 1}),
    "reserved word": check("status = :a", values=A),
    "key in a text": update("SET #n = :a", values=A, names={"#n": "name"}),
    "overlapping paths in a text": update("SET m = :a, m.k = :a", values=A),
}
"""Writes that DynamoDB refuses, and that the library leaves to it."""

CONDITIONS: dict[str, tuple[Write, bool]] = {
    **{name: (check(each), True) for name, each in HOLDS.items()},
    **{name: (check(each), False) for name, each in FAILS.items()},
    "of no item": (check(Attr("t").size().gt(0), key={"name": "none"}), False),
}

OTHERWISE_EMBEDDED = {
    *("size of a bool", "prefix of a number", "unknown function", "change of a name in text"),
    *("change of a name in a list", "sum with text", "append to text", "overflow"),
    *("39 digits of a sum", "key in a text", "overlapping paths in a text"),
}
"""Cases in which the embedded AWS differs from DynamoDB: the rows of docs/testing.md."""
