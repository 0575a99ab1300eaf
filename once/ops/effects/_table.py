"""Table of pending effects."""

from collections.abc import Iterable
from datetime import datetime

from rich.table import Table

from once.ops.effects.pending_list import ListedEffect
from once.ops.terminal.formatting import UNKNOWN, format_age, format_time, single_line


def effects_table(effects: Iterable[ListedEffect], now: datetime) -> Table:
    """Return a table of effects, in their order."""
    table = Table("age", "effect", "standing", "lease until", show_lines=True)
    for name in ("provider key", "dedup key"):
        table.add_column(name, overflow="fold")  # keys must stay complete
    for one in effects:
        table.add_row(
            format_age(now - one.since) if one.since else UNKNOWN,
            single_line(one.effect or UNKNOWN),
            single_line(one.standing or UNKNOWN),
            format_time(one.lease_until) if one.lease_until else UNKNOWN,
            single_line(one.provider_key or UNKNOWN),
            single_line(one.pk),
        )
    return table
