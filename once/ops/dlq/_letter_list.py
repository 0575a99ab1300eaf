"""Lists of dead letters: grouped by consumer, reason and age, or each with its verdict."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from once.events.cloud_event import CloudEvent
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.redrive_safety import AssessedLetter
from once.ops.dlq.letter_text import reason_text, verdict_style
from once.ops.terminal.formatting import format_age, single_line

_AGES = (
    (timedelta(hours=1), "under 1 h"),
    (timedelta(days=1), "under 1 d"),
    (timedelta(days=7), "under 7 d"),
    (timedelta.max, "over 7 d"),  # SQS deletes it after 14
)
_PREFIX = 8
_SHOWN = 3

_Group = tuple[str, str, int]
"""Consumer, reason as text, and index in `_AGES`."""


def groups_table(letters: Iterable[Letter], now: datetime) -> Table:
    """Return a table of the groups: number of letters, age of the oldest, and ids for `show`."""
    groups: dict[_Group, list[Letter]] = {}
    for letter in letters:
        groups.setdefault(_group(letter, now), []).append(letter)
    table = Table("consumer", "reason", "age")
    table.add_column("letters", justify="right")
    table.add_column("oldest", justify="right")
    table.add_column("ids")
    for (consumer, reason, age), members in sorted(groups.items()):
        oldest = min(letter.sent_at for letter in members)
        table.add_row(
            consumer,
            reason,
            _AGES[age][1],
            str(len(members)),
            format_age(now - oldest),
            _ids(members),
        )
    return table


def verdict_lines(assessed: Iterable[AssessedLetter]) -> Iterator[RenderableType]:
    """Yield a line for each letter, followed by its verdict."""
    for one in assessed:
        letter, event = one.context.letter, one.context.event
        kind = event.type if isinstance(event, CloudEvent) else "unreadable"
        facts = (letter.message_id, letter.queue.owner, kind, reason_text(letter.reason))
        yield single_line("  ".join(facts))
        verdict = Text(single_line(str(one.verdict)), verdict_style(one.verdict))
        yield Padding(verdict, (0, 0, 0, 4), expand=False)


def _group(letter: Letter, now: datetime) -> _Group:
    age = now - letter.sent_at
    number = next(number for number, (bound, _) in enumerate(_AGES) if age < bound)
    return letter.queue.owner, reason_text(letter.reason), number


def _ids(letters: Sequence[Letter]) -> str:
    shown = [letter.message_id[:_PREFIX] for letter in letters[:_SHOWN]]
    return "\n".join([*shown, "…"] if len(letters) > _SHOWN else shown)
