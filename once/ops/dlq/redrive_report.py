"""Report of a redrive: its plan and its result, as text and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from once.ops.dead_letters.redrive import RedriveResult
from once.ops.dead_letters.redrive_safety import AssessedLetter
from once.ops.dead_letters.redrive_verdict import RedriveOutcome, RedriveVerdict
from once.ops.dead_letters.safe_redrive import SafeRedrive
from once.ops.dlq._letter_json import verdict_json
from once.ops.dlq._letter_list import verdict_lines
from once.ops.dlq.search import LetterSearch
from once.ops.errors import OpsError
from once.ops.terminal.console import console, print_json
from once.ops.terminal.formatting import single_line

_MAX_FAILURE_LINES = 20


@dataclass(slots=True)
class RedriveReport:
    """Result of a redrive, or the expected one in a dry run.

    Attributes:
        job: the redrive.
        search: the search for its letters.
        as_json: whether stdout is for JSON alone.
        assessed: in a dry run, every letter with its verdict; otherwise None.
        stopped: whether the operator stopped it.
    """

    job: SafeRedrive
    search: LetterSearch
    as_json: bool
    assessed: Sequence[AssessedLetter] | None = None
    stopped: bool = False

    def show(self) -> None:
        """Print it on stdout."""
        if self.as_json:
            print_json(self._as_json())
            return
        if self.assessed is None:
            console.print(_summary(self.job))
        else:
            console.print(*verdict_lines(self.assessed), sep="\n")
            console.print(plan_text(self.job, self.assessed))
        console.print(self.search.progress_text)

    def raise_if_letters_stayed(self) -> None:
        """Raise `OpsError` if letters were not sent, with the reason for each."""
        if self.job.refused or self.job.redriver.result.failed:
            raise OpsError(_failure_text(self.job))

    def _as_json(self) -> dict[str, Any]:
        result = self.job.redriver.result
        sent, kept = _parts(self.job, self.assessed or ())
        planned = self.assessed is not None
        return {
            "dry_run": planned,
            "stopped": self.stopped,
            "sent": len(sent) if planned else len(result.sent),
            "will_come_back": _returning(sent) if planned else self.job.returning,
            "came_back": self.job.came_back,
            "planned": [verdict_json(one) for one in sent],
            "kept": [verdict_json(one) for one in (kept if planned else self.job.refused)],
            "failed": result.failed,
            "perhaps_sent": result.unanswered,
            "perhaps_not_deleted": result.undeleted,
            **self.search.as_json(),
        }


def plan_text(job: SafeRedrive, assessed: Sequence[AssessedLetter]) -> str:
    """Return how many letters would be sent and would stay, each with the part that matters."""
    sent, kept = _parts(job, assessed)
    return (
        f"would be sent: {len(sent)}, of which will come back unless mended: {_returning(sent)}, "
        f"not safe: {sum(not one.verdict.safe for one in sent)}; "
        f"would stay: {len(kept)}, of which would come back: {_returning(kept)}, "
        f"not safe to send: {sum(not one.verdict.safe for one in kept)}"
    )


def stopped_text(result: RedriveResult) -> str:
    """Return what is certain after Ctrl-C, and which letters are in doubt."""
    doubts = {
        "perhaps sent": result.unanswered,
        "sent, and perhaps not deleted": result.undeleted,
    }
    told = "".join(f"\n  {name}: {doubt}" for doubt, names in doubts.items() for name in names)
    return (
        f"stopped: {len(result.sent)} certainly sent back; in doubt: "
        f"{len(result.unanswered) + len(result.undeleted)}; all others are as they were. Run the "
        f"command again: a letter that is sent twice is a duplicate{told}"
    )


def _parts(
    job: SafeRedrive, assessed: Iterable[AssessedLetter]
) -> tuple[list[AssessedLetter], list[AssessedLetter]]:
    """Return the letters that would be sent, and those that would stay."""
    sent: list[AssessedLetter] = []
    kept: list[AssessedLetter] = []
    for one in assessed:
        (sent if job.may_be_sent(one.verdict) else kept).append(one)
    return sent, kept


def _returning(assessed: Iterable[AssessedLetter]) -> int:
    return sum(_comes_back(one.verdict) for one in assessed)


def _comes_back(verdict: RedriveVerdict) -> bool:
    return verdict.outcome is RedriveOutcome.DEAD_LETTERED_AGAIN


def _summary(job: SafeRedrive) -> Table:
    result = job.redriver.result
    table = Table("dead letters")
    table.add_column("number", justify="right")
    table.add_row("sent back", str(len(result.sent)))
    table.add_row("of these, will come back unless mended", str(job.returning))
    table.add_row("skipped, as not safe", str(len(job.refused) - _returning(job.refused)))
    if _returning(job.refused):
        table.add_row("left out, as they would come back", str(_returning(job.refused)))
    table.add_row("failed", str(len(result.failed)))
    if job.came_back:
        table.add_row("sent back, and here again", str(job.came_back))
    return table


def _failure_text(job: SafeRedrive) -> str:
    refused = [f"{one.context.letter.message_id}: {one.verdict}" for one in job.refused]
    lines = [*job.redriver.result.failed, *refused]
    more = (
        f"\n  and {len(lines) - _MAX_FAILURE_LINES} more" if len(lines) > _MAX_FAILURE_LINES else ""
    )
    told = "".join(f"\n  {single_line(line)}" for line in lines[:_MAX_FAILURE_LINES])
    return (
        f"{len(lines)} dead letters are still here; those that are not safe are sent by "
        "`once dlq redrive MESSAGE_ID --unsafe` alone, after a look outside; those that come back, "
        f"by --reason or --returning, once they are mended:{told}{more}"
    )
