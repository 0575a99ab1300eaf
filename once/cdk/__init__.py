"""AWS CDK constructs: queues, functions, roles, relay and alarms of idempotent consumers.

In: `ConsumerProps` and `DeploymentConfig`. Out: CloudFormation resources. Used by CDK apps:
`run_app` makes a whole service from a `Registry`, and each construct can be used alone. The names
below are the whole public interface. They load on first use, because importing the CDK takes
seconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from once.extras import extra
from once.schema import StackOutput
from once.settings import Dedup

if TYPE_CHECKING:
    from once.cdk.app.assembly import assemble, run_app, synthesize
    from once.cdk.app.registry import Registry, event_sources, published_types
    from once.cdk.app.service_stack import ServiceStack
    from once.cdk.app.state_stack import StateStack
    from once.cdk.checks.constructs import stack_size_faults, unmanaged_mapping_faults
    from once.cdk.checks.consumer_set import consumer_set_faults
    from once.cdk.checks.deployment_options import deployment_faults
    from once.cdk.checks.handlers_in_code import event_types_output
    from once.cdk.deployed_names import DeployedNames, missing_name_faults
    from once.cdk.deployment_options import (
        CustomerKey,
        CustomerKeys,
        DeploymentConfig,
        ExistingQueue,
        ExistingTable,
        Network,
        Stage,
    )
    from once.cdk.errors import SynthError
    from once.cdk.idempotent_consumer import IdempotentConsumer
    from once.cdk.monitoring.alarms import add_table_alarms, make_alarm_topic, notify
    from once.cdk.monitoring.dashboard import tables_row
    from once.cdk.nag import acknowledge_finding
    from once.cdk.operators import OperatorPolicies
    from once.cdk.outbox_relay import OutboxRelay
    from once.cdk.props import (
        ConsumerProps,
        DurableFunctionProps,
        Pollers,
        Rollout,
        Source,
        StateMachineProps,
        TableProps,
        WarmThroughput,
        WebhookProps,
        output_key,
    )
    from once.cdk.retained_data import (
        CaptureTable,
        ClaimBucket,
        DedupTable,
        OperatorLog,
        RetainedTable,
    )
    from once.cdk.topics import Topics
    from once.cdk.unrouted_events import UnroutedEvents
    from once.cdk.webhook_ingress import WebhookIngress
    from once.webhooks.endpoint import (
        GITHUB,
        SHOPIFY,
        SLACK,
        STANDARD,
        STRIPE,
        Endpoint,
        hmac_profile,
    )

__all__ = [
    "GITHUB",
    "SHOPIFY",
    "SLACK",
    "STANDARD",
    "STRIPE",
    "CaptureTable",
    "ClaimBucket",
    "ConsumerProps",
    "CustomerKey",
    "CustomerKeys",
    "Dedup",
    "DedupTable",
    "DeployedNames",
    "DeploymentConfig",
    "DurableFunctionProps",
    "Endpoint",
    "ExistingQueue",
    "ExistingTable",
    "IdempotentConsumer",
    "Network",
    "OperatorLog",
    "OperatorPolicies",
    "OutboxRelay",
    "Pollers",
    "Registry",
    "RelayFailures",
    "RetainedTable",
    "Rollout",
    "ServiceStack",
    "Source",
    "StackOutput",
    "Stage",
    "StateMachineProps",
    "StateStack",
    "SynthError",
    "TableProps",
    "Topics",
    "UnroutedEvents",
    "WarmThroughput",
    "WebhookIngress",
    "WebhookProps",
    "acknowledge_finding",
    "add_table_alarms",
    "assemble",
    "consumer_set_faults",
    "deployment_faults",
    "event_sources",
    "event_types_output",
    "hmac_profile",
    "make_alarm_topic",
    "missing_name_faults",
    "notify",
    "output_key",
    "published_types",
    "run_app",
    "stack_size_faults",
    "synthesize",
    "tables_row",
    "unmanaged_mapping_faults",
]

_MODULES = {
    "GITHUB": "once.webhooks.endpoint",
    "SHOPIFY": "once.webhooks.endpoint",
    "SLACK": "once.webhooks.endpoint",
    "STANDARD": "once.webhooks.endpoint",
    "STRIPE": "once.webhooks.endpoint",
    "CaptureTable": "once.cdk.retained_data",
    "ClaimBucket": "once.cdk.retained_data",
    "ConsumerProps": "once.cdk.props",
    "CustomerKey": "once.cdk.deployment_options",
    "CustomerKeys": "once.cdk.deployment_options",
    "DedupTable": "once.cdk.retained_data",
    "DeployedNames": "once.cdk.deployed_names",
    "DeploymentConfig": "once.cdk.deployment_options",
    "DurableFunctionProps": "once.cdk.props",
    "Endpoint": "once.webhooks.endpoint",
    "ExistingQueue": "once.cdk.deployment_options",
    "ExistingTable": "once.cdk.deployment_options",
    "IdempotentConsumer": "once.cdk.idempotent_consumer",
    "Network": "once.cdk.deployment_options",
    "OperatorLog": "once.cdk.retained_data",
    "OperatorPolicies": "once.cdk.operators",
    "OutboxRelay": "once.cdk.outbox_relay",
    "Pollers": "once.cdk.props",
    "Registry": "once.cdk.app.registry",
    "RelayFailures": "once.cdk.retained_data",
    "RetainedTable": "once.cdk.retained_data",
    "Rollout": "once.cdk.props",
    "ServiceStack": "once.cdk.app.service_stack",
    "Source": "once.cdk.props",
    "Stage": "once.cdk.deployment_options",
    "StateMachineProps": "once.cdk.props",
    "StateStack": "once.cdk.app.state_stack",
    "SynthError": "once.cdk.errors",
    "TableProps": "once.cdk.props",
    "Topics": "once.cdk.topics",
    "UnroutedEvents": "once.cdk.unrouted_events",
    "WarmThroughput": "once.cdk.props",
    "WebhookIngress": "once.cdk.webhook_ingress",
    "WebhookProps": "once.cdk.props",
    "acknowledge_finding": "once.cdk.nag",
    "add_table_alarms": "once.cdk.monitoring.alarms",
    "assemble": "once.cdk.app.assembly",
    "consumer_set_faults": "once.cdk.checks.consumer_set",
    "deployment_faults": "once.cdk.checks.deployment_options",
    "event_sources": "once.cdk.app.registry",
    "event_types_output": "once.cdk.checks.handlers_in_code",
    "hmac_profile": "once.webhooks.endpoint",
    "make_alarm_topic": "once.cdk.monitoring.alarms",
    "missing_name_faults": "once.cdk.deployed_names",
    "notify": "once.cdk.monitoring.alarms",
    "output_key": "once.cdk.props",
    "published_types": "once.cdk.app.registry",
    "run_app": "once.cdk.app.assembly",
    "stack_size_faults": "once.cdk.checks.constructs",
    "synthesize": "once.cdk.app.assembly",
    "tables_row": "once.cdk.monitoring.dashboard",
    "unmanaged_mapping_faults": "once.cdk.checks.constructs",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'once.cdk' has no attribute {name!r}")
    with extra("cdk"):
        return getattr(import_module(_MODULES[name]), name)
