"""The command `dlq redrive`: sends safe dead letters back to their consumer's queue."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated

import typer
from typer import BadParameter, Option

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.letter import DeadLetterQueue, Letter, dead_letter_queues
from once.ops.dead_letters.letter_context import LetterContext
from once.ops.dead_letters.redrive import RateLimiter, Redriver
from once.ops.dead_letters.redrive_safety import assess_letters
from once.ops.dead_letters.safe_redrive import Assess, SafeRedrive
from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.ops.dlq._edit import edit_letter
from once.ops.dlq._options import (
    LetterFilter,
    LetterOptions,
    MessageIdsArgument,
    with_letter_options,
)
from once.ops.dlq._redrive_report import RedriveReport, plan_text, stopped_text
from once.ops.dlq._search import LetterSearch, open_search
from once.ops.dlq._selection import selected_letters
from once.ops.errors import OpsError, StoppedError
from once.ops.operator_log import Change, WhyOption, logged_change
from once.ops.terminal.console import JsonOption, error_console, progress
from once.schema import RELAY

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
    why: WhyOption = None,
    as_json: JsonOption = False,
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
    _check(names, edit=edit, unsafe=unsafe, as_json=as_json)
    deployment = Deployment.find(options.service)
    sqs, places = client("sqs"), _source_queues(deployment, options.consumer)
    assess = partial(assess_letters, DedupRecordReader.of(client("dynamodb"), deployment))
    with open_search(sqs, places, options.limit) as search:
        pages: _Pages = selected_letters(search, names, letter_filter)
        if edit:
            pages = [[_edited(letter, assess) for page in pages for letter in page]]
            search.raise_if_lapsed()
        is_chosen = bool(names) or letter_filter != LetterFilter()
        redriver = Redriver(sqs, RateLimiter(rate), search.walk.forget)
        job = SafeRedrive(assess, redriver, unsafe, edit, returning or is_chosen)
        report = RedriveReport(job, search, as_json)
        if dry_run:
            report.assessed = [one for page in pages for one in assess(page)]
        else:
            if not (is_chosen or yes):
                _confirm(job, pages := [*pages], search)
            told = {"message_ids": names, "edit": edit, "unsafe": unsafe, "returning": returning}
            with logged_change(deployment, "dlq redrive", options.for_log() | told, why) as change:
                _run(report, pages, change)
    report.show()
    report.raise_if_letters_stayed()
    if not names:
        search.raise_if_hidden()


def _check(names: Sequence[str], *, edit: bool, unsafe: bool, as_json: bool) -> None:
    if edit and len(names) != 1:
        raise BadParameter("changes one dead letter: name it", param_hint="--edit")
    if edit and as_json:
        raise BadParameter("opens an editor on the terminal: leave --json out", param_hint="--edit")
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


def _confirm(job: SafeRedrive, pages: _Pages, search: LetterSearch) -> None:
    """Ask before letters are sent that were not chosen.

    Raises:
        OpsError: the answer is no, there is no answer, or the letters could not be held meanwhile.
    """
    assessed = [one for page in pages for one in job.assess(page)]
    search.count_hidden()
    error_console.print(search.progress_text)
    error_console.print(plan_text(job, assessed), soft_wrap=True)
    number = sum(job.may_be_sent(one.verdict) for one in assessed)
    if not number:
        return
    try:
        typer.confirm(f"send {number} dead letters back?", abort=True, err=True)
    except typer.Abort:
        raise OpsError("nothing was sent: answer y, give --yes, or choose with --reason") from None
    search.raise_if_lapsed()


def _run(report: RedriveReport, pages: _Pages, change: Change) -> None:
    """Send the letters; if this fails or is stopped, show what was done."""
    job, search = report.job, report.search
    try:
        with progress(as_json=report.as_json) as bar:
            task = bar.add_task("dead letters looked at", total=search.about.total)
            for page in pages:
                job.send(page)
                bar.update(task, completed=search.walk.looked_at)
    except BaseException as error:
        report.stopped = isinstance(error, KeyboardInterrupt)
        report.show()
        if report.stopped:
            raise StoppedError(stopped_text(job.redriver.result)) from None
        raise
    finally:
        result = job.redriver.result
        change.message_ids = [*result.sent]
        change.counts = {
            "sent": len(result.sent),
            "kept": len(job.refused),
            "failed": len(result.failed),
            "in_doubt": len(result.unanswered) + len(result.undeleted),
        }
