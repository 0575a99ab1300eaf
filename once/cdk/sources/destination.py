"""Destination: the queue that a source delivers into, and its permissions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import ConsumerProps


@dataclass(frozen=True, slots=True)
class Destination:
    """The queue of a consumer.

    Attributes:
        scope: the construct of the consumer.
        props: the consumer.
        config: the deployment.
        queue: the queue.
        dead_letters: for events that the source cannot deliver.
        after: parts that a deployment changes before the source: they must handle its types.
    """

    scope: Construct
    props: ConsumerProps
    config: DeploymentConfig
    queue: sqs.IQueue
    dead_letters: sqs.Queue
    after: Sequence[IDependable]

    @property
    def stack(self) -> Stack:
        """The stack of the consumer."""
        return Stack.of(self.scope)

    @property
    def name(self) -> str:
        """The physical name of its rule or schedule."""
        return f"{self.config.service}-{self.props.name}"

    @property
    def types(self) -> tuple[str, ...]:
        """The event types that are delivered."""
        return self.props.external

    @property
    def stopped(self) -> bool:
        """Whether the source delivers nothing any more."""
        return self.props.retiring

    @property
    def local(self) -> bool:
        """Whether the consumer goes into the embedded AWS."""
        return self.config.local

    def allow(
        self,
        sid: str,
        principal: iam.IPrincipal,
        conditions: Mapping[str, Any] | None = None,
        *,
        dead_letters: bool = False,
    ) -> list[IDependable]:
        """Let a principal send to the queue, or also to the dead-letter queue.

        Returns:
            The queue policies: a source must not deliver before they exist.
        """
        policies: list[IDependable] = []
        for queue in (self.queue, self.dead_letters)[: 1 + dead_letters]:
            added = queue.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=sid,
                    principals=[principal],
                    actions=["sqs:SendMessage"],
                    resources=[queue.queue_arn],
                    conditions=conditions,
                )
            )
            policies += [added.policy_dependable] if added.policy_dependable else []
        return policies
