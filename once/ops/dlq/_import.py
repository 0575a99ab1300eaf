"""The command `dlq import`: puts the letters of a purge's export back into their queues."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Argument, Option

from once.ops.aws.batch_calls import BATCH_ENTRIES, batches_by_size, call_for_each
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.group_order import WAITS, Group, GroupOrder
from once.ops.dead_letters.letter import DeadLetterQueue, Letter, dead_letter_queues
from once.ops.dlq._exported_letter import ExportedLetter, letter_digest, read_line
from once.ops.dlq._import_journal import ImportJournal
from once.ops.dlq._import_plan import ImportPlan
from once.ops.dlq.letter_options import DEFAULT_LIMIT, LimitOption
from once.ops.dlq.search import open_search
from once.ops.errors import OpsError
from once.ops.operator_log import Change, WhyOption, logged_change
from once.ops.terminal.console import JsonOption, ServiceOption, console, print_json

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_FileArgument = Annotated[
    Path, Argument(metavar="FILE", exists=True, dir_okay=False, help="File that `purge` wrote.")
]
_IntoOption = Annotated[
    str | None, Option("--into", metavar="CONSUMER", help="Queue of a consumer that was renamed.")
]
_DryRunOption = Annotated[bool, Option("--dry-run", help="Show the numbers, and import none.")]
_AgainOption = Annotated[
    bool, Option("--again", help="Import also letters that were imported from FILE before.")
]
_UnsafeOption = Annotated[
    bool, Option("--unsafe", help="Import also letters whose key may be forgotten.")
]


def import_letters(
    file: _FileArgument,
    again: _AgainOption = False,
    unsafe: _UnsafeOption = False,
    dry_run: _DryRunOption = False,
    into: _IntoOption = None,
    limit: LimitOption = DEFAULT_LIMIT,
    service: ServiceOption = "once",
    why: WhyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put the letters of a purge's export back into their dead-letter queues, as they were.

    A letter that is there already is not sent again, so that the command can be
    repeated. A letter that was imported before and is gone was redriven or purged
    since: it is left out, unless --again is given. This is known from the file
    FILE.imported. After the time `safe_until` of a letter, its key may be
    forgotten, and its event may be processed twice: it is left out as well.
    """
    letters, journal = _read(file), ImportJournal.of(file)
    deployment = Deployment.find(service)
    boxes = {
        name: dead_letter_queues(deployment, into or name)[0]
        for name in dict.fromkeys(letter.consumer for letter in letters)
    }
    sqs = client("sqs")
    there = _present(sqs, [*dict.fromkeys(boxes.values())], limit)
    plan = ImportPlan.of(letters, there, journal, again=again, unsafe=unsafe)
    job = _Import(sqs, boxes, journal, plan)
    if plan.new and not dry_run:
        told = {
            "file": file.name,
            "into": into,
            "again": again,
            "unsafe": unsafe,
            "service": service,
        }
        with logged_change(deployment, "dlq import", told, why) as change:
            job.run(change)
    if as_json:
        print_json({"dry_run": dry_run, **job.as_json(dry_run=dry_run)})
    else:
        console.print(job.table(dry_run=dry_run))
    job.raise_if_letters_are_missing()


def _read(file: Path) -> list[ExportedLetter]:
    """Read an export; nothing is imported of one with a line that cannot be read."""
    letters = []
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise OpsError(f"{error}: nothing was imported") from None
    for number, line in enumerate(lines, start=1):
        try:
            letters.append(read_line(line))
        except ValueError as error:
            raise OpsError(f"line {number} of {file}: {error}; nothing was imported") from None
    return letters


