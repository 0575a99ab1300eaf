"""Effects: the pending ones, and the settlement of one whose outcome was found out by hand."""

from datetime import UTC, datetime

from once.ops.aws.clients import client
from once.ops.console.jobs import Job, Progress
from once.ops.console.rendering import FormData, Request, Response, page
from once.ops.console.state import ConsoleState, max_age, state_of
from once.ops.dedup_records import DedupRecordReader, declared, record_lines
from once.ops.effect_shapes import shape_of
from once.ops.errors import OpsError
from once.ops.pending_effects import list_pending, pending_effect, read_decision, settle

_MAX_SHOWN = 60


def _records(state: ConsoleState) -> DedupRecordReader:
    return DedupRecordReader(client("dynamodb"), state.deployment.dedup_table)


def effects_page(request: Request) -> Response:
    state = state_of(request)
    reading = state.readings.latest(
        "effects", lambda: list_pending(_records(state)), max_age(request)
    )
    now = datetime.now(UTC)
    return page(
        request, "effects.html", reading=reading, found=reading.value, most=_MAX_SHOWN, now=now
    )


def effect_page(request: Request) -> Response:
    key = request.query_params.get("key", "")
    effect = pending_effect(_records(state_of(request)), key)
    lines, known = record_lines(effect.item, datetime.now(UTC)), declared(effect.intent)
    shape = shape_of(known.returns) if known and known.returns is not None else '"ch_1"'
    return page(request, "effect.html", effect=effect, lines=lines, shape=shape)


def plan_settlement(request: Request, form: FormData) -> Job:
    """Return the job of a form, after the checks of `once effects settle --dry-run`."""
    state = state_of(request)
    given = {name: str(value).strip() for name, value in form.items()}
    outcome, why, text = given.get("outcome"), given.get("why", ""), given.get("text")
    done, refused, new_key = given.get("done", ""), given.get("refused", ""), "new_key" in given
    if not why:
        raise OpsError("say how the outcome was found out: the record keeps it")
    decision = read_decision(
        done if outcome == "done" else None,
        refused if outcome == "refused" else None,
        text or None if outcome == "refused" else None,
        is_not_done=outcome == "not-done",
        new_key=outcome == "not-done" and new_key,
    )
    table = _records(state)
    effect = pending_effect(table, given.get("key", ""))
    effect.check_ended(datetime.now(UTC))
    decision.check_fits(effect)

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
        undo="Nothing takes it back once the next delivery has committed it.",
        deletes=True,
        back="effects",
    )
