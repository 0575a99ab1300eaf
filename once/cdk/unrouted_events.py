"""The construct of the unrouted queue: published events to which no consumer subscribes."""

from collections.abc import Collection, Mapping, Sequence

from aws_cdk import Annotations, Duration, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from once.cdk import functions
from once.cdk._lambda_function import FunctionConstruct
from once.cdk._queues import make_queue, retain_messages
from once.cdk.checks.constructs import CONSTRUCT_METADATA
from once.cdk.checks.consumer_set import route_warnings
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.monitoring import monitor_unrouted
from once.cdk.permissions import LOG_ACTIONS, MAPPING_ACTIONS, allow, function_role, key_statements
from once.cdk.props import ConsumerProps, Line
from once.cdk.topics import Topics, subscribe
from once.names import EVENT_TYPE_ATTRIBUTE, UNROUTED, Limits
from once.settings import SweepSettings

MEMORY_MB = 256
BATCH_SIZE = 10
WINDOW_SECONDS = 60
"""Full batches make it cheap to drop nearly all events. The alarm takes a minute anyway."""
MAX_CONCURRENCY = 5


class UnroutedEvents(FunctionConstruct):
    """The unrouted queue, and the function that fills it from the sweep queue.

    It reads the topics of which a filter policy may drop an event, `topics.filtered`. Those of
    producers deliver every event to the sweep queue: no filter policy can select the events without
    attributes. Those of consumers, on which each event has a type, deliver the types that no
    consumer subscribes to. A FIFO topic and the standard one beside it are told apart, so that a
    type published to the wrong one is unrouted. Synthesis warns of published types without a
    subscriber and of loops through several consumers.

    `queue` is the unrouted queue, and the dead-letter queue of `sweep` and its subscriptions. Their
    names are generated: they are retained when the last filter policy leaves the service, and must
    not stand in the way of the next one.

    Args:
        topics: the topics whose events are checked.
        consumers: every consumer of the deployment.
        publishers: the further lines that publish: webhook ingress and commands.
        further: the parameters of stacks that are deployed after this one, each with those of the
            consumers that are there. Such a stack writes its `routes_to` into the parameter.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        topics: Topics,
        consumers: Collection[ConsumerProps],
        publishers: Collection[Line] = (),
        further: Mapping[str, Collection[ConsumerProps]] = {},
        config: DeploymentConfig | None = None,
    ) -> None:
        config = config or DeploymentConfig.from_context(scope.node)
        super().__init__(scope, UNROUTED, config)
        # The function writes no state, so it may read a queue without deduplication.
        self.node.add_metadata(CONSTRUCT_METADATA, UNROUTED)
        self._topics = topics
        timeout = 5 if config.local else 30
        window = 0 if config.local else WINDOW_SECONDS
        later = [each for lines in further.values() for each in lines]
        here = topics.routes_to([each for each in consumers if each not in later])
        routes = {topic: types for topic, types in here.items() if topic in topics.filtered}
        kept, swept = Limits.DEAD_LETTER_RETENTION_SECONDS, Limits.QUEUE_RETENTION_SECONDS
        self.queue = make_queue(self, "Queue", None, kept, config=config)
        self.sweep = make_queue(
            self,
            "Sweep",
            None,
            swept,
            config=config,
            visibility_timeout=Duration.seconds(Limits.VISIBILITY_FACTOR * timeout + window),
            # While the function is broken, every event ends in the unrouted queue: none is lost.
            dead_letter_queue=sqs.DeadLetterQueue(
                queue=self.queue, max_receive_count=Limits.MIN_RECEIVE_COUNT
            ),
        )
        settings = SweepSettings(
            routes={topic.topic_arn: types for topic, types in routes.items()},
            unrouted_url=self.queue.queue_url,
            further_routes=tuple(further),
        )
        key = self.queue.encryption_master_key
        statements = [
            allow("ConsumeSweep", MAPPING_ACTIONS, self.sweep.queue_arn),
            allow("KeepUnrouted", ["sqs:SendMessage"], self.queue.queue_arn),
            allow("Log", LOG_ACTIONS, self.log_group.log_group_arn),
            *key_statements(self, [("sqs", key)]),
        ]
        if further:
            parameters = [
                Stack.of(self).format_arn(
                    service="ssm", resource="parameter", resource_name=name.removeprefix("/")
                )
                for name in further
            ]
            statements.append(allow("ReadFurtherRoutes", ["ssm:GetParameter"], *parameters))
        self._make_function(
            functions.FOLDER / UNROUTED,
            function_role(self, "Sweep", statements, config),
            settings,
            about="Once: keeps the events that no consumer takes",
            timeout_seconds=timeout,
            memory_mb=MEMORY_MB,
            aws_services=("ssm",) if further else (),
            # Until the consumers' subscriptions exist, an event of a new type is unrouted. If it
            # were dropped by then, it would be lost.
            after=[topics.subscribed],
        )
        lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=self.alias,
            event_source_arn=self.sweep.queue_arn,
            enabled=False if config.standby else None,
            batch_size=BATCH_SIZE,
            max_batching_window=Duration.seconds(window),
            max_concurrency=MAX_CONCURRENCY,
            report_batch_item_failures=True,
        )
        retain_messages(self, config)
        for topic, types in routes.items():
            if topic in topics.of_producers:
                # A filter policy of a consumer waits for it.
                topics.swept.add(self._subscribe(topic))
            else:
                self._subscribe(topic, but=types, after=[topics.subscribed])
        for warning in route_warnings([*consumers, *publishers]):
            Annotations.of(self).add_warning_v2(warning.id, warning.text)
        monitor_unrouted(self, self.queue, self.sweep)

    def _subscribe(
        self,
        topic: sns.ITopic,
        *,
        but: Collection[str] = (),
        after: Sequence[IDependable] = (),
    ) -> sns.Subscription:
        """Deliver a topic's events to the sweep queue, except those of the types in `but`.

        A subscription that has left the service is deleted, unlike those of consumers: it would go
        on to fill a queue that no function reads.
        """
        if len(but) > Limits.FILTER_VALUES:
            but = ()  # the function drops the events that have a route
        others = sns.SubscriptionFilter.string_filter(denylist=list(but))
        subscription = subscribe(
            topic,
            self.sweep,
            # In SNS's envelope: a raw delivery carries ten message attributes at most.
            raw_message_delivery=False,
            filter_policy={EVENT_TYPE_ATTRIBUTE: others} if but else None,
            dead_letter_queue=self._topics.dead_letters_of(topic, self.queue),
        )
        subscription.node.add_dependency(*after)
        return subscription
