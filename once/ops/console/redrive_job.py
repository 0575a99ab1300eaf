"""Redrive jobs: dead letters are sent back after a dry run, as `once dlq redrive` sends them."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from once.ops.aws.clients import RateLimiter, batches
from once.ops.console.confirmed_letters import ConfirmedLetters, check_stop, some_lines
from once.ops.console.jobs import Job, Progress
from once.ops.console.letter_query import command_line
from once.ops.console.state import ConsoleState
from once.ops.dead_letters.assessment import AssessedLetter, RedriveOutcome
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.redrive import Redrive, RedriveRequest, open_redrive
from once.ops.operator_log import logged_change

_KEPT = (
    "Each letter is assessed again before it is sent. A letter whose verdict has changed by then, "
    "or that has arrived since, stays."
)


def redrive_job(state: ConsoleState, request: RedriveRequest, back: str) -> Job:
    """Return the job for a redrive, after a dry run.

    Args:
        state: the console.
        request: what the operator asks for; nothing unsafe is ever sent.
        back: path of the page to return to.

    Raises:
        OpsError: the letters cannot be found.
    """
    request = replace(request, unsafe=False)
    with (
        state.letters.held(),
        open_redrive(state.deployment, request, returning_too=request.returning) as (
            search,
            redrive,
        ),
    ):
        plan = redrive.dry_run(request.pages(search))
    expected = {one.letter.message_id: one.verdict.outcome for one in plan.sent}
    return Job(
        title=f"Redrive {len(expected)} dead letters",
        plan=[
            str(plan),
            *filter(None, [redrive.overtaken_text]),
            search.progress_text,
            _KEPT,
            *some_lines([verdict_line(one) for one in plan.assessed]),
        ],
        changes=len(expected),
        work=partial(_redrive, state, request, expected),
        back=back,
        command=_command(request, plan.assessed),
    )


def _redrive(
    state: ConsoleState,
    request: RedriveRequest,
    expected: Mapping[str, RedriveOutcome],
    why: str | None,
    progress: Progress,
) -> None:
    with (
        state.letters.changing(),
        open_redrive(state.deployment, request, returning_too=request.returning) as (
            search,
            redrive,
        ),
    ):
        redrive.expected = expected
        confirmed = ConfirmedLetters(expected, search)
        progress.total = search.about.total
        pages = _calls(confirmed.pages(), request.rate)
        try:
            with logged_change(state.deployment, "dlq redrive", request.for_log(), why) as change:
                redrive.send(pages, change, partial(note_progress, redrive, progress))
        finally:
            progress.result = [*result_lines(redrive), *confirmed.result_lines()]


def _calls(pages: Iterator[Sequence[Letter]], rate: float) -> Iterator[Sequence[Letter]]:
    """Split pages into calls, so that a stop waits for one call alone."""
    for page in pages:
        yield from batches(page, RateLimiter(rate).max_per_call)


def note_progress(redrive: Redrive, progress: Progress) -> None:
    """Show how far a redrive is; raise `StoppedError` if the operator has stopped it."""
    progress.advance(redrive.walk.looked_at, redrive.counts)
    check_stop(progress, lambda: redrive.stopped_text)


def result_lines(redrive: Redrive) -> list[str]:
    """Return what became of letters that were not sent, as lines."""
    stayed = [
        f"{one.letter.message_id} stayed, as its verdict is now: {one.verdict}"
        for one in redrive.refused
    ]
    failed = some_lines(redrive.failed)
    return [*filter(None, [redrive.overtaken_text]), *some_lines(stayed), *failed]


def verdict_line(assessed: AssessedLetter) -> str:
    """Return a letter's id, consumer and verdict as a line."""
    letter = assessed.letter
    return f"{letter.message_id}, {letter.queue.owner}: {assessed.verdict}"


def _command(request: RedriveRequest, assessed: Sequence[AssessedLetter]) -> str | None:
    """Return the command that does the same; None if there is none.

    The command sends chosen letters that come back without a further option.
    """
    returning = any(one.verdict.comes_back for one in assessed)
    if returning and request.is_chosen and not request.returning:
        return None
    words = command_line("redrive", request.options, "--rate", f"{request.rate:g}")
    if request.returning and not request.is_chosen:
        words.append("--returning")
    return shlex.join([*words, *request.message_ids])
