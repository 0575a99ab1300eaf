"""Checks of one consumer's properties, of its source and its workflows. Each fault has a remedy.

The rules follow AWS's documentation of SQS as an event source of Lambda (`once.names.Limits`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from aws_cdk import Reference, Token, Tokenization
from aws_cdk import aws_lambda as lambda_

from once import event_sources
from once.cdk.checks import faults_where
from once.cdk.checks.aws_clients_in_code import aws_service_faults
from once.cdk.checks.handlers_in_code import caused_events, handler_faults, source_key_faults
from once.cdk.checks.property_types import property_type_faults, range_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import (
    INVOCATIONS_PER_POLLER,
    ISOLATION_CONCURRENCY,
    ConsumerProps,
    DurableFunctionProps,
    StateMachineProps,
    TableProps,
)
from once.names import (
    CONSUMER_NAME,
    EVENT_TYPE,
    EVENT_TYPE_RULE,
    RELAY,
    RETENTION_DAYS,
    SOURCE_PREFIX,
    UNROUTED,
    Limits,
)
from once.settings import CLAIM_MEMORY_FACTOR, FUNCTION_MB, TIME_MARGIN_MS

MARGIN_SECONDS = TIME_MARGIN_MS // 1000
FILLED_AT_ONCE = FIFO_BATCH_SIZE = 10
"""The largest batches without a window, and from a FIFO queue."""
PYTHON_WITHOUT_SNAP_START = "3.11"
"""All newer runtimes have SnapStart (Lambda Developer Guide, "Lambda SnapStart")."""
START_SECONDS = 4
"""Longest duration of a start: two requests, each with a second to connect and one to answer."""
TAKEN_VARIABLES = ("once_", "aws_", "secret_", "workflow_", "powertools_")
"""Prefixes of variables that Once, Lambda or Powertools sets."""
NAME_RULE = "use at most 40 lower-case letters, digits and underscores, a letter first"


OWN_NAMES = {RELAY, UNROUTED}


def consumer_props_faults(consumer: ConsumerProps, config: DeploymentConfig) -> Iterator[str]:
    """Yield every fault of one consumer, without the consumer's name."""
    if types := list(property_type_faults(consumer)):
        yield from types
        return
    yield from name_faults(consumer.name)
    yield from _event_faults(consumer)
    yield from handler_faults(consumer)
    yield from aws_service_faults(consumer)
    if consumer.source is not None:
        yield from _source_faults(consumer)
        yield from source_key_faults(consumer)
    yield from table_faults(consumer.tables)
    yield from _workflow_faults(consumer)
    yield from _parameter_faults(consumer, config)
    yield from _time_faults(consumer)
    yield from _capacity_faults(consumer)
    yield from snap_start_faults(consumer.snap_start, config)
    first = consumer.renamed_from
    yield from faults_where(
        {
            f"renamed_from={first!r} was never a consumer's name; give its first one": first
            is not None
            and (not CONSUMER_NAME.fullmatch(first) or first in OWN_NAMES),
        }
    )
    yield from _concurrency_faults(consumer)
    yield from line_group_faults(consumer)


def snap_start_faults(asked: bool, config: DeploymentConfig) -> Iterator[str]:  # noqa: FBT001
    if asked and not config.local and config.python_runtime == PYTHON_WITHOUT_SNAP_START:
        yield (
            f"snap_start=True on Python {config.python_runtime}, of which Lambda takes no "
            "snapshots; set a newer one, as with -c python_runtime=3.13, or leave snap_start out"
        )


def name_faults(name: str) -> Iterator[str]:
    if not CONSUMER_NAME.fullmatch(name):
        yield f"the name {name!r} cannot be part of dedup keys and paths; {NAME_RULE}"
    if name in OWN_NAMES:
        yield f"the name {name!r} is that of a function of Once; choose another"


def _event_faults(consumer: ConsumerProps) -> Iterator[str]:
    for name in ("external", "events", "publishes"):
        types = getattr(consumer, name)
        yield from event_type_faults(name, types)
        if name != "publishes" and len(types) > Limits.FILTER_VALUES:
            yield (
                f"{name} has {len(types)} types, and a subscription of SNS selects at most "
                f"{Limits.FILTER_VALUES}; split the consumer in two"
            )
    yield from faults_where(
        {
            "it takes no event; give external= the types that producers publish, or events= those "
            "that other consumers publish": not consumer.event_types
        }
    )
    causes = caused_events(consumer)
    for event in dict.fromkeys(consumer.events):
        yield from faults_where(
            {
                f"{event!r} is in external and in events; leave it in external if producers "
                "publish it, in events if another consumer does": event in consumer.external,
                f"it publishes {event!r} into its own queue, a loop that AWS stops at about 16 "
                "rounds; take the type out of events or of publishes, or publish another "
                # A process may send itself another event, and set itself a time.
                "one": event in causes[event] and event not in consumer.publishes_later,
            }
        )


