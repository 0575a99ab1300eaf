"""Dead letters: in groups that failed alike, one by one, and one with all that is known of it.

To read them is to receive them, which hides them from other commands for a moment. So all are read
at once, without their bodies, and the pages filter what was read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from typing import Any, Self
from urllib.parse import urlencode

from once.events.cloud_event import CloudEvent
from once.names import RELAY, UNROUTED, Reason
from once.ops import dedup_records, terminal
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.console.rendering import BarChart, Request, Response, page
from once.ops.console.state import max_age, state_of
from once.ops.dead_letters import assessment, letter_text, search
from once.ops.dead_letters.letter import DIED, dead_letter_queues
from once.ops.errors import OpsError

FRESH_SECONDS = 15
"""A page that is opened shows a reading of at most this age; a refresh, the last reading."""
PAGE_LETTERS = 100
BUCKETS = 24
"""Number of bars of a group's chart."""
_FILTERS = ("consumer", "reason", "error", "key", "until", "since")


@dataclass(frozen=True, slots=True)
class LetterRow:
    """A dead letter in a list, without its body; None stands for what was not recorded or read.

    Attributes:
        consumer: the owner of its queue.
        error: the pattern of its error.
        sent_at: time of its dead-lettering.
        key: its dedup key.
    """

    consumer: str
    message_id: str
    reason: str | None
    error: str
    sent_at: datetime
    event_type: str | None
    event_id: str | None
    key: str | None
    verdict: assessment.Verdict

    @classmethod
    def of(cls, assessed: assessment.AssessedLetter) -> Self:
        """Return the row of a letter."""
        letter, event = assessed.letter, assessed.event
        return cls(
            consumer=letter.queue.owner,
            message_id=letter.message_id,
            reason=letter.reason,
            error=search.error_pattern(letter.error),
            sent_at=letter.sent_at,
            event_type=event.type if isinstance(event, CloudEvent) else None,
            event_id=search.event_id(event),
            key=assessed.pk,
            verdict=assessed.verdict,
        )

    def matches(self, letters: search.LetterFilter) -> bool:
        """Tell whether its letter matches a filter."""
        return letters.matches_failure(self.reason, self.error, self.sent_at) and (
            letters.matches_key(self.key, self.event_id)
        )


@dataclass(frozen=True, slots=True)
class LetterReading:
    """The dead letters at a time.

    Attributes:
        search_text: how many letters were received of how many, and what was hidden.
        hidden: what other commands hid, and until when; None if nothing.
        complete: whether there are no more letters than one reading receives.
    """

    rows: Sequence[LetterRow]
    search_text: str
    hidden: str | None
    complete: bool
    read_at: datetime = field(default_factory=lambda: datetime.now(UTC))


