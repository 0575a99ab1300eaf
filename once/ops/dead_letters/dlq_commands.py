"""The commands `dlq list`, `show`, `redrive`, `purge`, `archives` and `import`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

from rich.table import Table
from typer import Argument, BadParameter, Option

from once.ops import dedup_records, terminal
from once.ops.aws.clients import client
from once.ops.dead_letters import (
    archive,
    assessment,
    dead_letter_text,
    disagreement,
    edit,
    grouping,
    queue_walk,
)
from once.ops.dead_letters.assessment import AssessedMessage
from once.ops.dead_letters.dead_letter import DeadLetter, dead_letter_queues
from once.ops.dead_letters.redrive import (
    MessageBatches,
    Redrive,
    RedrivePlan,
    RedriveRequest,
    open_redrive,
    returning_number,
    waits_text,
)
from once.ops.errors import OpsError, StoppedError
from once.ops.operator_changes import Change, ChangeOptions, logged_change
from once.ops.operator_notes import notes_of, read_notes, short_name
from once.ops.progress import find_deployment, progress, saying

_MAX_FAILURE_LINES = 20
_MAX_DISAGREEMENTS = 5
_READING = "reading the dead letters"

_MessageIdArgument = Annotated[
    str, Argument(metavar="MESSAGE_ID", help="Id that `list` shows; its beginning is enough.")
]


app = terminal.command_group()


@app.command("list")
def list_command(
    options: queue_walk.SearchOptions,
    by: Annotated[
        str,
        Option(
            "--by",
            metavar="FACTS",
            help=f"Group by these, with commas: {', '.join(grouping.Grouping)}.",
        ),
    ] = grouping.DEFAULT,
    excerpt: Annotated[
        bool,
        Option("--excerpt", help="Show the beginning of each group's newest body, masked."),
    ] = False,
    as_json: terminal.JsonOption = False,
) -> None:
    """Show the dead letters in groups, by consumer and cause. They stay in their queues.

    A cause is a reason with an error. Consumers that disagree about an event are named.
    """
    if as_json and (excerpt or by != grouping.DEFAULT):
        raise BadParameter("is for the table: leave --json out", param_hint="--by / --excerpt")
    message_filter, chosen = options.message_filter(), grouping.read_groupings(by)
    deployment = find_deployment(options.service)
    with options.search(deployment) as walk:
        messages = _read(queue_walk.selected_messages(walk, (), message_filter))
        disagreements = disagreement.find_among(deployment, messages)
    if as_json:
        letters = list(map(dead_letter_text.message_json, messages))
        found = [
            {"consumers": [*one.contents], "message_ids": one.message_ids} for one in disagreements
        ]
        terminal.print_json({**walk.as_json(), "letters": letters, "disagreements": found})
    else:
        if messages:
            now = datetime.now(UTC)
            table = dead_letter_text.groups_table(messages, now, chosen, excerpt=excerpt)
            terminal.console.print(table)
            for line in _warnings(disagreements):
                terminal.console.print(line, style="bold red", soft_wrap=True)
        else:
            terminal.console.print(
                "no dead letter could be seen" if walk.hidden else "no dead letters"
            )
        for line in dead_letter_text.acknowledged_lines(messages, read_notes(deployment)):
            terminal.console.print(line, soft_wrap=True)
        terminal.console.print(walk.progress_text)
    walk.raise_if_hidden()


def _warnings(disagreements: Iterable[disagreement.Disagreement]) -> list[str]:
    told = [f"warning: {one}" for one in disagreements]
    return terminal.first_lines(told, _MAX_DISAGREEMENTS, " such events")


def _read(pages: MessageBatches) -> list[DeadLetter]:
    with saying(_READING):
        return [one for page in pages for one in page]


@app.command()
def show(
    message_id: _MessageIdArgument,
    consumer: queue_walk.ConsumerOption = None,
    limit: queue_walk.LimitOption = queue_walk.DEFAULT_LIMIT,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Show one dead letter, its dedup record, and whether it is safe to send it back."""
    deployment = find_deployment(service)
    queues = dead_letter_queues(deployment, consumer)
    with queue_walk.open_search(queues, limit) as walk, saying(_READING):
        [message] = queue_walk.messages_by_id(walk, [message_id])
    records = dedup_records.DedupRecordReader.of(client("dynamodb"), deployment)
    [assessed] = assessment.assess_messages(records, [message])
    found = disagreement.find_for(deployment, assessed)
    if as_json:
        whole = dead_letter_text.whole_message_json(assessed, datetime.now(UTC))
        terminal.print_json(whole | {"disagreement": found and found.as_json()})
        return
    for line in dead_letter_text.message_lines(assessed, datetime.now(UTC)):
        terminal.console.print(line, soft_wrap=True)
    terminal.console.print()
    if found:
        terminal.console.print(found.table())
    terminal.console.print(dead_letter_text.body_text(message), soft_wrap=True)
    if claimed := dead_letter_text.claimed_text(assessed):
        terminal.console.print("\nits data, from S3:")
        terminal.console.print(claimed, soft_wrap=True)


