"""The command `dlq purge`: exports dead letters to a file, and deletes them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.letter import Letter, dead_letter_queues
from once.ops.dead_letters.queue_walk import QueueWalk, batches_by_queue
from once.ops.dead_letters.redrive import delete_letters
from once.ops.dlq._export import export
from once.ops.dlq._letter_list import groups_table
from once.ops.dlq._options import LetterOptions, MessageIdsArgument, with_letter_options
from once.ops.dlq._search import open_search
from once.ops.dlq._selection import selected_letters
from once.ops.errors import OpsError
from once.ops.terminal.console import console, progress

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_YesOption = Annotated[bool, Option("--yes", help="Delete without asking.")]
_DryRunOption = Annotated[
    bool, Option("--dry-run", help="Show the dead letters that would be deleted.")
]
_ExportOption = Annotated[
    Path | None,
    Option(
        "--export",
        dir_okay=False,
        help="File to export to; by default dlq-<consumer>-<time>.jsonl in this folder.",
    ),
]


@with_letter_options
def purge(
    options: LetterOptions,
    message_ids: MessageIdsArgument = None,
    export_file: _ExportOption = None,
    yes: _YesOption = False,
    dry_run: _DryRunOption = False,
) -> None:
    """Export dead letters to a file from which they can be sent again, and delete them."""
    names = message_ids or []
    letter_filter = options.letter_filter(names)
    deployment = Deployment.find(options.service)
    sqs, places = client("sqs"), dead_letter_queues(deployment, options.consumer)
    with open_search(sqs, places, options.limit) as search:
        letters = [
            letter for page in selected_letters(search, names, letter_filter) for letter in page
        ]
        search.count_hidden()
        console.print(groups_table(letters, datetime.now(UTC)))
        console.print(search.progress_text)
        if letters and not dry_run:
            if not yes:
                typer.confirm(f"delete {len(letters)} dead letters?", abort=True)
            search.raise_if_lapsed()
            _export_and_delete(sqs, search.walk, letters, export_file)
    if not names:
        search.raise_if_hidden()


def _export_and_delete(
    sqs: "SQSClient", walk: QueueWalk, letters: Sequence[Letter], path: Path | None
) -> None:
    faults = _export(letters, path)
    written = [letter for letter in letters if letter.message_id not in faults]
    refused = _delete(sqs, walk, written)
    if faults or refused:
        raise OpsError(_failure_text(faults, refused))


def _export(letters: Sequence[Letter], path: Path | None) -> dict[str, str]:
    now = datetime.now(UTC)
    faults: dict[str, str] = {}
    for file, some in _files(letters, path, now).items():
        failed = export(file, some, now)
        console.print(f"{len(some) - len(failed)} written to {file}", soft_wrap=True)
        faults |= failed
    return faults


def _files(
    letters: Sequence[Letter], path: Path | None, now: datetime
) -> Mapping[Path, Sequence[Letter]]:
    if path:
        return {path: letters}
    owners = dict.fromkeys(letter.queue.owner for letter in letters)
    return {
        Path(f"dlq-{owner}-{now:%Y%m%dT%H%M%SZ}.jsonl"): [
            letter for letter in letters if letter.queue.owner == owner
        ]
        for owner in owners
    }


def _delete(sqs: "SQSClient", walk: QueueWalk, letters: Sequence[Letter]) -> dict[str, str]:
    refused: dict[str, str] = {}
    with progress() as bar:
        task = bar.add_task("deleted", total=len(letters))
        for some in batches_by_queue(letters):
            failed = delete_letters(sqs, some)
            walk.forget(letter for letter in some if letter.message_id not in failed)
            refused |= failed
            bar.advance(task, len(some) - len(failed))
    return refused


def _failure_text(faults: Mapping[str, str], refused: Mapping[str, str]) -> str:
    lines = "".join(f"\n  {name}: {said}" for name, said in {**faults, **refused}.items())
    return (
        f"{len(faults) + len(refused)} dead letters were not deleted, of which {len(refused)} "
        f"stand in the file, and can be deleted with the same command again:{lines}"
    )
