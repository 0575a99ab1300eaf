"""`dlq redrive`: sends dead letters back to their consumer's queue, those that are safe to send."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from rich.table import Table
from typer import BadParameter, Option

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.letter import Box, Letter, boxes
from once.ops.dead_letters.letter_context import Case
from once.ops.dead_letters.queue_walk import Walk
from once.ops.dead_letters.redrive import Pace, Redriver
from once.ops.dead_letters.redrive_safety import Judged, Prospect, Verdict, judge_all
from once.ops.dedup_records.dedup_table import DedupTable
from once.ops.dlq._edit import edited_letter
from once.ops.dlq._letter_list import verdict_lines
from once.ops.dlq._options import (
    MOST,
    Choice,
    KeyOption,
    Limit,
    MessageIds,
    Older,
    Owner,
    ReasonOption,
    Younger,
    check_names,
)
from once.ops.dlq._selection import approximate_number, looked_at, meant, walking
from once.ops.errors import OpsError
from once.ops.terminal.console import Service, console, progress
from once.ops.terminal.formatting import one_line
from once.schema import RELAY

EDIT_SECONDS = 60 * 60
"""How long a letter is held for its editor."""

_TOLD = 20

Judge = Callable[[Iterable[Letter]], list[Judged]]
Pages = Iterable[Sequence[Letter]]

DryRun = Annotated[bool, Option("--dry-run", help="Send nothing, tell what would be sent.")]
Edit = Annotated[bool, Option("--edit", help="Change the body of the one that is named first.")]
Unsafe = Annotated[
    bool, Option("--unsafe", help="Send those that are named although they are not safe.")
]
Rate = Annotated[float, Option(min=0.1, help="Messages a second, at most.")]


@dataclass(slots=True)
class Job:
    """One run: what sends, and what was not sent."""

    judge: Judge
    redriver: Redriver
    unsafe: bool
    edited: bool
    refused: list[Judged] = field(default_factory=list)
    returning: int = 0
    came_back: int = 0

    def send(self, letters: Sequence[Letter]) -> None:
        """Send those letters that may be sent."""
        new = [letter for letter in letters if not self.redriver.came_back(letter)]
        self.came_back += len(letters) - len(new)
        judged = self.judge(new)
        refused = [one for one in judged if not self._may_be_sent(one.verdict)]
        self.refused += refused
        sent = [one for one in judged if one not in refused]
        self.redriver.send([one.case.letter for one in sent], edited=self.edited)
        self.returning += sum(one.verdict.prospect is Prospect.RETURNS for one in sent)

    def _may_be_sent(self, verdict: Verdict) -> bool:
        return verdict.safe or (self.unsafe and verdict.prospect is not Prospect.STAYS)


def redrive(
    message_ids: MessageIds = None,
    consumer: Owner = None,
    reason: ReasonOption = None,
    key: KeyOption = None,
    older_than: Older = None,
    younger_than: Younger = None,
    limit: Limit = MOST,
    dry_run: DryRun = False,
    edit: Edit = False,
    unsafe: Unsafe = False,
    rate: Rate = 10,
    service: Service = "once",
) -> None:
    """Send dead letters back to the queue of their consumer, with their key and their history.

    What is not safe to send stays. A message is sent first and deleted then, so
    that this can be stopped at any time, and run again: what was sent twice is a
    duplicate to its consumer.
    """
    choice = Choice.of(reason, key, older_than, younger_than)
    names = message_ids or []
    _check(names, choice, edit=edit, unsafe=unsafe)
    deployment = Deployment.find(service)
    sqs, places = client("sqs"), _places(deployment, consumer)
    judge = partial(judge_all, DedupTable(client("dynamodb"), deployment.dedup_table))
    about = approximate_number(sqs, places)
    with walking(sqs, places, limit) as walk:
        pages: Pages = meant(walk, names, choice)
        if edit:
            pages = [[_edited(walk, letter, judge) for page in pages for letter in page]]
        if dry_run:
            _tell([one for page in pages for one in judge(page)])
        else:
            redriver = Redriver(sqs, Pace(rate), walk.taken)
            _run(Job(judge, redriver, unsafe, edit), pages, walk, about)
    console.print(looked_at(walk, about))


def _check(names: Sequence[str], choice: Choice, *, edit: bool, unsafe: bool) -> None:
    check_names(names, choice)
    if edit and len(names) != 1:
        raise BadParameter("changes one dead letter: name it", param_hint="--edit")
    if unsafe and not names:
        raise BadParameter("is for dead letters that are named", param_hint="--unsafe")


def _places(deployment: Deployment, consumer: str | None) -> list[Box]:
    if consumer == RELAY:
        raise OpsError("the relay has no queue: `outbox republish` publishes its events again")
    return [box for box in boxes(deployment, consumer) if box.owner != RELAY]


def _edited(walk: Walk, letter: Letter, judge: Judge) -> Letter:
    def look(changed: Letter) -> Case:
        return judge([changed])[0].case

    walk.hold(letter, EDIT_SECONDS)
    return edited_letter(look(letter), look)


def _tell(judged: Sequence[Judged]) -> None:
    console.print(*verdict_lines(judged), sep="\n")
    safe = sum(one.verdict.safe for one in judged)
    console.print(f"would be sent: {safe}; not safe to send: {len(judged) - safe}")


def _run(job: Job, pages: Pages, walk: Walk, about: int) -> None:
    try:
        with progress() as bar:
            task = bar.add_task("dead letters looked at", total=about)
            for page in pages:
                job.send(page)
                bar.update(task, completed=walk.looked_at)
    finally:
        console.print(_summary(job))
    if job.refused or job.redriver.result.failed:
        raise OpsError(_told(job))


def _summary(job: Job) -> Table:
    result = job.redriver.result
    table = Table("dead letters")
    table.add_column("number", justify="right")
    table.add_row("sent back", str(len(result.sent)))
    table.add_row("of these, will come back unless mended", str(job.returning))
    table.add_row("skipped, as not safe", str(len(job.refused)))
    table.add_row("failed", str(len(result.failed)))
    if job.came_back:
        table.add_row("sent back, and here again", str(job.came_back))
    return table


def _told(job: Job) -> str:
    refused = [f"{one.case.letter.message_id}: {one.verdict}" for one in job.refused]
    lines = [*job.redriver.result.failed, *refused]
    more = f"\n  and {len(lines) - _TOLD} more" if len(lines) > _TOLD else ""
    told = "".join(f"\n  {one_line(line)}" for line in lines[:_TOLD])
    return (
        f"{len(lines)} dead letters are still here; those that are not safe are sent by "
        f"`dlq redrive MESSAGE_ID --unsafe` alone, after a look outside:{told}{more}"
    )
