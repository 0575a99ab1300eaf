"""Checks of one consumer's properties. Each fault states its remedy.

The rules follow AWS's documentation of SQS as an event source of Lambda (`once.schema.Limits`).
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from aws_cdk import Reference, Token, Tokenization
from aws_cdk import aws_lambda as lambda_

from once.cdk.checks._event_source import event_source_faults
from once.cdk.checks.aws_clients_in_code import aws_service_faults
from once.cdk.checks.handlers_in_code import handler_faults
from once.cdk.checks.property_types import property_type_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import (
    INVOCATIONS_PER_POLLER,
    ISOLATION_CONCURRENCY,
    ConsumerProps,
    Pollers,
    StateMachineProps,
    WarmThroughput,
    WorkflowProps,
)
from once.schema import CONSUMER_NAME, EVENT_TYPE, RELAY, UNROUTED, Limits
from once.settings import CLAIM_MEMORY_FACTOR, FUNCTION_MB, MOST_COMMIT_THREADS, TIME_MARGIN_MS
from once.workflow_names import RETENTION_DAYS

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


FIFO_BATCH_SIZE = 10
_FIELD = re.compile(r"[^\s.]+(\.[^\s.]+)*")


def line_group_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield the faults of one line's message groups, without the consumer's name."""
    yield from _fifo_faults(consumer) if consumer.fifo else _standard_faults(consumer)
    for name in ("ordered_by", "fair_by"):
        path = getattr(consumer, name)
        if path is not None and not _FIELD.fullmatch(path):
            yield (
                f"{name}={path!r} names no field of the data; give a name such as 'order_id', "
                "with dots for nesting"
            )


def _fifo_faults(consumer: ConsumerProps) -> Iterator[str]:
    if consumer.ordered_by is None:
        yield (
            "fifo=True without ordered_by; name the field of the data whose events keep their "
            "order, such as ordered_by='order_id'"
        )
    if consumer.fair_by is not None:
        yield (
            f"fair_by={consumer.fair_by!r} with fifo=True; a FIFO queue has one group for each "
            "message, that of ordered_by: leave fair_by out, or fifo"
        )
    if consumer.batch_size > FIFO_BATCH_SIZE:
        yield (
            f"batch_size={consumer.batch_size} with fifo=True; Lambda takes at most "
            f"{FIFO_BATCH_SIZE} messages from a FIFO queue: lower it"
        )
    if consumer.batch_window_seconds > 0:
        yield (
            f"batch_window_seconds={consumer.batch_window_seconds} with fifo=True; Lambda gathers "
            "no batch from a FIFO queue: leave it out"
        )


def _standard_faults(consumer: ConsumerProps) -> Iterator[str]:
    if consumer.ordered_by is not None:
        yield (
            f"ordered_by={consumer.ordered_by!r} without fifo; a standard queue keeps no order: "
            "add fifo=True, or use fair_by if only fairness is meant"
        )
    if consumer.blocks_group:
        yield (
            "blocks_group=True without fifo; messages of a standard queue do not wait for one "
            "another: add fifo=True and ordered_by, or leave it out"
        )


MEGABYTES = range(65)


def claim_check_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield every fault of one consumer's claim check, without the consumer's name."""
    largest = consumer.claim_check_mb
    if largest not in MEGABYTES:
        yield f"claim_check_mb={largest}; choose 1 to {MEGABYTES[-1]}, or 0 for none"
    elif largest and (need := _needed_mb(largest, consumer.batch_size)) > consumer.memory_mb:
        yield (
            f"memory_mb={consumer.memory_mb} does not hold a batch of {consumer.batch_size} events "
            f"of claim_check_mb={largest}, each of which may take {CLAIM_MEMORY_FACTOR} times its "
            f"size; raise memory_mb to {need}, or lower batch_size"
        )


def _needed_mb(largest: int, batch_size: int) -> int:
    return FUNCTION_MB + CLAIM_MEMORY_FACTOR * largest * batch_size


CONCURRENCY = range(2, 1001)
LEAST_POLLERS = range(2, 201)
MOST_POLLERS = range(2, 10_001)
INITIAL = WarmThroughput(reads=12_000, writes=4_000)
"""Warm throughput of a new on-demand table. DynamoDB refuses a lower one."""


def scaling_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield every fault of one consumer's scaling options, without the consumer's name."""
    if consumer.max_concurrency is not None and consumer.max_concurrency not in CONCURRENCY:
        yield f"max_concurrency={consumer.max_concurrency}; choose 2 to 1000"
    if consumer.pollers is not None:
        yield from _poller_faults(consumer, consumer.pollers)
    yield from _reservation_faults(consumer)
    for table in consumer.tables:
        yield from warm_throughput_faults(f"the table {table.name!r} has ", table.warm_throughput)


