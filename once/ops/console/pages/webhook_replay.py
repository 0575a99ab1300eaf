"""Replay of captured webhooks: to the queue of a consumer, or to a URL."""

import shlex
from collections.abc import Mapping
from dataclasses import replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typer import BadParameter

from once.ops.console.jobs import Job, Progress
from once.ops.console.pages.jobs import to_job
from once.ops.console.pages.webhooks import captures_of, conditions_of, fields_of
from once.ops.console.state import ConsoleState, state_of
from once.ops.errors import StoppedError
from once.ops.webhooks.replay import DONE, MOST_LINES, ReplayRequest, ReplayRun


async def _replay(request: Request) -> Response:
    form = await request.form()
    given = {name: str(value).strip() for name, value in form.items()}
    return to_job(request, await run_in_threadpool(_replay_job, state_of(request), given))


def _replay_job(state: ConsoleState, given: Mapping[str, str]) -> Job:
    """Return the job of a form, with the verdicts of `once webhooks replay` without --yes."""
    asked = _asked(given)
    asked.check()
    captures = captures_of(state)
    target = asked.target(state.deployment)
    chosen = asked.chosen(captures)
    judged = ReplayRun(asked, captures, target, chosen, dry_run=True)
    judged.run()

    def work(why: str | None, progress: Progress) -> None:
        # The destination was resolved for the dry run: no later answer of a name server counts.
        run = ReplayRun(asked, captures, target, chosen, dry_run=False)
        with run.logged(state.deployment, why):
            _send(run, progress)
        run.raise_if_left()

    number = judged.number(*DONE)
    return Job(
        title=f"Replay {number} webhooks to {asked.queue or 'a URL'}",
        plan=_plan(judged),
        changes=number,
        work=work,
        back="webhooks",
        command=_command(state, asked, given),
    )


def _asked(given: Mapping[str, str]) -> ReplayRequest:
    name = given.get("name", "")
    fields = fields_of(given)
    if not name and not fields["since"]:
        raise BadParameter("give the time since which webhooks are sent", param_hint="--since")
    asked = ReplayRequest(
        names=[name] if name else [],
        conditions=conditions_of(fields),
        queue=given.get("queue") or None,
        url=given.get("url") or None,
        allow_private="allow_private" in given,
        unsafe="unsafe" in given,
    )
    if rate := given.get("rate"):
        asked = replace(asked, rate=_rate(rate))
    return asked


def _send(run: ReplayRun, progress: Progress) -> None:
    progress.total = len(run.chosen)

    def seen() -> None:
        progress.advance(len(run.results), run.counts)
        if progress.stop.is_set() and len(run.results) < len(run.chosen):
            raise StoppedError(run.stopped_text)

    run.run(seen)


def _plan(judged: ReplayRun) -> list[str]:
    lines = [str(one) for one in judged.results[:MOST_LINES]]
    more = len(judged.results) - len(lines)
    return [*lines, f"… and {more} more"] if more else lines


def _command(state: ConsoleState, asked: ReplayRequest, given: Mapping[str, str]) -> str:
    names = ("endpoint", "type", "since", "until", "standing", "rate")
    options = [
        part for name in names if (value := given.get(name)) for part in (f"--{name}", value)
    ]
    where = ["--to-queue", asked.queue] if asked.queue else ["--to-url", asked.url or ""]
    flags = [f"--{n.replace('_', '-')}" for n in ("allow_private", "unsafe") if n in given]
    command = ["once", "webhooks", "replay", *asked.names, *options, *where, *flags]
    return shlex.join([*command, "--yes", "--service", state.deployment.service])


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0
    if not 0.1 <= rate <= 1000:
        raise BadParameter(f"{text!r} is no number from 0.1 to 1000", param_hint="--rate")
    return rate


ROUTES = [Route("/webhooks/replay", _replay, name="replay", methods=["POST"])]
