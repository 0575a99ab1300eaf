"""Pages of dead letters: groups with the same failure, a list, and one message in full.

To read them is to receive them, which hides them from other commands for a moment. So all are read
at once, without their bodies, and the pages filter what was read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Any, Self

from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.names import RELAY, UNROUTED, Reason
from once.ops import dedup_records, terminal
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.console.rendering import BarChart, Request, Response, page, query_text
from once.ops.console.state import ConsoleState, Reading, max_age, state_of
from once.ops.dead_letters import assessment, dead_letter_text, export, queue_walk
from once.ops.dead_letters.dead_letter import DIED, dead_letter_queues

FRESH_SECONDS = 15
"""A page that is opened shows a reading of at most this age; a refresh, the last reading."""
PAGE_ROWS = 100
MAX_GROUPS = 40
"""Maximum number of groups that a page shows, the newest first."""
BUCKETS = 12
"""Number of bars of a group's chart."""
_FILTERS = ("consumer", "reason", "error", "key", "until", "since")
_MAX_ADVICE, _MAX_CHARACTERS = 4, 600


def advice_of(assessed: assessment.AssessedMessage) -> str:
    """Return the sentences of a verdict without ids and numbers, which messages alike share."""
    text = " ".join(filter(None, (assessed.verdict.why, assessed.verdict.advice)))
    general = text.replace(assessed.message.message_id, "MESSAGE_ID")
    return queue_walk.error_pattern(general, most=_MAX_CHARACTERS)


def advised_action(assessed: assessment.AssessedMessage) -> str | None:
    """Return the action that a message needs: `redrive`, `edit`, `purge`, `settle` or `republish`.

    None if something is to be done outside of this console first.
    """
    message, verdict = assessed.message, assessed.verdict
    if verdict.safe:
        return "redrive"
    if message.queue.owner == RELAY:
        return "republish"
    if isinstance(assessed.event, OnceError) or message.reason in _EDITABLE:
        return "edit"
    if verdict.fails_again and (assessed.record or message.reason == Reason.KEY_CONFLICT):
        return "purge"
    has_intent = assessed.record is not None and "effect" in assessed.record
    return "settle" if verdict.needs_a_person and has_intent else None