def _poller_faults(consumer: ConsumerProps, pollers: Pollers) -> Iterator[str]:
    if consumer.max_concurrency is not None:
        yield (
            f"it has pollers= and max_concurrency={consumer.max_concurrency}, and Lambda accepts "
            f"one of them: leave max_concurrency out, and limit the load by Pollers(maximum=…), "
            f"which allows {INVOCATIONS_PER_POLLER} invocations each"
        )
    for name, allowed in (("minimum", LEAST_POLLERS), ("maximum", MOST_POLLERS)):
        if (given := getattr(pollers, name)) not in allowed:
            yield f"pollers has {name}={given}; choose {allowed[0]} to {allowed[-1]}"
    if pollers.minimum > pollers.maximum:
        yield (
            f"pollers has minimum={pollers.minimum} over maximum={pollers.maximum}; lower the "
            "minimum, or raise the maximum"
        )


def _reservation_faults(consumer: ConsumerProps) -> Iterator[str]:
    reserved, main = consumer.reserved_concurrency, consumer.concurrency
    isolated = ISOLATION_CONCURRENCY if consumer.batch_size > 1 else 0
    if reserved is not None and reserved < main + isolated:
        # Each throttle spends a receive of the messages in its batch.
        yield (
            f"reserved_concurrency={reserved} throttles the function: its queue makes up to {main} "
            f"invocations at a time and its isolation queue {isolated}; raise it to "
            f"{main + isolated}, or lower max_concurrency or the maximum of pollers"
        )


def warm_throughput_faults(place: str, warm: WarmThroughput | None) -> Iterator[str]:
    """Yield the fault of a table's warm throughput; its text begins with `place`."""
    if warm is None:
        return
    if warm.reads < INITIAL.reads or warm.writes < INITIAL.writes:
        yield (
            f"{place}warm_throughput={warm.reads},{warm.writes}, and every table on demand begins "
            f"with {INITIAL.reads},{INITIAL.writes}, which DynamoDB does not lower; raise both to "
            "that or more, or leave it out"
        )


START_SECONDS = 4
"""Longest duration of a start: two requests, each with a second to connect and one to answer."""

_RETENTION_DAYS = range(1, 91)
_MACHINE = re.compile(r"arn:[\w-]+:states:[\w-]+:\d{12}:stateMachine:[\w-]+(:[\w-]+)?")
_FUNCTION = re.compile(r"arn:[\w-]+:lambda:[\w-]+:\d{12}:function:[\w-]+:[\w-]+")


def workflow_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield every fault of the workflows, without the consumer's name."""
    for name, count in Counter(each.name for each in consumer.starts).items():
        if not CONSUMER_NAME.fullmatch(name):
            yield (
                f"the workflow's name {name!r} makes no variable; use at most 40 lower-case "
                "letters, digits and underscores, a letter first"
            )
        if count > 1:
            yield f"starts has {name!r} twice; give each workflow a name of its own"
    for each in consumer.starts:
        yield from _arn_faults(each)
        days = getattr(each, "retention_days", 1)
        if days not in _RETENTION_DAYS:
            yield f"the workflow {each.name!r} has retention_days={days}; choose 1 to 90"
    if consumer.starts and consumer.effect_timeout_seconds < START_SECONDS:
        yield (
            f"effect_timeout_seconds={consumer.effect_timeout_seconds} is too short to start a "
            f"workflow; raise it to {START_SECONDS}: two requests of two seconds"
        )


def _arn_faults(workflow: WorkflowProps) -> Iterator[str]:
    if resource := _resource(workflow.arn):
        faults = (
            _machine_faults(resource)
            if isinstance(workflow, StateMachineProps)
            else _function_faults(resource, workflow.retention_days)
        )
        yield from (f"the workflow {workflow.name!r} {fault}" for fault in faults)
        return
    pattern, kind = (
        (_MACHINE, "a state machine")
        if isinstance(workflow, StateMachineProps)
        else (_FUNCTION, "a version or an alias of a function")
    )
    if not Token.is_unresolved(workflow.arn) and not pattern.fullmatch(workflow.arn):
        yield f"the workflow {workflow.name!r} has arn={workflow.arn!r}; give the ARN of {kind}"


def _machine_faults(resource: Any) -> Iterator[str]:
    if getattr(resource, "state_machine_type", None) == "EXPRESS":
        yield (
            "is an express state machine, whose executions are not identified by their name: a "
            "retry would start a second one; make it a standard one"
        )


def _function_faults(resource: Any, retention_days: int) -> Iterator[str]:
    if isinstance(resource, lambda_.CfnFunction):
        yield (
            "is the ARN of a function without a version, and a durable execution stays at one; "
            "give the ARN of an alias or a version"
        )
    function = _resource(getattr(resource, "function_name", ""))
    if not isinstance(function, lambda_.CfnFunction):
        return
    if function.durable_config is None:
        yield (
            "is no durable function: a retry would invoke it again; give the function a "
            "durable_config"
        )
    elif retention_days > (kept := _days_kept(function.durable_config)):
        yield (
            f"has retention_days={retention_days}, and its function keeps an execution for {kept} "
            "days: a retry after that would start a second one; give both the same number"
        )


def _days_kept(durable_config: Any) -> int:
    return int(getattr(durable_config, "retention_period_in_days", None) or RETENTION_DAYS)


def _resource(text: str) -> Any:
    """Return the resource that a text refers to; None for any other text."""
    token = Tokenization.reverse_string(text).first_token
    return token.target if isinstance(token, Reference) else None
