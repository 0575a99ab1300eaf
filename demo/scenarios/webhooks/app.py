"""The shop's CDK app with an ingress of five endpoints, and a consumer of what four hand on."""

from dataclasses import replace
from pathlib import Path

from demo.scenarios.webhooks.deliveries import SLACK as SLACK_PATH
from demo.scenarios.webhooks.deliveries import TYPES, Provider
from once.cdk import (
    GITHUB,
    SHOPIFY,
    SLACK,
    STANDARD,
    STRIPE,
    ConsumerProps,
    Endpoint,
    TableProps,
    WebhookProps,
    run_app,
)
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from stacks.webhooks import WEBHOOKS

_BODY_BYTES = 64 * 1024
_PROFILES = {
    Provider.STRIPE: STRIPE,
    Provider.GITHUB: GITHUB,
    Provider.SHOPIFY: SHOPIFY,
    Provider.STANDARD: STANDARD,
}
_SHOPS = {name: each.types for each in WEBHOOKS.endpoints for name in [each.name]}
"""The types that the shop's own consumers take."""

INGRESS = WebhookProps(
    endpoints=(
        *(
            Endpoint(
                name=provider,
                profile=profile,
                types=(TYPES[provider], *_SHOPS.get(provider, ())),
                body_bytes=_BODY_BYTES,
            )
            for provider, profile in _PROFILES.items()
        ),
        Endpoint(SLACK_PATH, SLACK),
    ),
)
RECEIPTS = ConsumerProps(
    "receipts",
    events=tuple(f"{provider}.{name}" for provider, name in TYPES.items()),
    tables=(TableProps("receipts", "serial"),),
    folder=Path(__file__).resolve().parent / "receipts",
)

if __name__ == "__main__":
    run_app(replace(REGISTRY, consumers=(*CONSUMERS, RECEIPTS), webhooks=INGRESS))
