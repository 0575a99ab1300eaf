"""Families of messages that are cheap to send and may be expensive to read.

Each family grows a message to a size in bytes, so that its cost can be compared with the cost of a
plain message of this size.
"""

import gzip
import json
from collections.abc import Callable
from random import Random

from once.events.strict_json import BYTES_PER_CONTAINER
from once.intake.original_message import MOVED
from once.names import DeadLetterAttribute
from proof.fuzz.messages import Message, binary, message, string

Make = Callable[[int], str]
Grow = Callable[[int], Message]

_HEAD = (
    '{"specversion":"1.0","id":"e-1","source":"/shop","type":"order.placed",'
    '"time":"2026-01-01T00:00:00Z","subject":"o-1","data":{"order_id":"o-1","customer_id":"c-1",'
    '"email":"a@example.com","payment_method":"pm_card_visa","currency":"EUR",'
)
_LINE = '{"sku":"green-tea-%06d","quantity":2,"unit_price":450}'
_EVENT = '{"specversion":"1.0","source":"/shop","type":"order.placed","data":{},"id":"%s'
_DEEP = '{"a":' * 50 + "1" + "}" * 50


def order(size: int) -> str:
    """Return the body of an order with as many ordinary lines as fit into so many bytes."""
    lines = (size - len(_HEAD) - 20) // len(_LINE % 0 + ",")
    return _HEAD + f'"lines":[{",".join(_LINE % n for n in range(lines))}]}}}}'


