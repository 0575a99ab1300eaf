"""Report of a redrive: its plan and its result, as text and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from once.ops.dead_letters.group_order import WAITS
from once.ops.dead_letters.redrive import RedriveResult
from once.ops.dead_letters.redrive_safety import AssessedLetter
from once.ops.dead_letters.redrive_verdict import RedriveOutcome, RedriveVerdict
from once.ops.dead_letters.safe_redrive import RedrivePlan, SafeRedrive
from once.ops.dlq._letter_json import verdict_json
from once.ops.dlq._letter_list import verdict_lines
from once.ops.dlq.redrive_run import RedriveRun
from once.ops.errors import OpsError
from once.ops.terminal.console import console, error_console, print_json
from once.ops.terminal.formatting import single_line

_MAX_FAILURE_LINES = 20
_MAX_OVERTAKEN = 5


@dataclass(slots=True)
class RedriveReport:
    """Result of a redrive, or the expected one in a dry run.

    Attributes:
        run: the redrive.
        as_json: whether stdout is for JSON alone.
        assessed: in a dry run, every letter with its verdict; otherwise None.
        stopped: whether the operator stopped it.
    """

    run: RedriveRun
    as_json: bool
    assessed: Sequence[AssessedLetter] | None = None
    stopped: bool = False

    def show(self) -> None:
        """Print it on stdout, and a warning on stderr."""
        if warning := overtaken_text(self.run):
            error_console.print(warning, soft_wrap=True)
        if self.as_json:
            print_json(self._as_json())
            return
        if self.assessed is None:
            console.print(_summary(self.run.job))
        else:
            console.print(*verdict_lines(self.assessed), sep="\n")
            console.print(plan_text(self.run.job, self.assessed))
        console.print(self.run.search.progress_text)

    def raise_if_letters_stayed(self) -> None:
        """Raise `OpsError` if letters were not sent, with the reason for each."""
        if self.run.job.refused or self.run.job.redriver.result.failed:
            raise OpsError(_failure_text(self.run.job))

    def _as_json(self) -> dict[str, Any]:
        result = self.run.job.redriver.result
        plan = self.run.job.plan(self.assessed or ())
        planned = self.assessed is not None
        return {
            "dry_run": planned,
            "stopped": self.stopped,
            "sent": len(plan.sent) if planned else len(result.sent),
            "will_come_back": _returning(plan.sent) if planned else self.run.job.returning,
            "came_back": self.run.job.came_back,
            "planned": [verdict_json(one) for one in plan.sent],
            "kept": [
                verdict_json(one) for one in (plan.refused if planned else self.run.job.refused)
            ],
            "failed": _waiting(plan) if planned else result.failed,
            "overtaken": [letter.message_id for letter in self.run.overtaken],
            "perhaps_sent": result.unanswered,
            "perhaps_not_deleted": result.undeleted,
            **self.run.search.as_json(),
        }


def plan_text(job: SafeRedrive, assessed: Sequence[AssessedLetter]) -> str:
    """Return how many letters would be sent and would stay, each with the part that matters."""
    plan = job.plan(assessed)
    waiting = len(plan.waiting)
    return (
        f"would be sent: {len(plan.sent)}, of which will come back unless mended: "
        f"{_returning(plan.sent)}, not safe: {sum(not one.verdict.safe for one in plan.sent)}; "
        f"would stay: {len(plan.refused) + waiting}, of which would come back: "
        f"{_returning(plan.refused)}, "
        f"not safe to send: {sum(not one.verdict.safe for one in plan.refused)}"
        + (f", behind one of these in their message group: {waiting}" if waiting else "")
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


def overtaken_text(run: RedriveRun) -> str | None:
    """Return a warning about letters that are sent before earlier ones of their message group."""
    number, names = len(run.overtaken), [letter.message_id for letter in run.overtaken]
    if number:
        named = ", ".join(names[:_MAX_OVERTAKEN]) + (", …" if number > _MAX_OVERTAKEN else "")
        return (
            f"warning: {number} earlier letters of the same message groups stay; redriven later, "
            f"they are processed after those that are sent now: {named}"
        )
    if run.perhaps_overtaken:
        return (
            "warning: not all letters were read, and earlier ones of the same message groups may "
            "stay: raise --limit"
        )
    return None


def _waiting(plan: RedrivePlan) -> list[str]:
    return [f"{one.context.letter.message_id}: {WAITS}" for one in plan.waiting]


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
