"""Redrive: sends dead letters back to their queues, and unrouted events to their topic.

A message is sent first and deleted afterwards. After an interruption between the two, the next
redrive sends the message again; its consumer recognises the duplicate.

Of a FIFO message group, the messages after one that is not sent stay as well.
"""

from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

from botocore.exceptions import ClientError
from typer import Option

from once.errors import OnceError
from once.events.identity import message_group
from once.failures.quarantine import Place, allowed, batches_by_size, fits, key_text, size_of, text
from once.intake.original_message import Attributes, trace_header
from once.names import EVENT_TYPE_ATTRIBUTE, RELAY, DeadLetterAttribute, Limits
from once.ops.aws.clients import BatchCall, RateLimiter, call_for_each, client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters import assessment, queue_walk
from once.ops.dead_letters.dead_letter import (
    WAITS,
    DeadLetter,
    Group,
    QueueStay,
    dead_letter_queues,
    lineage_text,
)
from once.ops.dedup_records import DedupRecordReader
from once.ops.errors import OpsError, unexpected_error_text
from once.ops.operator_changes import Change

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient


MessageBatches = Iterable[Sequence[DeadLetter]]
"""Batches of messages, each of one queue."""

_MAX_OVERTAKEN = 5


@dataclass(frozen=True, kw_only=True)
class RedriveRequest(queue_walk.SearchOptions):
    """Options of a redrive. Ids name the messages, or else the filters select them."""

    message_ids: queue_walk.MessageIdsArgument = None
    edit: Annotated[
        bool, Option("--edit", help="Edit the body before it is sent; give one MESSAGE_ID.")
    ] = False
    unsafe: Annotated[
        bool, Option("--unsafe", help="Send each MESSAGE_ID, even if that is not safe.")
    ] = False
    returning: Annotated[
        bool,
        Option(
            "--returning",
            help="Send also what would be dead-lettered again.",
        ),
    ] = False
    rate: Annotated[float, Option(min=0.1, help="Maximum number of messages a second.")] = 10

    @property
    def is_chosen(self) -> bool:
        return bool(self.message_ids) or self._filter != queue_walk.MessageFilter()

    def pages(self, walk: queue_walk.QueueWalk) -> Iterator[Sequence[DeadLetter]]:
        """Yield the chosen messages; see `selected_messages`."""
        return queue_walk.selected_messages(walk, self.message_ids or (), self._filter)

    def for_log(self) -> dict[str, Any]:
        return super().for_log() | {
            "message_ids": self.message_ids or [],
            "edit": self.edit,
            "unsafe": self.unsafe,
            "returning": self.returning,
        }

    @property
    def _filter(self) -> queue_walk.MessageFilter:
        return self.message_filter(self.message_ids or ())


@contextmanager
def open_redrive(
    deployment: Deployment, request: RedriveRequest, *, returning_too: bool
) -> Iterator["Redrive"]:
    """Open a redrive, whose walk holds the messages until the end."""
    consumer = request.consumer
    if consumer == RELAY:
        raise OpsError(
            "the relay has no queue: `once outbox republish --since 14d` publishes its events again"
        )
    # The relay's dead letters are records that could not be published. They came from a stream.
    queues = [queue for queue in dead_letter_queues(deployment, consumer) if queue.owner != RELAY]
    records = DedupRecordReader.of(client("dynamodb"), deployment)
    with queue_walk.open_search(queues, request.limit) as walk:
        yield Redrive(client("sqs"), walk, records, request, returning_too=returning_too)


@dataclass(slots=True)
class RedrivePlan:
    """Assessed messages, by the action of a redrive and in the order of the queues.

    Those that are `waiting` stay as well, behind a refused message of their message group.
    """

    sent: list[assessment.AssessedMessage] = field(default_factory=list)
    refused: list[assessment.AssessedMessage] = field(default_factory=list)
    waiting: list[assessment.AssessedMessage] = field(default_factory=list)
    assessed: list[assessment.AssessedMessage] = field(default_factory=list)

    def __str__(self) -> str:
        """Numbers of messages that would be sent, and that would stay, by their verdicts."""
        parts = {"would be sent": self.sent, "would stay": [*self.refused, *self.waiting]}
        told = "; ".join(f"{part}: {len(some)}{_verdicts(some)}" for part, some in parts.items())
        behind = len(self.waiting)
        return told + (f", {behind} of them behind another of its group" if behind else "")


def _verdicts(assessed: Iterable[assessment.AssessedMessage]) -> str:
    numbers = Counter(one.verdict.outcome for one in assessed)
    found = [f"{numbers[each]} {each.words}" for each in assessment.RedriveOutcome if numbers[each]]
    return f" ({', '.join(found)})" if found else ""


