"""The commit protocol: state change and dedup record in one TransactWriteItems, or neither.

There is no moment at which one exists without the other, whatever crashes, times out or comes
twice. All that can be uncertain is whether we *heard* of the commit: then the record is read back.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from once.commit.cancellation import judge, judge_record
from once.commit.dedup_record import StoredRecord
from once.commit.record_lookup import Item, recall
from once.commit.request import Claim
from once.commit.result import BUSY, COMMITTED, INNOCENT, UNNAMED, Verdict, failed
from once.errors import CommitRefused, InvalidWrite, OutcomeUnknown, Unexpected
from once.handlers.transaction import Transaction
from once.settings import Settings

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
    "ResourceNotFoundException",
    "ItemCollectionSizeLimitExceededException",
}
_OF_THE_FUNCTION = {
    *("UnrecognizedClientException", "ExpiredTokenException", "MissingAuthenticationToken"),
    *("InvalidSignatureException", "IncompleteSignatureException", "RequestExpired"),
}
"""What no message is to blame for: the function's credentials, or its clock."""

_SERVER_ERROR = 500


class Committer:
    """Sends transactions to DynamoDB and reads its answers.

    Args:
        client: a DynamoDB client that takes encoded entries; see `once.commit.request_encoding`.
        settings: the function's settings.
        clock: the time, in seconds since the epoch.
    """

    def __init__(
        self, client: "DynamoDBClient", settings: Settings, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock

    def claim(self, transaction: Transaction) -> Claim:
        """Return a transaction as it is sent.

        Raises:
            PermanentError: DynamoDB can never take it; see `once.commit.request`.
        """
        return Claim.of(transaction, self._settings, self._clock())

    def commit(self, claims: Sequence[Claim]) -> list[Verdict]:
        """Try once to commit claims together, in one request.

        They must be about disjoint items, and fit in one request.

        Returns:
            One verdict for each claim, in their order.
        """
        entries: Any = [entry for claim in claims for entry in claim.entries]
        try:
            self._client.transact_write_items(TransactItems=entries)
        except ClientError as error:
            return self._read_refusal(claims, error)
        except (BotoCoreError, ResponseParserError):
            return self._unanswered(claims)
        return [COMMITTED] * len(claims)

    def recall(self, transactions: Sequence[Transaction]) -> list[Verdict | None]:
        """Return the verdicts on events that were committed before, without committing anything.

        None stands for an event that is new.

        Args:
            transactions: at most a hundred.

        Raises:
            OutcomeUnknown: DynamoDB did not answer.
        """
        pks = [transaction.identity.pk for transaction in transactions]
        found = recall(self._client, self._settings.dedup_table, pks)
        return [
            self._verdict_on(transaction, found[pk]) if pk in found else None
            for transaction, pk in zip(transactions, pks, strict=True)
        ]

    def _read_refusal(self, claims: Sequence[Claim], error: ClientError) -> list[Verdict]:
        code = error.response["Error"]["Code"]
        if code == "TransactionCanceledException":
            return _judge_each(claims, error.response["CancellationReasons"])
        if error.response["ResponseMetadata"]["HTTPStatusCode"] >= _SERVER_ERROR:
            return self._unanswered(claims)
        if code in _BUSY:
            return [BUSY] * len(claims)
        if code not in _OF_THE_FUNCTION and len(claims) > 1:
            return [UNNAMED] * len(claims)
        if code in _PERMANENT:
            return [failed(InvalidWrite(f"DynamoDB refuses a write: {_explain(error)}"))]
        return [failed(CommitRefused(f"DynamoDB refused the commit: {code}"))] * len(claims)

    def _unanswered(self, claims: Sequence[Claim]) -> list[Verdict]:
        """Find out what became of a commit of which nothing was heard."""
        try:
            verdicts = self.recall([claim.transaction for claim in claims])
        except OutcomeUnknown as error:
            return [failed(error)] * len(claims)
        # Not committed, or not yet: the same transaction goes again, and its record decides.
        return [verdict or BUSY for verdict in verdicts]

    def _verdict_on(self, transaction: Transaction, item: Item) -> Verdict | None:
        try:
            stored = StoredRecord.read(item)
        except Exception as error:  # a record that cannot be read stands in the way of its own key
            return failed(Unexpected(error))
        return None if stored.expired(self._clock()) else judge_record(transaction, stored)


def _judge_each(claims: Sequence[Claim], reasons: Sequence[Any]) -> list[Verdict]:
    waiting = iter(reasons)
    verdicts = [_judge(claim, [next(waiting, {}) for _ in claim.entries]) for claim in claims]
    # Somebody must be guilty, or the innocent would go again for ever.
    return [BUSY] * len(claims) if verdicts == [INNOCENT] * len(claims) else verdicts


def _judge(claim: Claim, reasons: Sequence[Any]) -> Verdict:
    try:
        return judge(claim.transaction, claim.actions, reasons)
    except Exception as error:  # what cannot be judged is nobody else's fault
        return failed(Unexpected(error))


def _explain(error: ClientError) -> str:
    return f"{error.response['Error']['Code']}, {error.response['Error'].get('Message', '')}"
