"""DynamoDB's rules for the values and expressions of a write, checked before it is sent.

AWS documents them in "Constraints", "Supported data types and naming rules" and "Condition and
filter expressions, operators, and functions". A write that breaks one is an `InvalidWrite` with
table, place and remedy. Its text holds no value: it is stored in a dead letter.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Set
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from boto3.dynamodb.types import DYNAMODB_CONTEXT, Binary

from once.errors import InvalidWrite
from once.names import Limits

_LARGEST_INTEGER = 10**38 - 1  # DynamoDB holds 38 digits
_PLAIN_NAME = re.compile(r":?[\w-]{1,40}")
_FORMS = {
    "isoformat": "text, such as value.isoformat()",
    "bytes_le": "text, such as str(value)",  # a UUID
    "model_dump": "a dict, such as value.model_dump()",
    "__dataclass_fields__": "a dict, such as dataclasses.asdict(value)",
    "__struct_fields__": "a dict, such as msgspec.to_builtins(value)",
    "__attrs_attrs__": "a dict, such as attrs.asdict(value)",
}
"""The form to give in place of an object, by an attribute of its class."""


class Unfit(Exception):
    """DynamoDB cannot hold a value, for the reason in the text."""


def serialize(item: Mapping[str, Any], of: str = "an item") -> dict[str, Any]:
    """Return an item in DynamoDB's JSON. Numbers are Decimal or int; float is refused.

    Raises:
        InvalidWrite: DynamoDB cannot hold a name or a value. The text names what the item is `of`,
            the path and the remedy.
    """
    try:
        return _attributes(item, 0)
    except Unfit as fault:
        raise InvalidWrite(f"{of}: {_path_text(item, 0)} {fault}") from None


def check_value(value: Any) -> str:
    """Return DynamoDB's type of a value.

    Raises:
        Unfit: DynamoDB cannot hold it, or a part of it.
    """
    try:
        [kind] = _value(value, 0)
    except Unfit as fault:
        raise Unfit(f"{_path_text(value, 1)} {fault}") from None
    return str(kind)


def _path_text(value: Any, depth: int) -> str:
    """Return the path to the first part of a value that does not fit."""
    text = "".join(_steps_to_fault(value, depth)).removeprefix(".")
    return text or "it"


def _steps_to_fault(value: Any, depth: int) -> list[str]:
    is_map = isinstance(value, Mapping)
    if depth > Limits.NESTING or not (is_map or isinstance(value, list | tuple)):
        return []
    for step, member in value.items() if is_map else enumerate(value):
        try:
            _value(member, depth)
        except Unfit:
            # A name that does not look like one in code may be data.
            is_shown = isinstance(step, str) and _PLAIN_NAME.fullmatch(step)
            shown = f".{step}" if is_shown else f"[{'...' if is_map else step}]"
            return [shown, *_steps_to_fault(member, depth + 1)]
    return []


def _attributes(item: Mapping[str, Any], depth: int) -> dict[str, Any]:
    _check_names(item.keys(), depth)
    return {name: _value(value, depth) for name, value in item.items()}


def _check_names(names: Collection[Any], depth: int = 0) -> None:
    try:  # all at once: a check of each takes as long as its value
        joined = "".join(names)
        are_plain = joined.isascii() and len(joined) <= Limits.NAME_BYTES and "" not in names
    except TypeError:
        are_plain = False
    if not are_plain:
        for name in names:
            _check_name(name, depth)


def _check_name(name: Any, depth: int) -> None:
    if not isinstance(name, str):
        raise Unfit(f"has a name of the type {type(name).__name__}; give text")
    _check_unicode(name)
    if not name and not depth:  # of an empty name inside a map, AWS documents nothing
        raise Unfit("has an attribute with an empty name; give each one a name")
    if len(name.encode()) > Limits.NAME_BYTES:
        raise Unfit(f"has a name of more than {Limits.NAME_BYTES} bytes; give a shorter one")


def _value(value: Any, depth: int) -> Any:
    """Return what boto3's serializer returns, which takes five times as long."""
    kind = type(value)
    if kind is str:
        if not value.isascii():
            _check_unicode(value)
        return {"S": value}
    if kind is int and -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER:
        return {"N": str(value)}
    if kind is bytes:
        return {"B": value}
    if isinstance(value, list | tuple):
        _check_depth(depth)
        return {"L": [_value(member, depth + 1) for member in value]}
    if kind is dict or isinstance(value, Mapping):
        _check_depth(depth)
        return {"M": _attributes(value, depth + 1)}
    return _set(value) if isinstance(value, Set) else _scalar(value)


