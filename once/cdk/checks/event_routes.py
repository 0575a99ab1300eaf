"""The ways of published events between consumers: events without a subscriber, and loops."""

from collections.abc import Collection, Iterator
from itertools import groupby
from typing import NamedTuple

from once.cdk.checks.handlers import caused_events
from once.cdk.props import ConsumerProps
from once.cdk.webhooks.props import WebhookProps


class RouteWarning(NamedTuple):
    """A way of events that is probably a mistake. Its id is the one to acknowledge."""

    id: str
    text: str


class _Route(NamedTuple):
    """An event type, a consumer that takes it, and a type that it may publish in turn."""

    cause: str
    consumer: str
    event: str


def route_warnings(
    consumers: Collection[ConsumerProps], webhooks: WebhookProps | None = None
) -> Iterator[RouteWarning]:
    """Yield a warning for each published type without a subscriber, and for each loop.

    Args:
        consumers: every consumer of the deployment.
        webhooks: the webhook ingress, if there is one.
    """
    yield from _without_subscriber(consumers, webhooks)
    yield from _loops(_routes(consumers))


def _without_subscriber(
    consumers: Collection[ConsumerProps], webhooks: WebhookProps | None
) -> Iterator[RouteWarning]:
    subscribed = [each for each in consumers if not each.retiring]
    taken = {event for consumer in subscribed for event in consumer.events}
    for consumer in consumers:
        for event in dict.fromkeys(consumer.publishes):
            if event not in taken:
                yield RouteWarning(
                    f"once:no-subscriber:{event}",
                    f"consumer {consumer.name!r} publishes {event!r}, which no consumer takes, so "
                    "each such event goes into the unrouted queue; add the type to events= of a "
                    "consumer, take it out of publishes=, or acknowledge this warning",
                )
    for endpoint in () if webhooks is None else webhooks.endpoints:
        for event in endpoint.event_types:
            if event not in taken:
                yield RouteWarning(
                    f"once:no-subscriber:{event}",
                    f"endpoint {endpoint.name!r} hands on {event!r}, which no consumer takes, so "
                    "each such event goes into the unrouted queue; add the type to events= of a "
                    "consumer, take it out of types=, or acknowledge this warning",
                )


def _routes(consumers: Collection[ConsumerProps]) -> list[_Route]:
    return sorted(
        _Route(cause, consumer.name, event)
        for consumer in consumers
        for cause, caused in caused_events(consumer).items()
        for event in caused
    )


def _loops(routes: Collection[_Route]) -> Iterator[RouteWarning]:
    """Yield a warning for each set of event types that can cause one another."""
    reached = _reached(routes)

    def members(route: _Route) -> list[str]:
        mutual = (event for event in reached[route.cause] if route.cause in reached[event])
        return sorted(mutual)

    looping = [route for route in routes if route.cause in reached[route.event]]
    for events, found in groupby(sorted(looping, key=members), key=members):
        ways = "; ".join(" → ".join(route) for route in found)
        yield RouteWarning(
            f"once:event-loop:{','.join(events)}",
            f"events can cause one another without end: {ways}; take a type out of events= or "
            "publishes=, or acknowledge this warning if the handlers end the loop",
        )


def _reached(routes: Collection[_Route]) -> dict[str, set[str]]:
    """Return the events that each event can cause, directly or through others."""
    reached: dict[str, set[str]] = {}
    for route in routes:
        reached.setdefault(route.event, set())
        reached.setdefault(route.cause, set()).add(route.event)
    for through in reached:
        for causes in reached.values():
            if through in causes:
                causes |= reached[through]
    return reached
