"""The topics: producers publish to `ingress`, and the relay alone publishes to `events`.

A topic exists if a line declares types for it: one that takes types of producers, one that
publishes. Types that some consumer takes in order have a FIFO topic of their own.

A principal of this account publishes to `ingress` with `sns:Publish` alone: the AWS managed key of
SNS lets it use the key through SNS. That key admits no AWS service and no other account, so a
deployment with `ingress_publishers` has a key of its own.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct, DependencyGroup, IDependable

from once.cdk._queues import retain_messages
from once.cdk.deployment_options import DeploymentConfig, imported_key
from once.cdk.permissions import allow, calling_service
from once.cdk.props import ConsumerProps, MessageGroups
from once.names import EVENT_TYPE_ATTRIBUTE, StackOutput

NO_EVENT = "once, no event"
"""A text that is no event type: a filter policy that selects it selects nothing."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics that consumers subscribe to; None for one without types.

    Attributes:
        ingress: the topic of the producers.
        events: the topic of the events that consumers publish through the relay.
        ordered_ingress: the FIFO topic of the producers' ordered types.
        ordered_events: the FIFO topic of the consumers' ordered types.
        groups: the message groups of the types.
        fifo_dead_letters: whether a standard queue's subscription to a FIFO topic has a dead-letter
            queue, which is a standard one.
        whole: the topics whose one consumer takes every event, without a filter policy.
        filtered: the topics of which an event that no consumer takes may be dropped, and is swept.
        subscribed: the subscriptions of consumers, those made later included.
        swept: the parts that must exist before a filter policy drops events.
    """

    ingress: sns.Topic | None = None
    events: sns.Topic | None = None
    ordered_ingress: sns.Topic | None = None
    ordered_events: sns.Topic | None = None
    groups: MessageGroups = field(default_factory=MessageGroups)
    fifo_dead_letters: bool = True
    whole: tuple[sns.Topic, ...] = ()
    filtered: tuple[sns.Topic, ...] = ()
    subscribed: DependencyGroup = field(default_factory=DependencyGroup, init=False)
    swept: DependencyGroup = field(default_factory=DependencyGroup, init=False)

    @classmethod
    def make(
        cls,
        scope: Construct,
        *,
        config: DeploymentConfig | None = None,
        consumers: Collection[ConsumerProps] = (),
        published: Collection[str] = (),
    ) -> Self:
        """Return the topics, encrypted and for TLS only, with their ARNs as outputs.

        Args:
            consumers: every consumer of the deployment whose queue is subscribed.
            published: the types that the relay publishes beside those in `publishes=` of these.
        """
        config = config or DeploymentConfig.from_context(scope.node)
        publishers = config.ingress_publishers
        own = imported_key(scope, config.keys.topics)
        groups = MessageGroups.of(consumers)
        outer, inner = flows(consumers, published)
        ingress_key = own
        if outer.types and publishers and own is None:
            ingress_key = _ingress_key(scope, publishers, local=config.local)

        def topic(part: str, types: Collection[str], key: kms.IKey | None) -> sns.Topic | None:
            return _topic(scope, part, key) if types else None

        topics = cls(
            ingress=topic("Ingress", outer.types - groups.ordered, ingress_key),
            events=topic("Events", inner.types, own),
            ordered_ingress=topic("OrderedIngress", outer.types & groups.ordered, ingress_key),
            ordered_events=topic("OrderedEvents", inner.types & groups.ordered, own),
            groups=groups,
            fifo_dead_letters=config.fifo_topic_dead_letters,
        )
        for output, each in topics.by_output().items():
            retain_messages(each, config)
            kind = "to which producers publish" if each in topics.of_producers else "of the relay"
            CfnOutput(scope, output, value=each.topic_arn, description=f"topic {kind}")
        for each in topics.of_producers:
            _allow_publishers(each, publishers)
        pairs = ((outer, topics.of_producers), (inner, topics.of_consumers))
        # Where there is a sweep, it also reads a topic of which no consumer takes anything.
        is_swept = outer.is_filtered or inner.is_filtered
        swept = [of_flow for flow, of_flow in pairs if is_swept and not flow.is_whole]
        return replace(
            topics,
            whole=tuple(each for flow, of_flow in pairs if flow.is_whole for each in of_flow),
            filtered=tuple(each for of_flow in swept for each in of_flow),
        )

    def by_output(self) -> dict[str, sns.Topic]:
        """Return the topics that exist, by the key of the output that names each."""
        every = {
            StackOutput.INGRESS_TOPIC: self.ingress,
            StackOutput.EVENTS_TOPIC: self.events,
            StackOutput.ORDERED_INGRESS_TOPIC: self.ordered_ingress,
            StackOutput.ORDERED_EVENTS_TOPIC: self.ordered_events,
        }
        return {output: topic for output, topic in every.items() if topic is not None}

    def routes(
        self, external: Collection[str], events: Collection[str]
    ) -> Iterator[tuple[sns.Topic, tuple[str, ...]]]:
        """Yield each topic that exists, with the types of producers or consumers it carries."""
        for topics, types in ((self.of_producers, external), (self.of_consumers, events)):
            for topic in topics:
                ordered = self.groups.ordered
                yield topic, tuple(each for each in types if (each in ordered) is topic.fifo)

    def routes_to(self, consumers: Collection[ConsumerProps]) -> dict[sns.Topic, tuple[str, ...]]:
        """Return the types that consumers take, by topic; a retiring one takes none."""
        taking = [each for each in consumers if not each.retiring]
        external = {event for each in taking for event in each.ingress_types}
        events = {event for each in taking for event in each.events}
        return dict(self.routes(sorted(external), sorted(events)))

    def subscribe(
        self,
        queue: sqs.IQueue,
        props: ConsumerProps,
        *,
        dead_letters: sqs.IQueue,
        after: Sequence[IDependable],
    ) -> None:
        """Deliver the events that a consumer takes into its queue.

        There is no filter policy if it takes all events of the topic. The queue is also subscribed
        where it takes no type, with a filter that selects no event: to both topics of its kind,
        standard or FIFO, and to every topic while it is retiring.
        Without this, the last type to leave a line would take the subscription out of the template.
        AWS would retain and still deliver to it, while the queue's new policy refuses its events.

        `dead_letters` gets the events that SNS cannot deliver. A deployment changes the parts in
        `after` before the subscription: they must handle the types that it adds.
        """
        for topic, types in self.routes(props.ingress_types, props.events):
            own = topic.fifo == props.fifo and (
                props.source is None or topic not in self.of_producers
            )
            if types or own:
                takes = bool(types) and not props.retiring
                policy = sns.SubscriptionFilter.string_filter(
                    allowlist=list(types) if takes else [NO_EVENT]
                )
                takes_all = takes and topic in self.whole
                # A deployment that adds the second consumer of a topic first subscribes the sweep,
                # and then gives both a filter policy. In the other order, an event of a third type
                # that is published in between would reach no queue.
                subscription = subscribe(
                    topic,
                    queue,
                    raw_message_delivery=True,
                    filter_policy=None if takes_all else {EVENT_TYPE_ATTRIBUTE: policy},
                    dead_letter_queue=self.dead_letters_of(topic, dead_letters),
                )
                subscription.node.add_dependency(*after, self.swept)
                self.subscribed.add(subscription)

    def dead_letters_of(self, topic: sns.ITopic, queue: sqs.IQueue) -> sqs.IQueue | None:
        """Return the dead-letter queue of a subscription to a topic, if it may have this one."""
        return queue if queue.fifo or self.fifo_dead_letters or not topic.fifo else None

    @property
    def of_producers(self) -> tuple[sns.Topic, ...]:
        return tuple(filter(None, (self.ingress, self.ordered_ingress)))

    @property
    def of_consumers(self) -> tuple[sns.Topic, ...]:
        return tuple(filter(None, (self.events, self.ordered_events)))

    def restrict_events_to(self, *roles: iam.IRole, local: bool) -> None:
        """Deny publishing the consumers' events to every principal but these roles."""
        arns = [role.role_arn for role in roles]
        if local:  # on the embedded AWS `aws:PrincipalArn` is the ARN of the role's session
            arns += [
                Stack.of(role).format_arn(
                    service="sts",
                    region="",
                    resource="assumed-role",
                    resource_name=f"{role.role_name}/*",
                )
                for role in roles
            ]
        for topic in self.of_consumers:
            # No exception for administrators: they can change the policy, which is logged.
            topic.add_to_resource_policy(
                iam.PolicyStatement(
                    sid="OnlyTheRelayPublishes",
                    effect=iam.Effect.DENY,
                    principals=[iam.AnyPrincipal()],
                    actions=["sns:Publish"],
                    resources=[topic.topic_arn],
                    # Also true for a request without a principal's ARN, as of an AWS service.
                    conditions={"ArnNotEquals": {"aws:PrincipalArn": arns}},
                )
            )