def event_type_faults(name: str, types: Iterable[str]) -> Iterator[str]:
    for event in types:
        if not EVENT_TYPE.fullmatch(event):
            yield (
                f"{name} has {event!r}, which selects no event; give the whole type, "
                f"{EVENT_TYPE_RULE}"
            )


def table_faults(tables: Iterable[TableProps]) -> Iterator[str]:
    for table in tables:
        if not CONSUMER_NAME.fullmatch(table.name):
            yield f"the table name {table.name!r}; use lower-case letters, digits and underscores"
        if len(table.keys) not in {1, 2} or len(set(table.keys)) < len(table.keys):
            yield (
                f"the key {table.key!r} of table {table.name!r}; name the partition key, or give "
                "a pair of partition and sort key"
            )
        if table.warm_throughput is not None:
            place = f"the table {table.name!r}: warm_throughput has "
            yield from range_faults(table.warm_throughput, place)


def _parameter_faults(consumer: ConsumerProps, config: DeploymentConfig) -> Iterator[str]:
    yield from _variable_faults("the secret's name", consumer.secrets)
    yield from _variable_faults("the parameter", consumer.parameters)
    for name in filter(CONSUMER_NAME.fullmatch, consumer.parameters):
        taken = name.startswith(TAKEN_VARIABLES)
        yield from faults_where(
            {
                f"the parameter {name!r} would hide a variable that the function has from "
                f"elsewhere; begin it with none of {', '.join(TAKEN_VARIABLES)}": taken,
                f"the parameter {name!r} has no value; give it one in the CDK's context file, in "
                f"parameters= of the DeploymentConfig, or for one run with -c {name}=…": not taken
                and name not in config.parameters,
            }
        )


