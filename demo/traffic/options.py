"""Options of `send`."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from typer import BadParameter, Option

_MAX_COUNT = 100_000
_MAX_DUPLICATES = 10
"""Largest number of duplicates for each order."""

CountOption = Annotated[int, Option(min=1, max=_MAX_COUNT, help="Number of orders.")]
DuplicatesOption = Annotated[
    str, Option(help="Further deliveries: a share of the orders (30%) or a count (45).")
]
ConflictsOption = Annotated[
    int, Option(min=0, max=_MAX_COUNT, help="Events with an order's event id and other content.")
]
MalformedOption = Annotated[int, Option(min=0, max=_MAX_COUNT, help="Bodies that cannot be read.")]
RefusalsOption = Annotated[
    int, Option(min=0, max=_MAX_COUNT, help="Orders for an article that is out of stock.")
]
DeclinesOption = Annotated[
    int, Option(min=0, max=_MAX_COUNT, help="Other orders whose card is declined.")
]
SeedOption = Annotated[
    int | None,
    Option(min=0, help="The same seed sends the same events; by default all are new."),
]
StockOption = Annotated[bool, Option(help="Put new articles into stock first.")]
QueueOption = Annotated[
    str | None, Option(help="Send to this consumer's queue only, not to the topic.")
]
ManifestOption = Annotated[
    Path | None,
    Option("--manifest", dir_okay=False, help="Write a list of the messages to this file."),
]
TimeoutOption = Annotated[
    float, Option(min=1, help="Seconds in which the first messages must be processed.")
]

_DUPLICATES = re.compile(r"(?P<share>\d{1,9}(\.\d{1,9})?)%|(?P<count>\d{1,9})", re.ASCII)


def check_order_counts(*, refusals: int, declines: int, count: int) -> None:
    """Check that refused and declined orders are at most all orders.

    Args:
        refusals: orders to be refused.
        declines: orders to be declined.
        count: number of orders.

    Raises:
        typer.BadParameter: there are more of them than orders.
    """
    if refusals + declines > count:
        raise BadParameter(
            f"together at most --count, which is {count}", param_hint="--refusals, --declines"
        )


def parse_duplicates(text: str, count: int) -> int:
    """Return the number of duplicates.

    Args:
        text: a share of the orders, such as `30%`, or a count, such as `45`.
        count: the number of orders.

    Raises:
        typer.BadParameter: it is neither, or more than ten for each order.
    """
    match = _DUPLICATES.fullmatch(text.strip())
    if not match:
        raise BadParameter(
            f"{text!r} is neither a share of the orders, such as 30%, nor a count, such as 45",
            param_hint="--duplicates",
        )
    share = match["share"]
    number = round(Decimal(share) * count / 100) if share else int(match["count"])
    if number > _MAX_DUPLICATES * count:
        raise BadParameter(
            f"{text!r} is more than {_MAX_DUPLICATES} for each of {count} orders",
            param_hint="--duplicates",
        )
    return number
