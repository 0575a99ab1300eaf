"""Checks of a webhook ingress: its properties, the consumers beside it, the parts it is given.

Each fault states its remedy.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from aws_cdk import aws_s3 as s3

from once.cdk.checks.aws_clients_in_code import aws_service_faults
from once.cdk.checks.consumer_props import (
    FUNCTION_SECONDS,
    MARGIN_SECONDS,
    MEMORY_MB,
    NAME_RULE,
)
from once.cdk.checks.property_types import has_type, property_type_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import (
    DAY_SECONDS,
    MESSAGE_BODY_BYTES,
    ConsumerProps,
    MessageGroups,
    WebhookProps,
    ingress_settings,
)
from once.names import CONSUMER_NAME, RELAY, UNROUTED, Limits
from once.settings import FUNCTION_MB, WEBHOOK_MEMORY_FACTOR
from once.webhooks.endpoint import endpoint_faults

API_SECONDS = 30
"""The longest time for which an HTTP API waits for the function."""

_ARN, _NAME = "a" * 110, "n" * 60
"""Texts as long as a secret's ARN, and as the name that CloudFormation gives a table."""


def webhook_props_faults(props: WebhookProps, config: DeploymentConfig) -> Iterator[str]:
    """Yield every fault of an ingress, without its name."""
    if types := list(property_type_faults(props)):
        yield from types
        return
    if not CONSUMER_NAME.fullmatch(props.name):
        yield f"the name {props.name!r} cannot be part of dedup keys and paths; {NAME_RULE}"
    if props.name in {RELAY, UNROUTED}:
        yield f"the name {props.name!r} is that of another function of Once; choose another"
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
    need = FUNCTION_MB + ceil(WEBHOOK_MEMORY_FACTOR * props.largest_body / 2**20)
    if props.memory_mb not in MEMORY_MB:
        yield f"memory_mb={props.memory_mb}; choose 128 to 10240"
    elif need > props.memory_mb:
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
    if not props.endpoints:
        return
    settings = ingress_settings(
        props,
        dedup_table=_NAME,
        captures=_NAME,
        secrets=dict.fromkeys((each.name for each in props.endpoints), _ARN),
        claims=_NAME,
        groups=MessageGroups(),
        dedup_window_seconds=config.dedup_window_seconds,
        time_margin_ms=config.time_margin_ms,
    )
    size = sum(len(f"{name}{value}".encode()) for name, value in settings.to_env().items())
    if size > Limits.ENVIRONMENT_BYTES:
        yield (
            f"its endpoints make about {size} bytes of environment variables, and Lambda takes "
            f"{Limits.ENVIRONMENT_BYTES}; give them fewer or shorter types"
        )


def webhook_set_faults(
    webhooks: WebhookProps | None, consumers: Sequence[ConsumerProps], config: DeploymentConfig
) -> Iterator[str]:
    """Yield every fault of an ingress, with its name; the consumers have the right types."""
    if webhooks is None:
        return
    named = f"webhook ingress {webhooks.name!r}"
    yield from (f"{named}: {fault}" for fault in webhook_props_faults(webhooks, config))
    if not has_type(webhooks, WebhookProps):
        return
    for each in consumers:
        if webhooks.name in {each.name, each.identity}:
            yield (
                f"{named}: consumer {each.name!r} has this name too, and both would write the same "
                "dedup keys; give one of them another name="
            )
    for endpoint in webhooks.endpoints:
        if endpoint.limit <= MESSAGE_BODY_BYTES:
            continue
        need = -(-endpoint.limit // 2**20)
        for taker in consumers:
            shared = [event for event in endpoint.event_types if event in taker.events]
            if shared and taker.claim_check_mb * 2**20 < endpoint.limit:
                yield (
                    f"consumer {taker.name!r}: it takes {shared[0]!r}, whose data may have "
                    f"{endpoint.limit} bytes in S3; set its claim_check_mb= to {need}, or "
                    f"body_bytes= of the endpoint {endpoint.name!r} to {MESSAGE_BODY_BYTES} or less"
                )


def webhook_wiring_faults(
    props: WebhookProps,
    secrets: Mapping[str, str],
    published: Mapping[str, tuple[str, ...]] | None,
    claims: s3.IBucket | None,
) -> Iterator[str]:
    """Yield every fault of an ingress's parts, without its name.

    With properties of wrong types, which are faults of their own, they are not compared.
    `published` are the types that the relay publishes, by identity; None without a relay.
    """
    if not has_type(props, WebhookProps):
        return
    if props.folder is None or not (props.folder / "handler.py").is_file():
        yield f"folder={props.folder}; give the path of the folder that holds its handler.py"
    for endpoint in props.endpoints:
        if endpoint.name not in secrets:
            yield (
                f"the secret of endpoint {endpoint.name!r} is missing; add its ARN to secrets= of "
                "WebhookIngress"
            )
    if props.event_types and published is None:
        yield (
            "it hands events on, and they would stay in its outbox; give relay= an OutboxRelay, or "
            "the endpoints no types="
        )
    elif unpublished := set(props.event_types) - set((published or {}).get(props.name, ())):
        yield (
            f"the relay does not publish {', '.join(sorted(unpublished))} for it; give publishes= "
            "of OutboxRelay what published_types(consumers, webhooks) returns"
        )
    if props.needs_claims and claims is None:
        yield (
            f"its endpoints take bodies of {props.largest_body} bytes, and a message holds "
            f"{MESSAGE_BODY_BYTES}; give claims= of WebhookIngress a ClaimBucket, or the "
            "endpoints a smaller body_bytes="
        )
