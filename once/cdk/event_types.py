"""Event types of a deployment: who publishes each, and where it may come from."""

from collections.abc import Iterable

from once.cdk.props import ConsumerProps
from once.cdk.webhooks.props import WebhookProps
from once.schema import source_of


def event_sources(
    consumer: ConsumerProps,
    consumers: Iterable[ConsumerProps],
    webhooks: WebhookProps | None = None,
) -> dict[str, tuple[str, ...]]:
    """Return the CloudEvents sources that each of the consumer's `events` may come from.

    Args:
        consumer: the consumer that takes the events.
        consumers: every consumer that may publish them.
        webhooks: the webhook ingress that may publish them, if there is one.
    """
    publishers = published_types(consumers, webhooks)
    return {
        event: tuple(source_of(name) for name, types in publishers.items() if event in types)
        for event in consumer.events
    }


def published_types(
    consumers: Iterable[ConsumerProps], webhooks: WebhookProps | None = None
) -> dict[str, tuple[str, ...]]:
    """Return the event types that each identity may publish; without those that publish none.

    The lines of a consumer that is being renamed have one identity. A webhook ingress publishes the
    types of its endpoints under its name.
    """
    found: dict[str, tuple[str, ...]] = {}
    for each in consumers:
        if each.publishes:
            types = (*found.get(each.identity, ()), *each.publishes)
            found[each.identity] = tuple(dict.fromkeys(types))
    if webhooks is not None and webhooks.event_types:
        found[webhooks.name] = webhooks.event_types
    return found
