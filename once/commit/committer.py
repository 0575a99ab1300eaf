"""Committer: the commit protocol; state change and dedup record in one request, or neither.

Crashes, timeouts and second deliveries leave both or neither. If DynamoDB's answer is lost, the
dedup record is read back to find out whether the commit took place.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from msgspec import Struct

from once.commit.dedup_record import Item, StoredRecord, read_records, record_put, sequence_actions
from once.commit.item_size import checked_size
from once.commit.result import (
    BUSY,
    COMMITTED,
    CONTENDED,
    HINDRANCES,
    THROTTLED,
    UNAFFECTED,
    UNATTRIBUTED,
    CommitOutcome,
    CommitResult,
    classify,
    classify_record,
    failed,
    refusal_text,
)
from once.dynamodb_rules import check_lengths
from once.errors import (
    THROTTLING,
    InvalidWrite,
    OutcomeUnknown,
    RequestRefused,
    Throttled,
    TooLarge,
    Unexpected,
)
from once.names import Limits, Record
from once.runtime.deadline import Deadline
from once.runtime.encoded_entries import accept_encoded_entries, encoded
from once.settings import CommitSettings
from once.transaction import Transaction

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from once.business_tables import ItemKey
    from once.write_expressions import Action

_PASSING = {
    **dict.fromkeys(THROTTLING, THROTTLED),
    "TransactionInProgressException": BUSY,
    "TransactionConflictException": CONTENDED,
    # A write of the item in another Region, on a global table with strong consistency.
    "ReplicatedWriteConflictException": CONTENDED,
}
"""Results of every transaction in a request, by the error code of the whole request."""

_PERMANENT = {
    "ValidationException",
    "SerializationException",
    "ItemCollectionSizeLimitExceededException",
}
_CREDENTIAL_ERRORS = {
    *("UnrecognizedClientException", "ExpiredTokenException", "MissingAuthenticationToken"),
    *("InvalidSignatureException", "IncompleteSignatureException", "RequestExpired"),
}
"""Errors of the function's credentials or clock: no message causes them."""

_OPEN = HINDRANCES - {CommitOutcome.STALE}
"""Outcomes after which the same request may still commit."""

_SERVER_ERROR = 500
_CONDITION_FAILED = "ConditionalCheckFailedException"
"""Answer to one write outside of a transaction."""


class CommitRequest(Struct, frozen=True, eq=False):
    """The entries of one transaction, which commit its actions and its dedup record.

    Attributes:
        transaction: the transaction, which must not change any more.
        actions: the transaction's actions and the writes of sequence items, by the key of their
            item.
        entries: the entries of TransactItems as JSON, or a single one for a plain write.
        size: size of the entries in bytes, as far as it is known, or an upper bound of it.
        made_at: the time that the request's conditions use, in seconds since the epoch.
    """

    transaction: Transaction
    actions: "Mapping[ItemKey, Action]"
    entries: Sequence[Any]
    size: int
    made_at: float