def filled(start: str, *units: str, end: str = "") -> Make:
    """Return a maker of texts: `start`, each unit repeated as often as fits, and `end`."""
    around, each = len((start + end).encode()), len("".join(units).encode())

    def make(size: int) -> str:
        times = max(1, (size - around) // each)
        return start + "".join(unit * times for unit in units) + end

    return make


def text(*units: str) -> Make:
    """Return a maker of JSON strings."""
    return filled('"', *units, end='"')


def members(unit: str) -> Make:
    """Return a maker of arrays in which one member repeats."""
    return filled("[", f"{unit},", end=f"{unit}]")


def numbered(member: str) -> Make:
    """Return a maker of objects with many members, each with its number in place of `%x`."""

    def make(size: int) -> str:
        count = size // (len(member.encode()) + 4)
        return "{" + ",".join(member % number for number in range(count)) + "}"

    return make


def sparse(unit: str) -> str:
    """Return a member followed by zeros, with as few bytes for a container as are allowed."""
    containers = unit.count("[") + unit.count("{")
    return unit + ",0" * max(0, (containers * BYTES_PER_CONTAINER - len(unit)) // 2)


_UNITS = {
    "nested arrays": sparse("[" * 55 + "]" * 55),
    "nested objects": sparse(_DEEP),
    "empty arrays": sparse("[]"),
    "empty objects": sparse("{}"),
    "small objects": sparse('{"a":0}'),
    "digits": "0",
    "numbers": "300",
    "empty texts": '""',
    "short texts": '"ab"',
    "wide texts": '"\u0101"',
    "short texts to compose": '"e\u0301"',
    "fractions": "1.5",
    "whole fractions": "1.0",
    "small exponents": "1e-9",
    "too many nested arrays": "[" * 55 + "]" * 55,
    "too many nested objects": '{"":' * 50 + "1" + "}" * 50,
    "too many empty arrays": "[]",
}
"""Members of arrays that take the most time or memory."""
_SLOW = '1.0,"e\u0301\U0001f600","\\u00e9",'
"""Members for which the canonical form is written in Python, and the text takes 4 bytes for each
character."""


def _arrays(units: dict[str, str]) -> dict[str, Make]:
    """Return families of arrays in which one member repeats, alone and after others."""
    slow = {f"{name}, in the slow form": unit for name, unit in units.items()}
    alone = {name: members(unit) for name, unit in units.items()}
    return alone | {name: filled("[" + _SLOW, f"{unit},", end="0]") for name, unit in slow.items()}


IN_ORDERS: dict[str, Make] = {
    "marks of two classes": filled('"a', "\u0300", "\u0316", end='"'),
    "marks of two classes, escaped": filled('"a', "\\u0300", "\\u0316", end='"'),
    "marks that are starters": text("\u0f75\u0f73"),
    "marks in a name": filled('{"a', "\u0300", "\u0316", end='":1}'),
    "runs of thirty marks": text("a" + "\u0316" * 15 + "\u0300" * 15),
    "runs of thirty marks in turns": text("a" + "\u0300\u0316" * 15),
    "runs of thirty marks, escaped": text("a" + "\\u0300\\u0316" * 15),
    "decomposed letters": text("e\u0301"),
    "composed letters": text("\u00e9"),
    "Hangul in parts": text("\u1100\u1161\u11a8"),
    "ideographs that decompose": text("\U0002f800"),
    "letters that decompose": text("\u1f82"),
    "emoji": text("\U0001f600"),
    "names to compose": numbered('"e\u0301%x":0'),
    **_arrays(_UNITS),
    "nulls": members("null"),
    "many names": numbered('"%x":0'),
    "long names": numbered('"' + "n" * 200 + '%x":0'),
    "names beyond the basic plane": numbered('"\U0001f600%x":0'),
    "one long name": filled('{"', "n", end='":1}'),
    "a name twice": filled('{"a":1,"b":"', "x", end='","a":2}'),
    "names that collide when composed": filled('{"\u00e9":"', "x", end='","e\u0301":2}'),
    "long numbers": members("9007199254740991"),
    "a number of many digits": filled("", "9"),
    "a fraction of many digits": filled("0.", "3"),
    "a fraction of many zeros": filled("0.5", "0"),
    "fractions of many zeros": members("0.5" + "0" * 500),
    "exponents": members("1e5"),
    "exponents that are written out": members("1e20"),
    "the smallest numbers": members("5e-324"),
    "seventeen digits": members("789.34000000000003"),
    "all digits of a fraction": members(f"{0.1:.55f}"),
    "all digits of the smallest number": members(f"{5e-324:.1074f}"),
    "all digits of large numbers": members(f"{10**22}.0"),
    "zeros before an exponent": members("1" + "0" * 20 + "e-20"),
    "exponents of zero": members("0e999999"),
    "an exponent of many digits": filled("0e", "9"),
    "an exponent of many zeros": filled("1e", "0", end="1"),
    "escaped quotes": text('\\"'),
    "escaped letters": text("\\u0061"),
    "escaped controls": text("\\u0001"),
    "escaped pairs": text("\\ud83d\\ude00"),
    "an escaped lone surrogate": filled('"', "x", end='\\ud800"'),
    "space between": members(" \n 1 \t "),
}
"""Makers of a JSON value that is one more member of a valid order."""

_BODIES: dict[str, Make] = {
    "marks in an id": filled(_EVENT % "a", "\u0300", "\u0316", end='"}'),
    "nested too deeply": filled("", "[", "]"),
    "nested and never closed": filled("", '{"a":'),
    "brackets in a text": filled("[" * 65 + '"', "["),
    "quotes after brackets": filled("[" + "[]," * 65 + '"', '\\"'),
    "space": filled(_EVENT % 'e"', " ", end="}"),
    "base64": filled(_EVENT % 'e-1","data_base64":"', "e30=", end='"}'),
    "a long id": filled(_EVENT % "e", "x", end='"}'),
    "a blank id": filled(_EVENT % "", " ", end='"}'),
    "a long type": filled('{"specversion":"1.0","id":"e","source":"s","type":"', "x", end='"}'),
    "a wrong type": filled(_EVENT % 'e","time":[', "0,", end="0]}"),
    "extensions": filled(_EVENT % 'e","more":[', "0,", end="0]}"),
    "the last line is wrong": lambda size: order(size).replace("450}]", '"450"}]'),
    "wrong data beside objects": filled(
        _HEAD + '"lines":7,"more":[', sparse('{"a":1.0}') + ",", end="0]}}"
    ),
    "cut off": lambda size: order(size)[:-1],
    "no JSON": filled("", "x"),
}


def in_order(make: Make) -> Grow:
    """Return the family of orders with one more member, which a maker grows."""
    head = f'{_HEAD}"lines":[{{"sku":"tea","quantity":2,"unit_price":450}}],"more":'
    return lambda size: message(f"{head}{make(size - len(head) - 2)}}}}}")


def _body(make: Make) -> Grow:
    return lambda size: message(make(size))


def _text(name: str, make: Make) -> Grow:
    return lambda size: message("{", {name: string(make(size))})


def _bytes(name: str, make: Callable[[int], bytes], body: str = "{") -> Grow:
    return lambda size: message(body, {name: binary(make(size))})


def _inflating(size: int) -> bytes:
    return gzip.compress(b'{"attributes":[' + b"[]," * (size * 100) + b"[]]}", mtime=0)


def _random(size: int) -> bytes:
    return Random(size).randbytes(size)


_KEPT = numbered('"%x":{"stringValue":"x","dataType":"String"}')
_LONG_VALUE = filled('{"a":{"dataType":"String","stringValue":"', "\\u00e9", end='"}}')

_BRIDGE = (
    '{"id":"e","source":"shop","detail-type":"order.placed","account":"1","time":"t","region":"r",'
    '"detail":{},"resources":['
)
_S3 = (
    '{"eventVersion":"2.1","eventSource":"aws:s3","awsRegion":"r","eventTime":"t",'
    '"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"b","arn":"a"},"object":'
    '{"sequencer":"0A","size":1,"eTag":"e","key":"%s"}}}'
)
_SNS = '{"Type":"Notification","MessageId":"m","TopicArn":"arn","Timestamp":"t","Message":%s}'


def _notified(make: Make, growth: int = 1) -> Make:
    """Return a maker of notifications; as text in JSON, the message grows by this factor."""
    return lambda size: _SNS % json.dumps(make((size - len(_SNS)) // growth), ensure_ascii=False)


def _object(*units: str) -> Make:
    head, _, end = _S3.partition("%s")
    return filled('{"Records":[' + head, *units, end=end + "]}")


_ENVELOPES: dict[str, tuple[str, Make]] = {
    "SNS: an order": ("sns", _notified(lambda size: order(size * 4 // 5))),
    "SNS: escapes of escapes": ("sns", _notified(filled('"', '\\"', end='"'), 2)),
    "SNS: text": ("plain sns", _notified(filled("", "x"))),
    "SNS: nested": ("plain sns", _notified(filled("", "["))),
    "SNS: marks": ("plain sns", _notified(filled('{"type":"order.placed","a":"', "\u0300"))),
    "EventBridge: resources": ("event_bridge", filled(_BRIDGE, '"a",', end='"a"]}')),
    "EventBridge: wrong resources": ("event_bridge", filled(_BRIDGE, "1,", end="1]}")),
    "S3: a long key": ("s3", _object("a")),
    "S3: a key of escapes": ("s3", _object("%C3%A9")),
    "S3: marks in a key": ("s3", _object("%CC%80", "%CC%96")),
    "S3: many records": ("s3", filled('{"Records":[', (_S3 % "k") + ",", end=_S3 % "k" + "]}")),
    "JSON: a field of its own": ("json", filled('{"type":"', "x", end='"}')),
    "schedule: a long id": ("schedule", filled('{"specversion":"1.0","source":"s","id":"', "1")),
}
"""Families in an envelope: their source, and a maker."""

PLAIN = _body(order)
ENVELOPES = {name: source for name, (source, _) in _ENVELOPES.items()}
"""The source of each family in an envelope."""
FAMILIES: dict[str, Grow] = {
    **{name: in_order(make) for name, make in IN_ORDERS.items()},
    **{name: _body(make) for name, make in _BODIES.items()},
    "gzip that inflates": _bytes(DeadLetterAttribute.ORIGINAL_GZIP, _inflating),
    "gzip that inflates, moved": _bytes(DeadLetterAttribute.ORIGINAL_GZIP, _inflating, MOVED),
    "invalid gzip, moved": _bytes(DeadLetterAttribute.ORIGINAL_GZIP, _random, MOVED),
    "attributes kept": _text(DeadLetterAttribute.ATTRIBUTES, _KEPT),
    "attributes kept, empty": _text(
        DeadLetterAttribute.ATTRIBUTES, filled("{", '"":{},', end='"":{}}')
    ),
    "attributes kept, nested": _text(DeadLetterAttribute.ATTRIBUTES, filled("", "[")),
    "attributes kept, escaped": _text(DeadLetterAttribute.ATTRIBUTES, _LONG_VALUE),
    "a lineage": _text(DeadLetterAttribute.LINEAGE, filled("", "m,")),
    "a first receipt": _text(DeadLetterAttribute.FIRST_SEEN, filled("", "2")),
    "an attribute": _text("text", filled("", "\u00e9")),
    "an attribute of bytes": _bytes("bytes", _random),
    **{name: _body(make) for name, (_, make) in _ENVELOPES.items()},
}
"""Each family by name: from a size in bytes to a message of about this size."""
