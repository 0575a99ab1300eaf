"""The part of DynamoDB that the contenders use: keys, conditions, cancellations, units and delays.

Answers and counts of this part are exact. Every condition is taken for "the key is new", or, if it
has `:owner`, for "this owner's record": the contenders use no other condition whose result could
differ, because no record of a run expires.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from once.commit.item_dedup import is_item_record
from once.commit.item_size import item_bytes

Item = dict[str, Any]
Answer = tuple[int, dict[str, Any]]
"""HTTP status and body."""

DEDUP, IDEMPOTENCY, ORDERS, CAPTURES = "dedup", "idempotency", "orders", "captures"
KEYS = {DEDUP: "pk", IDEMPOTENCY: "id", ORDERS: "order_id", CAPTURES: "pk"}
"""Primary key by table; all keys are text."""

OK, REFUSED = 200, 400
_TRANSACTIONAL = 2
_WRITE_UNIT_BYTES, _READ_UNIT_BYTES = 1024, 4096
_CANCELLED = "TransactionCanceledException"
_FAILED, _CONFLICT = "ConditionalCheckFailed", "TransactionConflict"

Delay = float | Literal["model"]
"""A fixed number of milliseconds, or the model."""

MODEL: Final = "model"
SINGLE_MS = 7.6
TRANSACTION_MS = 23.6
ITEM_MS = 0.34
"""Medians that were measured inside Lambda and published in 2020: a put, get or update; a
transaction; each of its items. Nothing was published for BatchGetItem: it counts as one read."""


@dataclass(slots=True)
class Counts:
    """Requests and units of a run; `write_units_least` are without cancelled transactions."""

    requests: int = 0
    write_units: int = 0
    write_units_least: int = 0
    read_units: int = 0


@dataclass(slots=True)
class Tables:
    """The tables, and the counts of their requests.

    `conflicts` is the share of the puts of dedup records that get a TransactionConflict; it is
    drawn for each attempt, by `chance`. `written` has the number of puts by key, by table.
    """

    conflicts: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    counts: Counts = field(default_factory=Counts)
    written: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _items: dict[tuple[str, str], Item] = field(default_factory=dict)

    def answer(self, operation: str, request: Mapping[str, Any]) -> Answer:
        """Execute an operation, and return DynamoDB's answer."""
        self.counts.requests += 1
        match operation:
            case "PutItem":
                return self._put_item(request)
            case "UpdateItem":
                return self._update_item(request)
            case "GetItem":
                return OK, self._get_item(request)
            case "BatchGetItem":
                return self._batch_get_item(request)
            case "TransactWriteItems":
                return self._transact(request["TransactItems"])
            case _:
                return refusal("UnknownOperationException", f"the bench has no {operation}")

    def _put_item(self, put: Mapping[str, Any]) -> Answer:
        if _has_record(put) and self._is_in_conflict():
            return refusal("TransactionConflictException", "Transaction is ongoing for the item")
        self._charge(_write_units(put["Item"]))
        if (old := self._existing(put)) is not None:
            code = "ConditionalCheckFailedException"
            return refusal(code, "The conditional request failed", Item=old)
        self._store(put)
        return OK, {}

    def _update_item(self, update: Mapping[str, Any]) -> Answer:
        place = _place(update["TableName"], update["Key"])
        # The only form in use: `SET #a = :a, #b = :b`.
        names, values = update["ExpressionAttributeNames"], update["ExpressionAttributeValues"]
        clauses = update["UpdateExpression"].removeprefix("SET ").split(", ")
        pairs = (clause.split(" = ") for clause in clauses)
        item = dict(self._items.get(place, update["Key"]))
        item |= {names[name]: values[value] for name, value in pairs}
        self._charge(_write_units(item))
        self._items[place] = item
        return OK, {}

    def _get_item(self, get: Mapping[str, Any]) -> dict[str, Any]:
        item = self._items.get(_place(get["TableName"], get["Key"]))
        self.counts.read_units += -(-item_bytes(item or {}) // _READ_UNIT_BYTES) or 1
        return {} if item is None else {"Item": item}

    def _batch_get_item(self, request: Mapping[str, Any]) -> Answer:
        found: dict[str, list[Item]] = {}
        for table, asked in request["RequestItems"].items():
            answers = (self._get_item({"TableName": table, "Key": key}) for key in asked["Keys"])
            found[table] = [answer["Item"] for answer in answers if answer]
        return OK, {"Responses": found, "UnprocessedKeys": {}}

    def _transact(self, entries: list[dict[str, Any]]) -> Answer:
        if any(set(entry) != {"Put"} for entry in entries):
            return refusal("ValidationException", "the bench's transactions have only Put")
        puts = [entry["Put"] for entry in entries]
        units = sum(_TRANSACTIONAL * _write_units(put["Item"]) for put in puts)
        reasons = [self._reason(put) for put in puts]
        if any(reason["Code"] != "None" for reason in reasons):
            self.counts.write_units += units
            codes = ", ".join(reason["Code"] for reason in reasons)
            message = f"Transaction cancelled, see the specific reasons [{codes}]"
            return refusal(_CANCELLED, message, CancellationReasons=reasons)
        self._charge(units)
        for put in puts:
            self._store(put)
        return OK, {}

    def _reason(self, put: Mapping[str, Any]) -> dict[str, Any]:
        """Return the cancellation reason of a put; the code is the text `None` if it can commit."""
        if (put["TableName"] == DEDUP or _has_record(put)) and self._is_in_conflict():
            return {"Code": _CONFLICT, "Message": "Transaction is ongoing for the item"}
        if (old := self._existing(put)) is None:
            return {"Code": "None"}
        returns = put.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
        shown = {"Item": old} if returns else {}
        return {"Code": _FAILED, "Message": "The conditional request failed", **shown}

    def _is_in_conflict(self) -> bool:
        return self.chance.random() < self.conflicts

    def _existing(self, put: Mapping[str, Any]) -> Item | None:
        if "ConditionExpression" not in put:
            return None
        found = self._items.get(_place(put["TableName"], put["Item"]))
        owner = put.get("ExpressionAttributeValues", {}).get(":owner")
        if owner is None:
            return found
        return None if found and found.get("owner") == owner else found or {}

    def _store(self, put: Mapping[str, Any]) -> None:
        place = table, key = _place(put["TableName"], put["Item"])
        self._items[place] = put["Item"]
        self.written[table][key] += 1

    def _charge(self, units: int) -> None:
        self.counts.write_units += units
        self.counts.write_units_least += units


def refusal(code: str, message: str, **more: Any) -> Answer:
    """Return an error in DynamoDB's form."""
    kind = f"com.amazonaws.dynamodb.v20120810#{code}"
    return REFUSED, {"__type": kind, "message": message, **more}


def _has_record(put: Mapping[str, Any]) -> bool:
    return any(map(is_item_record, put["Item"]))


def _place(table: str, item: Mapping[str, Any]) -> tuple[str, str]:
    return table, item[KEYS[table]]["S"]


def _write_units(item: Item) -> int:
    return -(-item_bytes(item) // _WRITE_UNIT_BYTES) or 1


def seconds(delay: Delay, operation: str, items: int) -> float:
    """Return the delay of an answer to an operation, by its items in a transaction, in seconds."""
    if delay != MODEL:
        return delay / 1000
    if operation == "TransactWriteItems":
        return (TRANSACTION_MS + ITEM_MS * items) / 1000
    return SINGLE_MS / 1000
