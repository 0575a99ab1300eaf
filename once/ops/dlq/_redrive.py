"""The command `dlq redrive`: sends safe dead letters back to their consumer's queue."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated

import typer
from rich.table import Table
from typer import BadParameter, Option

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.letter import DeadLetterQueue, Letter, dead_letter_queues
from once.ops.dead_letters.letter_context import LetterContext
from once.ops.dead_letters.redrive import RateLimiter, Redriver, RedriveResult
from once.ops.dead_letters.redrive_safety import AssessedLetter, assess_letters
from once.ops.dead_letters.redrive_verdict import RedriveOutcome, RedriveVerdict
from once.ops.dead_letters.safe_redrive import Assess, SafeRedrive
from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.ops.dlq._edit import edit_letter
from once.ops.dlq._letter_list import verdict_lines
from once.ops.dlq._options import (
    LetterFilter,
    LetterOptions,
    MessageIdsArgument,
    with_letter_options,
)
from once.ops.dlq._search import LetterSearch, open_search
from once.ops.dlq._selection import selected_letters
from once.ops.errors import OpsError, StoppedError
from once.ops.terminal.console import console, progress
from once.ops.terminal.formatting import single_line
from once.schema import RELAY

_MAX_FAILURE_LINES = 20

_Pages = Iterable[Sequence[Letter]]

_DryRunOption = Annotated[
    bool, Option("--dry-run", help="Show whether each is safe to send, and send none.")
]
_EditOption = Annotated[
    bool, Option("--edit", help="Edit the body before it is sent; give one MESSAGE_ID.")
]
_UnsafeOption = Annotated[
    bool, Option("--unsafe", help="Send each MESSAGE_ID, even if that is not safe.")
]
_YesOption = Annotated[
    bool, Option("--yes", help="Send without asking, also without a filter and a MESSAGE_ID.")
]
_ReturningOption = Annotated[
    bool,
    Option(
        "--returning",
        help="Without a filter and a MESSAGE_ID: send also what would be dead-lettered again.",
    ),
]
_RateOption = Annotated[float, Option(min=0.1, help="Most messages a second.")]


@with_letter_options
def redrive(
    options: LetterOptions,
    message_ids: MessageIdsArgument = None,
    dry_run: _DryRunOption = False,
    edit: _EditOption = False,
    unsafe: _UnsafeOption = False,
    yes: _YesOption = False,
    returning: _ReturningOption = False,
    rate: _RateOption = 10,
) -> None:
    """Send dead letters back to the queue of their consumer, with their key and their history.

    A dead letter that is not safe to send stays. Without a MESSAGE_ID, --reason,
    --key or an age, the command asks first, and leaves out dead letters that would
    come back. Each one is sent first and deleted afterwards. The command can
    therefore be stopped at any time and run again: the consumer recognises a
    message that was sent twice as a duplicate.
    """
    names = message_ids or []
    letter_filter = options.letter_filter(names)
    _check(names, edit=edit, unsafe=unsafe)
    deployment = Deployment.find(options.service)
    sqs, places = client("sqs"), _source_queues(deployment, options.consumer)
    assess = partial(assess_letters, DedupRecordReader(client("dynamodb"), deployment.dedup_table))
    with open_search(sqs, places, options.limit) as search:
        pages: _Pages = selected_letters(search, names, letter_filter)
        if edit:
            pages = [[_edited(letter, assess) for page in pages for letter in page]]
            search.raise_if_lapsed()
        is_chosen = bool(names) or letter_filter != LetterFilter()
        redriver = Redriver(sqs, RateLimiter(rate), search.walk.forget)
        job = SafeRedrive(assess, redriver, unsafe, edit, returning or is_chosen)
        if dry_run:
            _show_verdicts(job, [one for page in pages for one in assess(page)])
        else:
            if not (is_chosen or yes):
                _confirm(job, pages := [*pages], search)
            _run(job, pages, search)
    console.print(search.progress_text)
    if not names:
        search.raise_if_hidden()


def _check(names: Sequence[str], *, edit: bool, unsafe: bool) -> None:
    if edit and len(names) != 1:
        raise BadParameter("changes one dead letter: name it", param_hint="--edit")
    if unsafe and not names:
        raise BadParameter("is for dead letters that are named", param_hint="--unsafe")


def _source_queues(deployment: Deployment, consumer: str | None) -> list[DeadLetterQueue]:
    if consumer == RELAY:
        raise OpsError("the relay has no queue: `once outbox republish` publishes its events again")
    return [queue for queue in dead_letter_queues(deployment, consumer) if queue.owner != RELAY]


def _edited(letter: Letter, assess: Assess) -> Letter:
    def look(changed: Letter) -> LetterContext:
        return assess([changed])[0].context

    return edit_letter(look(letter), look)


def _show_verdicts(job: SafeRedrive, assessed: Sequence[AssessedLetter]) -> None:
    console.print(*verdict_lines(assessed), sep="\n")
    console.print(_plan_text(job, assessed))


def _plan_text(job: SafeRedrive, assessed: Sequence[AssessedLetter]) -> str:
    """Return how many letters would be sent and would stay, each with the part that matters."""
    sent = [one.verdict for one in assessed if job.may_be_sent(one.verdict)]
    kept = [one.verdict for one in assessed if not job.may_be_sent(one.verdict)]
    return (
        f"would be sent: {len(sent)}, of which will come back unless mended: {_returning(sent)}, "
        f"not safe: {sum(not verdict.safe for verdict in sent)}; "
        f"would stay: {len(kept)}, of which would come back: {_returning(kept)}, "
        f"not safe to send: {sum(not verdict.safe for verdict in kept)}"
    )


def _returning(verdicts: Iterable[RedriveVerdict]) -> int:
    return sum(one.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN for one in verdicts)


def _confirm(job: SafeRedrive, pages: _Pages, search: LetterSearch) -> None:
    """Ask before letters are sent that were not chosen.

    Raises:
        OpsError: the answer is no, there is no answer, or the letters could not be held meanwhile.
    """
    assessed = [one for page in pages for one in job.assess(page)]
    search.count_hidden()
    console.print(search.progress_text)
    console.print(_plan_text(job, assessed), soft_wrap=True)
    number = sum(job.may_be_sent(one.verdict) for one in assessed)
    if not number:
        return
    try:
        typer.confirm(f"send {number} dead letters back?", abort=True, err=True)
    except typer.Abort:
        raise OpsError("nothing was sent: answer y, give --yes, or choose with --reason") from None
    search.raise_if_lapsed()


def _run(job: SafeRedrive, pages: _Pages, search: LetterSearch) -> None:
    try:
        with progress() as bar:
            task = bar.add_task("dead letters looked at", total=search.about.total)
            for page in pages:
                job.send(page)
                bar.update(task, completed=search.walk.looked_at)
    except KeyboardInterrupt:
        raise StoppedError(_stopped_text(job.redriver.result)) from None
    finally:
        console.print(_summary(job))
    if job.refused or job.redriver.result.failed:
        raise OpsError(_failure_text(job))


def _stopped_text(result: RedriveResult) -> str:
    """Return what is certain after Ctrl-C, and which letters are in doubt."""
    doubts = {
        "perhaps sent": result.unanswered,
        "sent, and perhaps not deleted": result.undeleted,
    }
    told = "".join(f"\n  {name}: {doubt}" for doubt, names in doubts.items() for name in names)
    return (
        f"stopped: {len(result.sent)} certainly sent back; in doubt: "
        f"{len(result.unanswered) + len(result.undeleted)}; all others are as they were. Run the "
        f"command again: a letter that is sent twice is a duplicate{told}"
    )


def _summary(job: SafeRedrive) -> Table:
    result = job.redriver.result
    table = Table("dead letters")
    table.add_column("number", justify="right")
    table.add_row("sent back", str(len(result.sent)))
    table.add_row("of these, will come back unless mended", str(job.returning))
    kept = [one.verdict for one in job.refused]
    table.add_row("skipped, as not safe", str(len(kept) - _returning(kept)))
    if _returning(kept):
        table.add_row("left out, as they would come back", str(_returning(kept)))
    table.add_row("failed", str(len(result.failed)))
    if job.came_back:
        table.add_row("sent back, and here again", str(job.came_back))
    return table


def _failure_text(job: SafeRedrive) -> str:
    refused = [f"{one.context.letter.message_id}: {one.verdict}" for one in job.refused]
    lines = [*job.redriver.result.failed, *refused]
    more = (
        f"\n  and {len(lines) - _MAX_FAILURE_LINES} more" if len(lines) > _MAX_FAILURE_LINES else ""
    )
    told = "".join(f"\n  {single_line(line)}" for line in lines[:_MAX_FAILURE_LINES])
    return (
        f"{len(lines)} dead letters are still here; those that are not safe are sent by "
        "`once dlq redrive MESSAGE_ID --unsafe` alone, after a look outside; those that come back, "
        f"by --reason or --returning, once they are mended:{told}{more}"
    )
