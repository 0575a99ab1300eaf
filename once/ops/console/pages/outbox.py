"""Outbox: what the relay published lately, what waits, and the action that publishes again."""

import shlex
from datetime import UTC, datetime

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typer import BadParameter

from once.metric_names import Metric
from once.ops.console.charts import BarChart
from once.ops.console.jobs import Job, Progress
from once.ops.console.pages.jobs import to_job
from once.ops.console.relay_state import read_relay_state
from once.ops.console.rendering import page
from once.ops.console.state import ConsoleState, state_of
from once.ops.errors import OpsError, StoppedError
from once.ops.outbox import Republication, RepublishResult, failure_text, record_period


def _outbox(request: Request) -> Response:
    state, now = state_of(request), datetime.now(UTC)
    found = state.kept.latest(request, "outbox", lambda: read_relay_state(state.deployment, now))
    label = f"events published in each minute of the last hour, {found.published} in all"
    chart = BarChart(found.figures.minutes(found.function, [Metric.PUBLISHED]), label)
    consumers = state.deployment.consumers
    takers = [name for name, one in consumers.items() if one.events]
    return page(
        request, "outbox.html", relay=found, chart=chart, consumers=[*consumers], takers=takers
    )


async def _republish(request: Request) -> Response:
    form = await request.form()
    return to_job(request, await run_in_threadpool(_republish_job, state_of(request), form))


def _republish_job(state: ConsoleState, form: FormData) -> Job:
    """Return the job of a form, with the counts of `once outbox republish --dry-run`."""
    names = ("since", "until", "consumer", "to", "rate")
    given = {name: str(form.get(name) or "").strip() or None for name in names}
    period = record_period(given["since"] or "", given["until"])
    told = {**given, "rate": _rate(given["rate"])}
    asked = Republication.of(state.deployment, period, told)
    counted = asked.count(lambda *_: None)

    def work(why: str | None, progress: Progress) -> None:
        _work(asked, why, progress)

    options = [part for name in names if (value := given[name]) for part in (f"--{name}", value)]
    command = ["once", "outbox", "republish", *options, "--service", state.deployment.service]
    return Job(
        title=f"Publish {counted.events.total()} events again",
        plan=[*_plan(counted, given)],
        changes=counted.events.total(),
        work=work,
        back="outbox",
        command=shlex.join(command),
    )


def _work(asked: Republication, why: str | None, progress: Progress) -> None:
    progress.total = asked.approximate_total()
    done = RepublishResult()

    def seen(count: int, result: RepublishResult) -> None:
        nonlocal done
        done = result
        progress.advance(progress.done + count, dict(sorted(result.events.items())))

    def check() -> None:
        if progress.stop.is_set():
            raise StoppedError(
                f"stopped: at least {done.events.total()} events were published; run it again for "
                "the rest: what is published twice is deduplicated"
            )

    result = asked.publish(why, seen, check)
    if result.refused or result.unreadable:
        raise OpsError(failure_text(result, by_relay=not asked.told.get("to")))


def _plan(counted: RepublishResult, given: dict[str, str | None]) -> list[str]:
    lines = [f"{event_type}: {number}" for event_type, number in sorted(counted.events.items())]
    lines.append(f"{counted.records} records, {counted.events.total()} events")
    if given["to"]:
        lines.append(f"to {given['to']} only; its queue takes them in no order")
    if counted.too_old:
        lines.append(f"{counted.too_old} records are left out: they expire within 30 days")
    if counted.refused or counted.unreadable:
        lines.append(failure_text(counted, by_relay=False))
    return lines


def _rate(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = 0
    if not 1 <= rate <= 1_000_000:
        raise BadParameter(f"{text!r} is no number from 1", param_hint="--rate")
    return rate


ROUTES = [
    Route("/outbox", _outbox, name="outbox"),
    Route("/outbox/republish", _republish, name="republish", methods=["POST"]),
]
