"""Page of the outbox: events of the last hour, waiting events, and their republication."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from once.errors import OnceError
from once.events.outgoing import events_in
from once.names import RELAY, Metric, Record
from once.ops.aws.clients import client, depth
from once.ops.aws.deployment import Deployment
from once.ops.aws.function_figures import read_figures
from once.ops.console.jobs import Job, Progress, number_field
from once.ops.console.rendering import BarChart, FormData, Request, Response, page
from once.ops.console.state import max_age, state_of
from once.ops.dedup_records import DedupRecordReader, Item, time_attribute
from once.ops.errors import OpsError
from once.ops.republication import Republication, RepublishOptions, RepublishResult
from once.ops.terminal import counted
from once.ops.trace.timeline import EventGraph

PERIOD = timedelta(hours=1)
MAX_READ = 500
"""Maximum number of records whose events are shown, in groups that stand alike."""
_OPTIONS = ("since", "until", "consumer", "to")


def outbox_page(request: Request) -> Response:
    state = state_of(request)
    if state.deployment.relay_function_name is None:
        return page(request, "outbox.html", relay=None)
    reading = state.readings.latest(
        "outbox", lambda: _read_relay(state.deployment, datetime.now(UTC)), max_age(request)
    )
    consumers = state.deployment.consumers
    takers = [name for name, one in consumers.items() if one.events]
    return page(
        request,
        "outbox.html",
        reading=reading,
        relay=reading.value,
        consumers=[*consumers],
        takers=takers,
    )


def _read_relay(deployment: Deployment, now: datetime) -> dict[str, Any]:
    """Return the relay's figures of the last hour, and the events committed in it."""
    table = DedupRecordReader.of(client("dynamodb"), deployment)
    recent = table.recent_outboxes(now - PERIOD, MAX_READ)
    graph = EventGraph(deployment.consumers.values(), table.get, ()).follow(recent.items, ())
    events = [event for item in recent.items for event in _events(item, graph)]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event in events:
        groups.setdefault((event["type"], event["standing"]), []).append(event)
    function = deployment.relay
    figures = read_figures([function], now, (Metric.PUBLISHED, Metric.RELAY_LAG_MS))
    by_minute = figures.minutes(function, [Metric.PUBLISHED])
    published = int(sum(by_minute))
    label = f"events published in each minute of the last hour, {published} in all"
    return {
        "function": function,
        "source": figures.source,
        "published": published,
        "chart": BarChart(by_minute, label, figures.begin, figures.begin + PERIOD),
        "longest_delay_ms": max(figures.minutes(function, [Metric.RELAY_LAG_MS])),
        "dead_letters": depth(client("sqs"), deployment.kept_events[RELAY]).total,
        "recent": recent,
        # Waiting events come first.
        "groups": sorted(groups.values(), key=lambda some: (not some[0]["waits"], -len(some))),
        "waiting": sum(event["waits"] for event in events),
    }


def _events(item: Item, graph: EventGraph) -> Iterator[dict[str, Any]]:
    """Yield the events in an outbox; their `standing` says whether consumers have records of them.

    An event waits if no consumer that takes it has a record. If the outbox cannot be read, its one
    entry has no type. An event that is due later waits in no queue.
    """
    now = datetime.now(UTC).timestamp()
    shared = {"at": time_attribute(item, Record.COMMITTED_AT), "pk": item[Record.PK]["S"]}
    try:
        for event in events_in(item):
            keys = graph.keys.get((event.source, event.id), [])
            have = sum(key in graph.records for key in keys)
            is_ahead = event.due is not None and event.due > now
            if is_ahead:
                standing = "due later"
            elif have:
                standing = f"recorded at {have} of {len(keys)}"
            elif keys:
                standing = "no consumer has a record yet"
            elif any(event_type == event.type for _, event_type in graph.unknown):
                standing = "a consumer's key rule is not known"
            else:
                standing = "no consumer takes it, or finds a key in it"
            yield {
                **shared,
                "type": event.type,
                "standing": standing,
                "waits": bool(keys) and not have and not is_ahead,
            }
    except OnceError:  # the error's text may contain data of the event
        standing = "its outbox cannot be read: see the relay's dead letters"
        yield {**shared, "type": "–", "standing": standing, "waits": True}


def plan_republish(request: Request, form: FormData) -> Job:
    """Return the job of a form, with the counts of `once outbox republish --dry-run`."""
    deployment = state_of(request).deployment
    given: dict[str, Any] = {n: str(form.get(n) or "").strip() or None for n in _OPTIONS}
    options = RepublishOptions(
        **{**given, "since": given["since"] or ""},
        rate=number_field(form, 1, 1, 1_000_000) if form.get("rate") else None,
    )
    asked = Republication(deployment, options)
    found = asked.count(lambda *_: None)

    def work(why: str | None, progress: Progress) -> None:
        progress.total = asked.approximate_total()
        done = RepublishResult()

        def seen(count: int, result: RepublishResult) -> None:
            nonlocal done
            done = result
            progress.advance(progress.done + count, dict(sorted(result.events.items())))

        def stopped_text() -> str:
            return (
                f"stopped: at least {done.events.total()} events were published; run it again for "
                "the rest: events published twice are deduplicated"
            )

        result = asked.publish(why, seen, lambda: progress.check_stop(stopped_text))
        if fault := result.fault(by_relay=not options.to):
            raise OpsError(fault)

    number = found.events.total()
    plan = [f"{event_type}: {count}" for event_type, count in sorted(found.events.items())]
    plan.append(f"{found.records} records, {number} events")
    if options.to:
        plan.append(f"to {given['to']} only; its queue takes them in no order")
    if found.too_old:
        plan.append(f"{found.too_old} records are left out: they expire within 30 days")
    if fault := found.fault(by_relay=False):
        plan.append(fault)
    return Job(
        title=f"Publish {counted(number, 'event')} again",
        plan=plan,
        changes=number,
        work=work,
        undo="What was published cannot be taken back. Events keep their ids: a consumer that has "
        "committed one acknowledges it as a duplicate.",
        back="outbox",
    )