@contextmanager
def _walk(
    deployment: Deployment, consumer: str | None
) -> Iterator[tuple[search.QueueWalk, dedup_records.DedupRecordReader]]:
    with search.open_search(dead_letter_queues(deployment, consumer), search.DEFAULT_LIMIT) as walk:
        yield walk, dedup_records.DedupRecordReader.of(client("dynamodb"), deployment)


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Dead letters that failed alike: one consumer, one reason, one pattern of errors.

    At least one, the oldest first. The reason is None if none was recorded.
    """

    consumer: str
    reason: str | None
    error: str
    rows: Sequence[LetterRow]

    @property
    def query(self) -> dict[str, str]:
        """The filter that selects the group."""
        return {"consumer": self.consumer, "reason": self.reason or DIED, "error": self.error}

    @property
    def verdicts(self) -> Mapping[str, int]:
        """Numbers of letters by their verdicts."""
        return verdict_counts(self.rows)

    @property
    def chart(self) -> BarChart:
        """Numbers of letters over the period in which they were dead-lettered."""
        moments = [row.sent_at for row in self.rows]
        numbers = histogram(moments)
        return BarChart(
            numbers,
            f"{len(moments)} dead letters from {terminal.format_time(moments[0])} to "
            f"{terminal.format_time(moments[-1])}; the highest of {BUCKETS} bars: {max(numbers)}",
        )


def letter_groups(rows: Iterable[LetterRow]) -> list[LetterGroup]:
    """Return the groups of letters, the largest first."""
    found: dict[tuple[str, str | None, str], list[LetterRow]] = {}
    for row in sorted(rows, key=_by_age):
        found.setdefault((row.consumer, row.reason, row.error), []).append(row)
    groups = [LetterGroup(*names, members) for names, members in found.items()]
    return sorted(groups, key=lambda group: -len(group.rows))


def _by_age(row: LetterRow) -> tuple[datetime, str]:
    return row.sent_at, row.message_id


def verdict_counts(rows: Iterable[LetterRow]) -> Mapping[str, int]:
    """Return the numbers of letters that are safe to send, safe but returning, and not safe."""
    return Counter(
        "returning" if row.verdict.comes_back else "safe" if row.verdict.safe else "unsafe"
        for row in rows
    )


def histogram(moments: Sequence[datetime]) -> list[int]:
    """Return the number of moments in each of `BUCKETS` parts of their period.

    They are sorted, at least one. If all are the same, they are in the last part.
    """
    first, period = moments[0], moments[-1] - moments[0]
    numbers = [0] * BUCKETS
    for moment in moments:
        share = (moment - first) / period if period else 1
        numbers[min(BUCKETS - 1, int(BUCKETS * share))] += 1
    return numbers


def letter_options(given: Mapping[str, Any], service: str) -> search.LetterOptions:
    """Return the options of the `dlq` commands that an address or a form has.

    An empty parameter is none.
    """
    texts: dict[str, Any] = {name: str(given.get(name) or "").strip() or None for name in _FILTERS}
    return replace(search.LetterOptions(service=service), **texts)


def query_values(options: search.LetterOptions) -> dict[str, str]:
    """Return the parameters of an address or a form that has these options."""
    return {name: value for name in _FILTERS if (value := getattr(options, name))}


def query_text(values: Mapping[str, object]) -> str:
    """Return parameters as the end of an address, with its question mark."""
    return f"?{urlencode(values)}" if values else ""


def read_letter(request: Request) -> assessment.AssessedLetter:
    """Read the dead letter of a page's address, with its verdict.

    Raises:
        OpsError: it is not there, or another command or a change of this console hides it.
        botocore.exceptions.BotoCoreError, ClientError: its queue or its record cannot be read.
    """
    state = state_of(request)
    consumer, message_id = request.path_params["consumer"], request.path_params["message_id"]

    def read() -> assessment.AssessedLetter:
        with _walk(state.deployment, consumer) as (walk, records):
            letters = search.letters_by_id(walk, [message_id])
        [assessed] = assessment.assess_letters(records, letters)
        return assessed

    return state.letters.latest((consumer, message_id), read, _max_age(request))


def _max_age(request: Request) -> float:
    return max_age(request, opened=FRESH_SECONDS, refreshed=inf)


def groups_page(request: Request) -> Response:
    """Return the page of letters that failed alike."""
    reading, rows, values = _filtered(request)
    return page(
        request,
        "dead_letters.html",
        **values,
        groups=letter_groups(rows),
        reasons=sorted({row.reason or DIED for row in reading.rows} | {*map(str, Reason), DIED}),
        consumers=[*state_of(request).deployment.consumers, RELAY, UNROUTED],
    )


def letters_page(request: Request) -> Response:
    """Return a part of the list of the letters that match a filter."""
    _, rows, values = _filtered(request)
    rows.sort(key=_by_age)
    pages = max(1, -(-len(rows) // PAGE_LETTERS))
    text = request.query_params.get("page", "1")
    asked = int(text) if text.isdecimal() and len(text) < 6 else 1
    here = min(pages, max(1, asked))
    return page(
        request,
        "dead_letter_list.html",
        **values,
        rows=rows[(here - 1) * PAGE_LETTERS : here * PAGE_LETTERS],
        verdicts=verdict_counts(rows),
        here=here,
        pages=pages,
    )


def _filtered(request: Request) -> tuple[LetterReading, list[LetterRow], dict[str, Any]]:
    """Return a reading, the rows that match the filter of the address, and a page's values."""
    state = state_of(request)
    options = letter_options(request.query_params, state.deployment.service)
    chosen = options.letter_filter()

    def read(consumer: str | None) -> LetterReading:
        with _walk(state.deployment, consumer) as (walk, records):
            rows = [
                LetterRow.of(one)
                for some in walk.pages()
                for one in assessment.assess_letters(records, some)
            ]
        hidden = str(walk.hidden) if walk.hidden else None
        return LetterReading(rows, walk.progress_text, hidden, walk.complete)

    reading = state.letters.latest(None, lambda: read(None), _max_age(request))
    if (name := options.consumer) and not reading.complete:
        reading = state.letters.latest(name, lambda: read(name), _max_age(request))
    rows = [
        row
        for row in reading.rows
        if options.consumer in (None, row.consumer) and row.matches(chosen)
    ]
    given = query_values(options)
    values = {
        "given": given,
        "reading": reading,
        "number": len(rows),
        "query": lambda **more: query_text(given | more),
    }
    return reading, rows, values


def letter_page(request: Request) -> Response:
    """Return the page of one letter."""
    try:
        assessed = read_letter(request)
    except OpsError as error:
        return page(request, "dead_letter_gone.html", status=404, error=error)
    letter, event = assessed.letter, assessed.event
    pretty = letter_text.body_text(letter)
    story = (
        {"key": event.id, "source": event.source}
        if isinstance(event, CloudEvent)
        else {"key": assessed.pk or letter.message_id}
    )
    return page(
        request,
        "dead_letter.html",
        letter=letter,
        rows=[*letter_text.letter_rows(assessed, datetime.now(UTC))],
        verdict=assessed.verdict,
        pretty=pretty,
        raw=None if pretty == letter.original.body else letter.original.body,
        claimed=letter_text.claimed_text(assessed),
        story=request.url_for("message").path + query_text(story),
    )
