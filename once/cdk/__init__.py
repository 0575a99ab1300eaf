"""AWS CDK constructs: queues, functions, roles, relay and alarms of idempotent consumers.

In: `ConsumerProps` and `DeploymentConfig`. Out: CloudFormation resources. Used by CDK apps. The
names below are the whole public interface. They load on first use, because importing the CDK takes
seconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from once.schema import StackOutput
from once.settings import Dedup

if TYPE_CHECKING:
    from once.cdk.checks.consumer_set import consumer_set_faults, deployment_faults
    from once.cdk.checks.handlers import event_types_output
    from once.cdk.checks.missing_names import missing_name_faults
    from once.cdk.checks.stack_size import stack_size_faults
    from once.cdk.checks.unmanaged_mappings import unmanaged_mapping_faults
    from once.cdk.claim_bucket import ClaimBucket
    from once.cdk.deployed_names import DeployedNames
    from once.cdk.deployment_config import DeploymentConfig
    from once.cdk.errors import SynthError
    from once.cdk.idempotent_consumer import IdempotentConsumer
    from once.cdk.monitoring.alarm_topic import make_alarm_topic, notify
    from once.cdk.monitoring.alarms import add_table_alarms
    from once.cdk.monitoring.dashboard import tables_row
    from once.cdk.nag import acknowledge_finding
    from once.cdk.operator_log import OperatorLog
    from once.cdk.operators import OperatorPolicies
    from once.cdk.outbox_relay import OutboxRelay, RelayFailures
    from once.cdk.props import (
        ConsumerProps,
        Rollout,
        Source,
        TableProps,
        event_sources,
        output_key,
        published_types,
    )
    from once.cdk.scaling import Pollers, WarmThroughput
    from once.cdk.tables import DedupTable, RetainedTable
    from once.cdk.topics import Topics
    from once.cdk.unrouted_events import UnroutedEvents
    from once.cdk.workflow_props import DurableFunctionProps, StateMachineProps

__all__ = [
    "ClaimBucket",
    "ConsumerProps",
    "Dedup",
    "DedupTable",
    "DeployedNames",
    "DeploymentConfig",
    "DurableFunctionProps",
    "IdempotentConsumer",
    "OperatorLog",
    "OperatorPolicies",
    "OutboxRelay",
    "Pollers",
    "RelayFailures",
    "RetainedTable",
    "Rollout",
    "Source",
    "StackOutput",
    "StateMachineProps",
    "SynthError",
    "TableProps",
    "Topics",
    "UnroutedEvents",
    "WarmThroughput",
    "acknowledge_finding",
    "add_table_alarms",
    "consumer_set_faults",
    "deployment_faults",
    "event_sources",
    "event_types_output",
    "make_alarm_topic",
    "missing_name_faults",
    "notify",
    "output_key",
    "published_types",
    "stack_size_faults",
    "tables_row",
    "unmanaged_mapping_faults",
]

_MODULES = {
    "ClaimBucket": "claim_bucket",
    "ConsumerProps": "props",
    "DedupTable": "tables",
    "DeployedNames": "deployed_names",
    "DeploymentConfig": "deployment_config",
    "DurableFunctionProps": "workflow_props",
    "IdempotentConsumer": "idempotent_consumer",
    "OperatorLog": "operator_log",
    "OperatorPolicies": "operators",
    "OutboxRelay": "outbox_relay",
    "Pollers": "scaling",
    "RelayFailures": "outbox_relay",
    "RetainedTable": "tables",
    "Rollout": "props",
    "Source": "props",
    "StateMachineProps": "workflow_props",
    "SynthError": "errors",
    "TableProps": "props",
    "Topics": "topics",
    "UnroutedEvents": "unrouted_events",
    "WarmThroughput": "scaling",
    "acknowledge_finding": "nag",
    "add_table_alarms": "monitoring.alarms",
    "consumer_set_faults": "checks.consumer_set",
    "deployment_faults": "checks.consumer_set",
    "event_sources": "props",
    "event_types_output": "checks.handlers",
    "make_alarm_topic": "monitoring.alarm_topic",
    "missing_name_faults": "checks.missing_names",
    "notify": "monitoring.alarm_topic",
    "output_key": "props",
    "published_types": "props",
    "stack_size_faults": "checks.stack_size",
    "tables_row": "monitoring.dashboard",
    "unmanaged_mapping_faults": "checks.unmanaged_mappings",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'once.cdk' has no attribute {name!r}")
    return getattr(import_module(f"once.cdk.{_MODULES[name]}"), name)
