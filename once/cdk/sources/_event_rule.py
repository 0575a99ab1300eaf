"""A rule of EventBridge that sends the events of a consumer's types to its queue."""

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam

from once.cdk.sources.destination import Destination
from once.source import EventBridgeSource

_DEFAULT_BUS = "default"


def make_rule(to: Destination, source: EventBridgeSource) -> None:
    """Make the rule, and let it alone send to the queue. It is disabled for a stopped source."""
    path = to.name if source.bus == _DEFAULT_BUS else f"{source.bus}/{to.name}"
    # By name: a reference to the rule would be circular, as it must not exist before the policy.
    arn = to.stack.format_arn(service="events", resource="rule", resource_name=path)
    policies = to.allow(
        "OnlyItsRuleSends",
        iam.ServicePrincipal("events.amazonaws.com"),
        {"ArnEquals": {"aws:SourceArn": arn}},
        dead_letters=True,
    )
    rule = events.CfnRule(
        to.scope,
        "Rule",
        name=to.name,
        event_bus_name=None if source.bus == _DEFAULT_BUS else source.bus,
        event_pattern={"source": list(source.sources), "detail-type": list(to.types)},
        state="DISABLED" if to.stopped else "ENABLED",
        targets=[
            events.CfnRule.TargetProperty(
                id="Queue",
                arn=to.queue.queue_arn,
                dead_letter_config=events.CfnRule.DeadLetterConfigProperty(
                    arn=to.dead_letters.queue_arn
                ),
            )
        ],
    )
    rule.node.add_dependency(*policies, *to.after)
