"""Purge: exports dead letters to files, and deletes those that were written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from once.ops.dead_letters.export import export, export_files, safe_until
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.search import LetterSearch, batches_by_queue
from once.ops.errors import OpsError
from once.ops.operator_log import Change
from once.ops.terminal.formatting import format_time

Exported = Callable[[Path, Sequence[Letter]], object]

_STOLEN = "its hold ended before it was deleted, and another command may have changed it"


@dataclass(slots=True)
class LetterPurge:
    """The export and deletion of letters that a search holds.

    Attributes:
        search: holds the letters.
        letters: the letters.
        files: the files that were written.
        deleted: ids of the letters that were deleted.
        not_exported: the reason for each letter that could not be written, by message id.
        not_deleted: the reason for each letter that was written and not deleted.
    """

    search: LetterSearch
    letters: Sequence[Letter]
    files: list[Path] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    not_exported: dict[str, str] = field(default_factory=dict)
    not_deleted: dict[str, str] = field(default_factory=dict)

    def run(
        self,
        path: Path | None,
        change: Change,
        *,
        exported: Exported,
        batch_deleted: Callable[[], object],
    ) -> None:
        """Export and delete the letters; note in the change what was done, also if this ends early.

        Args:
            path: the file of the export; None for a new file for each consumer.
            change: the change in the operator log.
            exported: called with each file and the letters that it holds.
            batch_deleted: called after each batch; what it raises ends the deletion.

        Raises:
            OpsError: the letters were not held without a break, or a file cannot be written;
                nothing was deleted.
        """
        try:
            self.search.raise_if_lapsed()
            self._export(path, exported)
            self._delete(batch_deleted)
        finally:
            change.message_ids = self.deleted
            change.counts = {"deleted": len(self.deleted), "failed": len(self.faults)}

    def raise_if_letters_stayed(self) -> None:
        """Raise `OpsError` if letters were not deleted, with the reason for each."""
        if faults := self.faults:
            lines = "".join(f"\n  {name}: {said}" for name, said in faults.items())
            raise OpsError(
                f"{len(faults)} dead letters were not deleted, of which {len(self.not_deleted)} "
                f"stand in the file; run the same command again:{lines}"
            )

    @property
    def faults(self) -> dict[str, str]:
        """The reason for each letter that was not deleted, by message id."""
        return {**self.not_exported, **self.not_deleted}

    def _export(self, path: Path | None, exported: Exported) -> None:
        files = {path: self.letters} if path else export_files(self.letters, datetime.now(UTC))
        for file, some in files.items():
            faults = export(file, some)
            self.files.append(file)
            self.not_exported |= faults
            exported(file, [letter for letter in some if letter.message_id not in faults])

    def _delete(self, batch_deleted: Callable[[], object]) -> None:
        written = [one for one in self.letters if one.message_id not in self.not_exported]
        for some in batches_by_queue(written):
            self.not_deleted |= self._delete_batch(some)
            self.deleted += [
                one.message_id for one in some if one.message_id not in self.not_deleted
            ]
            batch_deleted()

    def _delete_batch(self, letters: Sequence[Letter]) -> Mapping[str, str]:
        # The deletion of an old receive may succeed although another command has the letter.
        held = self.search.walk.renew(letters)
        stolen = {one.message_id: _STOLEN for one in letters if one not in held}
        refused = self.search.walk.delete(held) if held else {}
        return {**stolen, **refused}


def exported_text(file: Path, letters: Sequence[Letter]) -> str:
    """Return the number of letters in a file, and until when they can be imported safely."""
    known = [moment for moment in map(safe_until, letters) if moment]
    until = f"; `once dlq import` is safe until {format_time(min(known))}" if known else ""
    return f"{len(letters)} written to {file}{until}"
