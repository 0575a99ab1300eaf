"""A subscription of a consumer's queue to an existing topic, in SNS's envelope."""

from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions

from once.cdk.sources.destination import Destination
from once.cdk.topics import NO_EVENT
from once.schema import EVENT_TYPE_ATTRIBUTE
from once.source import SnsSource


def subscribe_to_topic(to: Destination, source: SnsSource) -> None:
    """Subscribe the queue. Without a type, or stopped, it selects no message: it stays as a part of
    the stack, as AWS would retain a deleted one."""
    idle = to.stopped or not to.types
    selected = [NO_EVENT] if idle else list(to.types)
    attribute = source.attribute or (EVENT_TYPE_ATTRIBUTE if idle else None)
    policy = sns.SubscriptionFilter.string_filter(allowlist=selected)
    topic = sns.Topic.from_topic_arn(to.scope, "Topic", source.topic)
    has_letters = to.props.fifo or to.config.fifo_topic_letters or not topic.fifo
    subscription = topic.add_subscription(
        subscriptions.SqsSubscription(
            to.queue,
            raw_message_delivery=False,
            filter_policy={attribute: policy} if attribute else None,
            dead_letter_queue=to.dead_letters if has_letters else None,
        )
    )
    subscription.node.add_dependency(*to.after)
