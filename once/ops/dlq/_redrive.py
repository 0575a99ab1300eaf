"""The command `dlq redrive`: sends safe dead letters back to their consumer's queue."""

from collections.abc import Sequence
from typing import Annotated

import typer
from typer import BadParameter, Option

from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.letter_context import LetterContext
from once.ops.dead_letters.safe_redrive import Assess
from once.ops.dlq._edit import edit_letter
from once.ops.dlq.letter_options import LetterOptions, MessageIdsArgument, with_letter_options
from once.ops.dlq.redrive_report import RedriveReport, plan_text, stopped_text
from once.ops.dlq.redrive_run import LetterPages, RedriveRequest, RedriveRun, open_redrive
from once.ops.errors import OpsError, StoppedError
from once.ops.operator_log import Change, WhyOption, logged_change
from once.ops.terminal.console import JsonOption, error_console, progress

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
    request = RedriveRequest(
        options=options,
        message_ids=names,
        edit=edit,
        unsafe=unsafe,
        returning=returning,
        rate=rate,
    )
    is_chosen = request.is_chosen
    _check(names, edit=edit, unsafe=unsafe, as_json=as_json)
    deployment = Deployment.find(options.service)
    with open_redrive(deployment, request, returning_too=returning or is_chosen) as run:
        pages: LetterPages = run.pages()
        if edit:
            pages = [[_edited(letter, run.job.assess) for page in pages for letter in page]]
            run.search.raise_if_lapsed()
        report = RedriveReport(run, as_json)
        if dry_run:
            report.assessed = run.assessed(pages)
        else:
            if not (is_chosen or yes):
                _confirm(run, pages := [*pages])
            with logged_change(deployment, "dlq redrive", request.for_log(), why) as change:
                _run(run, report, pages, change)
    report.show()
    report.raise_if_letters_stayed()
    if not names:
        run.search.raise_if_hidden()


def _check(names: Sequence[str], *, edit: bool, unsafe: bool, as_json: bool) -> None:
    if edit and len(names) != 1:
        raise BadParameter("changes one dead letter: name it", param_hint="--edit")
    if edit and as_json:
        raise BadParameter("opens an editor on the terminal: leave --json out", param_hint="--edit")
    if unsafe and not names:
        raise BadParameter("is for dead letters that are named", param_hint="--unsafe")


def _edited(letter: Letter, assess: Assess) -> Letter:
    def look(changed: Letter) -> LetterContext:
        return assess([changed])[0].context

    return edit_letter(look(letter), look)


def _confirm(run: RedriveRun, pages: LetterPages) -> None:
    """Ask before letters are sent that were not chosen.

    Raises:
        OpsError: the answer is no, there is no answer, or the letters could not be held meanwhile.
    """
    search, assessed = run.search, run.assessed(pages)
    search.count_hidden()
    error_console.print(search.progress_text)
    error_console.print(plan_text(run.job, assessed), soft_wrap=True)
    number = len(run.job.plan(assessed).sent)
    if not number:
        return
    try:
        typer.confirm(f"send {number} dead letters back?", abort=True, err=True)
    except typer.Abort:
        raise OpsError("nothing was sent: answer y, give --yes, or choose with --reason") from None
    search.raise_if_lapsed()


def _run(run: RedriveRun, report: RedriveReport, pages: LetterPages, change: Change) -> None:
    """Send the letters; if this fails or is stopped, show what was done."""
    search = run.search
    try:
        with progress(as_json=report.as_json) as bar:
            task = bar.add_task("dead letters looked at", total=search.about.total)
            run.send(pages, change, lambda: bar.update(task, completed=search.walk.looked_at))
    except BaseException as error:
        report.stopped = isinstance(error, KeyboardInterrupt)
        report.show()
        if report.stopped:
            raise StoppedError(stopped_text(run.job.redriver.result)) from None
        raise
