"""What must hold before anything is built. Every fault names its culprit and its remedy.

The rules come from how AWS documents SQS as an event source (`once.contract.Limits`) and from how
long one message can keep coming back.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from once.contract import CONSUMER_NAME, Limits
from once.settings import TIME_MARGIN_MS
from stacks.config import DAY_SECONDS, Config
from stacks.registry import FUNCTIONS, Consumer

REGISTRY = "stacks/consumers.py"
MARGIN_SECONDS = TIME_MARGIN_MS // 1000
FUNCTION_SECONDS = 15 * 60
BATCH_SIZE = 10_000
BATCH_SIZE_WITHOUT_WINDOW = 10
BATCH_WINDOW_SECONDS = 300
CONCURRENCY = range(2, 1001)
MEMORY_MB = range(128, 10_241)


def faults_of(
    consumers: Sequence[Consumer], config: Config, functions: Path = FUNCTIONS
) -> list[str]:
    """Return every fault of the deployment and of the registry; none means that it can be built."""
    return [
        *config.faults,
        *_window_faults(config),
        *(f"{c.name}: {fault} ({REGISTRY})" for c in consumers for fault in _line_faults(c)),
        *_names_taken_twice(consumers),
        *_tables_with_two_keys(consumers),
        *_lines_and_folders(consumers, functions),
    ]


def _window_faults(config: Config) -> Iterator[str]:
    days = config.dedup_window_days
    life = (1 + config.redrives) * Limits.DEAD_LETTER_RETENTION_SECONDS // DAY_SECONDS
    if days < life:
        yield (
            f"dedup_window_days={days}: a message can come back for (1 + redrives) × 14 = {life} "
            f"days and would change state again; raise it to {life}, or lower redrives (cdk.json)"
        )
    if days < config.provider_retry_days:
        yield (
            f"dedup_window_days={days}: a provider still sends for provider_retry_days="
            f"{config.provider_retry_days} what is forgotten here; raise it to "
            f"{config.provider_retry_days} (cdk.json)"
        )


def _line_faults(consumer: Consumer) -> Iterator[str]:
    if not CONSUMER_NAME.fullmatch(consumer.name):
        yield (
            f"the name {consumer.name!r} cannot be part of dedup keys and import paths; use at "
            "most 40 lower-case letters, digits and underscores, a letter first"
        )
    yield from _event_faults(consumer)
    yield from _table_faults(consumer)
    yield from _time_faults(consumer)
    yield from _batch_faults(consumer)


def _event_faults(consumer: Consumer) -> Iterator[str]:
    if isinstance(consumer.events, str) or not consumer.events:
        yield f"events={consumer.events!r}; give a tuple of types, such as ('order.placed',)"
        return
    for event in consumer.events:
        if not event.strip() or "," in event:
            yield f"the event type {event!r} cannot be told from others; give one without commas"


def _table_faults(consumer: Consumer) -> Iterator[str]:
    for table in consumer.tables:
        if not CONSUMER_NAME.fullmatch(table.name):
            yield f"the table name {table.name!r}; use lower-case letters, digits and underscores"
        if len(table.keys) not in {1, 2} or len(set(table.keys)) < len(table.keys):
            yield (
                f"the key {table.key!r} of table {table.name!r}; name the partition key, or give "
                "a pair of partition and sort key"
            )


def _time_faults(consumer: Consumer) -> Iterator[str]:
    timeout, effects = consumer.timeout_seconds, consumer.effect_timeout_seconds
    least = consumer.least_visibility_seconds
    if not MARGIN_SECONDS < timeout <= FUNCTION_SECONDS:
        yield (
            f"timeout_seconds={timeout}; choose {MARGIN_SECONDS + 1} to {FUNCTION_SECONDS}: "
            f"{MARGIN_SECONDS} s are kept back for the answer, and Lambda ends at the latter"
        )
    if timeout <= effects:
        yield (
            f"timeout_seconds={timeout} would kill an effect half-way, which may take "
            f"effect_timeout_seconds={effects}; raise it above {effects}"
        )
    if consumer.visibility < least:
        yield (
            f"visibility_seconds={consumer.visibility} delivers again what is still at work; raise "
            f"it to 6 × timeout + batch window = {least}, or leave it out"
        )
    if consumer.visibility > Limits.VISIBILITY_SECONDS:
        yield (
            f"visibility of {consumer.visibility} s; SQS takes at most "
            f"{Limits.VISIBILITY_SECONDS}: lower visibility_seconds or timeout_seconds"
        )


def _batch_faults(consumer: Consumer) -> Iterator[str]:
    size, window = consumer.batch_size, consumer.batch_window_seconds
    if not 1 <= size <= BATCH_SIZE:
        yield f"batch_size={size}; choose 1 to {BATCH_SIZE}"
    if not 0 <= window <= BATCH_WINDOW_SECONDS:
        yield f"batch_window_seconds={window}; choose 0 to {BATCH_WINDOW_SECONDS}"
    if size > BATCH_SIZE_WITHOUT_WINDOW and window < 1:
        yield (
            f"batch_size={size} needs time to gather; set batch_window_seconds to 1 or more, or "
            f"batch_size to {BATCH_SIZE_WITHOUT_WINDOW}"
        )
    if consumer.max_concurrency not in CONCURRENCY:
        yield f"max_concurrency={consumer.max_concurrency}; choose 2 to 1000"
    if consumer.memory_mb not in MEMORY_MB:
        yield f"memory_mb={consumer.memory_mb}; choose 128 to 10240"
    if consumer.max_receive_count < Limits.MIN_RECEIVE_COUNT:
        yield (
            f"max_receive_count={consumer.max_receive_count} dead-letters sound messages, since "
            f"throttles spend receives too; raise it to {Limits.MIN_RECEIVE_COUNT}"
        )


def _names_taken_twice(consumers: Sequence[Consumer]) -> Iterator[str]:
    for name, count in Counter(consumer.name for consumer in consumers).items():
        if count > 1:
            yield f"{name}: {count} lines have this name; rename all but one ({REGISTRY})"


def _tables_with_two_keys(consumers: Sequence[Consumer]) -> Iterator[str]:
    keys: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for table in (table for consumer in consumers for table in consumer.tables):
        keys[table.name].add(table.keys)
    for name, found in keys.items():
        if len(found) > 1:
            shown = " and ".join(str(key) for key in sorted(found))
            yield f"table {name!r} has the keys {shown}; declare it once and share it ({REGISTRY})"


def _lines_and_folders(consumers: Sequence[Consumer], functions: Path) -> Iterator[str]:
    for consumer in consumers:
        source = consumer.folder or functions / consumer.name
        if not (source / "handler.py").is_file():
            yield (
                f"{consumer.name}: its line has no folder; add "
                f"{source.parent.name}/{source.name}/handler.py, or delete the line ({REGISTRY})"
            )
    lines = {consumer.name for consumer in consumers}
    for handler in sorted(functions.glob("*/handler.py")):
        if handler.parent.name not in lines:
            yield (
                f"functions/{handler.parent.name}: its folder has no line; add "
                f'Consumer("{handler.parent.name}", …) to {REGISTRY}, or delete the folder'
            )