def _variable_faults(what: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if not CONSUMER_NAME.fullmatch(name):
            yield f"{what} {name!r} makes no variable; {NAME_RULE}"


def _time_faults(consumer: ConsumerProps) -> Iterator[str]:
    timeout, least = consumer.timeout_seconds, consumer.least_visibility_seconds
    effect, rounds = consumer.effect_timeout_seconds, consumer.call_rounds
    # A message whose call does not fit into the time left is retried, and has spent a receive.
    need = MARGIN_SECONDS + rounds * effect
    yield from faults_where(
        {
            f"timeout_seconds={timeout} does not hold {rounds} × effect_timeout_seconds={effect} "
            f"(batch_size={consumer.batch_size}, {consumer.calls_at_a_time} at a time) and "
            f"{MARGIN_SECONDS} s for the answer; raise it to {need + 1}, or lower "
            "batch_size": effect > 0 and timeout <= need,
            f"visibility_seconds={consumer.visibility} delivers again what is still at work; raise "
            f"it to 6 × timeout + batch window = {least}, or leave it "
            "out": consumer.visibility < least,
            f"visibility of {consumer.visibility} s; SQS takes at most "
            f"{Limits.VISIBILITY_SECONDS}: lower visibility_seconds or "
            "timeout_seconds": consumer.visibility > Limits.VISIBILITY_SECONDS,
        }
    )


_FIELD = re.compile(r"[^\s.]+(\.[^\s.]+)*")


def line_group_faults(consumer: ConsumerProps) -> Iterator[str]:
    ordered, fair = consumer.ordered_by, consumer.fair_by
    size, window = consumer.batch_size, consumer.batch_window_seconds
    of_fifo = {
        "fifo=True without ordered_by; name the field of the data whose events keep their order, "
        "such as ordered_by='order_id'": ordered is None,
        f"fair_by={fair!r} with fifo=True; a FIFO queue has one group for each message, that of "
        "ordered_by: leave fair_by out, or fifo": fair is not None,
        f"batch_size={size} with fifo=True; Lambda takes at most {FIFO_BATCH_SIZE} messages from a "
        "FIFO queue: lower it": size > FIFO_BATCH_SIZE,
        f"batch_window_seconds={window} with fifo=True; Lambda gathers no batch from a FIFO queue: "
        "leave it out": window > 0,
    }
    of_standard = {
        f"ordered_by={ordered!r} without fifo; a standard queue keeps no order: add fifo=True, or "
        "use fair_by if only fairness is meant": ordered is not None,
        "blocks_group=True without fifo; messages of a standard queue do not wait for one another: "
        "add fifo=True and ordered_by, or leave it out": consumer.blocks_group,
    }
    yield from faults_where(of_fifo if consumer.fifo else of_standard)
    yield from (
        f"{name}={path!r} names no field of the data; give a name such as 'order_id', with dots "
        "for nesting"
        for name, path in (("ordered_by", ordered), ("fair_by", fair))
        if path is not None and not _FIELD.fullmatch(path)
    )


def _capacity_faults(consumer: ConsumerProps) -> Iterator[str]:
    ranges = list(range_faults(consumer))
    yield from ranges
    size, largest = consumer.batch_size, consumer.claim_check_mb
    waits = consumer.batch_window_seconds >= 1 or consumer.fifo
    receives, least = consumer.max_receive_count, Limits.MIN_RECEIVE_COUNT
    need = FUNCTION_MB + CLAIM_MEMORY_FACTOR * largest * size
    yield from faults_where(
        {
            f"batch_size={size} needs time to gather; set batch_window_seconds to 1 or more, or "
            f"batch_size to {FILLED_AT_ONCE}": size > FILLED_AT_ONCE and not waits,
            f"max_receive_count={receives} dead-letters sound messages, since throttles spend "
            f"receives too; raise it to {least}": receives < least,
            f"memory_mb={consumer.memory_mb} does not hold a batch of {size} events of "
            f"claim_check_mb={largest}, each of which may take {CLAIM_MEMORY_FACTOR} times its "
            f"size; raise memory_mb to {need}, or lower "
            "batch_size": not ranges and largest > 0 and need > consumer.memory_mb,
        }
    )


def _concurrency_faults(consumer: ConsumerProps) -> Iterator[str]:
    pollers, most = consumer.pollers, consumer.max_concurrency
    reserved, main = consumer.reserved_concurrency, consumer.concurrency
    isolated = ISOLATION_CONCURRENCY if consumer.batch_size > 1 else 0
    if pollers is not None:
        least, largest = pollers.minimum, pollers.maximum
        yield from range_faults(pollers, "pollers has ")
        yield from faults_where(
            {
                f"it has pollers= and max_concurrency={most}, and Lambda accepts one of them: "
                "leave max_concurrency out, and limit the load by Pollers(maximum=…), which "
                f"allows {INVOCATIONS_PER_POLLER} invocations each": most is not None,
                f"pollers has minimum={least} over maximum={largest}; lower the minimum, or raise "
                "the maximum": least > largest,
            }
        )
    # Each throttle spends a receive of the messages in its batch.
    if reserved is not None and reserved < main + isolated:
        yield (
            f"reserved_concurrency={reserved} throttles the function: its queue makes up to {main} "
            f"invocations at a time and its isolation queue {isolated}; raise it to "
            f"{main + isolated}, or lower max_concurrency or the maximum of pollers"
        )


_MACHINE = re.compile(r"arn:[\w-]+:states:[\w-]+:\d{12}:stateMachine:[\w-]+(:[\w-]+)?")
_FUNCTION = re.compile(r"arn:[\w-]+:lambda:[\w-]+:\d{12}:function:[\w-]+:[\w-]+")


def _workflow_faults(consumer: ConsumerProps) -> Iterator[str]:
    for name, count in Counter(each.name for each in consumer.starts).items():
        yield from _variable_faults("the workflow's name", (name,))
        if count > 1:
            yield f"starts has {name!r} twice; give each workflow a name of its own"
    for each in consumer.starts:
        resource = _resource(each.arn)
        faults = (
            _machine_faults(each.arn, resource)
            if isinstance(each, StateMachineProps)
            else _durable_function_faults(each, resource)
        )
        yield from (f"the workflow {each.name!r} {fault}" for fault in faults)
    if consumer.starts and consumer.effect_timeout_seconds < START_SECONDS:
        yield (
            f"effect_timeout_seconds={consumer.effect_timeout_seconds} is too short to start a "
            f"workflow; raise it to {START_SECONDS}: two requests of two seconds"
        )


def _machine_faults(arn: str, resource: Any) -> Iterator[str]:
    express = getattr(resource, "state_machine_type", None) == "EXPRESS"
    return faults_where(
        {
            f"has arn={arn!r}; give the ARN of a state machine": resource is None
            and not _is_arn(arn, _MACHINE),
            "is an express state machine, whose executions are not identified by their name: a "
            "retry would start a second one; make it a standard one": express,
        }
    )


def _durable_function_faults(workflow: DurableFunctionProps, resource: Any) -> Iterator[str]:
    days, function = workflow.retention_days, _resource(getattr(resource, "function_name", ""))
    is_known = isinstance(function, lambda_.CfnFunction)
    durable: Any = function.durable_config if is_known else None
    kept = int(getattr(durable, "retention_period_in_days", None) or RETENTION_DAYS)
    yield from faults_where(
        {
            f"has arn={workflow.arn!r}; give the ARN of a version or an alias of a "
            "function": resource is None and not _is_arn(workflow.arn, _FUNCTION),
            "is the ARN of a function without a version, and a durable execution stays at one; "
            "give the ARN of an alias or a version": isinstance(resource, lambda_.CfnFunction),
            "is no durable function: a retry would invoke it again; give the function a "
            "durable_config": is_known and durable is None,
            f"has retention_days={days}, and its function keeps an execution for {kept} days: a "
            "retry after that would start a second one; give both the same "
            "number": durable is not None and days > kept,
        }
    )
    yield from range_faults(workflow, "has ")


def _is_arn(text: str, pattern: re.Pattern[str]) -> bool:
    return Token.is_unresolved(text) or pattern.fullmatch(text) is not None


def _resource(text: str) -> Any:
    """Return the resource that a text refers to; None for any other text."""
    token = Tokenization.reverse_string(text).first_token if text else None
    return token.target if isinstance(token, Reference) else None


_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_BUS = re.compile(r"[\w./-]{1,256}", re.ASCII)
_TOPIC = re.compile(r"arn:[\w-]+:sns:[\w-]+:\d{12}:[\w-]{1,256}", re.ASCII)
_PRINCIPAL = re.compile(r"arn:[\w-]+:(iam|sts)::\d{12}:.+", re.ASCII)
_SCHEDULE = re.compile(r"(cron|rate|at)\(.+\)")


def _source_faults(consumer: ConsumerProps) -> Iterator[str]:
    taken, source = consumer.external, consumer.source
    rules: dict[str, object] = {}
    match source:
        case event_sources.EventBridgeSource(sources=sources, bus=bus):
            rules = {
                "its rule selects no source; name one in Source.event_bridge(…), such as "
                "'aws.ec2'": not sources,
                f"bus={bus!r} is no name; give the name of an event bus of this "
                "account": not _BUS.fullmatch(bus),
            }
            for each in sources:
                rules[
                    f"its rule selects the source {each!r}; give the `source` of the events, which "
                    f"does not begin with {SOURCE_PREFIX}"
                ] = not each.strip() or each.startswith(SOURCE_PREFIX)
        case event_sources.S3Source(bucket=bucket):
            known = " and ".join(event_sources.S3_TYPES)
            rules = {
                f"external has {event!r}, and its source has {known} only; take other events of "
                "S3 with Source.event_bridge('aws.s3')": event not in event_sources.S3_TYPES
                for event in taken
            }
            fault = f"bucket={bucket!r} is no name of a bucket; give its name, not its ARN"
            rules[fault] = bucket is not None and not _BUCKET.fullmatch(bucket)
        case event_sources.SnsSource(topic=topic):
            rules = {
                f"topic={topic!r} is no ARN of a standard topic; give that of the "
                "topic": not _TOPIC.fullmatch(topic),
                "envelope_id=True, and CloudEvents have an id of their own; leave it out, or give "
                "type= or type_field= if the messages are plain "
                "JSON": source.envelope_id and not source.is_plain,
                **(_type_rules(source, taken) if source.is_plain else {}),
            }
        case event_sources.JsonSource(senders=senders):
            rules = _type_rules(source, taken) | {
                f"the sender {sender!r} is no ARN of a principal; give one, such as "
                "'arn:aws:iam::123456789012:role/shop'": not _PRINCIPAL.fullmatch(sender)
                for sender in senders
            }
        case event_sources.ScheduleSource(expression=expression):
            rules = {
                f"the schedule {expression!r}; give cron(…), rate(…) or at(…), such as "
                "'cron(0 3 * * ? *)'": not _SCHEDULE.fullmatch(expression),
                f"a schedule sends one event type, and external is {taken}; name one, and make a "
                "consumer for each further schedule": len(taken) != 1,
            }
    grouped = consumer.grouped_by is not None or consumer.fifo
    yield from faults_where(
        rules
        | {
            "it has source= and events=, and a queue holds messages in one envelope; take the "
            "events of other consumers in a consumer of its own": consumer.events,
            "it has source= and a message group (fifo= or fair_by=), which only events of the "
            "topics have; leave one of the two out": grouped,
        }
    )


def _type_rules(
    source: event_sources.JsonSource | event_sources.SnsSource, taken: tuple[str, ...]
) -> dict[str, object]:
    both = (source.type is None) is (source.type_field is None)
    return {
        f"Source.{source.kind}(…) needs type= for one type of all messages, or type_field= for the "
        "field that holds it; give one of the two": both,
        f"every message has the type {source.type!r}, and external is {taken}; give "
        f"external=({source.type!r},), or type_field=": not both
        and source.type is not None
        and taken != (source.type,),
    }