@app.command()
def redrive(request: RedriveRequest, how: ChangeOptions) -> None:
    """Send dead letters back to the queue of their consumer, with their key and their history.

    A dead letter that needs a person stays. One that would fail again is sent if it is
    named, with --returning, or if a filter selects it and the plan was confirmed: with
    --yes it stays. Each one is sent first and deleted afterwards. The command can
    therefore be stopped at any time and run again: the consumer recognises a message
    that was sent twice as a duplicate.

    With --yes, the dead letters are sent while they are read.
    """
    _check_options(request, how)
    deployment = find_deployment(request.service)
    # Whoever sees no plan has not seen that they would fail again.
    seen = request.is_chosen and not how.yes
    returning_too = request.returning or bool(request.message_ids) or seen
    with open_redrive(deployment, request, returning_too=returning_too) as job:
        pages: MessageBatches = request.pages(job.walk)
        if request.edit:
            pages = [[edit.edit_message(one, job.records) for page in pages for one in page]]
            job.walk.raise_if_lapsed()
        plan, agreed = RedrivePlan(), how.yes and not how.dry_run
        if not agreed:
            # Only here are all pages read first: --yes sends the first page before the second is
            # read, so that the holds of many thousand messages need not last until the end.
            with saying(_READING):
                plan = job.dry_run(pages := [*pages])
            agreed = _is_agreed(job, plan, how)
        if agreed:
            with logged_change(deployment, "dlq redrive", request.for_log(), how.why) as change:
                _run_redrive(job, pages, change, as_json=how.as_json)
    if agreed:
        _show_result(job, as_json=how.as_json)
    elif how.as_json:  # as text, the plan was shown before the question
        _print_json(job, _plan_json(plan), dry_run=how.dry_run)
    stayed = job.refused if agreed else plan.refused
    if not how.dry_run and (stayed or job.failed):
        raise OpsError(_stayed_text(stayed, job.failed))
    if not request.message_ids:
        job.walk.raise_if_hidden()


def _check_options(request: RedriveRequest, how: ChangeOptions) -> None:
    names = request.message_ids or []
    if request.edit and len(names) != 1:
        raise BadParameter("changes one dead letter: name it", param_hint="--edit")
    if request.edit and how.as_json:
        raise BadParameter("opens an editor on the terminal: leave --json out", param_hint="--edit")
    if request.unsafe and not names:
        raise BadParameter("is for dead letters that are named", param_hint="--unsafe")


def _is_agreed(job: Redrive, plan: RedrivePlan, how: ChangeOptions) -> bool:
    """Show the plan, ask, and tell whether to send; the messages are held meanwhile."""
    job.walk.count_hidden()
    number = terminal.counted(len(plan.sent), "dead letter")
    agreed = how.agreed(
        f"send {number} back?" if plan.sent else None,
        *dead_letter_text.verdict_lines(plan.assessed),
        *filter(None, [str(plan), job.overtaken_text, job.walk.progress_text]),
    )
    job.walk.raise_if_lapsed()
    return agreed


