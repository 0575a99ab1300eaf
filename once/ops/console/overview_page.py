"""Overview: tasks for the operator, depths of the queues, and metrics of the last hour."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf

from once.names import UNROUTED, Metric
from once.ops import status, terminal
from once.ops.aws.function_figures import MINUTES, Figures, read_figures
from once.ops.console.dead_letter_pages import kind_counts, read_messages
from once.ops.console.jobs import Job, Progress
from once.ops.console.rendering import BarChart, FormData, Request, Response, page, query_text
from once.ops.console.state import DEPTH_SECONDS, PATIENCE_SECONDS, max_age, state_of
from once.ops.dead_letters.assessment import RedriveOutcome
from once.ops.dead_letters.grouping import MessageRow, failure_groups
from once.ops.errors import OpsError
from once.ops.pausing import MappingChange
from once.ops.retries import Retries, next_text, read_retries

COLUMNS = {
    "Committed": [Metric.COMMITTED],
    "Duplicates": [Metric.REDELIVERED, Metric.REDRIVEN, Metric.RESENT],
    "Failures": [Metric.RETRIED, Metric.QUARANTINED, Metric.BREAKER_OPEN],
}
"""Charts of a consumer: name and the metrics whose sum it shows."""
METRICS = [metric for metrics in COLUMNS.values() for metric in metrics]
_BAR_MINUTES = 5
_MAX_RETRIES = 200
_FIGURES_SECONDS = 30.0
_REDEPLOY = "Deploy a version that starts."
_RETRIES = "Look at the messages under retry, and repair what they need."


@dataclass(frozen=True, slots=True)
class Need:
    """Something that needs the operator, and the first step; `query` leads to the dead letters for
    it, and `route` to another page. `step_since` is when that which the step looks at began.

    `kinds` are its dead letters by the kind of their verdict, as they were read at `kinds_at`; None
    if these are the ones that are there now.
    """

    consumer: str
    text: str
    since: datetime | None
    step: str
    query: str | None = None
    route: str | None = None
    step_since: datetime | None = None
    kinds: Mapping[RedriveOutcome, int] = field(default_factory=dict)
    kinds_at: datetime | None = None


def needs(
    rows: Iterable[status.QueueStatus],
    commands: Iterable[status.CommandStatus],
    messages: Sequence[MessageRow],
    now: datetime,
    messages_at: datetime | None = None,
) -> Iterator[Need]:
    for door in commands:
        yield from (Need(door.name, text, None, _REDEPLOY) for text in door.stuck)
    longest = terminal.parse_age_option(status.MAX_AGE, option="").total_seconds()
    for row in rows:
        name, own = row.consumer, [one for one in messages if one.consumer == row.consumer]
        if row.start_error:
            yield Need(name, status.no_start(row.start_error), None, _REDEPLOY)
        if row.breaker:
            yield Need(name, str(row.breaker), row.breaker.since, _RETRIES, route="retries")
        if row.pause and row.pause_text:
            yield Need(name, row.pause_text, None, "Resume it when its cause is gone.")
        for fault in row.mapping_faults:
            yield Need(name, fault, None, "Enable it, or deploy again.")
        if row.dead_letters:
            thing = "unrouted event" if name == UNROUTED else "dead letter"
            newest = next(iter(failure_groups(own)), None)
            since = min((one.sent_at for one in own), default=None)
            step = "Look at the newest group" if newest else "Look at them"
            step_since = newest.rows[0].sent_at if newest else None
            query = query_text(newest.query if newest else {"consumer": name})
            text = terminal.counted(row.dead_letters, thing)
            old = (messages_at or now) if len(own) != row.dead_letters else None
            yield Need(
                *(name, text, since, step, query),
                step_since=step_since,
                kinds=kind_counts(own),
                kinds_at=old,
            )
        if row.oldest_seconds is not None and row.oldest_seconds >= longest:
            since = now - timedelta(seconds=row.oldest_seconds)
            yield Need(name, "a message waits", since, "Read the log of its function.")


def plan_pause(request: Request, form: FormData) -> Job:
    """Return the job that pauses a consumer, or with the field `resume` lets it go on."""
    state, name = state_of(request), str(form.get("consumer"))
    change = MappingChange.plan(state.deployment, name, pausing="resume" not in form)

    def work(why: str | None, progress: Progress) -> None:
        change.run(why)
        progress.advance(1, {"mappings": len(change.status.mappings)})

    return Job(
        title=f"{change.command.capitalize()} {name}",
        plan=change.lines,
        changes=1,
        work=work,
        undo="Resume it." if change.pausing else "Pause it again.",
        needs_reason=change.pausing,
    )


def retries_page(request: Request) -> Response:
    """Return the page of the messages under retry, as `once retries` shows them."""
    state, now = state_of(request), datetime.now(UTC)
    names = [*state.deployment.consumers]
    reading = state.readings.latest(
        "retries", lambda: read_retries(state.deployment, names, now), max_age(request, refreshed=5)
    )
    found = {name: one for name, one in reading.value.items() if isinstance(one, Retries)}
    messages = [message for one in found.values() for message in one.messages]
    return page(
        request,
        "retries.html",
        reading=reading,
        messages=messages[:_MAX_RETRIES],
        more=len(messages) - _MAX_RETRIES,
        breakers={name: one.breaker for name, one in found.items() if one.breaker},
        unreadable=[name for name in names if name not in found],
        next_text=partial(next_text, now=now),
        notes=state.read_notes(),
    )


def overview_page(request: Request) -> Response:
    state, now, share = state_of(request), datetime.now(UTC), PATIENCE_SECONDS / 3
    functions = {one.name: one.function_name for one in state.deployment.consumers.values()}
    # CloudWatch bills each metric that is read: a page that is opened shows what a refresh shows.
    figures = state.readings.latest(
        "figures",
        lambda: read_figures([*functions.values()], datetime.now(UTC), METRICS),
        _FIGURES_SECONDS,
        share,
    )
    requests = state.readings.latest(
        "commands", lambda: status.read_commands(state.deployment), _FIGURES_SECONDS, share
    )
    commands = requests.known[0] if requests.known else []
    reading = state.read_queues(share)
    rows = reading.value
    messages: Sequence[MessageRow] = ()
    messages_at: datetime | None = None
    # To read the messages hides them for a moment: they are read when the page is opened alone.
    with suppress(OpsError):
        if any(row.dead_letters for row in rows):
            found = read_messages(state, max_age(request, opened=60, refreshed=inf), None, share)
            messages = found.known[0].rows if found.known else ()
            messages_at = found.read_at

    def charts(function: str, found: Figures) -> list[BarChart]:
        """Return the charts of a row, on one scale."""
        rows = {name: found.minutes(function, some) for name, some in COLUMNS.items()}
        bars = {
            name: [sum(each[at : at + _BAR_MINUTES]) for at in range(0, MINUTES, _BAR_MINUTES)]
            for name, each in rows.items()
        }
        scale, end = max(map(max, bars.values())), found.begin + timedelta(minutes=MINUTES)
        label = "{} in the last hour, a bar for five minutes: {:g} in all"
        return [
            BarChart(each, label.format(name, sum(each)), found.begin, end, scale, name.lower())
            for name, each in bars.items()
        ]

    def depth_chart(consumer: str) -> BarChart:
        depths = state.depths(consumer, now)
        label = f"messages in the queues of {consumer}: at most {max(depths)}"
        first = now - timedelta(seconds=DEPTH_SECONDS * len(depths))
        return BarChart(depths, label, first, now)

    known = figures.known[0] if figures.known else None
    return page(
        request,
        "overview.html",
        reading=replace(
            reading,
            under_way=any(each.under_way for each in (reading, figures, requests)),
            fault=next(filter(None, (each.fault for each in (reading, figures, requests))), None),
        ),
        needs=[*needs(rows, commands, messages, now, messages_at)],
        commands=commands,
        rows=rows,
        acknowledged={row.consumer: row.acknowledged for row in rows},
        depths={row.consumer: depth_chart(row.consumer) for row in rows},
        columns=[*COLUMNS],
        consumers=functions,
        activity={name: charts(of, known) for name, of in functions.items()} if known else {},
        source=known.source if known else None,
    )
