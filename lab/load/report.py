"""The results of a load run: counted, on the terminal, in a file, and on the page docs/lab.md.

`python -m lab.load.report` writes the page's table from the last `reports/lab-load.json`.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from boto3.dynamodb.types import TypeDeserializer
from rich.console import Console
from rich.table import Table

from lab.load.deployment import Deployed
from lab.load.payments import Payments
from lab.load.traffic import Traffic, order_in
from redelivery import Subject

_ROOT = Path(__file__).resolve().parents[2]
FILE = _ROOT / "reports" / "lab-load.json"
PAGE = _ROOT / "docs" / "lab.md"
BEGIN, END = "<!-- load: begin -->", "<!-- load: end -->"

_COUNTS = ("doubled", "lost", "dead_letters")
_TITLES = (
    *("approach", "doubled", "lost", "dead letters", "handler / `none`"),
    *("kills", "doubled", "lost", "dead letters"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """One run of an approach.

    Attributes:
        doubled: number of orders that were charged or stored more than once.
        lost: number of orders without a charge, or not stored with their charge, and without a
            dead letter.
        dead_letters: number of messages in the dead-letter queue.
        kills: number of killed processes.
        seconds: time from the first send until the queue is at rest.
    """

    doubled: int
    lost: int
    dead_letters: int
    kills: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.doubled} doubled, {self.lost} lost, {self.dead_letters} dead-lettered"
            f" in {self.seconds:.0f} s"
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """All that a load run has found, by approach: with `killed`, processes were killed.

    A ratio is the handler's duration, divided by its duration without idempotency.
    """

    sent: Traffic
    load: dict[str, Result] = field(default_factory=dict)
    killed: dict[str, Result] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)

    def is_clean(self, name: str) -> bool:
        """Return whether no run of an approach has doubled or lost an order."""
        found = [results[name] for results in (self.load, self.killed) if name in results]
        return not any(each.doubled or each.lost for each in found)


def result(
    deployed: Deployed, subject: Subject, payments: Payments, sent: Traffic, seconds: float
) -> Result:
    """Count what a run at rest has left behind, and take its dead letters out of their queue."""
    rows = _rows(deployed, subject)
    stored = Counter(str(row["order_id"]) for row in rows if row.get("charge_id"))
    sqs, url = deployed.sqs, deployed.dead_letters
    letters: list[str] = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            letters.append(order_in(message["Body"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    charges = payments.charges
    return Result(
        doubled=sum(charges[order] > 1 or stored[order] > 1 for order in sent.orders),
        # Not charged or not stored, and not dead-lettered either.
        lost=sum(not (charges[o] and stored[o]) and o not in letters for o in sent.orders),
        dead_letters=len(letters),
        kills=payments.kills,
        seconds=seconds,
    )


def _rows(deployed: Deployed, subject: Subject) -> Iterator[Mapping[str, Any]]:
    """Yield the stored orders, of whichever store the approach uses."""
    read = TypeDeserializer().deserialize
    scan = deployed.aws.client("dynamodb").get_paginator("scan")
    for table in subject.tables:
        if table.is_state:
            for page in scan.paginate(TableName=table.name, ConsistentRead=True):
                yield from ({k: read(v) for k, v in item.items()} for item in page["Items"])
    for store in subject.stores:
        yield from (row for row in store.items() if "order_id" in row)


def write(measured: Measured) -> None:
    """Write the results as JSON."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(as_json(measured), indent=2) + "\n")


def as_json(measured: Measured) -> dict[str, Any]:
    """Return the results as JSON can hold them. Ratios are durations beside no idempotency."""

    def figures(found: Result) -> dict[str, Any]:
        return {**asdict(found), "seconds": round(found.seconds, 1)}

    return {
        "messages": len(measured.sent.orders),
        "duplicates": measured.sent.duplicates,
        "approaches": {
            name: {
                "ratio": round(measured.ratios[name], 2),
                "without_kills": figures(measured.load[name]),
                "with_kills": figures(measured.killed[name]),
            }
            for name in measured.load
        },
        "not_run": measured.not_run,
    }


def show(measured: Measured, console: Console) -> None:
    """Print the results: first without kills, then with kills."""
    found = as_json(measured)
    title = f"{found['messages']} orders, {found['duplicates']} of them sent twice"
    # The padding keeps the table within 80 columns.
    table = Table("approach", title=f"{title}; right: with kills", box=None, padding=(0, 2, 0, 0))
    short = ("doubled", "lost", "dead")
    for column in (*short, "ratio", "kills", *short):
        table.add_column(column, justify="right", no_wrap=True)
    for name, row in found["approaches"].items():
        table.add_row(name, *_cells(row))
    console.print(table)
    console.print("ratio: duration of the handler, divided by its duration without idempotency")
    for name, reason in measured.not_run.items():
        console.print(f"{name} was not run: {reason}", markup=False)


def rewritten(page: str, found: Mapping[str, Any]) -> str:
    """Return the page with the table of a report.

    Raises:
        ValueError: the page does not have both markers once.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"docs/lab.md needs {BEGIN} and {END}, once each, for its table")
    before, _, rest = page.partition(BEGIN)
    lines = [
        f"{found['messages']:,} orders, {found['duplicates']} of them sent twice; the last four",
        "columns are of a second run, in which function processes were killed:",
        "",
        f"| {' | '.join(_TITLES)} |",
        f"|---|{'--:|' * (len(_TITLES) - 1)}",
        *(f"| `{name}` | {' | '.join(_cells(row))} |" for name, row in found["approaches"].items()),
        *(f"\n`{name}` was not run: {why}" for name, why in found["not_run"].items()),
    ]
    return "\n".join([before + BEGIN, *lines, END + rest.partition(END)[2]])


def _cells(row: Mapping[str, Any]) -> list[str]:
    plain, killed = row["without_kills"], row["with_kills"]
    counts, counts_killed = ([str(each[name]) for name in _COUNTS] for each in (plain, killed))
    return [*counts, f"{row['ratio']:.2f}", str(killed["kills"]), *counts_killed]


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(), json.loads(FILE.read_text())))
