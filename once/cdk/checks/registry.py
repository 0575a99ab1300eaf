"""What must hold before anything is built. Every fault names its culprit and its remedy.

The rules come from how AWS documents SQS as an event source (`once.schema.Limits`) and from how
long one message can keep coming back.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from once.cdk.checks.consumer import has_type_lists, line_faults
from once.cdk.config import DAY_SECONDS, Config
from once.cdk.props import FUNCTIONS, Consumer
from once.schema import RELAY, UNROUTED, Limits

REGISTRY = "stacks/consumers.py"
_OWN = {
    RELAY: "nothing would be published",
    UNROUTED: "events that no consumer subscribes to would be lost",
}
"""The functions without a line, and the consequence of leaving them out."""


def faults_of(
    consumers: Sequence[Consumer], config: Config, functions: Path = FUNCTIONS
) -> list[str]:
    """Return every fault of the deployment and of the registry; none means that it can be built."""
    return [
        *config.faults,
        *_window_faults(config),
        *(f"{c.name}: {fault} ({REGISTRY})" for c in consumers for fault in line_faults(c, config)),
        *_names_taken_twice(consumers),
        *_types_and_publishers(consumers),
        *_tables_with_two_keys(consumers),
        *_lines_and_folders(consumers, functions),
    ]


def _window_faults(config: Config) -> Iterator[str]:
    days = config.dedup_window_days
    life = life_days(config.redrives)
    if days < life:
        yield (
            f"dedup_window_days={days}: with redrives={config.redrives} a message can come back "
            f"for {life} days and would change state again; raise it to {life}, or lower redrives "
            "(cdk.json)"
        )
    if days < config.provider_retry_days:
        yield (
            f"dedup_window_days={days}: a provider still sends for provider_retry_days="
            f"{config.provider_retry_days} what is forgotten here; raise it to "
            f"{config.provider_retry_days} (cdk.json)"
        )


def life_days(redrives: int) -> int:
    """Return for how long a message must be known, in days, if it is sent back so many times.

    Fourteen days for each life, as SQS keeps no message longer. And no less than all of its stays
    together, since a message that the consumer moves or dead-letters is a new one to SQS: four days
    each in the queue and in the isolation queue, for each life, and fourteen as a dead letter
    between two lives.
    """
    lives = (1 + redrives) * Limits.DEAD_LETTER_RETENTION_SECONDS
    waits = (1 + redrives) * Limits.QUEUE_STAY_SECONDS
    stays = waits + redrives * Limits.DEAD_LETTER_RETENTION_SECONDS
    return max(lives, stays) // DAY_SECONDS


def _names_taken_twice(consumers: Sequence[Consumer]) -> Iterator[str]:
    for name, count in Counter(consumer.name for consumer in consumers).items():
        if count > 1:
            yield f"{name}: {count} lines have this name; rename all but one ({REGISTRY})"


def _types_and_publishers(consumers: Sequence[Consumer]) -> Iterator[str]:
    lines = [consumer for consumer in consumers if has_type_lists(consumer)]
    publishers: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        for event in dict.fromkeys(line.publishes):
            publishers[event].append(line.name)
    for line in lines:
        for event in dict.fromkeys(line.events):
            if event not in publishers:
                yield (
                    f"{line.name}: events has {event!r}, which no consumer publishes; declare it "
                    "external= if producers publish it, or add it to publishes= of its publisher "
                    f"({REGISTRY})"
                )
        for event in dict.fromkeys(line.external):
            if event in publishers:
                yield (
                    f"{line.name}: external has {event!r}, which {' and '.join(publishers[event])} "
                    "publishes, so that a producer could forge it; move it to events, or have "
                    f"producers publish another type ({REGISTRY})"
                )


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
    for name, consequence in _OWN.items():
        if not (functions / name / "handler.py").is_file():
            yield f"functions/{name}/handler.py is missing, and {consequence}; put it back"
    known = {*_OWN, *(consumer.name for consumer in consumers)}
    for handler in sorted(functions.glob("*/handler.py")):
        if handler.parent.name not in known:
            yield (
                f"functions/{handler.parent.name}: its folder has no line; add "
                f'Consumer("{handler.parent.name}", …) to {REGISTRY}, or delete the folder'
            )