def subscribe(topic: sns.ITopic, queue: sqs.IQueue, **options: Any) -> sns.Subscription:
    """Deliver a topic's messages into a queue, with the options of the CDK's `SqsSubscription`."""
    # `topic.add_subscription` would put the topic's path, with a hash, into the logical id.
    bound = subscriptions.SqsSubscription(queue, **options).bind(topic)
    scope = cast(Construct, bound.subscriber_scope)
    subscription = sns.Subscription(
        scope,
        f"{topic.node.id}Subscription",
        topic=topic,
        protocol=bound.protocol,
        endpoint=bound.endpoint,
        region=bound.region,
        **options,
    )
    if bound.subscription_dependency is not None:
        subscription.node.add_dependency(bound.subscription_dependency)
    return subscription


@dataclass(frozen=True, slots=True)
class Flow:
    """The events that producers publish, or those that consumers publish.

    Attributes:
        types: their types.
        is_taken: whether a line takes one of them.
        is_whole: whether one consumer, whatever its lines, may take all events without a filter.
    """

    types: frozenset[str]
    is_taken: bool
    is_whole: bool

    @property
    def is_filtered(self) -> bool:
        """Whether a filter policy may drop an event that no consumer takes."""
        return self.is_taken and not self.is_whole


def flows(consumers: Collection[ConsumerProps], published: Collection[str]) -> tuple[Flow, Flow]:
    """Return the events of producers, and those of consumers.

    `published` are the types that the relay publishes beside those of these consumers.
    """
    own = {*published, *(event for each in consumers for event in each.publishes)}
    external = {event for each in consumers for event in each.ingress_types}
    internal = {event for each in consumers for event in each.events}
    ordered = MessageGroups.of(consumers).ordered
    active = [each for each in consumers if not each.retiring]
    outer = [each for each in active if each.ingress_types]
    inner = [each for each in active if each.events]
    is_whole = (
        _one(outer)
        # A producer could send an internal event to a consumer that takes internal types.
        and not any(each.events for each in outer)
        # On one of two topics, an event of the other would reach a part of its consumers.
        and (external <= ordered or external.isdisjoint(ordered))
    )
    inner_is_whole = (
        _one(inner)
        # A type that it does not take, such as one that it publishes, is not for its queue.
        and own <= {*inner[0].events}
        and ordered.isdisjoint(own | internal)
    )
    return (
        Flow(frozenset(external), bool(external), is_whole),
        Flow(frozenset(own | internal), bool(internal), inner_is_whole),
    )


