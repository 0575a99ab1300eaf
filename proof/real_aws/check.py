"""Check: a statement about AWS that is observed on the deployed service within a time."""

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from demo.audit import Evidence
from emulator.child_processes import ProcessFailed
from once.names import EVENT_TYPE_ATTRIBUTE, LIVE_ALIAS
from once.ops.aws.clients import total_depth
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError
from once.testing import cloud_event
from proof.real_aws.cleanup import ClientOf

SUBSCRIBERS = {"verify.counted": ("follower",)}
_BATCH = 10


@dataclass(frozen=True, kw_only=True)
class Target:
    """The deployed service.

    Attributes:
        parts: its resources.
        client: makes clients.
        account: the account number.
        redeploy: deploys it once more, with further values of the CDK context.
        local: whether it was deployed for the embedded AWS, without CodeDeploy.
        started: the time before the first message.
        run: part of every id, so that nothing of an earlier run counts.
    """

    parts: Deployment
    client: ClientOf
    account: str
    redeploy: Callable[..., object]
    local: bool = False
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    def id(self, name: str) -> str:
        """Return an id of this run."""
        return f"{self.run}-{name}"

    def asked(self, name: str, **data: Any) -> str:
        """Return the body of an event that adds one to the counter of this name."""
        counter = self.id(name)
        found = {"counter": counter, **data}
        return json.dumps(cloud_event("verify.asked", found, event_id=counter, source="/verify"))

    def publish(self, bodies: Sequence[str], event_type: str = "verify.asked") -> None:
        """Publish bodies on the ingress topic, as a producer does.

        Raises:
            OpsError: SNS refused one.
        """
        attributes = {EVENT_TYPE_ATTRIBUTE: {"DataType": "String", "StringValue": event_type}}
        for start in range(0, len(bodies), _BATCH):
            entries = [
                {"Id": str(n), "Message": body, "MessageAttributes": attributes}
                for n, body in enumerate(bodies[start : start + _BATCH])
            ]
            answer = self.client("sns").publish_batch(
                TopicArn=self.parts.ingress_topic_arn, PublishBatchRequestEntries=entries
            )
            if answer.get("Failed"):
                raise OpsError(f"the ingress topic refused messages: {answer['Failed']}")

    def item(self, table: str, name: str) -> dict[str, Any]:
        """Return an item by the name in its id, in DynamoDB's JSON; empty if there is none."""
        answer = self.client("dynamodb").get_item(
            TableName=self.parts.table(table), Key={"id": {"S": self.id(name)}}, ConsistentRead=True
        )
        return dict(answer.get("Item", {}))

    def amount(self, name: str, table: str = "counters") -> int:
        """Return the amount of a counter; 0 if there is none."""
        return int(self.item(table, name).get("amount", {"N": "0"})["N"])

    def amounts(self, names: Iterable[str], table: str = "counters") -> dict[str, int]:
        """Return the amounts of counters by name."""
        return {name: self.amount(name, table) for name in names}

    def messages_left(self, *consumers: str) -> int:
        """Return the number of messages that the consumers have not finished."""
        urls = [url for name in consumers for url in self.parts.consumer(name).queue_urls]
        return total_depth(self.client("sqs"), urls).total

    def emptied(self) -> Iterator["Seen"]:
        """Wait until `counter` has finished all of its messages."""
        while left := self.messages_left("counter"):
            yield Seen(f"{left} messages left")

    def evidence(self) -> Evidence:
        """Return the evidence for the demo's audit; there are no charges and no e-mails."""
        consumers = self.parts.consumers.values()
        return Evidence(
            dynamodb=self.client("dynamodb"),
            sqs=self.client("sqs"),
            logs=self.client("logs"),
            tables={**self.parts.tables, "dedup": self.parts.dedup_table},
            dead_letters={
                **{each.name: each.dead_letter_url for each in consumers},
                **self.parts.kept_events,
            },
            log_groups={each.name: f"/aws/lambda/{each.function_name}" for each in consumers},
            subscribers=SUBSCRIBERS,
            charges=(),
            emails=(),
        )

    def arn(self, queue_url: str) -> str:
        """Return the ARN of a queue."""
        answer = self.client("sqs").get_queue_attributes(
            QueueUrl=queue_url, AttributeNames=["QueueArn"]
        )
        return str(answer["Attributes"]["QueueArn"])

    def relay_mapping(self) -> dict[str, Any]:
        """Return the event source mapping of the relay."""
        name = f"{self.parts.relay_function_name}:{LIVE_ALIAS}"
        [found] = self.client("lambda").list_event_source_mappings(FunctionName=name)[
            "EventSourceMappings"
        ]
        return dict(found)