def _run_redrive(job: Redrive, pages: MessageBatches, change: Change, *, as_json: bool) -> None:
    """Send the messages; if this fails or is stopped, show what was done."""
    try:
        with progress(as_json=as_json) as bar:
            task = bar.add_task("dead letters looked at", total=job.walk.about.total)
            job.send(pages, change, lambda: bar.update(task, completed=job.walk.looked_at))
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt)
        _show_result(job, as_json=as_json, stopped=stopped)
        if stopped:
            raise StoppedError(job.stopped_text) from None
        raise


def _show_result(job: Redrive, *, as_json: bool, stopped: bool = False) -> None:
    if warning := job.overtaken_text:
        terminal.error_console.print(warning, soft_wrap=True)
    if as_json:
        _print_json(job, _result_json(job), stopped=stopped)
        return
    left_out = returning_number(job.refused)
    rows = {
        "sent back": len(job.sent),
        "of these, will fail again": job.returning,
        "left, needs a person": len(job.refused) - left_out,
        "left, fails again": left_out,
        "failed": len(job.failed),
        "sent back, and here again": job.came_back,
    }
    terminal.console.print(_numbers(rows))
    terminal.console.print(job.walk.progress_text)


def _plan_json(plan: RedrivePlan) -> dict[str, Any]:
    return {
        "sent": len(plan.sent),
        "will_fail_again": returning_number(plan.sent),
        "planned": list(map(dead_letter_text.verdict_json, plan.sent)),
        "kept": list(map(dead_letter_text.verdict_json, plan.refused)),
        "failed": [waits_text(one.message) for one in plan.waiting],
    }


def _result_json(job: Redrive) -> dict[str, Any]:
    return {
        "sent": len(job.sent),
        "will_fail_again": job.returning,
        "planned": [],
        "kept": list(map(dead_letter_text.verdict_json, job.refused)),
        "failed": job.failed,
    }


def _print_json(
    job: Redrive, found: Mapping[str, Any], *, dry_run: bool = False, stopped: bool = False
) -> None:
    terminal.print_json(
        {
            "dry_run": dry_run,
            "stopped": stopped,
            **found,
            "came_back": job.came_back,
            "overtaken": [message.message_id for message in job.overtaken],
            "perhaps_sent": job.unanswered,
            "perhaps_not_deleted": job.undeleted,
            **job.walk.as_json(),
        }
    )


def _numbers(rows: Mapping[str, int]) -> Table:
    table = terminal.table("dead letters", ">number")
    for name, number in rows.items():
        table.add_row(name, str(number))
    return table


def _stayed_text(stayed: Sequence[AssessedMessage], failed: Sequence[str]) -> str:
    number = terminal.counted(len(failed) + len(stayed), "dead letter")
    shown = [
        *terminal.first_lines(failed, _MAX_FAILURE_LINES),
        *dead_letter_text.stayed_lines(stayed),
    ]
    told = "".join(f"\n  {terminal.single_line(line)}" for line in shown)
    more = "; --returning sends those that fail again" if returning_number(stayed) else ""
    return f"{number} stayed{more}:{told}"


@app.command()
def purge(
    options: queue_walk.SearchOptions,
    how: ChangeOptions,
    message_ids: queue_walk.MessageIdsArgument = None,
    everything: Annotated[
        bool, Option("--all", help="Every dead letter; with --yes and without a filter.")
    ] = False,
) -> None:
    """Archive dead letters, and delete them; `dlq import` puts them back.

    The archive is in the dedup table, for 30 days and for every operator: `dlq archives`.
    It keeps the reason, which a question asks for without --why. With --yes, without a
    MESSAGE_ID and a filter, --all is needed as well.
    """
    names = message_ids or []
    message_filter = options.message_filter(names)
    chosen = names or options.consumer or message_filter != queue_walk.MessageFilter()
    if how.yes and not how.dry_run:
        if not (chosen or everything):
            raise BadParameter("is for every dead letter: filter, or give it", param_hint="--all")
        if not how.why:
            raise BadParameter("say why: the archive and the log keep it", param_hint="--why")
    deployment = find_deployment(options.service)
    with options.search(deployment) as walk:
        messages = _read(queue_walk.selected_messages(walk, names, message_filter))
        walk.count_hidden()
        job = archive.MessagePurge(deployment, walk, messages)
        number = terminal.counted(len(messages), "dead letter")
        table = dead_letter_text.groups_table(messages, datetime.now(UTC))
        question = f"archive and delete {number}?" if messages else None
        warnings = _warnings(disagreement.find_among(deployment, messages))
        if how.agreed(question, table, *warnings, walk.progress_text):
            told = options.for_log() | {"message_ids": names, "archive": job.name}
            why = how.reason()
            with (
                logged_change(deployment, "dlq purge", told, why) as change,
                progress(as_json=how.as_json) as bar,
            ):
                task = bar.add_task("deleted", total=len(messages))
                job.run(
                    change,
                    why,
                    batch_deleted=lambda: bar.update(task, completed=len(job.deleted)),
                )
            if not how.as_json:
                terminal.console.print(job.archived_text, soft_wrap=True)
    if how.as_json:
        terminal.print_json(
            {
                "dry_run": how.dry_run,
                "letters": list(map(dead_letter_text.message_json, job.messages)),
                "archive": job.archive and job.archive.name,
                "deleted": job.deleted,
                "failed": job.faults,
                **walk.as_json(),
            }
        )
    job.raise_if_messages_stayed()
    if not names:
        walk.raise_if_hidden()


