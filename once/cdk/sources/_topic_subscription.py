"""A subscription of a consumer's queue to an existing topic, in SNS's envelope."""

from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions

from once.cdk.sources.destination import Destination
from once.cdk.topics import NO_EVENT
from once.schema import EVENT_TYPE_ATTRIBUTE
from once.source import SnsSource


def subscribe_to_topic(to: Destination, source: SnsSource) -> None:
    """Subscribe the queue. A stopped source selects no message: deleted, it would be retained."""
    selected = [NO_EVENT] if to.stopped else list(to.types)
    attribute = source.attribute or (EVENT_TYPE_ATTRIBUTE if to.stopped else None)
    policy = sns.SubscriptionFilter.string_filter(allowlist=selected)
    topic = sns.Topic.from_topic_arn(to.scope, "Topic", source.topic)
    subscription = topic.add_subscription(
        subscriptions.SqsSubscription(
            to.queue,
            raw_message_delivery=False,
            filter_policy={attribute: policy} if attribute else None,
            dead_letter_queue=to.dead_letters,
        )
    )
    subscription.node.add_dependency(*to.after)
