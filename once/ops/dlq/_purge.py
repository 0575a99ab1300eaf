"""The command `dlq purge`: exports dead letters to a file, and deletes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.letter import Letter, dead_letter_queues
from once.ops.dead_letters.queue_walk import batches_by_queue
from once.ops.dead_letters.redrive import delete_letters
from once.ops.dlq._export import FOLDER, export, export_files
from once.ops.dlq._exported_letter import safe_until
from once.ops.dlq._letter_json import letter_json
from once.ops.dlq._letter_list import groups_table
from once.ops.dlq._options import LetterOptions, MessageIdsArgument, with_letter_options
from once.ops.dlq._search import LetterSearch, open_search
from once.ops.dlq._selection import selected_letters
from once.ops.errors import OpsError
from once.ops.operator_log import Change, WhyOption, logged_change
from once.ops.terminal.console import JsonOption, console, print_json, progress
from once.ops.terminal.formatting import format_time

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_STOLEN = "its hold ended before it was deleted, and another command may have changed it"

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
        job = _Purge(sqs, search, letters, as_json)
        if letters and not dry_run:
            if not yes:
                typer.confirm(f"delete {len(letters)} dead letters?", abort=True, err=True)
            told = options.for_log() | {"message_ids": names}
            with logged_change(deployment, "dlq purge", told, why) as change:
                job.run(export_file, change)
    if as_json:
        print_json({"dry_run": dry_run, **job.as_json()})
    job.raise_if_letters_stayed()
    if not names:
        search.raise_if_hidden()


@dataclass(slots=True)
class _Purge:
    """The export and deletion of letters that a search holds."""

    sqs: "SQSClient"
    search: LetterSearch
    letters: Sequence[Letter]
    is_json: bool
    files: list[Path] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    not_exported: dict[str, str] = field(default_factory=dict)
    not_deleted: dict[str, str] = field(default_factory=dict)

    def run(self, path: Path | None, change: Change) -> None:
        """Export and delete the letters."""
        try:
            self.search.raise_if_lapsed()
            self._export(path)
            self._delete()
        finally:
            change.message_ids = self.deleted
            change.counts = {"deleted": len(self.deleted), "failed": len(self._faults())}

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "letters": list(map(letter_json, self.letters)),
            "files": list(map(str, self.files)),
            "deleted": self.deleted,
            "failed": self._faults(),
            **self.search.as_json(),
        }

    def raise_if_letters_stayed(self) -> None:
        """Raise `OpsError` if letters were not deleted, with the reason for each."""
        if faults := self._faults():
            lines = "".join(f"\n  {name}: {said}" for name, said in faults.items())
            raise OpsError(
                f"{len(faults)} dead letters were not deleted, of which {len(self.not_deleted)} "
                f"stand in the file; run the same command again:{lines}"
            )

    def _faults(self) -> dict[str, str]:
        return {**self.not_exported, **self.not_deleted}

    def _export(self, path: Path | None) -> None:
        files = {path: self.letters} if path else export_files(self.letters, datetime.now(UTC))
        for file, some in files.items():
            faults = export(file, some)
            self.files.append(file)
            self.not_exported |= faults
            if not self.is_json:
                _tell(file, [letter for letter in some if letter.message_id not in faults])

    def _delete(self) -> None:
        written = [one for one in self.letters if one.message_id not in self.not_exported]
        with progress(as_json=self.is_json) as bar:
            task = bar.add_task("deleted", total=len(written))
            for some in batches_by_queue(written):
                self.not_deleted |= self._delete_batch(some)
                self.deleted += [
                    one.message_id for one in some if one.message_id not in self.not_deleted
                ]
                bar.update(task, completed=len(self.deleted))

    def _delete_batch(self, letters: Sequence[Letter]) -> Mapping[str, str]:
        # The deletion of an old receive may succeed although another command has the letter.
        held = self.search.walk.renew(letters)
        stolen = {one.message_id: _STOLEN for one in letters if one not in held}
        refused = delete_letters(self.sqs, held) if held else {}
        self.search.walk.forget(one for one in held if one.message_id not in refused)
        return {**stolen, **refused}


def _tell(file: Path, letters: Sequence[Letter]) -> None:
    known = [moment for moment in map(safe_until, letters) if moment]
    until = f"; `once dlq import` is safe until {format_time(min(known))}" if known else ""
    console.print(f"{len(letters)} written to {file}{until}", soft_wrap=True)