def queue_name(url: str) -> str:
    """Return the name of a queue."""
    return url.rpartition("/")[2]


POLL_SECONDS = 5.0
_NOT_OFFERED = frozenset(
    (
        *("InvalidAction", "UnknownOperationException", "UnsupportedOperation", "NotImplemented"),
        *("UnknownOperation", "UnknownAction", "AWS.SimpleQueueService.UnsupportedOperation"),
        *("AccessDenied", "AccessDeniedException", "UnrecognizedClientException"),
    )
)
"""Error codes with which this AWS, or the caller's own permissions, do not let a check observe."""


class Result(StrEnum):
    """Result of a check. What could not be observed is never a pass."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_OBSERVED = "not observed"


PASSED, FAILED, NOT_OBSERVED = Result.PASSED, Result.FAILED, Result.NOT_OBSERVED


class Seen(NamedTuple):
    """One observation.

    Attributes:
        text: what was observed.
        result: the result; None while the check still waits.
        at_deadline: the result if the time ends with this observation.
    """

    text: str
    result: Result | None = None
    at_deadline: Result = FAILED


def verdict(holds: bool, text: str) -> Seen:
    """Return a pass or a failure with the same text."""
    return Seen(text, PASSED if holds else FAILED)


@dataclass(frozen=True, slots=True)
class Checked:
    """A check with its result, as the report has it."""

    name: str
    result: Result
    expected: str
    seen: str
    seconds: float
    if_not: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: its name in the report.
        expected: the statement.
        seconds: the deadline.
        observe: yields observations: those with a result end it, after the others it is asked
            again a moment later. It may send messages first.
        if_not: what to do if AWS does otherwise.
        is_decisive: whether no later check means anything after its failure.
    """

    name: str
    expected: str
    seconds: float
    observe: Callable[[Target], Iterator[Seen]]
    if_not: str = field(kw_only=True)
    is_decisive: bool = field(default=False, kw_only=True)

    def result(self, result: Result, seen: str, seconds: float = 0.0) -> Checked:
        """Return the check with a result, what was seen, and the time it took."""
        return Checked(self.name, result, self.expected, seen, seconds, self.if_not)


def run_check(
    check: Check,
    target: Target,
    show: Callable[[str], object],
    *,
    patience: float = 1.0,
    poll_seconds: float = POLL_SECONDS,
) -> Checked:
    """Run a check until it has a result or its time is up.

    Args:
        check: the check.
        target: the deployed service.
        show: told of each observation.
        patience: multiplies the deadline.
        poll_seconds: time between two observations.
    """
    started = time.monotonic()
    limit = check.seconds * patience
    try:
        seen = _last(check.observe(target), show, started + limit, poll_seconds)
        result = seen.result or seen.at_deadline
        text = seen.text if seen.result else f"not within {limit:g} s: {seen.text}"
    except (ClientError, BotoCoreError) as error:
        result, text = _of_error(error), f"{type(error).__name__}: {error}"
    except (ProcessFailed, OpsError) as error:  # a deployment that CloudFormation refused
        result, text = FAILED, str(error)
    return check.result(result, text, round(time.monotonic() - started, 1))


def _last(
    observations: Iterator[Seen], show: Callable[[str], object], end: float, poll_seconds: float
) -> Seen:
    seen = Seen("the check observed nothing", FAILED)
    for seen in observations:
        if seen.result is not None or time.monotonic() >= end:
            break
        show(seen.text)
        time.sleep(poll_seconds)
    return seen


def _of_error(error: Exception) -> Result:
    code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
    # A number in place of a code: the answer is not that of the API.
    offered = code not in _NOT_OFFERED and not code.isdigit()
    return FAILED if offered else NOT_OBSERVED
