"""CDK apps of the scenarios, of which most are the shop with more consumers.

`python -m demo.scenarios.apps` takes the name of the scenario, and for a standby the ARNs of each
table and of its stream, as JSON.
"""

import json
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
    Dedup,
    DeploymentConfig,
    Endpoint,
    ExistingTable,
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

BOOKINGS = ConsumerProps(
    "bookings",
    external=("seat.booked",),
    tables=(TableProps("bookings", "booking_id"),),
    dedup=Dedup.ITEM,
    timeout_seconds=6,
    max_receive_count=RECEIVES,
    folder=HANDLERS / "bookings",
)
STANDBY = "once-standby"
"""Name of the deployment in the other Region. Of one name, the embedded AWS makes one role."""
IN_TWO_REGIONS = (BOOKINGS, *(replace(each, fifo=False, ordered_by=None) for each in FIFO))

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
    """Return the shop with the consumers of a scenario, or those alone."""
    match scenario:
        case "hostile":
            return replace(REGISTRY, consumers=(*CONSUMERS, COUNTER))
        case "fifo":
            return replace(REGISTRY, consumers=(*CONSUMERS, *FIFO))
        case "webhooks":
            return replace(REGISTRY, consumers=(*CONSUMERS, RECEIPTS), webhooks=INGRESS)
        case "region":
            here = Path(__file__)
            return Registry(
                IN_TWO_REGIONS, file=here, functions=here.parent, deployed=REGISTRY.deployed
            )
    raise ValueError(f"scenario {scenario} has no app of its own")


def standby(replicas: str) -> DeploymentConfig:
    """Return the configuration of a standby, whose tables are these replicas."""
    tables = {
        name: ExistingTable(table, stream_arn=stream)
        for name, (table, stream) in json.loads(replicas).items()
    }
    return DeploymentConfig(standby=True, existing_tables=tables)


if __name__ == "__main__":
    _, scenario, *replicas = sys.argv
    run_app(registry_of(scenario), standby(replicas[0]) if replicas else None, arguments=())