_EDITABLE = assessment.MENDED_BY_EDIT - {Reason.UNKNOWN_TYPE, Reason.TOO_LARGE}


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A dead letter in a list, without its body; None stands for a value that is not known.

    Of its error there is the pattern, and of the verdict the advice without ids and numbers.
    """

    consumer: str
    message_id: str
    reason: str | None
    error: str
    sent_at: datetime
    event_type: str | None
    event_id: str | None
    producer: str | None
    subject: str | None
    key: str | None
    kind: assessment.RedriveOutcome
    advice: str
    action: str | None

    @classmethod
    def of(cls, assessed: assessment.AssessedMessage) -> Self:
        message, event = assessed.message, assessed.event
        return cls(
            consumer=message.queue.owner,
            message_id=message.message_id,
            reason=message.reason,
            error=queue_walk.error_pattern(message.error),
            sent_at=message.sent_at,
            event_type=event.type if isinstance(event, CloudEvent) else None,
            event_id=queue_walk.event_id(event),
            producer=event.source if isinstance(event, CloudEvent) else None,
            subject=event.subject if isinstance(event, CloudEvent) else None,
            key=assessed.pk,
            kind=assessed.verdict.outcome,
            advice=advice_of(assessed),
            action=advised_action(assessed),
        )

    def matches(self, messages: queue_walk.MessageFilter) -> bool:
        return messages.matches_failure(self.reason, self.error, self.sent_at) and (
            messages.matches_key(self.key, self.event_id)
        )


@dataclass(frozen=True, slots=True)
class QueueReading:
    """Dead letters that one walk received, and a text about those that were hidden from it."""

    rows: Sequence[MessageRow]
    search_text: str
    hidden: str | None = None
    complete: bool = True


@contextmanager
def _walk(
    deployment: Deployment, consumer: str | None
) -> Iterator[tuple[queue_walk.QueueWalk, dedup_records.DedupRecordReader]]:
    with queue_walk.open_search(
        dead_letter_queues(deployment, consumer), queue_walk.DEFAULT_LIMIT
    ) as walk:
        yield walk, dedup_records.DedupRecordReader.of(client("dynamodb"), deployment)


def read_messages(
    state: ConsoleState, max_age: float, consumer: str | None = None, patience: float | None = None
) -> Reading[QueueReading]:
    """Return a reading of all messages, or of one consumer's; see `Readings.latest`."""

    def read() -> QueueReading:
        rows: list[MessageRow] = []
        with _walk(state.deployment, consumer) as (walk, records):
            for some in walk.pages():
                rows += map(MessageRow.of, assessment.assess_messages(records, some))
                state.messages.show(consumer, QueueReading([*rows], walk.progress_text))
        hidden = str(walk.hidden) if walk.hidden else None
        return QueueReading(rows, walk.progress_text, hidden, walk.complete)

    return state.messages.latest(consumer, read, max_age, patience)


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Dead letters that failed alike: one consumer, one reason, one pattern of errors.

    At least one, the oldest first. The reason is None if none was recorded.
    """

    consumer: str
    reason: str | None
    error: str
    rows: Sequence[MessageRow]

    @property
    def query(self) -> dict[str, str]:
        return {"consumer": self.consumer, "reason": self.reason or DIED, "error": self.error}

    @property
    def producers(self) -> str:
        return dead_letter_text.producers_text(row.producer for row in self.rows)

    @property
    def trend(self) -> str:
        return dead_letter_text.trend_text((row.sent_at for row in self.rows), datetime.now(UTC))

    @property
    def chart(self) -> BarChart:
        """Numbers of messages from the first dead-lettering until now."""
        begin, now = self.rows[0].sent_at, datetime.now(UTC)
        moments = [row.sent_at for row in self.rows]
        label = f"{len(moments)} dead letters since {terminal.format_time(begin)}"
        return BarChart(histogram(moments, begin, now), label, begin, now)


def failure_groups(rows: Iterable[MessageRow]) -> list[FailureGroup]:
    """Return the groups of messages, that with the newest message first."""
    found: dict[tuple[str, str | None, str], list[MessageRow]] = {}
    for row in sorted(rows, key=_by_age):
        found.setdefault((row.consumer, row.reason, row.error), []).append(row)
    groups = [FailureGroup(*names, members) for names, members in found.items()]
    return sorted(groups, key=lambda group: group.rows[-1].sent_at, reverse=True)


def _by_age(row: MessageRow) -> tuple[datetime, str]:
    return row.sent_at, row.message_id


def kind_counts(rows: Iterable[MessageRow]) -> Counter[assessment.RedriveOutcome]:
    return Counter(row.kind for row in rows)


def histogram(moments: Iterable[datetime], begin: datetime, end: datetime) -> list[int]:
    """Return the number of moments in each of `BUCKETS` parts of a period."""
    numbers = [0] * BUCKETS
    for moment in moments:
        share = (moment - begin) / (end - begin) if end > begin else 1
        numbers[max(0, min(BUCKETS - 1, int(BUCKETS * share)))] += 1
    return numbers


def search_options(given: Mapping[str, Any], service: str) -> queue_walk.SearchOptions:
    """Return the options of the `dlq` commands that an address or a form has.

    An empty parameter is none.
    """
    texts: dict[str, Any] = {name: str(given.get(name) or "").strip() or None for name in _FILTERS}
    return replace(queue_walk.SearchOptions(service=service), **texts)


def query_values(options: queue_walk.SearchOptions) -> dict[str, str]:
    """Return the parameters of an address or a form that has these options."""
    return {name: value for name in _FILTERS if (value := getattr(options, name))}


def read_message(request: Request) -> Reading[assessment.AssessedMessage]:
    """Read the dead letter of a page's address, with its verdict."""
    state = state_of(request)
    consumer, message_id = request.path_params["consumer"], request.path_params["message_id"]

    def read() -> assessment.AssessedMessage:
        with _walk(state.deployment, consumer) as (walk, records):
            messages = queue_walk.messages_by_id(walk, [message_id])
        [assessed] = assessment.assess_messages(records, messages)
        return assessed

    return state.messages.latest((consumer, message_id), read, _max_age(request))


