"""The commit protocol: state change and dedup record in one TransactWriteItems, or neither.

There is no moment at which one exists without the other, whatever crashes, times out or comes
twice. All that can be uncertain is whether we *heard* of the commit: then the record is read back.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from once.cancellation import judge, judge_record
from once.claim import Claim
from once.errors import CommitRefused, InvalidWrite, OutcomeUnknown
from once.look_up import look_up
from once.settings import Settings
from once.transaction import Transaction
from once.verdict import BUSY, COMMITTED, INNOCENT, Verdict, failed

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
    "ResourceNotFoundException",
    "ItemCollectionSizeLimitExceededException",
}
_NAMES_NOBODY = _PERMANENT | {"AccessDeniedException"}


class Committer:
    """Sends transactions to DynamoDB and reads its answers.

    Args:
        client: a DynamoDB client.
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
            PermanentError: DynamoDB can never take it; see `once.claim`.
        """
        return Claim.of(transaction, self._settings, self._clock())

    def commit(self, claims: Sequence[Claim]) -> list[Verdict]:
        """Try once to commit claims together, in one request.

        They must be about disjoint items, and fit in one request. A request that DynamoDB refuses
        as a whole, naming nobody, is halved until the guilty one stands alone.

        Returns:
            One verdict for each claim, in their order.
        """
        entries = [entry for claim in claims for entry in claim.entries]
        try:
            self._client.transact_write_items(TransactItems=entries)  # type: ignore[arg-type]
        except ClientError as error:
            return self._read_refusal(claims, error)
        except (BotoCoreError, ResponseParserError):
            return self._unanswered(claims)
        return [COMMITTED] * len(claims)

    def known(self, transactions: Sequence[Transaction]) -> list[Verdict | None]:
        """Return the verdicts on events that were committed before, without committing anything.

        None stands for an event that is new.

        Raises:
            OutcomeUnknown: DynamoDB did not answer.
        """
        pks = [transaction.identity.pk for transaction in transactions]
        found = look_up(self._client, self._settings.dedup_table, pks)
        now = self._clock()
        live = {pk: record for pk, record in found.items() if not record.expired(now)}
        return [
            judge_record(transaction, live[pk]) if pk in live else None
            for transaction, pk in zip(transactions, pks, strict=True)
        ]

    def _read_refusal(self, claims: Sequence[Claim], error: ClientError) -> list[Verdict]:
        code = error.response["Error"]["Code"]
        if code == "TransactionCanceledException":
            return _judge_each(claims, error)
        if code in _NAMES_NOBODY and len(claims) > 1:
            half = len(claims) // 2
            return self.commit(claims[:half]) + self.commit(claims[half:])
        if code in _PERMANENT:
            return [failed(InvalidWrite(f"DynamoDB refuses a write: {_explain(error)}"))]
        if code in _BUSY:
            return [BUSY] * len(claims)
        if error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
            return self._unanswered(claims)
        return [failed(CommitRefused(f"DynamoDB refused the commit: {code}"))] * len(claims)

    def _unanswered(self, claims: Sequence[Claim]) -> list[Verdict]:
        """Find out what became of a commit of which nothing was heard."""
        try:
            verdicts = self.known([claim.transaction for claim in claims])
        except OutcomeUnknown as error:
            return [failed(error)] * len(claims)
        # Not committed, or not yet: the same transaction goes again, and its record decides.
        return [verdict or BUSY for verdict in verdicts]


def _judge_each(claims: Sequence[Claim], error: ClientError) -> list[Verdict]:
    reasons = iter(error.response["CancellationReasons"])
    verdicts = [
        judge(claim.transaction, claim.actions, [next(reasons) for _ in claim.entries])
        for claim in claims
    ]
    # Somebody must be guilty, or the innocent would go again for ever.
    return [BUSY] * len(claims) if verdicts == [INNOCENT] * len(claims) else verdicts


def _explain(error: ClientError) -> str:
    return f"{error.response['Error']['Code']}, {error.response['Error'].get('Message', '')}"
