"""Effects: the pending ones, and the settlement of one whose outcome was found out by hand."""

import shlex
from datetime import UTC, datetime

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from once.ops.aws.clients import client
from once.ops.console.jobs import Job, Progress
from once.ops.console.pages.jobs import to_job
from once.ops.console.rendering import page
from once.ops.console.state import ConsoleState, state_of
from once.ops.dedup_records import DedupRecordReader, record_lines
from once.ops.effects import (
    Decision,
    PendingEffect,
    list_pending,
    pending_effect,
    read_decision,
    settle,
)
from once.ops.errors import OpsError

_MOST_SHOWN = 200


def _effects(request: Request) -> Response:
    state = state_of(request)
    found = state.kept.latest(request, "effects", lambda: list_pending(_records(state)))
    return page(request, "effects.html", found=found, most=_MOST_SHOWN, now=datetime.now(UTC))


def _effect(request: Request) -> Response:
    key = request.query_params.get("key", "")
    effect = pending_effect(_records(state_of(request)), key)
    lines = record_lines(effect.item, datetime.now(UTC))
    return page(request, "effect.html", effect=effect, lines=lines)


async def _settle(request: Request) -> Response:
    form = await request.form()
    job = await run_in_threadpool(_settle_job, state_of(request), form)
    return to_job(request, job)


def _settle_job(state: ConsoleState, form: FormData) -> Job:
    """Return the job of a form, after the checks of `once effects settle --dry-run`."""
    given = {name: str(value).strip() for name, value in form.items()}
    outcome, why = given.get("outcome"), given.get("why", "")
    if not why:
        raise OpsError("say how the outcome was found out: the record keeps it")
    decision = read_decision(
        given.get("done", "") if outcome == "done" else None,
        given.get("refused", "") if outcome == "refused" else None,
        given.get("text") or None if outcome == "refused" else None,
        is_not_done=outcome == "not-done",
        new_key=outcome == "not-done" and "new_key" in given,
    )
    table = _records(state)
    effect = pending_effect(table, given.get("key", ""))
    effect.check_ended(datetime.now(UTC))

    def work(reason: str | None, progress: Progress) -> None:
        settle(state.deployment, table, effect, decision, f"{why}; {reason}" if reason else why)
        progress.advance(1, {"settled": 1})

    return Job(
        title=f"Settle the effect {effect.intent.effect} as {decision.name}",
        plan=[
            effect.pk,
            *record_lines(effect.item, datetime.now(UTC)),
            f"to be settled as {decision.summary}",
            f"found out by: {why}",
            "the next delivery completes it, such as a redrive of its dead letter",
        ],
        changes=1,
        work=work,
        back="effects",
        command=_command(state, effect, decision, given, why),
    )


def _command(
    state: ConsoleState, effect: PendingEffect, decision: Decision, given: dict[str, str], why: str
) -> str:
    options = {
        "done": ["--done", given.get("done", "")],
        "refused": ["--refused", given.get("refused", "")],
        "not-done": ["--not-done"],
    }[decision.name]
    if decision.name == "refused" and given.get("text"):
        options += ["--text", given["text"]]
    if decision.name == "not-done" and "new_key" in given:
        options.append("--new-key")
    service = ["--service", state.deployment.service]
    return shlex.join(["once", "effects", "settle", effect.pk, *options, "--why", why, *service])


def _records(state: ConsoleState) -> DedupRecordReader:
    return DedupRecordReader(client("dynamodb"), state.deployment.dedup_table)


ROUTES = [
    Route("/effects", _effects, name="effects"),
    Route("/effects/one", _effect, name="effect"),
    Route("/effects/settle", _settle, name="settle-effect", methods=["POST"]),
]
