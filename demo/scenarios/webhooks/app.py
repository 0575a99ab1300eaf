"""The shop's CDK app with an ingress of five endpoints, and a consumer of what four hand on."""

import sys
from pathlib import Path

import aws_cdk as cdk

from demo.scenarios.webhooks.deliveries import SLACK as SLACK_PATH
from demo.scenarios.webhooks.sample_webhook import TYPES, Provider
from once.cdk import (
    GITHUB,
    SHOPIFY,
    SLACK,
    STANDARD,
    STRIPE,
    ConsumerProps,
    Endpoint,
    SynthError,
    TableProps,
    WebhookProps,
)
from stacks.assembly import assemble, synthesize
from stacks.consumers import CONSUMERS
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
    app = cdk.App()
    try:
        assemble(app, (*CONSUMERS, RECEIPTS), webhooks=INGRESS)
        synthesize(app)
    except SynthError as error:
        sys.exit(f"\n{error}\n")
