"""Pages of dead letters: groups with the same failure, a list, and one message in full.

To read them is to receive them, which hides them from other commands for a moment. So all are read
at once, without their bodies, and the pages filter what was read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any

from once.events.cloud_event import CloudEvent
from once.names import RELAY, UNROUTED, Reason
from once.ops import dedup_records, terminal
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.console.rendering import BarChart, Request, Response, page, query_text
from once.ops.console.state import ConsoleState, Reading, max_age, state_of
from once.ops.dead_letters import assessment, dead_letter_text, queue_walk
from once.ops.dead_letters.dead_letter import DIED, dead_letter_queues
from once.ops.dead_letters.disagreement import Disagreement, find_for
from once.ops.dead_letters.grouping import (
    DEFAULT,
    FailureGroup,
    Grouping,
    MessageRow,
    advised_action,
    by_age,
    failure_groups,
    read_groupings,
)

FRESH_SECONDS = 15
"""A page that is opened shows a reading of at most this age; a refresh, the last reading."""
PAGE_ROWS = 100
MAX_GROUPS = 40
"""Maximum number of groups that a page shows, the newest first."""
_GROUPINGS = (DEFAULT, "cause,producer", *Grouping)
"""Choices of a grouping."""
BUCKETS = 12
"""Number of bars of a group's chart."""
_FILTERS = ("consumer", "reason", "error", "key", "source", "until", "since")
_MAX_ADVICE = 4


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


def _chart(group: FailureGroup) -> BarChart:
    """Return the numbers of messages from the first dead-lettering until now."""
    begin, now = group.rows[0].sent_at, datetime.now(UTC)
    moments = [row.sent_at for row in group.rows]
    label = f"{len(moments)} dead letters since {terminal.format_time(begin)}"
    return BarChart(histogram(moments, begin, now), label, begin, now)


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
    by = request.query_params.get("by") or DEFAULT
    groups = failure_groups(rows, read_groupings(by))
    return page(
        request,
        "dead_letters.html",
        **values,
        groups=groups[:MAX_GROUPS],
        by=by,
        groupings=_GROUPINGS,
        chart=_chart,
        disagreeing=[row for row in rows if row.committed_by],
        left_out=len(groups) - MAX_GROUPS,
        kind_counts=kind_counts,
        notes=state_of(request).read_notes(),
        reasons=sorted({row.reason or DIED for row in reading.rows} | {*map(str, Reason), DIED}),
        consumers=[*state_of(request).deployment.consumers, RELAY, UNROUTED],
        archives=state_of(request).read_notes().archives,
    )


def list_page(request: Request) -> Response:
    """Return a part of the list of the messages that match a filter, their advice once."""
    _, rows, values = _filtered(request)
    rows.sort(key=by_age)
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
        notes=state_of(request).read_notes(),
        action="redrive" if "redrive" in actions else next(iter(actions), None),
        here=here,
        pages=pages,
        newest=rows[-1] if rows else None,
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
    assessed, state = reading.value, state_of(request)
    message, event = assessed.message, assessed.event
    found: Disagreement | None = None
    if assessed.committed_by:
        named = ("disagreement", message.message_id)
        read = partial(find_for, state.deployment, assessed)
        found = state.messages.latest(named, read, _max_age(request)).value
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
        disagreement=found,
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
