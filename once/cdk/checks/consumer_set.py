"""Checks of all consumers of a deployment together. Each fault states its remedy."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from once.cdk.checks._claim_check import unread_claim_faults
from once.cdk.checks._dedup_window import dedup_window_faults
from once.cdk.checks._item_dedup import shared_item_tables
from once.cdk.checks._message_groups import group_set_faults
from once.cdk.checks._scaling import deployment_throughput_faults, shared_throughput_faults
from once.cdk.checks._webhook_set import webhook_set_faults
from once.cdk.checks.account_options import account_option_faults
from once.cdk.checks.consumer_props import consumer_props_faults
from once.cdk.checks.property_types import property_type_faults
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.props import ConsumerProps
from once.cdk.webhooks.props import WebhookProps


def deployment_faults(config: DeploymentConfig) -> list[str]:
    """Return every fault of a configuration; an empty list if it can be deployed."""
    warm = deployment_throughput_faults(config.dedup_warm_throughput)
    options = account_option_faults(config)
    return [*config.faults, *options, *dedup_window_faults(config), *warm]


def consumer_set_faults(
    consumers: Sequence[ConsumerProps],
    config: DeploymentConfig,
    webhooks: WebhookProps | None = None,
) -> list[str]:
    """Return every fault of a set of consumers; an empty list if it can be built.

    Args:
        consumers: every consumer of the deployment.
        config: the deployment; its own faults are those of `deployment_faults`.
        webhooks: the webhook ingress of the deployment, if there is one.
    """
    ingress = None if webhooks is None or any(property_type_faults(webhooks)) else webhooks
    typed = [each for each in consumers if not any(property_type_faults(each))]
    return [
        *(
            f"{named(each)}: {fault}"
            for each in consumers
            for fault in consumer_props_faults(each, config)
        ),
        *_duplicate_names(typed),
        *_second_renames(typed),
        *_shared_identities(typed),
        *_types_without_publisher(typed, ingress),
        *_forgeable_types(typed, ingress),
        *_tables_with_two_keys(typed),
        *shared_item_tables(typed),
        *group_set_faults(typed),
        *unread_claim_faults(typed),
        *shared_throughput_faults([table for each in typed for table in each.tables]),
        *webhook_set_faults(webhooks, typed, config),
    ]


def named(consumer: ConsumerProps) -> str:
    """Return how messages name a consumer."""
    return f"consumer {consumer.name!r}"


def _duplicate_names(consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    for name, count in Counter(consumer.name for consumer in consumers).items():
        if count > 1:
            yield f"consumer {name!r}: {count} consumers have this name; rename all but one"


def _second_renames(consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    first = {consumer.name: consumer.identity for consumer in consumers}
    for consumer in consumers:
        identity = first.get(consumer.identity, consumer.identity)
        if identity != consumer.identity:
            yield (
                f"{named(consumer)}: renamed_from={consumer.identity!r} is not its first name, so "
                f"committed events would be applied again; give renamed_from={identity!r}"
            )


def _shared_identities(consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    lines: dict[str, list[ConsumerProps]] = defaultdict(list)
    for consumer in consumers:
        if not consumer.retiring:
            lines[consumer.identity].append(consumer)
    for identity, found in lines.items():
        if len({_taken(each) for each in found}) > 1:
            yield (
                f"{' and '.join(map(named, found))} have the identity {identity!r}, so that each "
                "skips the events of the other, and take different types; give both the same "
                "external=, events= and source= if this is a rename, or one of them another name"
            )


def _taken(consumer: ConsumerProps) -> tuple[object, ...]:
    return frozenset(consumer.external), frozenset(consumer.events), consumer.source


def _types_without_publisher(
    consumers: Sequence[ConsumerProps], webhooks: WebhookProps | None
) -> Iterator[str]:
    publishers = _publishers(consumers, webhooks)
    for consumer in consumers:
        for event in dict.fromkeys(consumer.events):
            if event not in publishers:
                yield (
                    f"{named(consumer)}: events has {event!r}, which no consumer and no "
                    "endpoint publishes; declare it external= if producers publish it, or add it "
                    "to publishes= or to the endpoint's types="
                )


def _forgeable_types(
    consumers: Sequence[ConsumerProps], webhooks: WebhookProps | None
) -> Iterator[str]:
    publishers = _publishers(consumers, webhooks)
    for consumer in consumers:
        for event in dict.fromkeys(consumer.external):
            if event in publishers:
                yield (
                    f"{named(consumer)}: external has {event!r}, which "
                    f"{' and '.join(publishers[event])} publishes, so that a producer could forge "
                    "it; move it to events, or have producers publish another type"
                )


def _publishers(
    consumers: Sequence[ConsumerProps], webhooks: WebhookProps | None
) -> dict[str, list[str]]:
    """Return the names of the consumers, or of the ingress, that publish each event type."""
    publishers: dict[str, list[str]] = defaultdict(list)
    for consumer in consumers:
        for event in dict.fromkeys(consumer.publishes):
            publishers[event].append(consumer.name)
    if webhooks is not None:
        for event in webhooks.event_types:
            publishers[event].append(webhooks.name)
    return publishers


def _tables_with_two_keys(consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    keys: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for table in (table for consumer in consumers for table in consumer.tables):
        keys[table.name].add(table.keys)
    for name, found in keys.items():
        if len(found) > 1:
            shown = " and ".join(str(key) for key in sorted(found))
            yield f"table {name!r} has the keys {shown}; declare it once and share it"