def _scalar(value: Any) -> Any:
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int | Decimal):
        return {"N": _number(value)}
    if isinstance(value, str):
        _check_unicode(value)
        return {"S": value}
    if isinstance(value, bytes | bytearray | Binary):
        return {"B": getattr(value, "value", value)}
    if isinstance(value, float):
        raise Unfit(
            "is a float, which DynamoDB cannot hold; give an int, such as minor units of money, "
            "or a Decimal"
        )
    kind = type(value)
    forms = ["the member's value"] if isinstance(value, Enum) else []
    forms += (form for attribute, form in _FORMS.items() if hasattr(kind, attribute))
    remedy = [*forms, "text, a number, bytes, a bool, None, a list, a dict or a set"][0]
    raise Unfit(f"is of the type {kind.__name__}, which DynamoDB cannot hold; give {remedy}")


def _number(value: int | Decimal) -> str:
    try:
        number = DYNAMODB_CONTEXT.create_decimal(value)
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite() or (number and not -130 <= number.adjusted() <= 125):
        raise Unfit(
            "is a number that DynamoDB cannot hold: at most 38 digits, from 1E-130 to 9.9E+125; "
            "give another one, or text"
        )
    return str(number)


def _set(members: Set[Any]) -> Any:
    if not members:
        raise Unfit("is an empty set, which DynamoDB cannot hold; leave the attribute out")
    content = [_scalar(member) for member in members]
    kinds = {kind for member in content for kind in member}
    if len(kinds) > 1 or not kinds <= {"S", "N", "B"}:
        types = " and ".join(sorted({type(member).__name__ for member in members}))
        raise Unfit(f"is a set of {types}; give text, numbers or bytes alone, or a list")
    [kind] = kinds
    return {f"{kind}S": [member[kind] for member in content]}


def _check_depth(depth: int) -> None:
    if depth >= Limits.NESTING:
        raise Unfit(
            f"is nested deeper than {Limits.NESTING} lists and dicts; give the inner ones as JSON "
            "text"
        )


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unfit("is or has text with a lone surrogate; give well-formed Unicode") from None


# Expressions: a handler's texts, and the conditions of boto3, which are texts by then. What depends
# on the text alone is kept, since a handler has few of them.

_PLACEHOLDER = re.compile(r"[#:]\w*", re.ASCII)
_LITERAL = re.compile(r"""['"]|(?<![\w#:.\[])\d(?!\w*\s*\])""")
_SUM_OF_THREE = re.compile(r"[+-]\s*[^\s,()+-]+\s*[+-]")
_OPTIONS = re.compile(r"\bIN\s*\(([^()]*)\)", re.IGNORECASE)
_OPERATOR = re.compile(
    r"[<>]=|<>|[<>=]|(?<![#:.\w])(?:AND|OR|NOT|BETWEEN|IN)\b|\w+\s*\(", re.IGNORECASE
)
_RANGE = re.compile(r"\bBETWEEN\s+(:\w+)\s+AND\s+(:\w+)", re.IGNORECASE)
_ORDER = r"(?:[<>]=|<(?!>)|(?<!<)>)"
_TYPES = {"S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M"}
_TYPE_NAME = f"attribute_type() takes one of {', '.join(sorted(_TYPES))}"
_OPERANDS = {
    rf"{_ORDER}\s*(:\w+)|(:\w+)\s*{_ORDER}|\bBETWEEN\s+(:\w+)|\bBETWEEN\s+\S+\s+AND\s+(:\w+)": (
        {"S", "N", "B"},
        "a comparison by order takes text, a number or bytes",
    ),
    r"\bbegins_with\s*\([^,]+,\s*(:\w+)": ({"S", "B"}, "begins_with() takes text or bytes"),
    r"\battribute_type\s*\([^,]+,\s*(:\w+)": ({"S"}, _TYPE_NAME),
}
"""The operands that must have one of some types, and the remedy for another one."""


