"""Checks of the properties of a webhook ingress. Each fault states its remedy."""

from collections import defaultdict
from collections.abc import Iterator
from math import ceil

from msgspec import Meta

from once.cdk.checks import faults_where, outside
from once.cdk.checks.aws_clients_in_code import aws_service_faults
from once.cdk.checks.consumer_props import name_faults
from once.cdk.checks.property_types import property_type_faults, range_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import DAY_SECONDS, WebhookProps
from once.settings import FUNCTION_MB, WEBHOOK_MEMORY_FACTOR
from once.webhooks.endpoint import endpoint_faults

API_SECONDS = 30
"""The longest time for which an HTTP API waits for the function."""


def webhook_props_faults(props: WebhookProps, config: DeploymentConfig) -> Iterator[str]:
    """Yield every fault of an ingress, without its name."""
    if types := list(property_type_faults(props)):
        yield from types
        return
    yield from name_faults(props.name)
    yield from aws_service_faults(props)
    if not props.endpoints:
        yield "it has no endpoint; give endpoints= such as (Endpoint('stripe', STRIPE),)"
    alike: dict[str, list[str]] = defaultdict(list)
    for each in props.endpoints:
        alike[each.name.replace("-", "")].append(each.name)
    for names in alike.values():
        if len(names) > 1:  # the keys of a stack's outputs have no hyphens
            shown = " and ".join(map(repr, names))
            yield f"the endpoints {shown} have one name, or differ in hyphens only; rename one"
    for endpoint in props.endpoints:
        profile, days = endpoint.profile, ceil(endpoint.profile.retry_seconds / DAY_SECONDS)
        faults = [*endpoint_faults(endpoint)]
        if profile.retry_seconds > config.dedup_window_seconds:
            faults.append(
                f"dedup_window_days={config.dedup_window_days}: {profile.name} sends a "
                f"webhook again for {days} days, and its key is forgotten before; raise it to "
                f"{days}"
            )
        yield from (f"endpoint {endpoint.name!r}: {fault}" for fault in faults)
    yield from _function_faults(props, config)


def _function_faults(props: WebhookProps, config: DeploymentConfig) -> Iterator[str]:
    ranges = list(range_faults(props))
    yield from ranges
    if props.http_api:
        yield from http_timeout_faults(props.timeout_seconds, "http_api=True")
    yield from outside(
        "capture_days",
        props.capture_days,
        Meta(ge=1, le=config.dedup_window_days),
        ", which is dedup_window_days: a replay of an older capture would change state again",
    )
    need = FUNCTION_MB + ceil(WEBHOOK_MEMORY_FACTOR * props.largest_body / 2**20)
    memory = props.memory_mb
    yield from faults_where(
        {
            f"memory_mb={memory} does not hold a body of {props.largest_body} bytes, which may "
            f"take {WEBHOOK_MEMORY_FACTOR} times its size; raise memory_mb to {need}, or lower "
            "body_bytes of the endpoint": not ranges and need > memory,
        }
    )


def http_timeout_faults(seconds: int, option: str) -> Iterator[str]:
    """Yield the fault of a timeout with the option that puts an HTTP API in front."""
    if seconds > API_SECONDS:
        yield (
            f"timeout_seconds={seconds} with {option}; lower it to {API_SECONDS}, the longest time "
            "for which an HTTP API waits"
        )