def _present(sqs: "SQSClient", boxes: Sequence[DeadLetterQueue], limit: int) -> Counter[str]:
    """Return the digests of the letters in the queues.

    Raises:
        OpsError: not all of them could be seen.
    """
    with open_search(sqs, boxes, limit) as search:
        found = Counter(_digest(letter) for page in search.walk.pages() for letter in page)
        if boxes and not search.walk.complete:
            raise OpsError(
                f"more than {limit} dead letters are there, so that it is not known which of the "
                "export are among them: raise --limit"
            )
    if search.hidden:
        raise search.hidden.error("nothing was imported: it may be there already. ")
    return found


def _digest(letter: Letter) -> str:
    try:
        return letter_digest(letter)
    except Exception:  # such a letter was never exported
        return letter.message_id


@dataclass(slots=True)
class _Import:
    """An import of the new letters of a plan."""

    sqs: "SQSClient"
    boxes: dict[str, DeadLetterQueue]
    journal: ImportJournal
    plan: ImportPlan
    imported: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    order: GroupOrder = field(default_factory=GroupOrder)

    def run(self, change: Change) -> None:
        """Send the letters, and note each batch in the journal."""
        self.journal.check()
        try:
            for name, box in self.boxes.items():
                own = [letter for letter in self.plan.new if letter.consumer == name]
                # Within one call to a FIFO queue, a letter could overtake one that is repeated.
                most = 1 if box.is_fifo else BATCH_ENTRIES
                for some in batches_by_size(own, lambda letter: letter.size, most=most):
                    self._send(box, self.order.may_go(some, partial(_group, box), self._stays))
        finally:
            change.message_ids = self.imported
            change.counts = {"imported": len(self.imported), "failed": len(self.failed)}

    def _stays(self, letter: ExportedLetter) -> None:
        self.failed[letter.message_id] = WAITS

    def _send(self, box: DeadLetterQueue, letters: Sequence[ExportedLetter]) -> None:
        if not letters:
            return
        taken, refused = call_for_each(
            lambda entries: self.sqs.send_message_batch(QueueUrl=box.url, Entries=entries),
            [letter.entry() for letter in letters],
        )
        self.journal.add(letters[number] for number in taken)
        self.imported += [str(answer["MessageId"]) for answer in taken.values()]
        for number, said in refused.items():
            self.order.stop(_group(box, letters[number]))
            self.failed[letters[number].message_id] = said

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        """Return the result as JSON values; letters by their ids in the export."""
        return {
            "imported": len(self.plan.new) if dry_run else len(self.imported),
            "there_already": _ids(self.plan.there),
            "imported_before": _ids(self.plan.before),
            "past_safe_until": _ids(self.plan.past),
            "failed": self.failed,
        }

    def table(self, *, dry_run: bool) -> Table:
        """Return the result as a table."""
        table = Table("dead letters")
        table.add_column("number", justify="right")
        for name, value in self.as_json(dry_run=dry_run).items():
            number = value if isinstance(value, int) else len(value)
            table.add_row(name.replace("_", " "), str(number))
        return table

    def raise_if_letters_are_missing(self) -> None:
        """Raise `OpsError` if letters are neither in their queue nor imported now."""
        before = "imported before, and redriven or purged since; --again imports them once more"
        past = (
            "past their safe_until: their keys may be forgotten, and an event that was committed "
            "would be processed again; --unsafe imports them, and `once dlq redrive` judges each"
        )
        parts = {before: _ids(self.plan.before), past: _ids(self.plan.past)}
        parts["refused by SQS"] = [f"{name}: {said}" for name, said in self.failed.items()]
        told = "".join(
            f"\n{len(ids)} {what}:" + "".join(f"\n  {name}" for name in ids)
            for what, ids in parts.items()
            if ids
        )
        if told:
            raise OpsError(f"not all dead letters were imported{told}")


def _group(box: DeadLetterQueue, letter: ExportedLetter) -> Group | None:
    group = letter.message_group
    return None if group is None or not box.is_fifo else (box.url, group)


def _ids(letters: Iterable[ExportedLetter]) -> list[str]:
    return [letter.message_id for letter in letters]