@app.command("archives")
def archives_command(
    service: terminal.ServiceOption = "once", as_json: terminal.JsonOption = False
) -> None:
    """Show the archives of purged dead letters, the newest first."""
    found = notes_of(find_deployment(service)).archives
    if as_json:
        terminal.print_json({"archives": [*map(asdict, found)]})
        return
    if not found:
        terminal.console.print("no archives")
        return
    table = terminal.table("archive", ">number", "consumers", "by", "kept until", "why")
    for one in found:
        owners, until = ", ".join(one.consumers), terminal.format_time(one.until)
        by = short_name(one.who)
        table.add_row(one.name, str(one.number), owners, by, until, one.why or terminal.UNKNOWN)
    terminal.console.print(table)


@app.command("import")
def import_messages(
    how: ChangeOptions,
    name: Annotated[
        str, Argument(metavar="ARCHIVE", help="Archive of a purge; its name's beginning is enough.")
    ],
    again: Annotated[bool, Option("--again", help="Import also what was imported before.")] = False,
    unsafe: Annotated[
        bool, Option("--unsafe", help="Import also messages whose key may be forgotten.")
    ] = False,
    into: Annotated[
        str | None,
        Option("--into", metavar="CONSUMER", help="Queue of a consumer that was renamed."),
    ] = None,
    limit: queue_walk.LimitOption = queue_walk.DEFAULT_LIMIT,
    service: terminal.ServiceOption = "once",
) -> None:
    """Put the messages of a purge's archive back into their dead-letter queues, as they were.

    A message that is there already is not sent again, so that the command can be
    repeated. One that was imported before and is gone was redriven or purged
    since: it is left out, unless --again is given. After the time `safe_until` of
    a message, its key may be forgotten, and its event may be processed twice: it is
    left out as well.
    """
    deployment = find_deployment(service)
    archives = archive.Archives(deployment)
    messages = archives.read(found := archives.find(name))
    job = archive.MessageImport.of(deployment, found, messages, into)
    with saying(_READING):
        job.plan(messages, limit, again=again, unsafe=unsafe)
    number = terminal.counted(len(job.new), "dead letter")
    if how.agreed(f"import {number}?" if job.new else None, _import_table(job, dry_run=True)):
        asked = {"into": into, "again": again, "unsafe": unsafe, "service": service}
        told = {"archive": found.name, **asked}
        with logged_change(deployment, "dlq import", told, how.why) as change:
            job.run(change)
    if how.as_json:
        terminal.print_json({"dry_run": how.dry_run, **job.as_json(dry_run=how.dry_run)})
    elif job.imported or job.failed:
        terminal.console.print(_import_table(job, dry_run=False))
    job.raise_if_messages_are_missing()


def _import_table(job: archive.MessageImport, *, dry_run: bool) -> Table:
    return _numbers(
        {
            name.replace("_", " "): value if isinstance(value, int) else len(value)
            for name, value in job.as_json(dry_run=dry_run).items()
        }
    )
