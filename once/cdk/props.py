"""What a line of the registry may say: tables, and the consumers that write them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from once.schema import Limits, source_of

ROOT = Path(__file__).resolve().parent.parent.parent
FUNCTIONS = ROOT / "functions"


@dataclass(frozen=True, slots=True)
class Table:
    """A business table.

    `name` is what handlers call it (its physical name is generated); `key` names its partition
    key, or partition and sort key. Keys are strings.
    """

    name: str
    key: str | tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes of the primary key, partition key first."""
        return (self.key,) if isinstance(self.key, str) else self.key


@dataclass(frozen=True, slots=True)
class Consumer:
    """One consumer: queue, dead letters, function, rights, alarms and dashboard row follow from it.

    Times are seconds, memory is megabytes. `external` are the CloudEvents types that it takes from
    producers, `events` those that it takes from other consumers, `tables` the business tables it
    may write, `publishes` the types it may publish. Without
    `visibility_seconds`, the least that AWS recommends is taken. `effect_timeout_seconds` is the
    longest that one call to the outside world may take, 0 if it makes none. `secrets` are the
    secrets its function may read: it finds the ARN of `stripe_key` in `SECRET_STRIPE_KEY`.
    `parameters` are values of the CDK context that it is told: `payment_api` as `PAYMENT_API`.
    `group_size` is the most messages that commit in one request, 1 to have each commit alone;
    `commit_threads` is how many such requests are made side by side.
    With `sends_email` it may send e-mail from the deployment's one address, `EMAIL_SENDER`.
    `folder` is where its `handler.py` lies, if not in `functions/<name>`.
    """

    name: str
    events: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    external: tuple[str, ...] = field(default=(), kw_only=True)
    publishes: tuple[str, ...] = field(default=(), kw_only=True)
    timeout_seconds: int = field(default=30, kw_only=True)
    visibility_seconds: int | None = field(default=None, kw_only=True)
    batch_size: int = field(default=10, kw_only=True)
    batch_window_seconds: int = field(default=0, kw_only=True)
    max_concurrency: int = field(default=10, kw_only=True)
    max_receive_count: int = field(default=5, kw_only=True)
    effect_timeout_seconds: int = field(default=0, kw_only=True)
    secrets: tuple[str, ...] = field(default=(), kw_only=True)
    parameters: tuple[str, ...] = field(default=(), kw_only=True)
    sends_email: bool = field(default=False, kw_only=True)
    group_size: int = field(default=10, kw_only=True)
    commit_threads: int = field(default=4, kw_only=True)
    memory_mb: int = field(default=512, kw_only=True)
    folder: Path | None = field(default=None, kw_only=True)

    @property
    def has_effects(self) -> bool:
        """Whether it calls the outside world, and so has an effect ledger."""
        return self.effect_timeout_seconds > 0

    @property
    def event_types(self) -> tuple[str, ...]:
        """Every type that it handles."""
        return (*self.external, *self.events)

    @property
    def source(self) -> Path:
        """The folder that holds `handler.py`."""
        return self.folder or FUNCTIONS / self.name

    @property
    def least_visibility_seconds(self) -> int:
        """What AWS recommends: six function timeouts, and the time a batch is gathered."""
        return Limits.VISIBILITY_FACTOR * self.timeout_seconds + self.batch_window_seconds

    @property
    def visibility(self) -> int:
        """The visibility timeout in force, in seconds."""
        if self.visibility_seconds is None:
            return self.least_visibility_seconds
        return self.visibility_seconds


def sources_of(line: Consumer, consumers: Iterable[Consumer]) -> dict[str, tuple[str, ...]]:
    """Return the CloudEvents sources that each of the line's `events` may come from."""
    lines = list(consumers)
    return {
        event: tuple(source_of(each.name) for each in lines if event in each.publishes)
        for event in line.events
    }


def words(name: str) -> str:
    """Return `name` as it appears in the key of a stack output: `outbox_relay` → `OutboxRelay`."""
    return "".join(part.capitalize() for part in name.split("_"))
