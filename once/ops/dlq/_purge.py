"""The command `dlq purge`: exports dead letters to a file, and deletes them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.letter import Letter, dead_letter_queues
from once.ops.dlq._letter_json import letter_json
from once.ops.dlq._letter_list import groups_table
from once.ops.dlq.export import FOLDER
from once.ops.dlq.letter_options import LetterOptions, MessageIdsArgument, with_letter_options
from once.ops.dlq.letter_purge import LetterPurge, exported_text
from once.ops.dlq.search import open_search
from once.ops.dlq.selection import selected_letters
from once.ops.operator_log import Change, WhyOption, logged_change
from once.ops.terminal.console import JsonOption, console, print_json, progress

_YesOption = Annotated[bool, Option("--yes", help="Delete without asking.")]
_DryRunOption = Annotated[
    bool, Option("--dry-run", help="Show the dead letters that would be deleted.")
]
_ExportOption = Annotated[
    Path | None,
    Option(
        "--export",
        dir_okay=False,
        help=f"File to export to; by default {FOLDER}/dlq-<consumer>-<time>.jsonl.",
    ),
]


@with_letter_options
def purge(
    options: LetterOptions,
    message_ids: MessageIdsArgument = None,
    export_file: _ExportOption = None,
    yes: _YesOption = False,
    dry_run: _DryRunOption = False,
    why: WhyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Export dead letters to a file, and delete them; `dlq import` puts them back."""
    names = message_ids or []
    letter_filter = options.letter_filter(names)
    deployment = Deployment.find(options.service)
    sqs, places = client("sqs"), dead_letter_queues(deployment, options.consumer)
    with open_search(sqs, places, options.limit) as search:
        letters = [
            letter for page in selected_letters(search, names, letter_filter) for letter in page
        ]
        search.count_hidden()
        if not as_json:
            console.print(groups_table(letters, datetime.now(UTC)))
            console.print(search.progress_text)
        job = LetterPurge(sqs, search, letters)
        if letters and not dry_run:
            if not yes:
                typer.confirm(f"delete {len(letters)} dead letters?", abort=True, err=True)
            told = options.for_log() | {"message_ids": names}
            with logged_change(deployment, "dlq purge", told, why) as change:
                _run(job, export_file, change, as_json=as_json)
    if as_json:
        print_json({"dry_run": dry_run, **_as_json(job)})
    job.raise_if_letters_stayed()
    if not names:
        search.raise_if_hidden()


def _run(job: LetterPurge, path: Path | None, change: Change, *, as_json: bool) -> None:
    def exported(file: Path, letters: Sequence[Letter]) -> None:
        if not as_json:
            console.print(exported_text(file, letters), soft_wrap=True)

    with progress(as_json=as_json) as bar:
        task = bar.add_task("deleted", total=len(job.letters))
        job.run(
            path,
            change,
            exported=exported,
            batch_deleted=lambda: bar.update(task, completed=len(job.deleted)),
        )


def _as_json(job: LetterPurge) -> dict[str, Any]:
    return {
        "letters": list(map(letter_json, job.letters)),
        "files": list(map(str, job.files)),
        "deleted": job.deleted,
        "failed": job.faults,
        **job.search.as_json(),
    }
