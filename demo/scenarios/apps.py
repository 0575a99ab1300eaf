"""CDK apps of the scenarios, each the shop with more consumers: `python -m demo.scenarios.apps`.

The argument is the name of the scenario.
"""

import sys
from dataclasses import replace
from pathlib import Path

from demo.scenarios.webhook_requests import SLACK as SLACK_PATH
from demo.scenarios.webhook_requests import TYPES, Provider
from once.cdk import (
    GITHUB,
    SHOPIFY,
    SLACK,
    STANDARD,
    STRIPE,
    ConsumerProps,
    Endpoint,
    Registry,
    TableProps,
    WebhookProps,
    run_app,
)
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from stacks.webhooks import WEBHOOKS

HANDLERS = Path(__file__).resolve().parent / "handlers"
RECEIVES = 20
"""Kills and failures use up receives of every message in the batch; none may be dead-lettered."""
_BODY_BYTES = 64 * 1024

COUNTER = ConsumerProps(
    "counter",
    external=("counter.raised",),
    tables=(TableProps("counters", "id"),),
    timeout_seconds=6,
    folder=HANDLERS / "counter",
)

LEDGER = ConsumerProps(
    "ledger",
    external=("account.moved",),
    tables=(TableProps("accounts", "account_id"),),
    publishes=("account.balanced",),
    fifo=True,
    ordered_by="account_id",
    timeout_seconds=6,
    max_receive_count=RECEIVES,
    folder=HANDLERS / "ledger",
)
STATEMENTS = replace(
    LEDGER,
    name="statements",
    external=(),
    events=LEDGER.publishes,
    publishes=(),
    tables=(TableProps("statements", "account_id"),),
    folder=HANDLERS / "statements",
)
FIFO = (LEDGER, STATEMENTS)

_PROFILES = {
    Provider.STRIPE: STRIPE,
    Provider.GITHUB: GITHUB,
    Provider.SHOPIFY: SHOPIFY,
    Provider.STANDARD: STANDARD,
}
_SHOP_TYPES = {each.name: each.types for each in WEBHOOKS.endpoints}
INGRESS = WebhookProps(
    endpoints=(
        *(
            Endpoint(
                name=provider,
                profile=profile,
                types=(TYPES[provider], *_SHOP_TYPES.get(provider, ())),
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
    folder=HANDLERS / "receipts",
)


def registry_of(scenario: str) -> Registry:
    """Return the shop with the consumers of a scenario."""
    match scenario:
        case "hostile":
            return replace(REGISTRY, consumers=(*CONSUMERS, COUNTER))
        case "fifo":
            return replace(REGISTRY, consumers=(*CONSUMERS, *FIFO))
        case "webhooks":
            return replace(REGISTRY, consumers=(*CONSUMERS, RECEIPTS), webhooks=INGRESS)
    raise ValueError(f"scenario {scenario} has no app of its own")


if __name__ == "__main__":
    run_app(registry_of(sys.argv[1]), arguments=())
