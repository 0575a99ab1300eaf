"""Import journal: a file beside an export, with the letters that were imported from it."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from once.ops.dlq._exported_letter import ExportedLetter
from once.ops.errors import OpsError


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
        self._append([])

    def add(self, letters: Iterable[ExportedLetter]) -> None:
        """Note letters as imported, and flush the file to the disk.

        Raises:
            OpsError: it cannot be written.
        """
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._append([{"message_id": letter.message_id, "at": at} for letter in letters])

    def _append(self, entries: list[dict[str, str]]) -> None:
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
