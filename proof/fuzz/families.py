"""Families of messages that are cheap to send and meant to be expensive to read.

Each is grown to a size in bytes, so that it can be held against a plain message of that size.
"""

import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from random import Random

from once.intake.original_message import MOVED
from once.schema import DeadLetter
from proof.fuzz.messages import Message

Make = Callable[[int], str]
Grow = Callable[[int], Message]

_LINE = '{"sku":"green-tea-%06d","quantity":2,"unit_price":450}'
_HEAD = (
    '{"specversion":"1.0","id":"e-1","source":"/shop","type":"order.placed",'
    '"time":"2026-01-01T00:00:00Z","subject":"o-1","data":{"order_id":"o-1","customer_id":"c-1",'
    '"email":"a@example.com","payment_method":"pm_card_visa","currency":"EUR",'
)
_ONE_LINE = '"lines":[{"sku":"tea","quantity":2,"unit_price":450}],'


def plain(size: int) -> Message:
    """Return an order with as many ordinary lines as fit into so many bytes."""
    lines = (size - len(_HEAD) - 20) // len(_LINE % 0 + ",")
    return _message(_HEAD + f'"lines":[{",".join(_LINE % n for n in range(lines))}]}}}}')


def _message(body: str, attributes: Mapping[str, list[str]] | None = None) -> Message:
    return {"body": body, "attributes": attributes or {}, "receives": 1}


