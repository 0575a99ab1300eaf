"""CDK app of the check: four consumers and a webhook ingress, made with the library's constructs.

The example shop is not deployed: its payment provider and its mailbox do not exist in an account.
Two values of the CDK context change it: `verify_without=leaving` removes an endpoint, and
`verify_holds=ARN` puts a restored table in the place of `holds`.
"""

import json
import os
from pathlib import Path

from once.cdk import (
    STRIPE,
    ConsumerProps,
    Dedup,
    DeploymentConfig,
    Endpoint,
    ExistingTable,
    Registry,
    Rollout,
    TableProps,
    WebhookProps,
    run_app,
)

HERE = Path(__file__).resolve().parent
MAX_CONCURRENCY = 2
"""Maximum concurrency of the consumer `holder`: the least that Lambda takes."""

COUNTERS = TableProps("counters", "id")
HOOK = Endpoint("verify", STRIPE, types=("hook.sent",))
LEAVING = Endpoint("leaving", STRIPE, types=("leaving.sent",))
_CHANGES = json.loads(os.environ.get("CDK_CONTEXT_JSON", "{}"))
WEBHOOKS = WebhookProps(
    folder=HERE.parents[1] / "functions" / "webhooks",
    endpoints=tuple(e for e in (HOOK, LEAVING) if e.name != _CHANGES.get("verify_without")),
)

COUNTER = ConsumerProps(
    "counter",
    external=("verify.asked",),
    events=HOOK.event_types,
    tables=(COUNTERS,),
    publishes=("verify.counted",),
)
FOLLOWER = ConsumerProps(
    "follower",
    events=("verify.counted",),
    tables=(TableProps("followers", "id"),),
    rollout=Rollout.CANARY_10_PERCENT_5_MINUTES,
)
HOLDER = ConsumerProps(
    "holder",
    external=("verify.held",),
    tables=(TableProps("holds", "id"),),
    batch_size=1,
    max_concurrency=MAX_CONCURRENCY,
)
TALLY = ConsumerProps(
    "tally",
    external=("verify.tallied",),
    tables=(TableProps("tallies", "id"),),
    max_concurrency=2,
    group_size=1,
    dedup=Dedup.ITEM,
)
REGISTRY = Registry(
    (COUNTER, FOLLOWER, HOLDER, TALLY),
    file=HERE / "app.py",
    functions=HERE / "functions",
    deployed=HERE / "deployed.json",
    webhooks=WEBHOOKS,
)

if __name__ == "__main__":
    restored = _CHANGES.get("verify_holds")
    existing = {"holds": ExistingTable(restored)} if restored else {}
    run_app(REGISTRY, DeploymentConfig(existing_tables=existing))