class _Texts(NamedTuple):
    """Facts of the expressions of a write that do not depend on its values.

    Attributes:
        placeholders: those that they use.
        fault: what is wrong in them; empty if nothing is.
        operands: the placeholders of values that must have one of some types, with the remedy.
        ranges: the placeholders of the bounds of each BETWEEN.
    """

    placeholders: frozenset[str]
    fault: str
    operands: tuple[tuple[str, set[str], str], ...]
    ranges: tuple[tuple[str, str], ...]


@lru_cache(maxsize=512)
def _read(update: str, condition: str) -> _Texts:
    operands = (
        (placeholder, kinds, remedy)
        for pattern, (kinds, remedy) in _OPERANDS.items()
        for found in re.finditer(pattern, condition, re.IGNORECASE)
        for placeholder in filter(None, found.groups())
    )
    used = _PLACEHOLDER.findall(f"{update} {condition}")
    fault = _text_fault(update, condition)
    return _Texts(frozenset(used), fault, (*operands,), (*_RANGE.findall(condition),))


def _text_fault(update: str, condition: str) -> str:
    options = [len(each.split(",")) if each.strip() else 0 for each in _OPTIONS.findall(condition)]
    operators = _OPERATOR.findall(condition)
    number = len(operators) - sum(each.upper() == "BETWEEN" for each in operators)
    if any(not 1 <= each <= Limits.OPTIONS for each in options):
        return f"is_in() takes from 1 to {Limits.OPTIONS} values; more are conditions joined with |"
    if number > Limits.OPERATORS:
        return f"its condition has {number} operators, and DynamoDB takes {Limits.OPERATORS}"
    if _LITERAL.search(update) or _LITERAL.search(condition):
        return "its text holds a value; write a placeholder such as :a, and give it in values="
    if _SUM_OF_THREE.search(update):
        return "its update adds three values, and DynamoDB takes two; add them in the handler"
    return ""


def check_expressions(
    update: str, condition: str, names: Mapping[str, str], values: Mapping[str, Any]
) -> None:
    """Check the expressions of one write.

    Raises:
        Unfit: DynamoDB can never accept them.
    """
    texts = _read(update, condition)
    used, defined = texts.placeholders, {*names, *values}
    if used != defined:
        if unused := sorted(
            each if isinstance(each, str) else type(each).__name__ for each in defined - used
        ):
            raise Unfit(f"no expression has {', '.join(unused)} of names= or values=; leave it out")
        raise Unfit(
            f"{', '.join(sorted(used - defined))} is not defined; give a name in names=, a value "
            "in values="
        )
    if texts.fault:
        raise Unfit(texts.fault)
    try:
        _check_names(names.values())
    except Unfit as fault:
        raise Unfit(f"it {fault}") from None
    for placeholder, kinds, remedy in texts.operands:
        try:
            kind = check_value(values[placeholder])
        except Unfit as fault:
            raise Unfit(f"the value {placeholder}: {fault}") from None
        if kind not in kinds or (remedy is _TYPE_NAME and values[placeholder] not in _TYPES):
            raise Unfit(f"the value {placeholder} has the type {kind}, and {remedy}")
    for bounds in texts.ranges:
        _check_range(*(_value(values[each], 0) for each in bounds))


def _check_range(low: Mapping[str, Any], high: Mapping[str, Any]) -> None:
    if low.keys() != high.keys():
        raise Unfit("the bounds of between() are of two types; give two of one type")
    [[first], [last]] = ([*each.values()] for each in (low, high))
    if Decimal(first) > Decimal(last) if "N" in low else first > last:
        raise Unfit("the lower bound of between() is over the upper one; exchange them")


def check_lengths(entries: Iterable[Mapping[str, Any]]) -> None:
    """Check the length of the expressions of entries of TransactItems.

    Raises:
        InvalidWrite: one is too long for DynamoDB.
    """
    for entry in entries:
        [request] = entry.values()
        for name in ("ConditionExpression", "UpdateExpression"):
            text = request.get(name, "")
            if len(text) > Limits.EXPRESSION_BYTES // 4 and (
                (size := len(text.encode(errors="surrogatepass"))) > Limits.EXPRESSION_BYTES
            ):
                raise InvalidWrite(
                    f"a write to {request['TableName']}: its {name} has {size} bytes, and DynamoDB "
                    f"takes {Limits.EXPRESSION_BYTES}; split the change over several events, or "
                    "keep the values in one map"
                )
