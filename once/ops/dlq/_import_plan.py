"""Import plan: the letters of an export, by what an import does with them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from once.ops.dlq._exported_letter import ExportedLetter
from once.ops.dlq._import_journal import ImportJournal


@dataclass(slots=True)
class ImportPlan:
    """The letters of an export, by what is done with them.

    Attributes:
        new: to be imported.
        there: in their queue already.
        before: imported before, and gone since.
        past: past `safe_until`.
    """

    new: list[ExportedLetter] = field(default_factory=list)
    there: list[ExportedLetter] = field(default_factory=list)
    before: list[ExportedLetter] = field(default_factory=list)
    past: list[ExportedLetter] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        letters: Iterable[ExportedLetter],
        present: Counter[str],
        journal: ImportJournal,
        *,
        again: bool,
        unsafe: bool,
    ) -> "ImportPlan":
        """Return the plan.

        Args:
            letters: the letters of the export.
            present: the digests of the letters in the queues.
            journal: says which were imported before.
            again: whether those are imported again.
            unsafe: whether letters past `safe_until` are imported.
        """
        plan, left, now = cls(), present.copy(), datetime.now(UTC)
        for letter in letters:
            if left[letter.digest] > 0:
                left[letter.digest] -= 1
                plan.there.append(letter)
            elif letter.message_id in journal.imported and not again:
                plan.before.append(letter)
            elif letter.is_past(now) and not unsafe:
                plan.past.append(letter)
            else:
                plan.new.append(letter)
        return plan
