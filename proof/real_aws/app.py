"""CDK app of the check: three consumers and a webhook ingress, made with the library's constructs.

The example shop is not deployed: its payment provider and its mailbox do not exist in an account.
"""

from pathlib import Path

from once.cdk import (
    STRIPE,
    ConsumerProps,
    Endpoint,
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
WEBHOOKS = WebhookProps(endpoints=(HOOK,), reserved_concurrency=None)

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
REGISTRY = Registry(
    (COUNTER, FOLLOWER, HOLDER),
    file=HERE / "app.py",
    functions=HERE / "functions",
    deployed=HERE / "deployed.json",
    webhooks=WEBHOOKS,
)

if __name__ == "__main__":
    run_app(REGISTRY)
