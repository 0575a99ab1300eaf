"""Checks of a webhook ingress's properties. Each fault states its remedy."""

from collections import defaultdict
from collections.abc import Iterator
from math import ceil

from once.cdk._message_groups import MessageGroups
from once.cdk.checks.aws_services import aws_service_faults
from once.cdk.checks.consumer_props import (
    FUNCTION_SECONDS,
    MARGIN_SECONDS,
    MEMORY_MB,
    NAME_RULE,
)
from once.cdk.checks.property_types import property_type_faults
from once.cdk.deployment_config import DAY_SECONDS, DeploymentConfig
from once.cdk.webhooks.function_settings import ingress_settings
from once.cdk.webhooks.props import WebhookProps
from once.schema import CONSUMER_NAME, RELAY, UNROUTED, Limits
from once.settings import FUNCTION_MB, WEBHOOK_MEMORY_FACTOR
from once.webhooks.endpoint import Endpoint
from once.webhooks.endpoint_faults import endpoint_faults

API_SECONDS = 30
"""The longest time for which an HTTP API waits for the function."""

_ARN, _NAME = "a" * 110, "n" * 60
"""Texts as long as a secret's ARN, and as the name that CloudFormation gives a table."""


def webhook_props_faults(props: WebhookProps, config: DeploymentConfig) -> Iterator[str]:
    """Yield every fault of an ingress, without its name."""
    if types := list(property_type_faults(props)):
        yield from types
        return
    yield from _name_faults(props)
    yield from aws_service_faults(props)
    yield from _endpoint_set_faults(props)
    for endpoint in props.endpoints:
        faults = [*endpoint_faults(endpoint), *_deployment_faults(endpoint, config)]
        yield from (f"endpoint {endpoint.name!r}: {fault}" for fault in faults)
    yield from _time_faults(props, config)
    yield from _capacity_faults(props)
    if props.endpoints:
        yield from _environment_faults(props, config)


def _name_faults(props: WebhookProps) -> Iterator[str]:
    if not CONSUMER_NAME.fullmatch(props.name):
        yield f"the name {props.name!r} cannot be part of dedup keys and paths; {NAME_RULE}"
    if props.name in {RELAY, UNROUTED}:
        yield f"the name {props.name!r} is that of another function of Once; choose another"


def _endpoint_set_faults(props: WebhookProps) -> Iterator[str]:
    if not props.endpoints:
        yield "it has no endpoint; give endpoints= such as (Endpoint('stripe', STRIPE),)"
    alike: dict[str, list[str]] = defaultdict(list)
    for each in props.endpoints:
        alike[each.name.replace("-", "")].append(each.name)
    for names in alike.values():
        if len(names) > 1:  # the keys of a stack's outputs have no hyphens
            shown = " and ".join(map(repr, names))
            yield f"the endpoints {shown} have one name, or differ in hyphens only; rename one"


def _deployment_faults(endpoint: Endpoint, config: DeploymentConfig) -> Iterator[str]:
    retry = endpoint.profile.retry_seconds
    if retry > config.dedup_window_seconds:
        days = ceil(retry / DAY_SECONDS)
        yield (
            f"dedup_window_days={config.dedup_window_days}: {endpoint.profile.name} sends a "
            f"webhook again for {days} days, and its key is forgotten before; raise it to {days}"
        )


def _time_faults(props: WebhookProps, config: DeploymentConfig) -> Iterator[str]:
    longest = API_SECONDS if props.http_api else FUNCTION_SECONDS
    if not MARGIN_SECONDS < props.timeout_seconds <= longest:
        waits = "an HTTP API waits" if props.http_api else "a function runs"
        yield (
            f"timeout_seconds={props.timeout_seconds}; choose {MARGIN_SECONDS + 1} to {longest}: "
            f"{MARGIN_SECONDS} s are kept back for the answer, and {waits} no longer"
        )
    if not 1 <= props.capture_days <= config.dedup_window_days:
        yield (
            f"capture_days={props.capture_days}; choose 1 to {config.dedup_window_days}, which is "
            "dedup_window_days: a replay of an older capture would change state again"
        )


def _capacity_faults(props: WebhookProps) -> Iterator[str]:
    if props.memory_mb not in MEMORY_MB:
        yield f"memory_mb={props.memory_mb}; choose 128 to 10240"
    elif (need := _needed_mb(props)) > props.memory_mb:
        yield (
            f"memory_mb={props.memory_mb} does not hold a body of {props.largest_body} bytes, "
            f"which may take {WEBHOOK_MEMORY_FACTOR} times its size; raise memory_mb to {need}, or "
            "lower body_bytes of the endpoint"
        )
    if props.reserved_concurrency is not None and props.reserved_concurrency < 1:
        yield (
            f"reserved_concurrency={props.reserved_concurrency} admits no request; choose 1 or "
            "more, or None for no limit"
        )


def _needed_mb(props: WebhookProps) -> int:
    return FUNCTION_MB + ceil(WEBHOOK_MEMORY_FACTOR * props.largest_body / 2**20)


def _environment_faults(props: WebhookProps, config: DeploymentConfig) -> Iterator[str]:
    settings = ingress_settings(
        props,
        config,
        dedup_table=_NAME,
        captures=_NAME,
        secrets=dict.fromkeys((each.name for each in props.endpoints), _ARN),
        claims=_NAME,
        groups=MessageGroups(),
    )
    size = sum(len(f"{name}{value}".encode()) for name, value in settings.to_env().items())
    if size > Limits.ENVIRONMENT_BYTES:
        yield (
            f"its endpoints make about {size} bytes of environment variables, and Lambda takes "
            f"{Limits.ENVIRONMENT_BYTES}; give them fewer or shorter types"
        )
