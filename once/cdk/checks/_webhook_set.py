"""Checks of a webhook ingress beside the consumers of its deployment."""

from collections.abc import Iterator, Sequence

from once.cdk.checks.property_types import property_type_faults
from once.cdk.checks.webhook_props import webhook_props_faults
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.props import ConsumerProps
from once.cdk.webhooks.props import MESSAGE_BODY_BYTES, WebhookProps

_MIB = 1024 * 1024


def webhook_set_faults(
    webhooks: WebhookProps | None, consumers: Sequence[ConsumerProps], config: DeploymentConfig
) -> Iterator[str]:
    """Yield every fault of an ingress, with its name; none without an ingress.

    Args:
        webhooks: the ingress.
        consumers: the consumers of the deployment, their properties of the right types.
        config: the deployment.
    """
    if webhooks is None:
        return
    named = f"webhook ingress {webhooks.name!r}"
    yield from (f"{named}: {fault}" for fault in webhook_props_faults(webhooks, config))
    if not any(property_type_faults(webhooks)):
        yield from (f"{named}: {fault}" for fault in _shared_names(webhooks, consumers))
        yield from _unread_bodies(webhooks, consumers)


def _shared_names(webhooks: WebhookProps, consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    for each in consumers:
        if webhooks.name in {each.name, each.identity}:
            yield (
                f"consumer {each.name!r} has this name too, and both would write the same dedup "
                "keys; give one of them another name="
            )


def _unread_bodies(webhooks: WebhookProps, consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    for endpoint in webhooks.endpoints:
        if endpoint.limit <= MESSAGE_BODY_BYTES:
            continue
        need = -(-endpoint.limit // _MIB)
        for taker in consumers:
            shared = [event for event in endpoint.event_types if event in taker.events]
            if shared and taker.claim_check_mb * _MIB < endpoint.limit:
                yield (
                    f"consumer {taker.name!r}: it takes {shared[0]!r}, whose data may have "
                    f"{endpoint.limit} bytes in S3; set its claim_check_mb= to {need}, or "
                    f"body_bytes= of the endpoint {endpoint.name!r} to {MESSAGE_BODY_BYTES} or less"
                )