def _one(lines: Collection[ConsumerProps]) -> bool:
    """Tell whether all lines are of one consumer: while it is renamed, it has two."""
    return len({each.identity for each in lines}) == 1


def _topic(scope: Construct, part: str, key: kms.IKey | None) -> sns.Topic:
    fifo: dict[str, Any] = {
        "fifo": True,
        "content_based_deduplication": False,  # publishers give the deduplication id
        "fifo_throughput_scope": sns.FifoThroughputScope.MESSAGE_GROUP,
    }
    more = fifo if part.startswith("Ordered") else {}
    topic = sns.Topic(scope, part, master_key=key, enforce_ssl=True, **more)
    if key is None:
        # The AWS managed key of SNS: any principal of this account may publish with it. It exists
        # from its first use by this name on, and has no ARN before.
        cast(sns.CfnTopic, topic.node.default_child).kms_master_key_id = "alias/aws/sns"
    return topic


EVENT_BRIDGE, S3 = "events", "s3"
SERVICES = (EVENT_BRIDGE, S3)
"""The AWS services that `DeploymentConfig.ingress_publishers` may name, beside account ids."""


def _ingress_key(scope: Construct, publishers: Sequence[str], *, local: bool) -> kms.Key:
    """Return a rotated key that publishers use through SNS only.

    It is retained as the topics are, which deliver nothing without it.
    """
    key = kms.Key(
        scope,
        "IngressKey",
        description="Once: encrypts events of producers on their way to the queues",
        enable_key_rotation=True,
        removal_policy=(
            RemovalPolicy.DESTROY if local else RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        ),
    )
    stack = Stack.of(scope)
    account = {"aws:SourceAccount": stack.account}
    through_sns = {"kms:ViaService": calling_service(scope, "sns")}
    topics = stack.format_arn(service="sns", resource="*")
    of_topics = {"StringLike": {"kms:EncryptionContext:aws:sns:topicArn": topics}}
    conditions: dict[str, dict[str, Any]] = {
        # It sends no `aws:SourceAccount` to KMS; what it encrypts is always a topic's message.
        EVENT_BRIDGE: of_topics,
        S3: {**of_topics, "StringEquals": account},
    }
    use = ["kms:Decrypt", "kms:GenerateDataKey*"]
    own = {"StringEquals": {**through_sns, "kms:CallerAccount": stack.account}}
    users: list[tuple[str, iam.IPrincipal, Any]] = [("ThisAccount", iam.AnyPrincipal(), own)]
    users += [
        (*_publisher(each), conditions.get(each, {"StringEquals": through_sns}))
        for each in publishers
    ]
    for sid, principal, condition in users:
        # In a key's own policy, `*` is this key.
        statement = allow(sid, use, "*", conditions=condition, principal=principal)
        key.add_to_resource_policy(statement)
    return key


def _allow_publishers(topic: sns.Topic, publishers: Sequence[str]) -> None:
    """Let the publishers publish to an ingress topic; no service publishes to a FIFO topic."""
    own = {"StringEquals": {"aws:SourceAccount": Stack.of(topic).account}}
    for each in publishers:
        if each in SERVICES and topic.fifo:
            continue
        sid, principal = _publisher(each)
        # AWS documents that a policy for EventBridge must have none: it would deny all.
        only, arn = own if each == S3 else None, topic.topic_arn
        statement = allow(sid, ["sns:Publish"], arn, conditions=only, principal=principal)
        topic.add_to_resource_policy(statement)


def _publisher(name: str) -> tuple[str, iam.IPrincipal]:
    """Return the name of a statement on a publisher, and its principal."""
    if name in SERVICES:
        return f"Service{name.capitalize()}", iam.ServicePrincipal(f"{name}.amazonaws.com")
    return f"Account{name}", iam.AccountPrincipal(name)
