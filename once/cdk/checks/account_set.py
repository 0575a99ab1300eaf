"""Checks of a deployment's account options against its consumers. Each fault states its remedy."""

from collections.abc import Collection, Iterator, Sequence

from once.cdk.checks.account_options import account_option_faults, missing_permission
from once.cdk.checks.property_types import property_type_faults
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.existing import DEDUP
from once.cdk.network import Network
from once.cdk.props import ConsumerProps
from once.cdk.webhooks.props import WebhookProps
from once.cdk.workflow_props import DurableFunctionProps, StateMachineProps
from once.source import EventBridgeSource, S3Source, SnsSource


def account_set_faults(
    consumers: Sequence[ConsumerProps],
    config: DeploymentConfig,
    webhooks: WebhookProps | None = None,
) -> list[str]:
    """Return every fault; none while the options or the properties have faults of their own.

    Args:
        consumers: every consumer of the deployment.
        config: the deployment.
        webhooks: the webhook ingress of the deployment, if there is one.
    """
    if account_option_faults(config):
        return []
    typed = [each for each in consumers if not any(property_type_faults(each))]
    return [
        *_queue_key_faults(typed, config),
        *_endpoint_faults(typed, config.network, webhooks),
        *_existing_faults(typed, config),
    ]


def _queue_key_faults(
    consumers: Collection[ConsumerProps], config: DeploymentConfig
) -> Iterator[str]:
    key = config.keys.queues
    if key is None:
        return
    own = [each for each in consumers if each.name not in config.existing_queues]
    needed = {
        "sns": [c for c in own if isinstance(c.source, SnsSource | None) or c.events],
        "events": [c for c in own if isinstance(c.source, EventBridgeSource)],
        "s3": [c for c in own if isinstance(c.source, S3Source)],
    }
    for service, users in needed.items():
        if users:
            names = ", ".join(repr(each.name) for each in users)
            reason = f"it delivers into the queues of {names}"
            yield from missing_permission("queues", key, service, reason)


def _endpoint_faults(
    consumers: Collection[ConsumerProps], network: Network | None, webhooks: WebhookProps | None
) -> Iterator[str]:
    if network is None or network.endpoints is None:
        return
    for service, user in _needed_endpoints(consumers, webhooks).items():
        if service not in network.endpoints:
            yield (
                f"network: its endpoints lack {service!r}, which {user} needs; add the endpoint "
                f"com.amazonaws.<region>.{service} to the VPC and name it in endpoints=, or give "
                "endpoints=None if the subnets reach AWS through a NAT gateway"
            )


def _needed_endpoints(
    consumers: Collection[ConsumerProps], webhooks: WebhookProps | None
) -> dict[str, str]:
    """Return a function that calls it, by service."""
    every = {"dynamodb": "every consumer", "sqs": "every consumer", "sns": "the outbox relay"}
    options = {
        "secretsmanager": [each for each in consumers if each.secrets],
        "s3": [each for each in consumers if each.claim_check_mb],
        "email": [each for each in consumers if each.sends_email],
        "states": [each for each in consumers if _starts(each, StateMachineProps)],
        "lambda": [each for each in consumers if _starts(each, DurableFunctionProps)],
    }
    own = {service: f"consumer {users[0].name!r}" for service, users in options.items() if users}
    if webhooks is not None:
        own.setdefault("secretsmanager", "the webhook ingress")
        if webhooks.needs_claims:
            own.setdefault("s3", "the webhook ingress")
    return {**every, **own}


def _starts(
    consumer: ConsumerProps, kind: type[StateMachineProps] | type[DurableFunctionProps]
) -> bool:
    return any(isinstance(each, kind) for each in consumer.starts)


def _existing_faults(
    consumers: Collection[ConsumerProps], config: DeploymentConfig
) -> Iterator[str]:
    tables = {table.name for each in consumers for table in each.tables} | {DEDUP}
    for name in config.existing_tables.keys() - tables:
        yield f"existing_tables has {name!r}, and no consumer has this table; take it out"
    dedup = config.existing_tables.get(DEDUP)
    if dedup is not None and dedup.stream_arn is None:
        yield (
            f"existing_tables[{DEDUP!r}] has no stream, which the outbox relay reads; enable one "
            "of new and old images on the table, and give ExistingTable(arn, stream_arn='arn:…')"
        )
    lines = {each.name: each for each in consumers}
    for name in config.existing_queues:
        if name not in lines:
            yield f"existing_queues has {name!r}, and no consumer has this name; take it out"
        elif lines[name].events:
            yield (
                f"existing_queues has {name!r}, and it takes events of other consumers, which no "
                "topic delivers into an existing queue; leave one of the two out"
            )
