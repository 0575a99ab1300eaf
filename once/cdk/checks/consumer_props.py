"""Checks of one consumer's properties. Each fault states its remedy.

The rules follow AWS's documentation of SQS as an event source of Lambda (`once.schema.Limits`).
"""

from collections.abc import Iterator

from once.cdk.checks._claim_check import claim_check_faults
from once.cdk.checks._event_source import event_source_faults
from once.cdk.checks._message_groups import line_group_faults
from once.cdk.checks._scaling import scaling_faults
from once.cdk.checks._workflows import workflow_faults
from once.cdk.checks.aws_services import aws_service_faults
from once.cdk.checks.handlers import handler_faults
from once.cdk.checks.property_types import property_type_faults
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.props import ConsumerProps
from once.schema import CONSUMER_NAME, EVENT_TYPE, RELAY, UNROUTED, Limits
from once.settings import MOST_COMMIT_THREADS, TIME_MARGIN_MS

MARGIN_SECONDS = TIME_MARGIN_MS // 1000
FUNCTION_SECONDS = 15 * 60
BATCH_SIZE = 10_000
BATCH_SIZE_WITHOUT_WINDOW = 10
BATCH_WINDOW_SECONDS = 300
MEMORY_MB = range(128, 10_241)
GROUP_SIZE = range(1, Limits.TRANSACTION_ACTIONS + 1)
COMMIT_THREADS = range(1, MOST_COMMIT_THREADS + 1)
TYPES = ("external", "events", "publishes")
"""The properties that hold event types."""
TAKEN_VARIABLES = ("once_", "aws_", "secret_", "workflow_", "powertools_")
"""Prefixes of variables that Once, Lambda or Powertools sets."""
EVENT_TYPE_RULE = "give the whole type, without commas, asterisks and outer spaces"
NAME_RULE = "use at most 40 lower-case letters, digits and underscores, a letter first"


def consumer_props_faults(consumer: ConsumerProps, config: DeploymentConfig) -> Iterator[str]:
    """Yield every fault of one consumer, without the consumer's name."""
    if types := list(property_type_faults(consumer)):
        yield from types
        return
    yield from _name_faults(consumer)
    yield from _event_faults(consumer)
    yield from _taken_twice(consumer)
    yield from _loops(consumer)
    yield from handler_faults(consumer)
    yield from aws_service_faults(consumer)
    yield from event_source_faults(consumer)
    yield from _table_faults(consumer)
    yield from _secret_faults(consumer)
    yield from workflow_faults(consumer)
    yield from _parameter_faults(consumer, config)
    yield from _time_faults(consumer)
    yield from _batch_faults(consumer)
    yield from scaling_faults(consumer)
    yield from claim_check_faults(consumer)
    yield from _group_faults(consumer)
    yield from line_group_faults(consumer)


def _name_faults(consumer: ConsumerProps) -> Iterator[str]:
    if not CONSUMER_NAME.fullmatch(consumer.name):
        yield f"the name {consumer.name!r} cannot be part of dedup keys and paths; {NAME_RULE}"
    if consumer.name == RELAY:
        yield "the name is that of the outbox relay, which is no consumer; choose another"
    if consumer.name == UNROUTED:
        yield "the name is that of the queue of unrouted events; choose another"
    first = consumer.renamed_from
    if first is not None and (not CONSUMER_NAME.fullmatch(first) or first in {RELAY, UNROUTED}):
        yield f"renamed_from={first!r} was never a consumer's name; give its first one"


def _event_faults(consumer: ConsumerProps) -> Iterator[str]:
    for name in TYPES:
        types = getattr(consumer, name)
        for event in types:
            if not EVENT_TYPE.fullmatch(event):
                yield f"{name} has {event!r}, which selects no event; {EVENT_TYPE_RULE}"
        if name != "publishes" and len(types) > Limits.FILTER_VALUES:
            yield (
                f"{name} has {len(types)} types, and a subscription of SNS selects at most "
                f"{Limits.FILTER_VALUES}; split the consumer in two"
            )
    if not consumer.external and not consumer.events:
        yield (
            "it takes no event; give external= the types that producers publish, or events= those "
            "that other consumers publish"
        )


def _taken_twice(consumer: ConsumerProps) -> Iterator[str]:
    for event in dict.fromkeys(consumer.external):
        if event in consumer.events:
            yield (
                f"{event!r} is in external and in events; leave it in external if producers "
                "publish it, in events if another consumer does"
            )


