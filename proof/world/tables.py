"""DynamoDB: tables with one key attribute, transactions with their reasons, and a stream."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from proof.world.errors import ServiceError
from proof.world.expressions import Item, Scope, holds, updated

_TOKEN_SECONDS = 10 * 60
"""So long a transaction that comes again under its token is known for the same one."""
_PAGE = 1
"""So many items one call of a scan looks at: so few that there are several calls."""
_KINDS = {"Put", "Update", "Delete", "ConditionCheck"}


class Tables:
    """Every table of the deployment.

    Args:
        keys: the key attribute of each table, by its name.
        streamed: the table that has a stream.
        clock: the time, in seconds since the epoch.

    Attributes:
        items: those of each table, by the value of their key.
        stream: what changed in the streamed table, oldest first, as Lambda shows it.
        transactions: how many have committed.
        tokens: when each ClientRequestToken was first used, and for what.
    """

    def __init__(self, keys: Mapping[str, str], streamed: str, clock: Callable[[], float]) -> None:
        self._keys = keys
        self._streamed = streamed
        self._clock = clock
        self.tokens: dict[str, tuple[float, str]] = {}
        self.items: dict[str, dict[str, Item]] = {name: {} for name in keys}
        self.stream: list[dict[str, Any]] = []
        self.transactions = 0

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do an operation, and return its answer.

        Raises:
            ServiceError: it is refused.
        """
        match operation:
            case "TransactWriteItems":
                return self._transact(request)
            case "GetItem":
                item = self._find(request["TableName"], request["Key"])
                return {} if item is None else {"Item": item}
            case "BatchGetItem":
                return self._batch_get(request["RequestItems"])
            case "Scan":
                return self._scan(request)
        # Nobody's role allows anything else either.
        raise ServiceError("AccessDeniedException")

    def remove(self, table: str, key: str) -> None:
        """Remove an item, as TTL does."""
        self._store(table, key, None, by_ttl=True)

    def put(self, table: str, item: Item) -> None:
        """Write an item past all conditions, as a seed."""
        [key] = item[self._keys[table]].values()
        self._store(table, key, item)

    def _transact(self, request: Mapping[str, Any]) -> dict[str, Any]:
        token, entries = request["ClientRequestToken"], request["TransactItems"]
        if self._is_known(token, entries):
            return {}
        self._check_distinct(entries)
        changes = [self._change(entry) for entry in entries]
        reasons = [reason for _, reason in changes]
        if any(reason["Code"] != "None" for reason in reasons):
            raise ServiceError("TransactionCanceledException", CancellationReasons=reasons)
        for change, _ in changes:
            if change is not None:
                self._store(*change)
        self.tokens[token] = (self._clock(), json.dumps(entries))
        self.transactions += 1
        return {}

    def _is_known(self, token: str, entries: Any) -> bool:
        if token not in self.tokens:
            return False
        when, content = self.tokens[token]
        if self._clock() - when > _TOKEN_SECONDS:
            return False
        if content != json.dumps(entries):
            raise ServiceError("IdempotentParameterMismatchException")
        return True

    def _check_distinct(self, entries: Any) -> None:
        places = set()
        for [(kind, request)] in map(dict.items, entries):
            table = request["TableName"]
            places.add((table, self._key(table, request["Item" if kind == "Put" else "Key"])))
        if len(places) < len(entries):
            raise ServiceError("ValidationException")

    def _change(
        self, entry: Mapping[str, Any]
    ) -> tuple[tuple[str, str, Item | None] | None, dict[str, Any]]:
        """What an entry would do to which item, and the reason not to."""
        [(kind, request)] = entry.items()
        if kind not in _KINDS:
            raise ServiceError("ValidationException")
        table = request["TableName"]
        key = self._key(table, request["Item"] if kind == "Put" else request["Key"])
        before = self.items[table].get(key)
        scope = Scope.of(before, request)
        if not holds(request.get("ConditionExpression"), scope):
            reason: dict[str, Any] = {"Code": "ConditionalCheckFailed", "Message": "failed"}
            if before and request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
                reason["Item"] = before
            return None, reason
        match kind:
            case "Put":
                return (table, key, request["Item"]), {"Code": "None"}
            case "Delete":
                return (table, key, None), {"Code": "None"}
            case "Update":
                after = {**request["Key"], **updated(request["UpdateExpression"], scope)}
                return (table, key, after), {"Code": "None"}
        return None, {"Code": "None"}

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
        before = self.items[table].get(key)
        if after is None:
            self.items[table].pop(key, None)
        else:
            self.items[table][key] = after
        if table == self._streamed and before != after:
            self._emit(key, before, after, by_ttl=by_ttl)

    def _emit(self, key: str, before: Item | None, after: Item | None, *, by_ttl: bool) -> None:
        name = "REMOVE" if after is None else "MODIFY" if before else "INSERT"
        images = {"OldImage": before, "NewImage": after}
        record = {
            "eventID": f"{len(self.stream)}",
            "eventName": name,
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