class Committer:
    """Sends transactions to DynamoDB, and reads its answers.

    This one keeps each dedup record as an item of the dedup table (`Dedup.RECORD`). The clock is in
    seconds since the epoch.
    """

    def __init__(
        self, client: "DynamoDBClient", settings: CommitSettings, clock: Callable[[], float]
    ) -> None:
        accept_encoded_entries(client)
        self._client = client
        self._settings = settings
        self._clock = clock

    def request(self, transaction: Transaction, now: float) -> CommitRequest:
        """Return the request that commits a transaction; `now` is in seconds since the epoch.

        Raises:
            InvalidWrite: DynamoDB has no type for a value, no consumer could read an event, or the
                writes do not fit the consumer's `Dedup`.
            TooLarge: this transaction alone is over DynamoDB's limits.
        """
        actions, entries = self._entries(transaction, now)
        if len(actions) >= Limits.TRANSACTION_ACTIONS:
            raise TooLarge(
                f"{len(actions)} actions and the dedup record: DynamoDB takes "
                f"{Limits.TRANSACTION_ACTIONS}; each item written, checked or read counts as one, "
                "and so does each message group of ordered events"
            )
        check_lengths(entries)
        bodies = encoded(entries)
        # Each name and each value is longer as JSON than in DynamoDB, so most need no count.
        size = sum(map(len, bodies))
        if size > Limits.ITEM_BYTES:
            size = checked_size(entries, self._settings.dedup_table)
        return CommitRequest(transaction, actions, self._sendable(entries, bodies), size, now)

    def commit(self, requests: Sequence[CommitRequest]) -> list[CommitResult]:
        """Try once to commit these requests together, in one request to DynamoDB.

        They must write disjoint items, and be within DynamoDB's limits together.

        Returns:
            One result for each request, in their order.
        """
        # In the order of the requests: each cancellation reason has the index of its entry.
        entries = [entry for request in requests for entry in request.entries]
        try:
            self._send(entries)
        except ClientError as error:
            return self._classify_error(requests, error)
        except (BotoCoreError, ResponseParserError):
            return self._read_back(requests)
        return [COMMITTED] * len(requests)

    def commit_alone(self, request: CommitRequest, deadline: Deadline) -> CommitResult:
        """Commit a request by itself, in attempts until the deadline while its outcome is open."""
        attempt = 0
        while True:
            [result] = self.commit([request])
            # The same transaction may still commit, now or by an earlier attempt.
            is_open = result.outcome in _OPEN or isinstance(result.cause, OutcomeUnknown)
            if not is_open or not deadline.pause(attempt):
                return result
            attempt += 1

    def look_up(self, transactions: Sequence[Transaction]) -> list[CommitResult | None]:
        """Return the results of at most a hundred events; None for one that is new.

        Raises:
            OutcomeUnknown: DynamoDB did not answer.
            Throttled: it had no capacity to read the records.
        """
        found = self._records(transactions)
        results = [
            None if record is None else self._classify_record(transaction, record)
            for transaction, record in zip(transactions, found, strict=True)
        ]
        former_records = {
            place: former
            for place, (transaction, result) in enumerate(zip(transactions, results, strict=True))
            if result is None and (former := transaction.identity.former) is not None
        }
        if former_records:  # the function before Once may have processed their events
            # Loaded late, as below: only consumers that moved to Once lately use it.
            from once.commit.former_dedup import look_up_former

            former_results = look_up_former(
                self._client, [*former_records.values()], self._settings, self._clock()
            )
            for place, result in zip(former_records, former_results, strict=True):
                results[place] = result
        return results

    def _classify_error(
        self, requests: Sequence[CommitRequest], error: ClientError
    ) -> list[CommitResult]:
        code = error.response["Error"]["Code"]
        if code == "TransactionCanceledException":
            return self._classify_each(requests, error.response["CancellationReasons"])
        if code == _CONDITION_FAILED:
            reason = {**error.response, "Code": "ConditionalCheckFailed"}
            return self._classify_each(requests, [reason])
        # An error of the server says nothing of the commit, which may have taken place.
        if error.response["ResponseMetadata"]["HTTPStatusCode"] >= _SERVER_ERROR:
            return self._read_back(requests)
        if code in _PASSING:
            return [_PASSING[code]] * len(requests)
        # The whole request is refused without reasons: in smaller groups, the cause is found.
        if code not in _CREDENTIAL_ERRORS and len(requests) > 1:
            return [UNATTRIBUTED] * len(requests)
        if code in _PERMANENT:
            text = f"{code}, {refusal_text(error.response['Error'].get('Message', ''))}"
            return [failed(InvalidWrite(f"DynamoDB refuses a write: {text}"))]
        return [failed(RequestRefused(f"DynamoDB refused the commit: {code}"))] * len(requests)

    def _read_back(self, requests: Sequence[CommitRequest]) -> list[CommitResult]:
        """Read back whether a commit without an answer took place."""
        try:
            results = self.look_up([request.transaction for request in requests])
        except OutcomeUnknown as error:
            return [failed(error)] * len(requests)
        except Throttled:
            return [THROTTLED] * len(requests)
        # Not committed, or not yet: BUSY repeats the same transaction, and its condition decides.
        return [result or BUSY for result in results]

    def _classify_each(
        self, requests: Sequence[CommitRequest], reasons: Sequence[Any]
    ) -> list[CommitResult]:
        results, waiting = list[CommitResult](), iter(reasons)
        for request in requests:
            own: list[Any] = [next(waiting, {}) for _ in request.entries]
            try:
                results.append(self._classify(request, own))
            except Exception as error:  # an unreadable reason must not affect the other requests
                results.append(failed(Unexpected(error)))
        # No cause was identified. BUSY counts an attempt; otherwise the group would retry forever.
        return [BUSY] * len(requests) if results == [UNAFFECTED] * len(requests) else results

    def _classify(self, request: CommitRequest, reasons: Sequence[Any]) -> CommitResult:
        """Return the result of a request, from one cancellation reason for each of its entries."""
        transaction, actions = request.transaction, [*request.actions.values()]
        if (former := transaction.identity.former) is not None:
            from once.commit.former_dedup import classify_former

            made_at = request.made_at
            result = classify_former(former, actions, reasons, self._settings, made_at)
            if result is not None:
                return result
        return classify(transaction, actions, reasons)

    def _classify_record(self, transaction: Transaction, item: Item) -> CommitResult | None:
        try:
            stored = StoredRecord.read(item)
        except Exception as error:  # an unreadable record fails the events with its own key only
            return failed(Unexpected(error))
        return None if stored.expired(self._clock()) else classify_record(transaction, stored)

    def _entries(
        self, transaction: Transaction, now: float
    ) -> "tuple[Mapping[ItemKey, Action], list[Any]]":
        """Return the actions of a request, and entries of TransactItems with the record first."""
        record = record_put(transaction, self._settings, now)
        more: dict[ItemKey, Action] = {}
        if Record.SEQUENCED in record["Put"]["Item"]:
            more = sequence_actions(transaction, record["Put"]["Item"], self._settings)
        if transaction.identity.former is not None:
            # Loaded late: only consumers that moved to Once lately use it.
            from once.commit.former_dedup import former_action

            more |= former_action(transaction, transaction.identity.former, self._settings, now)
        actions, entries = transaction.rendered(more)
        return actions, [record, *entries]

    def _sendable(self, entries: list[Any], bodies: list[Any]) -> list[Any]:  # noqa: ARG002
        """Return the form of the entries that `_send` takes: `bodies`, which are their JSON."""
        return bodies

    def _send(self, entries: Any) -> None:
        self._client.transact_write_items(TransactItems=entries)

    def _records(self, transactions: Sequence[Transaction]) -> list[Item | None]:
        """Return the record of each transaction's event, read consistently in one request."""
        pks = [transaction.identity.pk for transaction in transactions]
        found = read_records(self._client, self._settings.dedup_table, pks)
        return [found.get(pk) for pk in pks]