def returning_number(assessed: Iterable[assessment.AssessedMessage]) -> int:
    return sum(one.verdict.fails_again for one in assessed)


@dataclass(slots=True)
class Redrive:
    """A redrive of the messages whose verdict allows it.

    Attributes:
        request: whether messages that need a person are sent, whether the bodies were edited,
            and the rate of sending.
        returning_too: whether messages that would be dead-lettered again are sent.
        expected: outcomes that the operator has confirmed, by message id; a message whose outcome
            has changed since is not sent.
        sent: message ids that the sent messages have in their queue now.
        returning: number of sent messages that will be dead-lettered again.
        came_back: number of messages that were dead-lettered again during the run.
        overtaken: messages that stay although a later one of their FIFO message group is sent.
        perhaps_overtaken: whether there may be more, which the walk's limit has left unread.
        unanswered: ids of messages in a send that has not been answered: perhaps sent.
        undeleted: ids of messages that were sent, and whose deletion has not been answered.
    """

    sqs: "SQSClient"
    walk: queue_walk.QueueWalk
    records: DedupRecordReader
    request: RedriveRequest
    returning_too: bool = True
    expected: Mapping[str, assessment.RedriveOutcome] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    refused: list[assessment.AssessedMessage] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    returning: int = 0
    came_back: int = 0
    overtaken: Sequence[DeadLetter] = ()
    perhaps_overtaken: bool = False
    unanswered: list[str] = field(default_factory=list)
    undeleted: list[str] = field(default_factory=list)
    _limiter: RateLimiter = field(init=False)
    _sent_in_order: list[DeadLetter] = field(default_factory=list)
    _stopped: dict[Group, int] = field(default_factory=dict)
    """The place of the first message of a message group that was not sent."""

    def __post_init__(self) -> None:
        self._limiter = RateLimiter(self.request.rate)

    def dry_run(self, pages: MessageBatches) -> RedrivePlan:
        """Return the plan of a redrive; no message is sent."""
        assessed = [one for page in pages for one in assessment.assess_messages(self.records, page)]
        plan = self._plan(assessed, {})
        self._compare_order([one.message for one in plan.sent if one.message.ordered_group])
        return plan

    def send(self, pages: MessageBatches, change: Change, page_sent: Callable[[], object]) -> None:
        """Send the messages; count them in the change, also if this ends early.

        `page_sent` is called after each batch; what it raises ends the run.
        """
        try:
            for page in pages:
                self.send_page(page)
                page_sent()
        finally:  # after Ctrl-C and errors too: the operator log has what was done
            self._compare_order(self._sent_in_order)
            change.message_ids = [*self.sent]
            change.counts = self.counts

    def send_page(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Assess messages of one queue, send those that may be sent, and delete them."""
        # A message of this run that failed again is in the queue once more. To send it again would
        # make it go round for as long as the walk reads.
        new = [
            one for one in dead_letters if self.sent.isdisjoint(s.message_id for s in one.lineage)
        ]
        self.came_back += len(dead_letters) - len(new)
        plan = self._plan(assessment.assess_messages(self.records, new), self._stopped)
        self.refused += plan.refused
        self.failed += [waits_text(one.message) for one in plan.waiting]
        messages, now = [], datetime.now(UTC)
        for dead_letter in (one.message for one in plan.sent):
            try:
                messages.append(redriven_message(dead_letter, now, edited=self.request.edit))
            except Exception as error:  # one message must not stop the redrive
                self._stays(dead_letter, unexpected_error_text(error))
        queue = dead_letters[0].queue if dead_letters else None
        # Unrouted events go to the topic of their type again, and never were in a consumer's queue.
        is_topic = queue is not None and queue.ingress is not None
        most_bytes = Limits.TOPIC_MESSAGE_BYTES if is_topic else Limits.MESSAGE_BYTES
        calls = batches_by_size(
            messages,
            lambda message: message.size,
            # To a FIFO queue, one message a call keeps their order.
            most=1 if queue and queue.is_fifo else self._limiter.max_per_call,
            most_bytes=most_bytes,
        )
        for some in calls:
            self._send_some(some)
        self.returning += returning_number(plan.sent)

    @property
    def counts(self) -> dict[str, int]:
        return {
            "sent": len(self.sent),
            "kept": len(self.refused),
            "failed": len(self.failed),
            "in_doubt": len(self.unanswered) + len(self.undeleted),
        }

    @property
    def stopped_text(self) -> str:
        """Summary after Ctrl-C: the number of messages sent, and the ids of those in doubt."""
        doubts = {"perhaps sent": self.unanswered, "sent, and perhaps not deleted": self.undeleted}
        told = "".join(f"\n  {name}: {doubt}" for doubt, names in doubts.items() for name in names)
        return (
            f"stopped: {len(self.sent)} certainly sent back; in doubt: {self.counts['in_doubt']}; "
            "all others are as they were. Run the command again: what is sent twice is a "
            f"duplicate{told}"
        )

    @property
    def overtaken_text(self) -> str | None:
        """A warning about messages that are sent before earlier ones of their message group."""
        number, names = len(self.overtaken), [message.message_id for message in self.overtaken]
        if number:
            named = ", ".join(names[:_MAX_OVERTAKEN]) + (", …" if number > _MAX_OVERTAKEN else "")
            return (
                f"warning: {number} earlier messages of the same groups stay; redriven "
                f"later, they are processed after those that are sent now: {named}"
            )
        if self.perhaps_overtaken:
            return (
                "warning: not all dead letters were read, and earlier ones of the same message "
                "groups may stay: raise --limit"
            )
        return None

    def may_be_sent(self, verdict: assessment.Verdict) -> bool:
        if verdict.fails_again:
            return self.returning_too
        return verdict.safe or (self.request.unsafe and verdict.may_be_forced)

    def _plan(
        self, assessed: list[assessment.AssessedMessage], stopped: dict[Group, int]
    ) -> RedrivePlan:
        plan = RedrivePlan(assessed=assessed)
        for one in assessed:
            outcome = one.verdict.outcome
            confirmed = self.expected.get(one.message.message_id, outcome) is outcome
            if not (confirmed and self.may_be_sent(one.verdict)):
                _stop(one.message, stopped)
                plan.refused.append(one)
            elif _is_behind(one.message, stopped):
                plan.waiting.append(one)
            else:
                plan.sent.append(one)
        return plan

    def _send_some(self, messages: Sequence["RedrivenMessage"]) -> None:
        waiting = [
            one.dead_letter for one in messages if _is_behind(one.dead_letter, self._stopped)
        ]
        self.failed += map(waits_text, waiting)
        if not (messages := [one for one in messages if one.dead_letter not in waiting]):
            return
        self._limiter.wait(len(messages))
        # Noted before each call: after Ctrl-C within it, these are the messages in doubt.
        self.unanswered = [one.dead_letter.message_id for one in messages]
        sent = self._sent(messages)
        self.undeleted = [message.message_id for message in sent]
        self.unanswered = []
        if sent:
            self.failed += [
                f"{name}: sent, but not deleted: {said}; sent again, it will be a duplicate"
                for name, said in self.walk.delete(sent).items()
            ]
        self.undeleted = []

    def _sent(self, messages: Sequence["RedrivenMessage"]) -> list[DeadLetter]:
        queue = messages[0].dead_letter.queue
        call: BatchCall = (
            _publisher(messages)
            if queue.ingress is not None
            else lambda entries: self.sqs.send_message_batch(
                QueueUrl=str(queue.source_url), Entries=entries
            )
        )
        # By the number of the entry: the answers of those taken, and why the others were refused.
        try:
            taken, refused = call_for_each(call, (message.entry() for message in messages))
        except ClientError as error:
            if "BatchRequestTooLong" not in error.response["Error"]["Code"]:
                raise
            # Batches are kept below the limit, so a single message exceeds it.
            taken, refused = {}, dict.fromkeys(range(len(messages)), str(error))
        self.sent |= {answer["MessageId"] for answer in taken.values()}
        for number, said in refused.items():
            self._stays(messages[number].dead_letter, said)
        sent = [messages[number].dead_letter for number in taken]
        self._sent_in_order += [dead_letter for dead_letter in sent if dead_letter.ordered_group]
        return sent

    def _stays(self, message: DeadLetter, why: str) -> None:
        _stop(message, self._stopped)
        self.failed.append(f"{message.message_id}: not sent: {why}")

    def _compare_order(self, sent: Sequence[DeadLetter]) -> None:
        """Find the messages that come before one of the sent ones in their group, and stay."""
        last: dict[Group | None, int] = {}
        for message in sent:
            last[message.ordered_group] = max(message.place, last.get(message.ordered_group, 0))
        names = {message.message_id for message in sent}
        self.overtaken = [
            message
            for message in (self.walk.held if sent else ())
            if message.place < last.get(message.ordered_group, 0)
            and message.message_id not in names
        ]
        self.perhaps_overtaken = self.walk.cut_short and bool(sent)


def _stop(message: DeadLetter, stopped: dict[Group, int]) -> None:
    """Note that a message is not sent, so that the later ones of its message group wait."""
    if group := message.ordered_group:
        stopped[group] = min(message.place, stopped.get(group, message.place))


def _is_behind(message: DeadLetter, stopped: Mapping[Group, int]) -> bool:
    group = message.ordered_group
    return group is not None and group in stopped and message.place >= stopped[group]


def waits_text(message: DeadLetter) -> str:
    return f"{message.message_id}: {WAITS}"


@dataclass(frozen=True, slots=True)
class RedrivenMessage:
    """A dead letter as it is sent, with its message group, and the topic of an unrouted event."""

    dead_letter: DeadLetter
    body: str
    attributes: Mapping[str, Any]
    grouping: Mapping[str, str]
    topic_arn: str | None = None

    def entry(self) -> dict[str, Any]:
        """Return the message as an entry of SendMessageBatch or PublishBatch, without its id."""
        entry = {"MessageAttributes": self.attributes, **self.grouping}
        if self.topic_arn is not None:
            return {"Message": self.body, **entry}
        header = trace_header(self.dead_letter.received["Attributes"])
        return {"MessageBody": self.body, **entry, **header}

    @property
    def size(self) -> int:
        return size_of(self.body, self.attributes)


def redriven_message(
    message: DeadLetter, now: datetime, *, edited: bool = False
) -> RedrivenMessage:
    """Return the message that goes back into the message's queue, or to the topic of its event.

    The body is the producer's, uncompressed, since consumers never decompress. The producer's
    attributes stay in the single attribute of the quarantine, so that ten are never exceeded. If
    the message would be too large, the history is left out. The reason is part of the lineage only:
    as an attribute it would describe the next dead-lettering. `now` is noted in the lineage.

    Raises:
        OnceError: the event of an unrouted message cannot be read.
    """
    if message.queue.ingress is not None:
        return _publication(message, message.queue.ingress)
    *earlier, last = message.lineage or (QueueStay(message.message_id),)
    facts = {
        DeadLetterAttribute.LINEAGE: lineage_text(
            [*earlier, last.ended(message.reason, now, edited=edited)]
        ),
        DeadLetterAttribute.FIRST_SEEN: message.first_seen.isoformat(timespec="milliseconds"),
    }
    if message.key and not edited:  # an edited body may have another key
        facts[DeadLetterAttribute.KEY] = key_text(message.key)
    if message.group is not None and message.queue.is_fifo:
        facts[DeadLetterAttribute.GROUP] = str(Place(message.group, message.place))
    # The fullest form that fits. Without the history, the message is processed all the same.
    history = {name: text(allowed(value)) for name, value in facts.items()}
    body, kept = message.original.body, message.original.plain()
    sent = _in_send_form(message.original.attributes)
    forms = [history | kept, kept, *([sent] if len(sent) <= Limits.MESSAGE_ATTRIBUTES else [])]
    attributes: dict[str, Any] = next((form for form in forms if fits(body, form)), {})
    grouping = _grouping(message.group, message, is_fifo=message.queue.is_fifo)
    return RedrivenMessage(message, body, attributes, grouping)


def _in_send_form(attributes: Attributes) -> dict[str, Any]:
    return {
        name: {"DataType": one["dataType"], "StringValue": one["stringValue"]}
        if "stringValue" in one
        else {"DataType": one["dataType"], "BinaryValue": b64decode(one["binaryValue"])}
        for name, one in attributes.items()
    }


def _publication(message: DeadLetter, ingress: Deployment) -> RedrivenMessage:
    event = assessment.event_of(message)
    if isinstance(event, OnceError):
        raise event
    path = ingress.group_field(event.type)
    group = None if path is None else message_group(event.data, path)
    return RedrivenMessage(
        message,
        message.original.body,
        # The producer's other attributes may be too many, and consumers do not read them.
        {EVENT_TYPE_ATTRIBUTE: text(event.type)},
        _grouping(group, message, is_fifo=ingress.is_ordered(event.type)),
        ingress.ingress_topic(event.type),
    )


def _grouping(group: str | None, message: DeadLetter, *, is_fifo: bool) -> dict[str, str]:
    if group is None:
        return {}
    if not is_fifo:
        return {"MessageGroupId": group}
    # By this id, SQS drops a message that is sent twice. That of the first sending would be dropped
    # for five minutes.
    identity = sha256(f"{message.message_id} {message.original.body}".encode()).hexdigest()
    return {"MessageGroupId": group, "MessageDeduplicationId": identity}


def _publisher(messages: Sequence[RedrivenMessage]) -> BatchCall:
    sns: SNSClient = client("sns")

    def publish(entries: list[Any]) -> Mapping[str, Any]:
        by_topic = defaultdict(list)
        for entry in entries:
            by_topic[str(messages[int(entry["Id"])].topic_arn)].append(entry)
        answers: list[Mapping[str, Any]] = [
            sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=some)
            for topic, some in by_topic.items()
        ]
        return {
            name: [entry for answer in answers for entry in answer.get(name, [])]
            for name in ("Successful", "Failed")
        }

    return publish
