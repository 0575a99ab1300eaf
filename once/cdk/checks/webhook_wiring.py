"""Checks of the parts that a `WebhookIngress` is given. Each fault states its remedy."""

from collections.abc import Iterator, Mapping

from aws_cdk import aws_s3 as s3

from once.cdk.checks.property_types import property_type_faults
from once.cdk.webhooks.props import MESSAGE_BODY_BYTES, WebhookProps


def webhook_wiring_faults(
    props: WebhookProps,
    secrets: Mapping[str, str],
    published: Mapping[str, tuple[str, ...]] | None,
    claims: s3.IBucket | None,
) -> Iterator[str]:
    """Yield every fault of an ingress's parts, without its name.

    Args:
        props: the ingress; with properties of wrong types, which are faults of their own, its parts
            are not compared.
        secrets: the ARNs of the secrets, by the names of the endpoints.
        published: the event types that the relay publishes, by identity; None without a relay.
        claims: the claim-check bucket, if there is one.
    """
    if any(property_type_faults(props)):
        return
    if props.folder is None or not (props.folder / "handler.py").is_file():
        yield f"folder={props.folder}; give the path of the folder that holds its handler.py"
    for endpoint in props.endpoints:
        if endpoint.name not in secrets:
            yield (
                f"the secret of endpoint {endpoint.name!r} is missing; add its ARN to secrets= of "
                "WebhookIngress"
            )
    yield from _relay_faults(props, published)
    if props.needs_claims and claims is None:
        yield (
            f"its endpoints take bodies of {props.largest_body} bytes, and a message holds "
            f"{MESSAGE_BODY_BYTES}; give claims= of WebhookIngress a ClaimBucket, or the "
            "endpoints a smaller body_bytes="
        )


def _relay_faults(
    props: WebhookProps, published: Mapping[str, tuple[str, ...]] | None
) -> Iterator[str]:
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
