"""CDK app of the check: three consumers and a webhook ingress, made with the library's constructs.

The example shop is not deployed: its payment provider and its mailbox do not exist in an account.
With the context `fails=true` a deployment fails after it has changed a consumer.
"""

from pathlib import Path

from aws_cdk import App, CfnCreationPolicy, CfnResourceSignal, CfnWaitCondition

from once.cdk import (
    STRIPE,
    ConsumerProps,
    Dedup,
    Endpoint,
    Registry,
    Rollout,
    TableProps,
    WebhookProps,
    assemble,
    synthesize,
)

HERE = Path(__file__).resolve().parent
COUNTERS = TableProps("counters", "id")
HOOK = Endpoint("verify", STRIPE, types=("hook.sent",))
WEBHOOKS = WebhookProps(folder=HERE.parents[1] / "functions" / "webhooks", endpoints=(HOOK,))

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
UNRECORDED = ConsumerProps(
    "unrecorded",
    external=("verify.put",),
    tables=(TableProps("puts", "id"),),
    max_concurrency=2,
    group_size=1,
    dedup=Dedup.ITEM,
)
REGISTRY = Registry(
    (COUNTER, FOLLOWER, UNRECORDED),
    file=HERE / "app.py",
    functions=HERE / "functions",
    deployed=HERE / "deployed.json",
    webhooks=WEBHOOKS,
)


def build(app: App) -> None:
    """Add the service to an app, and synthesize it."""
    services = assemble(app, REGISTRY)
    if app.node.try_get_context("fails") == "true":
        for service in services:
            never = CfnWaitCondition(service, "Fails")
            signal = CfnResourceSignal(count=1, timeout="PT1S")
            never.cfn_options.creation_policy = CfnCreationPolicy(resource_signal=signal)
            never.node.add_dependency(service.consumers[0].alias)
    synthesize(app)


if __name__ == "__main__":
    build(App())
