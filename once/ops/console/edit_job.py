"""Edit jobs: one dead letter is sent back with another body, as `dlq redrive --edit` sends it."""

from functools import partial

from once.events.cloud_event import CloudEvent
from once.events.identity import fingerprint
from once.ops.console.jobs import Job, Progress
from once.ops.console.redrive_job import note_progress, result_lines, verdict_line
from once.ops.console.state import ConsoleState
from once.ops.dead_letters.assessment import (
    AssessedLetter,
    LetterContext,
    RedriveOutcome,
    read_contexts,
)
from once.ops.dead_letters.edit import with_body
from once.ops.dead_letters.redrive import LetterPages, Redrive, RedriveRequest, open_redrive
from once.ops.dead_letters.selection import LetterOptions
from once.ops.operator_log import logged_change


def edit_job(state: ConsoleState, consumer: str, message_id: str, body: str, back: str) -> Job:
    """Return the job that sends a letter back with another body, after a dry run.

    Raises:
        RefusedEditError: the letter may not be sent with this body.
        OpsError: the letter cannot be found, or the body is unchanged.
    """
    request = RedriveRequest(
        options=LetterOptions(consumer=consumer, service=state.deployment.service),
        message_ids=[message_id],
        edit=True,
    )
    with (
        state.letters.held(),
        open_redrive(state.deployment, request, returning_too=True) as (search, redrive),
    ):
        before, after = _edited(request.pages(search), redrive, body)
    sent = redrive.may_be_sent(after.verdict)
    return Job(
        title=f"Redrive {message_id} with its new body",
        plan=[
            *_identity_lines(before, after.context),
            verdict_line(after),
            *([] if sent else ["it stays: `once dlq redrive --edit --unsafe` alone sends it"]),
        ],
        changes=int(sent),
        work=partial(_redrive, state, request, body, after.verdict.outcome),
        back=back,
    )


def _edited(
    pages: LetterPages, redrive: Redrive, body: str
) -> tuple[LetterContext, AssessedLetter]:
    """Return the letter as it is, and as it would be sent."""
    [before] = read_contexts(redrive.records, [letter for page in pages for letter in page])
    [after] = redrive.assess([with_body(before, body, redrive.records).letter])
    return before, after


def _identity_lines(before: LetterContext, after: LetterContext) -> list[str]:
    if not isinstance(after.event, CloudEvent):
        return []
    was = fingerprint(before.event) if isinstance(before.event, CloudEvent) else "none"
    return [
        f"event: id {after.event.id}, source {after.event.source}, type {after.event.type}",
        f"dedup key: {after.pk or 'not known'}, before: {before.pk or 'not known'}",
        f"fingerprint: {fingerprint(after.event)}, before: {was}",
        "its history is kept, and notes that the body was edited",
    ]


def _redrive(
    state: ConsoleState,
    request: RedriveRequest,
    body: str,
    outcome: RedriveOutcome,
    why: str | None,
    progress: Progress,
) -> None:
    with (
        state.letters.changing(),
        open_redrive(state.deployment, request, returning_too=True) as (search, redrive),
    ):
        _, after = _edited(request.pages(search), redrive, body)
        search.raise_if_lapsed()
        redrive.expected = {after.letter.message_id: outcome}
        try:
            with logged_change(state.deployment, "dlq redrive", request.for_log(), why) as change:
                redrive.send([[after.letter]], change, partial(note_progress, redrive, progress))
        finally:
            progress.result = result_lines(redrive)
