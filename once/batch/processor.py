"""One Lambda invocation: every record gets a fate, and the answer names those that come again."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from once.batch.group_commit import Rounds
from once.batch.message_state import Course
from once.batch.metrics import Meter
from once.deadline import Budget
from once.error_text import summary_of
from once.errors import OnceError, PermanentError
from once.events.dedup_key import key_hash
from once.failures.visibility_backoff import Backoff
from once.fate import Fate, Result
from once.intake.reader import Delivery, Intake
from once.runtime import Runtime

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord


class Batch:
    """Works on the records of one invocation. Nothing of it outlives the invocation."""

    def __init__(
        self,
        runtime: Runtime,
        intake: Intake,
        rounds: Rounds,
        backoff: Backoff,
        meter: Meter,
        budget: Budget,
    ) -> None:
        self._settings = runtime.settings
        self._quarantine = runtime.quarantine
        self._logger = runtime.logger
        self._intake = intake
        self._rounds = rounds
        self._backoff = backoff
        self._meter = meter
        self._budget = budget
        self._fates: Counter[Fate] = Counter()
        self._retried: list[str] = []

    def process(self, records: Iterable["SQSRecord"]) -> "PartialItemFailureResponse":
        """Settle every record and return Lambda's partial batch answer."""
        courses = [self._course(self._intake.read(record, self._budget)) for record in records]
        for course, result in self._rounds.settle(courses):
            course.fate = self._fate(course, result)
            self._fates[course.fate] += 1
            self._meter.settled(course, result, course.fate)
        self._logger.info("batch", extra={"fates": dict(self._fates)})
        self._meter.report()
        return {"batchItemFailures": [{"itemIdentifier": i} for i in self._retried]}

    def _course(self, delivery: Delivery) -> Course:
        return Course(
            delivery,
            last_chance=self._backoff.is_last_chance(delivery),
            spent=self._backoff.is_spent(delivery),
            isolated=self._settings.is_isolation_queue(delivery.record.event_source_arn),
        )

    def _fate(self, course: Course, result: Result) -> Fate:
        if isinstance(result, OnceError):
            return self._dispose(course, result)
        if result in (Fate.DUPLICATE, Fate.ISOLATED):
            self._logger.info(result.value, extra=_facts(course.delivery))
        return result

    def _dispose(self, course: Course, error: OnceError) -> Fate:
        delivery, hurried = course.delivery, self._budget.hurried
        over = (isinstance(error, PermanentError) or course.last_chance) and not hurried
        if over and self._quarantined(delivery, error):
            return Fate.QUARANTINED
        self._retried.append(delivery.record.message_id)
        self._log("will be retried", delivery, error)
        if not hurried:
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
        self._logger.warning(what, extra={**more, **_facts(delivery), "error": error.summary})


def _facts(delivery: Delivery) -> dict[str, str | int]:
    facts: dict[str, str | int] = {
        "message_id": delivery.record.message_id,
        "receive_count": delivery.receive_count,
    }
    if delivery.pk is not None:
        facts["key_hash"] = key_hash(delivery.pk)
    return facts