def filled(before: str, unit: str, after: str = "") -> Make:
    """Return a maker of texts of a given size, in which a unit repeats between two others."""
    around, each = len((before + after).encode()), len(unit.encode())
    return lambda size: before + unit * max(1, (size - around) // each) + after


def halves(before: str, first: str, second: str, after: str) -> Make:
    """Return a maker of texts in which one unit repeats, and then another as often."""
    around, each = len((before + after).encode()), len((first + second).encode())

    def make(size: int) -> str:
        times = (size - around) // each
        return before + first * times + second * times + after

    return make


def names(prefix: str) -> Make:
    """Return a maker of objects with many names, which begin alike."""

    def make(size: int) -> str:
        found = (f'"{prefix}{n:x}":0' for n in range(size // (len(prefix.encode()) + 10)))
        return f"{{{','.join(found)}}}"

    return make


def members(unit: str) -> Make:
    """Return a maker of arrays in which a member repeats."""
    return filled("[", f"{unit},", f"{unit}]")


def within(make: Make) -> Grow:
    """Return a family of orders that are sound, whatever their one member more holds."""
    head = f'{_HEAD}{_ONE_LINE}"more":'
    return lambda size: _message(f"{head}{make(size - len(head) - 2)}}}}}")


def body(make: Make) -> Grow:
    """Return a family of bodies that are no sound orders."""
    return lambda size: _message(make(size))


def forged(name: str, make: Make, under: str = "{") -> Grow:
    """Return a family of texts in a message attribute, under one body."""
    return lambda size: _message(under, {name: ["String", make(size)]})


def binary(name: str, make: Callable[[int], bytes], under: str = "{") -> Grow:
    """Return a family of bytes in a message attribute, under one body."""
    return lambda size: _message(under, {name: ["Binary", b64encode(make(size)).decode()]})


def _inflating(size: int) -> bytes:
    machine = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    content = b'{"attributes":[' + b"[]," * (size * 100) + b"[]]}"
    return machine.compress(content) + machine.flush()


def _random(size: int) -> bytes:
    return Random(size).randbytes(size)


def _kept(size: int) -> str:
    one = '"%x":{"stringValue":"x","dataType":"String"}'
    return f"{{{','.join(one % number for number in range(size // 48))}}}"


def _wrong_at_the_end(size: int) -> Message:
    return _message(plain(size)["body"].replace("450}]", '"450"}]'))


def _cut_off(size: int) -> Message:
    return _message(plain(size)["body"][:-1])


_EVENT = '{"specversion":"1.0","source":"/shop","type":"order.placed","data":{},"id":"%s'
_NO_DATA = _EVENT % "e-1" + '","data_base64":"'
_TEN = '{"a":{"dataType":"String","stringValue":"'
_DEEP = '{"a":' * 50 + "1" + "}" * 50

FAMILIES: dict[str, Grow] = {
    "marks of two classes": within(halves('"a', "\u0300", "\u0316", '"')),
    "marks of two classes, escaped": within(halves('"a', "\\u0300", "\\u0316", '"')),
    "marks that are starters": within(filled('"', "\u0f75\u0f73", '"')),
    "marks in a name": within(halves('{"a', "\u0300", "\u0316", '":1}')),
    "marks in an id": body(halves(_EVENT % "a", "\u0300", "\u0316", '"}')),
    "runs of thirty marks": within(filled('"', "a" + "\u0316" * 15 + "\u0300" * 15, '"')),
    "runs of thirty marks in turns": within(filled('"', "a" + "\u0300\u0316" * 15, '"')),
    "runs of thirty marks, escaped": within(filled('"', "a" + "\\u0300\\u0316" * 15, '"')),
    "decomposed letters": within(filled('"', "e\u0301", '"')),
    "composed letters": within(filled('"', "\u00e9", '"')),
    "Hangul in parts": within(filled('"', "\u1100\u1161\u11a8", '"')),
    "ideographs that decompose": within(filled('"', "\U0002f800", '"')),
    "letters that decompose": within(filled('"', "\u1f82", '"')),
    "emoji": within(filled('"', "\U0001f600", '"')),
    "short texts to compose": within(members('"e\u0301"')),
    "names to compose": within(names("e\u0301")),
    "nested arrays": within(members("[" * 55 + "]" * 55)),
    "nested objects": within(members(_DEEP)),
    "nested too deeply": body(halves("", "[", "]", "")),
    "nested and never closed": body(filled("", '{"a":')),
    "brackets in a text": body(filled("[" * 65 + '"', "[")),
    "quotes after brackets": body(filled("[" + "[]," * 65 + '"', '\\"')),
    "empty arrays": within(members("[]")),
    "empty objects": within(members("{}")),
    "empty texts": within(members('""')),
    "nulls": within(members("null")),
    "small objects": within(members('{"a":0}')),
    "many names": within(names("")),
    "long names": within(names("n" * 200)),
    "names beyond the basic plane": within(names("\U0001f600")),
    "one long name": within(filled('{"', "n", '":1}')),
    "a name twice": within(filled('{"a":1,"b":"', "x", '","a":2}')),
    "names that collide when composed": within(filled('{"\u00e9":"', "x", '","e\u0301":2}')),
    "digits": within(members("1")),
    "long numbers": within(members("9007199254740991")),
    "a number of many digits": within(filled("", "9")),
    "a fraction of many digits": within(filled("0.", "3")),
    "a fraction of many zeros": within(filled("0.5", "0")),
    "fractions": within(members("1.5")),
    "fractions of many zeros": within(members("0.5" + "0" * 500)),
    "exponents": within(members("1e5")),
    "small exponents": within(members("1e-6")),
    "exponents that are written out": within(members("1e20")),
    "the smallest numbers": within(members("5e-324")),
    "exponents of zero": within(members("0e999999")),
    "an exponent of many digits": within(filled("0e", "9")),
    "an exponent of many zeros": within(filled("1e", "0", "1")),
    "escaped quotes": within(filled('"', '\\"', '"')),
    "escaped letters": within(filled('"', "\\u0061", '"')),
    "escaped controls": within(filled('"', "\\u0001", '"')),
    "escaped pairs": within(filled('"', "\\ud83d\\ude00", '"')),
    "an escaped lone surrogate": within(filled('"', "x", '\\ud800"')),
    "space": body(filled(_EVENT % "e" + '"', " ", "}")),
    "space between": within(members(" \n 1 \t ")),
    "base64": body(filled(_NO_DATA, "e30=", '"}')),
    "a long id": body(filled(_EVENT % "e", "x", '"}')),
    "a blank id": body(filled(_EVENT % "", " ", '"}')),
    "a long type": body(filled('{"specversion":"1.0","id":"e","source":"s","type":"', "x", '"}')),
    "a wrong type": body(filled(_EVENT % 'e","time":[', "0,", "0]}")),
    "extensions": body(filled(_EVENT % 'e","more":[', "0,", "0]}")),
    "the last line is wrong": _wrong_at_the_end,
    "cut off": _cut_off,
    "no JSON": body(filled("", "x")),
    "gzip that inflates": binary(DeadLetter.ORIGINAL_GZIP, _inflating),
    "gzip that inflates, moved": binary(DeadLetter.ORIGINAL_GZIP, _inflating, MOVED),
    "gzip that is none, moved": binary(DeadLetter.ORIGINAL_GZIP, _random, MOVED),
    "attributes kept": forged(DeadLetter.ATTRIBUTES, _kept),
    "attributes kept, empty": forged(DeadLetter.ATTRIBUTES, filled("{", '"":{},', '"":{}}')),
    "attributes kept, nested": forged(DeadLetter.ATTRIBUTES, filled("", "[")),
    "attributes kept, escaped": forged(DeadLetter.ATTRIBUTES, filled(_TEN, "\\u00e9", '"}}')),
    "a lineage": forged(DeadLetter.LINEAGE, filled("", "m,")),
    "a first receipt": forged(DeadLetter.FIRST_SEEN, filled("", "2")),
    "an attribute": forged("text", filled("", "\u00e9")),
    "an attribute of bytes": binary("bytes", _random),
}
"""By name, each from a size in bytes to a message of about that size."""
