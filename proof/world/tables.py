"""DynamoDB: tables with a partition key, transactions with cancellation reasons, and a stream."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from proof.world.calls import ServiceError
from proof.world.expressions import Item, Scope, holds, updated

_TOKEN_SECONDS = 10 * 60
"""The time within which a ClientRequestToken makes a transaction idempotent."""
_PAGE = 1
"""Items of a page of a scan: so few that a scan takes several calls."""
_NO_REASON = {"Code": "None"}


class Tables:
    """All tables, each with the name of its key attribute. One of them has a stream.

    Attributes:
        items: the items of each table, by the value of their key.
        stream: the changes of the streamed table, oldest first, in the form of Lambda's events.
        transactions: number of committed transactions, and of writes outside of them.
        plain_writes: whether the roles allow writes outside of transactions.
        tokens: the time and content of the first transaction with each ClientRequestToken.
    """

    def __init__(self, keys: Mapping[str, str], streamed: str, clock: Callable[[], float]) -> None:
        self._keys = dict(keys)
        self._streamed = streamed
        self._clock = clock
        self.tokens: dict[str, tuple[float, bytes]] = {}
        self.items: dict[str, dict[str, Item]] = {name: {} for name in keys}
        self.stream: list[dict[str, Any]] = []
        self.transactions = 0
        self.plain_writes = False

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute an operation, and return its answer.

        Raises:
            ServiceError: the error response.
        """
        match operation:
            case "PutItem" | "UpdateItem" if self.plain_writes:
                return self._write({operation.removesuffix("Item"): request})
            case "TransactWriteItems":
                return self._transact(request)
            case "GetItem":
                item = self._find(request["TableName"], request["Key"])
                return {} if item is None else {"Item": item}
            case "BatchGetItem":
                return self._batch_get(request["RequestItems"])
            case "Scan":
                return self._scan(request)
        # No role of the service allows another operation.
        raise ServiceError("AccessDeniedException")

    def create(self, table: str, key: str) -> None:
        """Create a table with a key attribute."""
        self._keys[table], self.items[table] = key, {}

    def remove(self, table: str, key: str) -> None:
        """Remove an item, as TTL does."""
        self._store(table, key, None, by_ttl=True)

    def put(self, table: str, item: Item) -> None:
        """Write an item without a condition."""
        self._store(table, self._key(table, item), item)

    def _transact(self, request: Mapping[str, Any]) -> dict[str, Any]:
        token, entries = request["ClientRequestToken"], request["TransactItems"]
        if self._is_repeated(token, entries):
            return {}
        places = {self._place(entry) for entry in entries}
        if len(places) < len(entries):
            raise ServiceError("ValidationException")
        reasons = [self._reason(entry) for entry in entries]
        if any(reason != _NO_REASON for reason in reasons):
            raise ServiceError("TransactionCanceledException", CancellationReasons=reasons)
        for entry in entries:
            self._apply(entry)
        self.tokens[token] = (self._clock(), msgspec.json.encode(entries))
        self.transactions += 1
        return {}

    def _write(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a write outside of a transaction."""
        reason = self._reason(entry)
        if reason != _NO_REASON:
            item = {"Item": reason["Item"]} if "Item" in reason else {}
            raise ServiceError("ConditionalCheckFailedException", **item)
        self._apply(entry)
        self.transactions += 1
        return {}

    def _is_repeated(self, token: str, entries: Any) -> bool:
        when, content = self.tokens.get(token, (-_TOKEN_SECONDS, b""))
        if token not in self.tokens or self._clock() - when > _TOKEN_SECONDS:
            return False
        if content != msgspec.json.encode(entries):
            raise ServiceError("IdempotentParameterMismatchException")
        return True

    def _place(self, entry: Mapping[str, Any]) -> tuple[str, str]:
        """Return the table and key of an entry of a transaction."""
        [request] = entry.values()
        table = request["TableName"]
        return table, self._key(table, request["Item"] if "Put" in entry else request["Key"])

    def _reason(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the cancellation reason of an entry, whose code may be `None`."""
        [request] = entry.values()
        table, key = self._place(entry)
        before = self.items[table].get(key)
        if holds(request.get("ConditionExpression"), Scope.of(before, request)):
            return _NO_REASON
        reason: dict[str, Any] = {"Code": "ConditionalCheckFailed", "Message": "failed"}
        if before and request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
            reason["Item"] = before
        return reason

    def _apply(self, entry: Mapping[str, Any]) -> None:
        [(kind, request)] = entry.items()
        table, key = self._place(entry)
        match kind:
            case "Put":
                self._store(table, key, request["Item"])
            case "Delete":
                self._store(table, key, None)
            case "Update":
                scope = Scope.of(self.items[table].get(key), request)
                after = request["Key"] | updated(request["UpdateExpression"], scope)
                self._store(table, key, after)

    def _batch_get(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        found = {
            table: [
                _projected(item, more)
                for key in more["Keys"]
                if (item := self._find(table, key)) is not None
            ]
            for table, more in asked.items()
        }
        return {"Responses": found, "UnprocessedKeys": {}}

    def _scan(self, request: Mapping[str, Any]) -> dict[str, Any]:
        table, after = request["TableName"], request.get("ExclusiveStartKey")
        start = "" if after is None else self._key(table, after)
        keys = sorted(key for key in self.items[table] if key > start)
        page = [self.items[table][key] for key in keys[:_PAGE]]
        chosen = [
            _projected(item, request)
            for item in page
            if holds(request.get("FilterExpression"), Scope.of(item, request))
        ]
        answer = {"Items": chosen, "Count": len(chosen), "ScannedCount": len(page)}
        if len(keys) > _PAGE:
            answer["LastEvaluatedKey"] = {self._keys[table]: {"S": keys[_PAGE - 1]}}
        return answer

    def _find(self, table: str, key: Item) -> Item | None:
        return self.items[table].get(self._key(table, key))

    def _key(self, table: str, item: Item) -> str:
        [key] = item[self._keys[table]].values()
        return str(key)

    def _store(self, table: str, key: str, after: Item | None, *, by_ttl: bool = False) -> None:
        before = self.items[table].pop(key, None) if after is None else self.items[table].get(key)
        if after is not None:
            self.items[table][key] = after
        if table == self._streamed and before != after:
            self._emit(key, before, after, by_ttl=by_ttl)

    def _emit(self, key: str, before: Item | None, after: Item | None, *, by_ttl: bool) -> None:
        images = {"OldImage": before, "NewImage": after}
        record: dict[str, Any] = {
            "eventID": f"{len(self.stream)}",
            "eventName": "REMOVE" if after is None else "MODIFY" if before else "INSERT",
            "eventSource": "aws:dynamodb",
            "dynamodb": {
                "Keys": {self._keys[self._streamed]: {"S": key}},
                **{which: image for which, image in images.items() if image is not None},
            },
        }
        if by_ttl:
            record["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
        self.stream.append(record)


def _projected(item: Item, request: Mapping[str, Any]) -> Item:
    if "ProjectionExpression" not in request:
        return item
    scope = Scope.of(item, request)
    names = [scope.name(name.strip()) for name in request["ProjectionExpression"].split(",")]
    return {name: item[name] for name in names if name in item}
