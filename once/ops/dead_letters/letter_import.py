"""Import: puts the letters of an export back into their dead-letter queues.

A journal beside the export has the letters that were imported from it, so that an import can be
repeated.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from once.ops.aws.clients import BATCH_ENTRIES, batches_by_size, call_for_each
from once.ops.dead_letters.export import ExportedLetter, letter_digest
from once.ops.dead_letters.letter import WAITS, DeadLetterQueue, Group, Letter
from once.ops.dead_letters.search import open_search
from once.ops.errors import OpsError
from once.ops.operator_log import Change

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@dataclass(frozen=True, slots=True)
class ImportJournal:
    """The journal of one export.

    Attributes:
        path: its file: that of the export with `.imported` added.
        imported: message ids of the letters that were imported earlier, as in the export.
    """

    path: Path
    imported: frozenset[str]

    @classmethod
    def of(cls, export: Path) -> Self:
        """Read the journal of an export; empty if there is none.

        Raises:
            OpsError: it cannot be read.
        """
        path = export.with_name(f"{export.name}.imported")
        try:
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            return cls(path, frozenset(json.loads(line)["message_id"] for line in lines))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OpsError(
                f"{path} cannot be read ({error!r}), and says which letters were imported: "
                "repair it, or move it away and give --again"
            ) from None

    def check(self) -> None:
        """Raise `OpsError` if the journal cannot be written."""
        self.add([])

    def add(self, letters: Iterable[ExportedLetter]) -> None:
        """Note letters as imported, and flush the file to the disk.

        Raises:
            OpsError: it cannot be written.
        """
        at = datetime.now(UTC).isoformat(timespec="seconds")
        entries = [{"message_id": letter.message_id, "at": at} for letter in letters]
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(entry) + "\n" for entry in entries)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OpsError(
                f"{error}: the journal of the import cannot be written; copy the export into a "
                "folder that you can write to"
            ) from None


@dataclass(slots=True)
class LetterImport:
    """An import of the letters of an export.

    Attributes:
        sqs: an SQS client.
        queues: the dead-letter queue for the letters of each consumer.
        journal: the letters that were imported before.
        new: letters to be imported.
        there: letters in their queue already.
        before: letters that were imported before, and are gone since.
        past: letters past `safe_until`.
        imported: ids of the imported letters, in their queue.
        failed: the reason for each letter that was not imported, by its id in the export.
    """

    sqs: "SQSClient"
    queues: Mapping[str, DeadLetterQueue]
    journal: ImportJournal
    new: list[ExportedLetter] = field(default_factory=list)
    there: list[ExportedLetter] = field(default_factory=list)
    before: list[ExportedLetter] = field(default_factory=list)
    past: list[ExportedLetter] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    _stopped: set[Group | None] = field(default_factory=set)
    """Message groups with a letter that was not imported: the later ones wait."""

    def plan(
        self, letters: Iterable[ExportedLetter], limit: int, *, again: bool, unsafe: bool
    ) -> None:
        """Decide what is done with each letter, by the letters that are in the queues.

        Args:
            letters: the letters of the export.
            limit: most letters that are read from the queues.
            again: whether letters that were imported before are imported again.
            unsafe: whether letters past `safe_until` are imported.

        Raises:
            OpsError: not all letters in the queues could be seen.
        """
        present, now = self._present(limit), datetime.now(UTC)
        for letter in letters:
            if present[letter.digest] > 0:
                present[letter.digest] -= 1
                self.there.append(letter)
            elif letter.message_id in self.journal.imported and not again:
                self.before.append(letter)
            elif letter.is_past(now) and not unsafe:
                self.past.append(letter)
            else:
                self.new.append(letter)

    def _present(self, limit: int) -> Counter[str]:
        """Return the digests of the letters in the queues."""
        queues = [*dict.fromkeys(self.queues.values())]
        with open_search(self.sqs, queues, limit) as search:
            found = Counter(_digest(letter) for page in search.walk.pages() for letter in page)
            if queues and not search.walk.complete:
                raise OpsError(
                    f"more than {limit} dead letters are there, so that it is not known which of "
                    "the export are among them: raise --limit"
                )
        if search.hidden:
            raise search.hidden.error("nothing was imported: it may be there already. ")
        return found

    def run(self, change: Change) -> None:
        """Import the new letters, and note each batch in the journal.

        Raises:
            OpsError: the journal cannot be written.
            botocore.exceptions.BotoCoreError, ClientError: a whole call failed, retries included.
        """
        self.journal.check()
        try:
            for name, queue in self.queues.items():
                own = [letter for letter in self.new if letter.consumer == name]
                # Within one call to a FIFO queue, a letter could overtake one that is repeated.
                most = 1 if queue.is_fifo else BATCH_ENTRIES
                for some in batches_by_size(own, lambda letter: letter.size, most=most):
                    self._send(queue, some)
        finally:
            change.message_ids = self.imported
            change.counts = {"imported": len(self.imported), "failed": len(self.failed)}

    def _send(self, queue: DeadLetterQueue, letters: Sequence[ExportedLetter]) -> None:
        behind = [letter for letter in letters if _ordered_group(queue, letter) in self._stopped]
        self.failed |= {letter.message_id: WAITS for letter in behind}
        if not (letters := [letter for letter in letters if letter not in behind]):
            return
        taken, refused = call_for_each(
            lambda entries: self.sqs.send_message_batch(QueueUrl=queue.url, Entries=entries),
            [letter.entry() for letter in letters],
        )
        self.journal.add(letters[number] for number in taken)
        self.imported += [str(answer["MessageId"]) for answer in taken.values()]
        for number, said in refused.items():
            self._stopped |= {_ordered_group(queue, letters[number])} - {None}
            self.failed[letters[number].message_id] = said

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        """Return the result as JSON values; letters by their ids in the export."""
        return {
            "imported": len(self.new) if dry_run else len(self.imported),
            "there_already": _ids(self.there),
            "imported_before": _ids(self.before),
            "past_safe_until": _ids(self.past),
            "failed": self.failed,
        }

    def raise_if_letters_are_missing(self) -> None:
        """Raise `OpsError` if letters are neither in their queue nor imported now."""
        before = "imported before, and redriven or purged since; --again imports them once more"
        past = (
            "past their safe_until: their keys may be forgotten, and an event that was committed "
            "would be processed again; --unsafe imports them, and `once dlq redrive` judges each"
        )
        parts = {before: _ids(self.before), past: _ids(self.past)}
        parts["refused by SQS"] = [f"{name}: {said}" for name, said in self.failed.items()]
        told = "".join(
            f"\n{len(ids)} {what}:" + "".join(f"\n  {name}" for name in ids)
            for what, ids in parts.items()
            if ids
        )
        if told:
            raise OpsError(f"not all dead letters were imported{told}")


def _digest(letter: Letter) -> str:
    try:
        return letter_digest(letter)
    except Exception:  # such a letter was never exported
        return letter.message_id


def _ordered_group(queue: DeadLetterQueue, letter: ExportedLetter) -> Group | None:
    group = letter.message_group
    return None if group is None or not queue.is_fifo else (queue.url, group)


def _ids(letters: Iterable[ExportedLetter]) -> list[str]:
    return [letter.message_id for letter in letters]
