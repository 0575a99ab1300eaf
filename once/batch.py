"""One Lambda invocation: every record gets a fate, and the answer names those that come again."""

from collections import Counter
from collections.abc import Iterable

from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from once.budget import Budget
from once.errors import (
    Blocked,
    KeyConflict,
    OnceError,
    OutOfTime,
    PermanentError,
    Unexpected,
    summary_of,
)
from once.intake import Delivery, Intake
from once.keys import key_hash
from once.runtime import Runtime
from once.settle import Fate, Result, Settler


class Batch:
    """Works on the records of one invocation. Nothing of it outlives the invocation."""

    def __init__(self, runtime: Runtime, intake: Intake, settler: Settler, budget: Budget) -> None:
        self._last_receive = runtime.settings.max_receive_count
        self._quarantine = runtime.quarantine
        self._backoff = runtime.backoff
        self._logger = runtime.logger
        self._intake = intake
        self._settler = settler
        self._budget = budget
        self._fates: Counter[Fate] = Counter()
        self._committed: dict[str, str] = {}
        self._blocked: set[str] = set()
        self._retried: list[str] = []

    def process(self, records: Iterable[SQSRecord]) -> PartialItemFailureResponse:
        """Settle every record, in order, and return Lambda's partial batch answer."""
        for delivery in map(self._intake.read, records):
            result = self._isolated(delivery)
            fate = result if isinstance(result, Fate) else self._dispose(delivery, result)
            self._fates[fate] += 1
        self._logger.info("batch", extra={"fates": dict(self._fates)})
        return {"batchItemFailures": [{"itemIdentifier": i} for i in self._retried]}

    def _isolated(self, delivery: Delivery) -> Result:
        try:
            return self._decide(delivery)
        except Exception as error:  # one message never takes its neighbours along
            return Unexpected(error)

    def _decide(self, delivery: Delivery) -> Result:
        if self._budget.spent:
            return OutOfTime("the invocation's time was up before the message's turn")
        if delivery.group in self._blocked:
            return Blocked("an earlier message of its group failed")
        if isinstance(delivery.work, OnceError):
            return delivery.work
        identity = delivery.work.identity
        if (known := self._committed.get(identity.pk)) is not None:
            return _repeated(known, identity.fingerprint)
        [result] = self._settler.settle([delivery.work])
        if isinstance(result, Fate):
            self._committed[identity.pk] = identity.fingerprint
        return result

    def _dispose(self, delivery: Delivery, error: OnceError) -> Fate:
        last = delivery.receive_count >= self._last_receive
        if (isinstance(error, PermanentError) or last) and self._quarantined(delivery, error):
            return Fate.QUARANTINED
        self._retried.append(delivery.record.message_id)
        if delivery.group is not None:
            self._blocked.add(delivery.group)
        self._log("will be retried", delivery, error)
        self._backoff.apply(delivery, error)
        return Fate.RETRIED

    def _quarantined(self, delivery: Delivery, error: OnceError) -> bool:
        try:
            self._quarantine.send(delivery, error)
        except Exception as failure:  # whatever it is: unquarantined is unacknowledged
            self._log(f"not quarantined: {summary_of(failure)}", delivery, error)
            return False
        self._log("quarantined", delivery, error, reason=error.reason)
        return True

    def _log(self, what: str, delivery: Delivery, error: OnceError, **more: str) -> None:
        facts = {
            **more,
            "message_id": delivery.record.message_id,
            "receive_count": delivery.receive_count,
            "error": error.summary,
        }
        if delivery.pk is not None:
            facts["key_hash"] = key_hash(delivery.pk)
        self._logger.warning(what, extra=facts)


def _repeated(known: str, fingerprint: str) -> Result:
    """The same key twice in one batch: the first one's commit settles the second."""
    if known == fingerprint:
        return Fate.DUPLICATE
    return KeyConflict("an event with other content was committed under this key in this batch")
