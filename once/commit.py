"""The commit protocol: state change and dedup record in one TransactWriteItems, or neither.

There is no moment at which one exists without the other, whatever crashes, times out or comes
twice. All that can be uncertain is whether we *heard* of the commit: then the record is read back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from once.actions import Action
from once.cancellation import judge, judge_record
from once.contract import Limits
from once.errors import (
    CommitRefused,
    InvalidWrite,
    OutcomeUnknown,
    PermanentError,
    TooLarge,
    summary_of,
)
from once.record import StoredRecord, record_key, record_put
from once.settings import Settings
from once.sizes import entry_bytes
from once.transaction import Transaction
from once.verdict import COMMITTED, CONTENDED, Verdict, failed

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

_CONTENTION = {
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


@dataclass(frozen=True, slots=True)
class _Claim:
    """A transaction as it is sent: the dedup record first, then its actions."""

    transaction: Transaction
    actions: list[Action]
    entries: list["TransactWriteItemTypeDef"]


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

    def commit(self, transactions: Sequence[Transaction]) -> list[Verdict]:
        """Try once to commit transactions together, in one request.

        The transactions must touch disjoint items, and fit in one request. A request that DynamoDB
        refuses as a whole, naming nobody, is halved until the guilty one stands alone.

        Returns:
            One verdict for each transaction, in their order.
        """
        verdicts: dict[int, Verdict] = {}
        claims: list[_Claim] = []
        for position, transaction in enumerate(transactions):
            try:
                claims.append(self._claim(transaction))
            except PermanentError as error:
                verdicts[position] = failed(error)
        answers = iter(self._attempt(claims) if claims else ())
        return [verdicts.get(i) or next(answers) for i in range(len(transactions))]

    def known(self, transaction: Transaction) -> Verdict | None:
        """Return the verdict on an event that was committed before, without committing anything.

        None stands for an event that is new.
        """
        verdict = self._look_up(transaction)
        return None if verdict is CONTENDED else verdict

    def _claim(self, transaction: Transaction) -> _Claim:
        actions = transaction.actions()
        entries = [
            record_put(transaction, self._settings, self._clock()),
            *(action.render(transaction.commit_id) for action in actions),
        ]
        if (size := sum(map(entry_bytes, entries))) > Limits.TRANSACTION_BYTES:
            raise TooLarge(
                f"the transaction has {size} bytes, items and values together; "
                f"DynamoDB takes {Limits.TRANSACTION_BYTES}"
            )
        return _Claim(transaction, actions, entries)

    def _attempt(self, claims: list[_Claim]) -> list[Verdict]:
        entries = [entry for claim in claims for entry in claim.entries]
        try:
            self._client.transact_write_items(TransactItems=entries)
        except ClientError as error:
            return self._read_refusal(claims, error)
        except (BotoCoreError, ResponseParserError):
            return [self._look_up(claim.transaction) for claim in claims]
        return [COMMITTED] * len(claims)

    def _read_refusal(self, claims: list[_Claim], error: ClientError) -> list[Verdict]:
        code = error.response["Error"]["Code"]
        if code == "TransactionCanceledException":
            return _judge_each(claims, error)
        if code in _PERMANENT:
            return self._isolate(claims, error)
        if code in _CONTENTION:
            return [CONTENDED] * len(claims)
        if error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
            return [self._look_up(claim.transaction) for claim in claims]
        return [failed(CommitRefused(f"DynamoDB refused the commit: {code}"))] * len(claims)

    def _isolate(self, claims: list[_Claim], error: ClientError) -> list[Verdict]:
        if len(claims) == 1:
            return [failed(InvalidWrite(f"DynamoDB refuses a write: {_explain(error)}"))]
        half = len(claims) // 2
        return self._attempt(claims[:half]) + self._attempt(claims[half:])

    def _look_up(self, transaction: Transaction) -> Verdict:
        """Find out what became of a commit that was not answered."""
        try:
            answer = self._client.get_item(
                TableName=self._settings.dedup_table,
                Key=record_key(transaction.identity.pk),
                ConsistentRead=True,
            )
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            return failed(OutcomeUnknown(f"no answer, and no record: {summary_of(error)}"))
        if "Item" in answer:
            stored = StoredRecord.read(answer["Item"])
            if not stored.expired(self._clock()):
                return judge_record(transaction, stored)
        # Not committed, or not yet: the same transaction goes again, and its record decides.
        return CONTENDED


def _judge_each(claims: list[_Claim], error: ClientError) -> list[Verdict]:
    reasons = iter(error.response["CancellationReasons"])
    return [
        judge(claim.transaction, claim.actions, [next(reasons) for _ in claim.entries])
        for claim in claims
    ]


def _explain(error: ClientError) -> str:
    return f"{error.response['Error']['Code']}, {error.response['Error'].get('Message', '')}"
