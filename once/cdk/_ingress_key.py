"""Key and policy of the ingress topics: their publishers, and the rights that each needs.

A principal of this account publishes with `sns:Publish` alone: the key's policy lets it use the key
through SNS, as that of the AWS managed key does. That key would admit no AWS service and no other
account.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

EVENT_BRIDGE, S3 = "events", "s3"
SERVICES = (EVENT_BRIDGE, S3)
"""The AWS services that `DeploymentConfig.ingress_publishers` may name, beside account ids."""

_USE = ("kms:Decrypt", "kms:GenerateDataKey*")


def make_ingress_key(scope: Construct, publishers: Sequence[str], *, local: bool) -> kms.Key:
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
    through_sns = {"kms:ViaService": f"sns.{stack.region}.amazonaws.com"}
    own = {"StringEquals": {**through_sns, "kms:CallerAccount": stack.account}}
    _allow_use(key, "ThisAccount", iam.AnyPrincipal(), own)
    for each in publishers:
        if each in SERVICES:
            principal = iam.ServicePrincipal(f"{each}.amazonaws.com")
            _allow_use(key, f"Service{each.capitalize()}", principal, _of_service(each, stack))
        else:
            other = iam.AccountPrincipal(each)
            _allow_use(key, f"Account{each}", other, {"StringEquals": through_sns})
    return key


def allow_publishers(topic: sns.Topic, publishers: Sequence[str]) -> None:
    """Let the publishers publish to an ingress topic; no service publishes to a FIFO topic."""
    for each in publishers:
        if each not in SERVICES:
            _allow_publish(topic, f"Account{each}", iam.AccountPrincipal(each))
        elif not topic.fifo:
            principal = iam.ServicePrincipal(f"{each}.amazonaws.com")
            own = {"StringEquals": {"aws:SourceAccount": Stack.of(topic).account}}
            # AWS documents that a policy for EventBridge must have no condition: it would deny all.
            conditions = None if each == EVENT_BRIDGE else own
            _allow_publish(topic, f"Service{each.capitalize()}", principal, conditions)


def _of_service(service: str, stack: Stack) -> dict[str, Any]:
    # EventBridge sends no `aws:SourceAccount` to KMS; what it encrypts is always a topic's message.
    topics = stack.format_arn(service="sns", resource="*")
    own = {"StringLike": {"kms:EncryptionContext:aws:sns:topicArn": topics}}
    if service == EVENT_BRIDGE:
        return own
    return {**own, "StringEquals": {"aws:SourceAccount": stack.account}}


def _allow_use(
    key: kms.Key, sid: str, principal: iam.IPrincipal, conditions: Mapping[str, Any]
) -> None:
    key.add_to_resource_policy(
        iam.PolicyStatement(
            sid=sid,
            principals=[principal],
            actions=list(_USE),
            resources=["*"],  # in a key's own policy: this key
            conditions=conditions,
        )
    )


def _allow_publish(
    topic: sns.Topic,
    sid: str,
    principal: iam.IPrincipal,
    conditions: Mapping[str, Any] | None = None,
) -> None:
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            sid=sid,
            principals=[principal],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions=conditions,
        )
    )
