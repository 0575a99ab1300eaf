"""Report of a run: `reports/verify.json`, and a table for the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from proof.real_aws.account import Account
from proof.real_aws.checks.check import Checked, Result
from proof.report import write

NAME = "verify"
_COLOURS = {Result.PASSED: "green", Result.FAILED: "red", Result.NOT_OBSERVED: "yellow"}


@dataclass
class Report:
    """A run, as far as it has come.

    Attributes:
        account: account and region.
        prefix: the prefix of every name.
        started: when it began.
        cost_estimate_usd: the estimate.
        checks: the checks that are done.
        seconds: its duration.
    """

    account: Account
    prefix: str
    started: datetime
    cost_estimate_usd: float
    checks: list[Checked] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether there are checks and every one passed: what was not observed is no pass."""
        return bool(self.checks) and all(each.result is Result.PASSED for each in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return it as the file has it."""
        return {
            "account": self.account.number,
            "region": self.account.region,
            "prefix": self.prefix,
            "started": self.started.isoformat(timespec="seconds"),
            "seconds": self.seconds,
            "checks": [each.to_json() for each in self.checks],
            "cost_estimate_usd": self.cost_estimate_usd,
        }

    def write(self) -> Path:
        """Write the file, in place of an earlier one."""
        return write(NAME, self.to_json())


def print_checks(console: Console, checks: Sequence[Checked]) -> None:
    """Print the checks as a table."""
    table = Table("check", "result", "seen", title_justify="left")
    table.add_column("seconds", justify="right")
    for each in checks:
        result = f"[{_COLOURS[each.result]}]{each.result}"
        table.add_row(each.name, result, each.seen.replace("[", "\\["), f"{each.seconds:.0f}")
    console.print(table)
    for each in checks:
        if each.result is Result.FAILED:
            text = f"{each.name}: {each.if_not}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
