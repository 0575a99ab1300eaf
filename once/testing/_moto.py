"""Corrections of moto, which FakeAws runs on: it evaluates and refuses as DynamoDB documents it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from functools import wraps
from typing import Any
from unittest.mock import patch

from boto3.dynamodb.types import DYNAMODB_CONTEXT
from moto.core.exceptions import JsonRESTError
from moto.dynamodb import comparisons, models
from moto.dynamodb.exceptions import MockValidationException, TransactionCanceledException
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler

_CODES = {None, "ConditionalCheckFailed", "TransactionConflict", "ThrottlingError"}
_ORDERED = {"S", "N", "B"}

_Typed = tuple[str, Any]
"""DynamoDB's type of a value, and its content in a form that can be compared."""


def _typed(kind: str, content: Any) -> _Typed:
    match kind:
        case "L":
            return kind, [_typed(each.type, each.value) for each in map(DynamoType, content)]
        case "M":
            members = {name: DynamoType(member) for name, member in content.items()}
            return kind, {name: _typed(each.type, each.value) for name, each in members.items()}
        case "SS" | "NS" | "BS":
            return kind, {_typed(kind[0], member)[1] for member in content}
        case "N":
            return kind, Decimal(content)
        case _:
            return kind, content


def _value(operand: Any, item: Any) -> _Typed | None:
    """Return the value of an operand; None for a missing attribute."""
    if isinstance(operand, comparisons.FuncSize):
        kind, content = _value(operand.attr, item) or ("NULL", "")
        return None if kind in {"N", "BOOL", "NULL"} else ("N", Decimal(len(content)))
    if isinstance(operand, comparisons.AttributePath):
        found = operand._get_attr(item)  # noqa: SLF001
        return None if found is None else _typed(found.type, found.value)
    return _typed(operand.type, operand.value)


def _in_order(*values: _Typed | None) -> bool:
    """Return whether values are of one type that has an order, and ascend."""
    kinds = {value and value[0] for value in values}
    contents = [value[1] for value in values if value]
    return len(kinds) == 1 and kinds <= _ORDERED and sorted(contents) == contents


def _contains(whole: _Typed | None, part: _Typed | None) -> bool:
    if whole is None or part is None:
        return False
    kind, content = whole
    if kind == "L":
        return part in content
    return kind in {"S", "B", "SS", "NS", "BS"} and kind[0] == part[0] and part[1] in content


def _begins_with(whole: _Typed | None, prefix: _Typed | None) -> bool:
    if not whole or not prefix or whole[0] != prefix[0] or whole[0] not in {"S", "B"}:
        return False
    return bool(whole[1].startswith(prefix[1]))


def _compared(holds: Any) -> Any:
    return lambda self, item: holds(_value(self.lhs, item), _value(self.rhs, item))


def _expr(holds: Any, *names: str) -> Any:
    return lambda self, item: holds(*(_value(getattr(self, name), item) for name in names))


_EXPR = {
    "OpEqual": _compared(lambda a, b: a == b),
    "OpNotEqual": _compared(lambda a, b: a != b),
    "OpLessThan": _compared(lambda a, b: _in_order(a, b) and a != b),
    "OpLessThanOrEqual": _compared(_in_order),
    "OpGreaterThan": _compared(lambda a, b: _in_order(b, a) and a != b),
    "OpGreaterThanOrEqual": _compared(lambda a, b: _in_order(b, a)),
    "FuncBetween": _expr(_in_order, "start", "attr", "end"),
    "FuncBeginsWith": _expr(_begins_with, "attr", "substr"),
    "FuncContains": _expr(_contains, "attr", "operand"),
    "FuncIn": lambda self, item: (
        (value := _value(self.attr, item)) is not None
        and any(value == _value(each, item) for each in self.possible_values)
    ),
}


def _arithmetic(operation: Callable[[Decimal, Decimal], Decimal]) -> Any:
    def compute(first: DynamoType, second: DynamoType) -> DynamoType:
        if not first.is_number() or not second.is_number():
            raise MockValidationException("An operand of the update has an incorrect data type")
        return DynamoType({"N": f"{operation(Decimal(first.value), Decimal(second.value)):f}"})

    return compute


def _set_item(self: DynamoType, key: Any, value: Any) -> None:
    if not (self.is_list() if isinstance(key, int) else self.is_map()):
        raise MockValidationException("The document path is invalid for update")
    _SET_ITEM(self, key, value)


_SET_ITEM = DynamoType.__setitem__


def _cancelled(errors: Any) -> Exception:
    """Return moto's exception, in which a Python error is a reason of DynamoDB's."""
    return TransactionCanceledException(
        [(c if c in _CODES else "ValidationError", *more) for c, *more in errors]
    )


def _refusing(write: Callable[[DynamoHandler], Any]) -> Callable[[DynamoHandler], Any]:
    @wraps(write)
    def checked(self: DynamoHandler) -> Any:
        try:
            entries = self.body.get("TransactItems", [{"": self.body}])
            for request in (request for entry in entries for request in entry.values()):
                # A missing table is an error of its own.
                table = self.dynamodb_backend.get_table(request["TableName"])
                _check_key(request.get("Key") or request["Item"], table)
            return write(self)
        except JsonRESTError:
            raise
        except Exception as error:  # moto's parsers raise KeyError, ValueError and AssertionError
            raise MockValidationException("Invalid expression") from error

    return checked


def _check_key(item: dict[str, Any], table: Table) -> None:
    types = {each["AttributeName"]: each["AttributeType"] for each in table.attr}
    if not all(types[name] in item.get(name, ()) for name in table.table_key_attrs):
        raise MockValidationException("The provided key does not match the schema")


@contextmanager
def corrected() -> Iterator[None]:
    """Let moto evaluate conditions and updates, and refuse expressions, as DynamoDB does."""
    with ExitStack() as stack:
        for name, expr in _EXPR.items():
            stack.enter_context(patch.object(getattr(comparisons, name), "expr", expr))
        sums = (("__add__", DYNAMODB_CONTEXT.add), ("__sub__", DYNAMODB_CONTEXT.subtract))
        for name, operation in sums:
            stack.enter_context(patch.object(DynamoType, name, _arithmetic(operation)))
        stack.enter_context(patch.object(DynamoType, "__setitem__", _set_item))
        stack.enter_context(patch.object(models, "TransactionCanceledException", _cancelled))
        for name in ("transact_write_items", "put_item", "update_item", "delete_item"):
            refusing = _refusing(getattr(DynamoHandler, name))
            stack.enter_context(patch.object(DynamoHandler, name, refusing))
        yield
