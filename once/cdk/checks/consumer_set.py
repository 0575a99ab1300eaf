"""Checks of all lines of a deployment together. Each fault states its remedy."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, groupby, product
from math import ceil
from typing import NamedTuple

from once.cdk.checks import faults_where
from once.cdk.checks.command_props import command_props_faults
from once.cdk.checks.consumer_props import consumer_props_faults
from once.cdk.checks.handlers_in_code import caused_events
from once.cdk.checks.property_types import has_type
from once.cdk.checks.webhook_props import webhook_props_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import (
    MESSAGE_BODY_BYTES,
    CommandProps,
    ConsumerProps,
    Line,
    MessageGroups,
    WarmThroughput,
    WebhookProps,
    named,
)
from once.names import Limits
from once.settings import Dedup

Route = tuple[str, str, str]
"""An event type, a consumer that takes it, and a type that it may publish in turn."""


def consumer_set_faults(lines: Sequence[Line], config: DeploymentConfig) -> list[str]:
    """Return every fault of the lines of a registry; an empty list if they can be built.

    The faults of `config` are those of `deployment_faults`.
    """
    typed = [each for each in lines if has_type(each, Line)]
    consumers = [each for each in typed if isinstance(each, ConsumerProps)]
    writers = [each for each in typed if not isinstance(each, WebhookProps)]
    return [
        *(f"{named(each)}: {fault}" for each in lines for fault in _line_faults(each, config)),
        *_name_faults(consumers),
        *_shared_name_faults(typed),
        *_logical_id_faults(writers),
        *_publisher_faults(typed),
        *_shared_table_faults(writers),
        *group_set_faults(consumers),
        *_later_faults(writers, MessageGroups.of(consumers)),
        *_unread_claim_faults(typed),
        *_subscription_faults(consumers),
    ]


def _line_faults(line: Line, config: DeploymentConfig) -> Iterator[str]:
    if isinstance(line, ConsumerProps):
        return consumer_props_faults(line, config)
    if isinstance(line, CommandProps):
        return command_props_faults(line, config)
    return webhook_props_faults(line, config)


def _name_faults(consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    for name, count in Counter(consumer.name for consumer in consumers).items():
        if count > 1:
            yield f"consumer {name!r}: {count} consumers have this name; rename all but one"
    first = {consumer.name: consumer.identity for consumer in consumers}
    for consumer in consumers:
        identity = first.get(consumer.identity, consumer.identity)
        if identity != consumer.identity:
            yield (
                f"{named(consumer)}: renamed_from={consumer.identity!r} is not its first name, so "
                f"committed events would be applied again; give renamed_from={identity!r}"
            )
    lines: dict[str, list[ConsumerProps]] = defaultdict(list)
    for consumer in consumers:
        if not consumer.retiring:
            lines[consumer.identity].append(consumer)
    for identity, found in lines.items():
        taken = {(frozenset(each.external), frozenset(each.events), each.source) for each in found}
        if len(taken) > 1:
            yield (
                f"{' and '.join(map(named, found))} have the identity {identity!r}, so that each "
                "skips the events of the other, and take different types; give both the same "
                "external=, events= and source= if this is a rename, or one of them another name"
            )


def _shared_name_faults(lines: Sequence[Line]) -> Iterator[str]:
    for line, other in combinations(lines, 2):
        both = isinstance(line, ConsumerProps) and isinstance(other, ConsumerProps)
        if not both and other.name in {line.name, line.identity}:
            yield (
                f"{named(other)}: {named(line)} has this name too, and both would write the same "
                "dedup keys; give one of them another name="
            )


def _subscription_faults(consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    ordered = MessageGroups.of(consumers).ordered
    subscribed = [each for each in consumers if each.source is None or each.events]
    on_fifo = [each for each in subscribed if each.fifo or not ordered.isdisjoint(each.event_types)]
    for kind, lines, most in (
        ("standard", [c for c in subscribed if not c.fifo], Limits.FILTER_POLICIES - 1),
        ("FIFO", on_fifo, Limits.FIFO_SUBSCRIPTIONS - 1),
    ):
        if len(lines) > most:
            yield (
                f"{len(lines)} consumers subscribe to a {kind} topic, and SNS takes {most} beside "
                "the queue of unrouted events; divide the consumers between two services"
            )


def _logical_id_faults(lines: Sequence[ConsumerProps | CommandProps]) -> Iterator[str]:
    consumers = [each for each in lines if isinstance(each, ConsumerProps)]
    kinds = {
        "consumers": [each.name for each in lines],
        "tables": [table.name for each in lines for table in each.tables],
        "secrets": [secret for each in consumers for secret in each.secrets],
    }
    for kind, names in kinds.items():
        for name, other in combinations(sorted({*names}), 2):
            if name.replace("_", "") == other.replace("_", ""):
                yield (
                    f"the {kind} {name!r} and {other!r} would have the same logical ids, which "
                    "have no underscores; rename one of them"
                )


def _publisher_faults(lines: Sequence[Line]) -> Iterator[str]:
    publishers: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        for event in dict.fromkeys(line.publishes):
            publishers[event].append(line.name)
    for consumer in lines:
        if not isinstance(consumer, ConsumerProps):
            continue
        yield from (
            f"{named(consumer)}: events has {event!r}, which no line and no endpoint "
            "publishes; declare it external= if producers publish it, or add it to publishes= or "
            "to the endpoint's types="
            for event in dict.fromkeys(consumer.events)
            if event not in publishers
        )
        yield from (
            f"{named(consumer)}: external has {event!r}, which {' and '.join(publishers[event])} "
            "publishes, so that a producer could forge it; move it to events, or have producers "
            "publish another type"
            for event in dict.fromkeys(consumer.external)
            if event in publishers
        )


def _shared_table_faults(lines: Sequence[ConsumerProps | CommandProps]) -> Iterator[str]:
    keys: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    warm: dict[str, set[WarmThroughput | None]] = defaultdict(set)
    writers: dict[str, dict[Dedup, list[str]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        dedup = line.dedup if isinstance(line, ConsumerProps) else Dedup.RECORD
        for table in line.tables:
            keys[table.name].add(table.keys)
            warm[table.name].add(table.warm_throughput)
            writers[table.name][dedup].append(line.name)
    for name, found in writers.items():
        differ, shown = len(found) > 1, " and ".join(map(str, sorted(keys[name])))
        yield from faults_where(
            {
                f"table {name!r} has the keys {shown}; declare it once and share it": len(
                    keys[name]
                )
                > 1,
                f"table {name!r} holds the dedup records of {' and '.join(found[Dedup.ITEM])}, and "
                f"a put or a deletion by {' and '.join(found[Dedup.RECORD])} would erase them; "
                "give all of these consumers the same dedup=": differ,
                f"table {name!r} is declared with {len(warm[name])} different warm_throughput; "
                "declare it once and share it": len(warm[name]) > 1,
            }
        )


def _unread_claim_faults(lines: Sequence[Line]) -> Iterator[str]:
    """Yield a fault for each consumer that cannot read the data of events that it takes."""
    consumers = [each for each in lines if isinstance(each, ConsumerProps)]
    publishers = [(f"that of {named(c)}", c.publishes, c.claim_check_mb) for c in consumers]
    publishers += [
        (f"body_bytes= of the endpoint {each.name!r}", each.event_types, ceil(each.limit / 2**20))
        for line in lines
        if isinstance(line, WebhookProps)
        for each in line.endpoints
        if each.limit > MESSAGE_BODY_BYTES
    ]
    for (owner, types, size), taker in product(publishers, consumers):
        shared = [event for event in types if event in taker.events]
        if shared and size > taker.claim_check_mb:
            yield (
                f"{named(taker)}: it takes {shared[0]!r}, whose data may have {size} MiB in S3; "
                f"set its claim_check_mb= to {size}, or lower {owner}"
            )


def _later_faults(
    lines: Sequence[ConsumerProps | CommandProps], groups: MessageGroups
) -> Iterator[str]:
    """Yield a fault for each ordered type that a line publishes later."""
    for line in lines:
        for event in groups.ordered.intersection(line.publishes_later):
            yield (
                f"{named(line)}: publishes_later has {event!r}, which a consumer takes with "
                "fifo=True: EventBridge Scheduler keeps no order among the events of a group; let "
                "a consumer without fifo take the type, or publish it at once"
            )


def group_set_faults(consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    lines: dict[str, dict[str, str]] = defaultdict(dict)
    for consumer in consumers:
        if consumer.grouped_by is not None:
            for event in consumer.event_types:
                lines[event].setdefault(consumer.grouped_by, consumer.name)
    for event, found in lines.items():
        if len(found) > 1:
            shown = " and ".join(f"{path!r} by {name!r}" for path, name in found.items())
            yield (
                f"the type {event!r} is grouped by {shown}, and a message has one group; give all "
                "its consumers the same field in ordered_by= and fair_by="
            )
    ordered = {event: line.name for line in consumers if line.fifo for event in line.event_types}
    yield from (
        f"{named(consumer)}: fair_by={consumer.fair_by!r} has no effect on {event!r}, which "
        f"{ordered[event]!r} takes with fifo=True: an SNS FIFO topic passes no message group to a "
        "standard queue; leave fair_by out, or take the type with fifo=True"
        for consumer in consumers
        if not consumer.fifo and consumer.fair_by is not None
        for event in consumer.event_types
        if event in ordered
    )


class RouteWarning(NamedTuple):
    """A way of events that is probably a mistake. Its id is the one to acknowledge."""

    id: str
    text: str


def route_warnings(lines: Collection[Line]) -> Iterator[RouteWarning]:
    """Yield a warning for each published type without a subscriber, and for each loop."""
    consumers = [each for each in lines if isinstance(each, ConsumerProps)]
    taken = {event for each in consumers if not each.retiring for event in each.events}
    published = [
        (f"{named(each)} publishes", event, "publishes=")
        for each in lines
        if not isinstance(each, WebhookProps)
        for event in dict.fromkeys(each.publishes)
    ]
    published += [
        (f"endpoint {endpoint.name!r} hands on", event, "types=")
        for each in lines
        if isinstance(each, WebhookProps)
        for endpoint in each.endpoints
        for event in endpoint.event_types
    ]
    for publishes, event, option in published:
        if event not in taken:
            yield RouteWarning(
                f"once:no-subscriber:{event}",
                f"{publishes} {event!r}, which no consumer takes: each such event goes into the "
                "unrouted queue, or, in a service without one, stays in its dedup record only; add "
                f"the type to events= of a consumer, take it out of {option}, or acknowledge this "
                "warning",
            )
    yield from _loops(consumers)


def _loops(consumers: Collection[ConsumerProps]) -> Iterator[RouteWarning]:
    """Yield a warning for each set of event types that can cause one another."""
    routes = sorted(
        (cause, consumer.name, event)
        for consumer in consumers
        for cause, caused in caused_events(consumer).items()
        for event in caused
    )
    # The events that each event can cause, directly or through others.
    reached: dict[str, set[str]] = {}
    for cause, _, event in routes:
        reached.setdefault(event, set())
        reached.setdefault(cause, set()).add(event)
    for through in reached:
        for causes in reached.values():
            if through in causes:
                causes |= reached[through]

    def members(route: Route) -> list[str]:
        cause = route[0]
        return sorted(event for event in reached[cause] if cause in reached[event])

    looping = [(cause, name, event) for cause, name, event in routes if cause in reached[event]]
    for events, found in groupby(sorted(looping, key=members), key=members):
        ways = "; ".join(" → ".join(route) for route in found)
        yield RouteWarning(
            f"once:event-loop:{','.join(events)}",
            f"events can cause one another without end: {ways}; take a type out of events= or "
            "publishes=, or acknowledge this warning if the handlers end the loop",
        )
