"""Options of `send`."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from typer import BadParameter, Option

_MAX_COUNT = 100_000
_MAX_DUPLICATES = 10
"""Largest number of duplicates for each order."""

CountOption = Annotated[int, Option(min=1, max=_MAX_COUNT, help="Orders in all.")]
DuplicatesOption = Annotated[
    str, Option(help="Further deliveries: a share of the orders (30%) or a count (45).")
]
ConflictsOption = Annotated[
    int, Option(min=0, max=_MAX_COUNT, help="Events that contradict an order under its event id.")
]
MalformedOption = Annotated[int, Option(min=0, max=_MAX_COUNT, help="Bodies that cannot be read.")]
RefusalsOption = Annotated[
    int, Option(min=0, max=_MAX_COUNT, help="How many of the orders are for what is out of stock.")
]
DeclinesOption = Annotated[
    int, Option(min=0, max=_MAX_COUNT, help="How many of the others carry a card that is declined.")
]
SeedOption = Annotated[
    int | None,
    Option(min=0, help="The same seed sends the very same events; without one, all are new."),
]
StockOption = Annotated[
    bool, Option(help="Put the articles on the shelf first, unless they are there.")
]
QueueOption = Annotated[
    str | None, Option(help="Send to this consumer's queue alone, past the topic.")
]
ManifestOption = Annotated[
    Path | None, Option("--manifest", dir_okay=False, help="Write what was sent to this file.")
]
TimeoutOption = Annotated[
    float, Option(min=1, help="Seconds that the first messages may take to be worked off.")
]

_DUPLICATES = re.compile(r"(?P<share>\d{1,9}(\.\d{1,9})?)%|(?P<count>\d{1,9})", re.ASCII)


def check_order_counts(*, refusals: int, declines: int, count: int) -> None:
    """Check that refused and declined orders are at most all orders.

    Args:
        refusals: orders to be refused.
        declines: orders to be declined.
        count: orders in all.

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
