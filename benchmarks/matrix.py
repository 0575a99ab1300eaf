"""Matrix: the measured settings, and the contenders of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.contenders import (
    CLAIM,
    CONTENDERS,
    ITEM,
    PLAIN,
    POWERTOOLS,
    RAW_DEFAULT,
    UNGROUPED,
    Contender,
)
from benchmarks.dynamodb import MODEL, Delay
from benchmarks.rows import EMBEDDED, USUAL, Row

TEN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Conditions of a sample.

    `records` is the size of a batch, `duplicates` the share of messages whose event was committed
    before, `conflicts` the share that gets a TransactionConflict at each attempt. With
    `redelivered`, messages have a receive count of 2. `messages` is the number in one sample.
    """

    records: int
    delay_ms: Delay
    duplicates: float = 0.0
    conflicts: float = 0.0
    redelivered: bool = False
    messages: int = 100

    @property
    def faulty(self) -> bool:
        """Whether there are duplicates or conflicts."""
        return bool(self.duplicates or self.conflicts)

    def __str__(self) -> str:
        delay = "model" if self.delay_ms == MODEL else f"{self.delay_ms:g} ms"
        parts = [f"{self.records} records, {delay}"]
        if self.duplicates:
            kind = "redelivered" if self.redelivered else "duplicates"
            parts.append(f"{self.duplicates * 100:g} % {kind}")
        if self.conflicts:
            parts.append(f"{self.conflicts * 100:g} % conflicts")
        return ", ".join(parts)


def title_of(row: Row) -> str:
    """Return the setting of a row as text."""
    if row["delay_ms"] == EMBEDDED:
        return f"{row['records']} records, embedded"
    return str(Setting(**{name: row[name] for name in USUAL}))


def full() -> Iterator[Setting]:
    """Yield every setting of `make bench`."""
    # Conflicts are drawn at every attempt: a sample with more messages varies less.
    delays: dict[Delay, tuple[int, int]] = {0: (60, 120), 5: (60, 120), MODEL: (30, 30)}
    for delay_ms, (messages, in_conflict) in delays.items():
        ten = Setting(records=TEN, delay_ms=delay_ms, messages=messages)
        yield ten
        yield from (replace(ten, duplicates=share) for share in (0.01, 0.1, 1.0))
        yield from (replace(ten, conflicts=n, messages=in_conflict) for n in (0.01, 0.05))
        yield Setting(records=100, delay_ms=delay_ms)
    yield Setting(records=100, delay_ms=5, duplicates=0.1)
    yield Setting(records=100, delay_ms=5, conflicts=0.05)
    yield Setting(records=TEN, delay_ms=5, duplicates=1.0, redelivered=True, messages=60)


def quick() -> Iterator[Setting]:
    """Yield one setting of each kind with few messages, as a check that everything works."""
    clean = Setting(records=TEN, delay_ms=0, messages=20)
    yield clean
    yield replace(clean, duplicates=0.1)
    yield replace(clean, conflicts=0.05)
    yield replace(clean, duplicates=1.0, redelivered=True)


def contenders_in(setting: Setting) -> Sequence[Contender]:
    """Return the contenders of a setting.

    A setting with faults has only contenders that handle them: Powertools has duplicates but no
    TransactionConflict. Slow contenders are left out if no ratio needs them.
    """
    names = {contender.name for contender in CONTENDERS}
    if setting.faulty:
        names -= {PLAIN, CLAIM, RAW_DEFAULT}
    if setting.conflicts:
        names -= {POWERTOOLS}
    if setting.faulty and setting.delay_ms == MODEL:
        names -= {UNGROUPED, ITEM}
    if setting.records > TEN:
        names -= {PLAIN, CLAIM, RAW_DEFAULT, UNGROUPED, ITEM}
    return [contender for contender in CONTENDERS if contender.name in names]
