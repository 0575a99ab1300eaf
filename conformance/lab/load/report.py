"""The results of a load run: counted, on the terminal, in a file, and on the lab's page.

`python -m lab.load.report` writes the page's table from the last `reports/lab-load.json`.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from boto3.dynamodb.types import TypeDeserializer
from rich.console import Console
from rich.table import Table

from lab.load.deployment import Deployment
from lab.load.traffic import Traffic, order_in

FILE = Path(__file__).resolve().parents[3] / "reports" / "lab-load.json"
PAGE = Path(__file__).resolve().parents[1] / "README.md"
BEGIN, END = "<!-- load: begin -->", "<!-- load: end -->"

_COUNTS = ("doubled", "lost", "dead_letters")
_TITLES = (
    *("approach", "doubled", "lost", "dead letters", "handler / `none`"),
    *("kills", "doubled", "lost", "dead letters"),
)

Report = dict[str, Any]
"""All that a load run has found, as `reports/lab-load.json` has it: `messages`, `duplicates`, the
reasons of `not_run`, and for each of the `approaches` its `ratio` and what `counted` returns of the
runs `without_kills` and `with_kills`. A ratio is the handler's duration, divided by its duration
without idempotency."""


def empty(sent: Traffic) -> Report:
    """Return the report of a run that has found nothing yet."""
    messages, duplicates = len(sent.orders), sent.duplicates
    return {"messages": messages, "duplicates": duplicates, "approaches": {}, "not_run": {}}


def counted(place: Deployment, sent: Traffic, seconds: float) -> Report:
    """Count what a run at rest has left behind, and take its dead letters out of their queue.

    Returns:
        `doubled`: number of orders that were charged or stored more than once. `lost`: number of
        orders without a charge, or not stored with their charge, and without a dead letter.
        `dead_letters`: number of messages in the dead-letter queue. `kills`: number of killed
        processes. `seconds`: time from the first send until the queue is at rest.
    """
    charges = place.provider.charges
    stored = Counter(str(row["order_id"]) for row in _rows(place) if row.get("charge_id"))
    sqs, url = place.sqs, place.dead_letters
    dead: list[str] = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            dead.append(order_in(message["Body"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return {
        "doubled": sum(charges[order] > 1 or stored[order] > 1 for order in sent.orders),
        "lost": sum(not (charges[o] and stored[o]) and o not in dead for o in sent.orders),
        "dead_letters": len(dead),
        "kills": place.provider.kills,
        "seconds": round(seconds, 1),
    }


def _rows(place: Deployment) -> Iterator[Mapping[str, Any]]:
    """Yield the stored orders, of whichever store the approach uses."""
    read = TypeDeserializer().deserialize
    scan = place.aws.client("dynamodb").get_paginator("scan")
    for table in place.subject.tables:
        if table.is_state:
            for page in scan.paginate(TableName=table.name, ConsistentRead=True):
                yield from ({k: read(v) for k, v in item.items()} for item in page["Items"])
    for store in place.subject.stores:
        yield from (row for row in store.items() if "order_id" in row)


def is_clean(found: Report, name: str) -> bool:
    """Return whether no run of an approach has doubled or lost an order."""
    row = found["approaches"].get(name, {})
    runs = [row[run] for run in ("without_kills", "with_kills") if run in row]
    return not any(run["doubled"] or run["lost"] for run in runs)


def write(found: Report) -> None:
    """Write the report as JSON."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(found, indent=2) + "\n")


def show(found: Report, console: Console) -> None:
    """Print the results: first without kills, then with kills."""
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
    for name, reason in found["not_run"].items():
        console.print(f"{name} was not run: {reason}", markup=False)


def rewritten(page: str, found: Report) -> str:
    """Return the page with the table of a report.

    Raises:
        ValueError: the page does not have both markers once.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"{PAGE} needs {BEGIN} and {END}, once each, for its table")
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