def _loops(consumer: ConsumerProps) -> Iterator[str]:
    for event in dict.fromkeys(consumer.publishes):
        if event in consumer.events:
            yield (
                f"it publishes {event!r} into its own queue, a loop that AWS stops at about 16 "
                "rounds; take the type out of events or of publishes, or publish another one"
            )


def _table_faults(consumer: ConsumerProps) -> Iterator[str]:
    for table in consumer.tables:
        if not CONSUMER_NAME.fullmatch(table.name):
            yield f"the table name {table.name!r}; use lower-case letters, digits and underscores"
        if len(table.keys) not in {1, 2} or len(set(table.keys)) < len(table.keys):
            yield (
                f"the key {table.key!r} of table {table.name!r}; name the partition key, or give "
                "a pair of partition and sort key"
            )


def _secret_faults(consumer: ConsumerProps) -> Iterator[str]:
    for name in consumer.secrets:
        if not CONSUMER_NAME.fullmatch(name):
            yield f"the secret's name {name!r} makes no variable; {NAME_RULE}"


def _parameter_faults(consumer: ConsumerProps, config: DeploymentConfig) -> Iterator[str]:
    for name in consumer.parameters:
        if not CONSUMER_NAME.fullmatch(name):
            yield f"the parameter {name!r} makes no variable; {NAME_RULE}"
        elif name.startswith(TAKEN_VARIABLES):
            yield (
                f"the parameter {name!r} would hide a variable that the function has from "
                f"elsewhere; begin it with none of {', '.join(TAKEN_VARIABLES)}"
            )
        elif name not in config.parameters:
            yield (
                f"the parameter {name!r} has no value; give it one in the CDK context, as with "
                f"-c {name}=…"
            )


def _time_faults(consumer: ConsumerProps) -> Iterator[str]:
    timeout, least = consumer.timeout_seconds, consumer.least_visibility_seconds
    if not MARGIN_SECONDS < timeout <= FUNCTION_SECONDS:
        yield (
            f"timeout_seconds={timeout}; choose {MARGIN_SECONDS + 1} to {FUNCTION_SECONDS}: "
            f"{MARGIN_SECONDS} s are kept back for the answer, and Lambda ends at the latter"
        )
    yield from _effect_faults(consumer)
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


def _effect_faults(consumer: ConsumerProps) -> Iterator[str]:
    effect, size = consumer.effect_timeout_seconds, consumer.batch_size
    if effect < 0:
        yield f"effect_timeout_seconds={effect}; give seconds, or 0 if it makes no calls"
    # A message whose call does not fit into the time left is retried, and has spent a receive.
    need = MARGIN_SECONDS + size * effect
    if effect > 0 and consumer.timeout_seconds <= need:
        yield (
            f"timeout_seconds={consumer.timeout_seconds} does not hold batch_size={size} calls of "
            f"effect_timeout_seconds={effect} and {MARGIN_SECONDS} s for the answer; raise it to "
            f"{need + 1}, or lower batch_size"
        )


def _batch_faults(consumer: ConsumerProps) -> Iterator[str]:
    size, window = consumer.batch_size, consumer.batch_window_seconds
    if not 1 <= size <= BATCH_SIZE:
        yield f"batch_size={size}; choose 1 to {BATCH_SIZE}"
    if not 0 <= window <= BATCH_WINDOW_SECONDS:
        yield f"batch_window_seconds={window}; choose 0 to {BATCH_WINDOW_SECONDS}"
    if size > BATCH_SIZE_WITHOUT_WINDOW and window < 1 and not consumer.fifo:
        yield (
            f"batch_size={size} needs time to gather; set batch_window_seconds to 1 or more, or "
            f"batch_size to {BATCH_SIZE_WITHOUT_WINDOW}"
        )
    if consumer.memory_mb not in MEMORY_MB:
        yield f"memory_mb={consumer.memory_mb}; choose 128 to 10240"
    if consumer.max_receive_count < Limits.MIN_RECEIVE_COUNT:
        yield (
            f"max_receive_count={consumer.max_receive_count} dead-letters sound messages, since "
            f"throttles spend receives too; raise it to {Limits.MIN_RECEIVE_COUNT}"
        )


def _group_faults(consumer: ConsumerProps) -> Iterator[str]:
    if consumer.group_size not in GROUP_SIZE:
        yield (
            f"group_size={consumer.group_size}; choose 1, where each message commits alone, to "
            f"{GROUP_SIZE[-1]}, the most actions that DynamoDB takes in one request"
        )
    if consumer.commit_threads not in COMMIT_THREADS:
        yield f"commit_threads={consumer.commit_threads}; choose 1 to {COMMIT_THREADS[-1]}"
