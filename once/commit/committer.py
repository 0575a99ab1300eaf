"""The commit protocol: state change and dedup record in one request, or neither.

Crashes, timeouts and second deliveries leave both or neither. If DynamoDB's answer is lost, the
dedup record is read back to find out whether the commit took place.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from once.commit._cancellation import classify_record
from once.commit._record_lookup import Item
from once.commit.dedup_record import StoredRecord
from once.commit.request import CommitRequest, dedup_store
from once.commit.result import BUSY, COMMITTED, UNAFFECTED, UNATTRIBUTED, CommitResult, failed
from once.errors import InvalidWrite, OutcomeUnknown, RequestRefused, Unexpected
from once.settings import CommitSettings
from once.transaction import Transaction

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_BUSY = {
    "TransactionInProgressException",
    "TransactionConflictException",
    "ThrottlingException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
}
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

_SERVER_ERROR = 500
_CONDITION_FAILED = "ConditionalCheckFailedException"
"""Answer to one write outside of a transaction."""


class Committer:
    """Sends transactions to DynamoDB and reads its answers.

    Args:
        client: a DynamoDB client that takes encoded entries; see `once.commit.request_encoding`.
        settings: the function's settings.
        clock: the time, in seconds since the epoch.
    """

    def __init__(
        self, client: "DynamoDBClient", settings: CommitSettings, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._settings = settings
        self._store = dedup_store(settings)
        self._clock = clock

    def commit(self, requests: Sequence[CommitRequest]) -> list[CommitResult]:
        """Try once to commit these requests together, in one request to DynamoDB.

        They must write disjoint items, and be within DynamoDB's limits together.

        Returns:
            One result for each request, in their order.
        """
        entries = [entry for request in requests for entry in request.entries]
        try:
            self._send(entries)
        except ClientError as error:
            return self._read_refusal(requests, error)
        except (BotoCoreError, ResponseParserError):
            return self._unanswered(requests)
        return [COMMITTED] * len(requests)

    def _send(self, entries: Any) -> None:
        if self._store.plain_write is None:
            self._client.transact_write_items(TransactItems=entries)
        else:
            [entry] = entries
            self._store.plain_write(self._client, entry)

    def look_up(self, transactions: Sequence[Transaction]) -> list[CommitResult | None]:
        """Return the result of each event that was committed before, and None for a new event.

        Args:
            transactions: at most a hundred.

        Raises:
            OutcomeUnknown: DynamoDB did not answer.
        """
        found = self._store.look_up(self._client, transactions)
        results = [
            None if record is None else self._result_of(transaction, record)
            for transaction, record in zip(transactions, found, strict=True)
        ]
        self._look_up_former(transactions, results)
        return results

    def _look_up_former(
        self, transactions: Sequence[Transaction], results: list[CommitResult | None]
    ) -> None:
        """Fill in the results of events that only the function before Once processed."""
        records = {
            place: former
            for place, (transaction, result) in enumerate(zip(transactions, results, strict=True))
            if result is None and (former := transaction.identity.former) is not None
        }
        if not records:
            return
        from once.commit._former_records import look_up_former

        found = look_up_former(self._client, [*records.values()], self._settings, self._clock())
        for place, result in zip(records, found, strict=True):
            results[place] = result

    def _read_refusal(
        self, requests: Sequence[CommitRequest], error: ClientError
    ) -> list[CommitResult]:
        code = error.response["Error"]["Code"]
        if code == "TransactionCanceledException":
            return _classify_each(requests, error.response["CancellationReasons"])
        if code == _CONDITION_FAILED:
            reason = {**error.response, "Code": "ConditionalCheckFailed"}
            return _classify_each(requests, [reason])
        if error.response["ResponseMetadata"]["HTTPStatusCode"] >= _SERVER_ERROR:
            return self._unanswered(requests)
        if code in _BUSY:
            return [BUSY] * len(requests)
        if code not in _CREDENTIAL_ERRORS and len(requests) > 1:
            return [UNATTRIBUTED] * len(requests)
        if code in _PERMANENT:
            return [failed(InvalidWrite(f"DynamoDB refuses a write: {_explain(error)}"))]
        return [failed(RequestRefused(f"DynamoDB refused the commit: {code}"))] * len(requests)

    def _unanswered(self, requests: Sequence[CommitRequest]) -> list[CommitResult]:
        """Read back whether a commit without an answer took place."""
        try:
            results = self.look_up([request.transaction for request in requests])
        except OutcomeUnknown as error:
            return [failed(error)] * len(requests)
        # Not committed, or not yet: BUSY repeats the same transaction, and its condition decides.
        return [result or BUSY for result in results]

    def _result_of(self, transaction: Transaction, item: Item) -> CommitResult | None:
        try:
            stored = StoredRecord.read(item)
        except Exception as error:  # an unreadable record fails the events with its own key only
            return failed(Unexpected(error))
        return None if stored.expired(self._clock()) else classify_record(transaction, stored)


def _classify_each(requests: Sequence[CommitRequest], reasons: Sequence[Any]) -> list[CommitResult]:
    waiting = iter(reasons)
    results = [
        _classify(request, [next(waiting, {}) for _ in request.entries]) for request in requests
    ]
    # No cause was identified. BUSY counts an attempt; otherwise the group would retry forever.
    return [BUSY] * len(requests) if results == [UNAFFECTED] * len(requests) else results


def _classify(request: CommitRequest, reasons: Sequence[Any]) -> CommitResult:
    actions = [*request.actions.values()]
    try:
        return request.store.classify(request.transaction, actions, reasons, request.made_at)
    except Exception as error:  # an unreadable reason must not affect the other requests
        return failed(Unexpected(error))


def _explain(error: ClientError) -> str:
    return f"{error.response['Error']['Code']}, {error.response['Error'].get('Message', '')}"