def _max_age(request: Request) -> float:
    return max_age(request, opened=FRESH_SECONDS, refreshed=inf)


def groups_page(request: Request) -> Response:
    reading, rows, values = _filtered(request)
    groups = failure_groups(rows)
    return page(
        request,
        "dead_letters.html",
        **values,
        groups=groups[:MAX_GROUPS],
        left_out=len(groups) - MAX_GROUPS,
        kind_counts=kind_counts,
        reasons=sorted({row.reason or DIED for row in reading.rows} | {*map(str, Reason), DIED}),
        consumers=[*state_of(request).deployment.consumers, RELAY, UNROUTED],
        exports=sorted((file.name for file in export.FOLDER.glob("*.jsonl")), reverse=True),
    )


def list_page(request: Request) -> Response:
    """Return a part of the list of the messages that match a filter, their advice once."""
    _, rows, values = _filtered(request)
    rows.sort(key=_by_age)
    text, pages = request.query_params.get("page", "1"), max(1, -(-len(rows) // PAGE_ROWS))
    here = min(pages, max(1, int(text) if text.isdecimal() and len(text) < 6 else 1))
    advice = Counter((row.kind, row.advice) for row in rows).most_common()
    actions = dict(Counter(row.action for row in rows).most_common())
    return page(
        request,
        "dead_letter_list.html",
        **values,
        rows=rows[(here - 1) * PAGE_ROWS : here * PAGE_ROWS],
        advice=advice[:_MAX_ADVICE],
        more_advice=sum(number for _, number in advice[_MAX_ADVICE:]),
        action="redrive" if "redrive" in actions else next(iter(actions), None),
        here=here,
        pages=pages,
    )


def _filtered(request: Request) -> tuple[QueueReading, list[MessageRow], dict[str, Any]]:
    """Return a reading, the rows that match the filter of the address, and a page's values."""
    state = state_of(request)
    options = search_options(request.query_params, state.deployment.service)
    chosen, age = options.message_filter(), _max_age(request)
    dead_letter_queues(state.deployment, options.consumer)  # an unknown name is an error
    reading = read_messages(state, age)
    if (name := options.consumer) and not reading.value.complete:
        reading = read_messages(state, age, name)
    rows = [
        row
        for row in reading.value.rows
        if options.consumer in (None, row.consumer) and row.matches(chosen)
    ]
    given = query_values(options)
    values = {
        "given": given,
        "reading": reading,
        "number": len(rows),
        "query": lambda **more: query_text(given | more),
        "help": dead_letter_text.reason_page(options.reason) if options.reason else None,
    }
    return reading.value, rows, values


def dead_letter_page(request: Request) -> Response:
    reading = read_message(request)
    assessed = reading.value
    message, event = assessed.message, assessed.event
    pretty = dead_letter_text.body_text(message)
    story = (
        {"key": event.id, "source": event.source}
        if isinstance(event, CloudEvent)
        else {"key": assessed.pk or message.message_id}
    )
    return page(
        request,
        "dead_letter.html",
        reading=reading,
        **card_values(assessed),
        rows=[*dead_letter_text.message_rows(assessed, datetime.now(UTC))],
        pretty=pretty,
        raw=None if pretty == message.original.body else message.original.body,
        claimed=dead_letter_text.claimed_text(assessed),
        story=request.url_for("message").path + query_text(story),
    )


def card_values(assessed: assessment.AssessedMessage) -> dict[str, Any]:
    """Return the values for the card of a message: its verdict, and the advised action."""
    return {
        "message": assessed.message,
        "verdict": assessed.verdict,
        "action": advised_action(assessed),
        "key": assessed.pk,
    }
