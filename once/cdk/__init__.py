"""AWS CDK constructs: queues, functions, roles, relay and alarms of idempotent consumers.

In: `ConsumerProps` and `DeploymentConfig`. Out: CloudFormation resources. Used by CDK apps:
`run_app` makes a whole service from a `Registry`, and each construct can be used alone. The names
below are the whole public interface. They load on first use, because importing the CDK takes
seconds. Of each construct, `scope` is the stack, and of each stack the app; `config` is the
deployment, by default that of the CDK context. `SynthError` says why something cannot be built.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from once.errors import extra
from once.names import public_names

if TYPE_CHECKING:
    # The public names, one a line: `public_names` reads them from this text.
    from once.cdk.app.assembly import assemble as assemble
    from once.cdk.app.assembly import run_app as run_app
    from once.cdk.app.assembly import synthesize as synthesize
    from once.cdk.app.registry import Registry as Registry
    from once.cdk.app.registry import event_sources as event_sources
    from once.cdk.app.registry import published_types as published_types
    from once.cdk.app.stacks import FurtherStack as FurtherStack
    from once.cdk.app.stacks import ServiceStack as ServiceStack
    from once.cdk.app.stacks import StateStack as StateStack
    from once.cdk.checks.constructs import stack_size_faults as stack_size_faults
    from once.cdk.checks.constructs import unmanaged_mapping_faults as unmanaged_mapping_faults
    from once.cdk.checks.consumer_set import consumer_set_faults as consumer_set_faults
    from once.cdk.checks.deployment_options import deployment_faults as deployment_faults
    from once.cdk.checks.handlers_in_code import event_types_output as event_types_output
    from once.cdk.deployed_names import DeployedNames as DeployedNames
    from once.cdk.deployed_names import missing_name_faults as missing_name_faults
    from once.cdk.deployment_options import CustomerKey as CustomerKey
    from once.cdk.deployment_options import CustomerKeys as CustomerKeys
    from once.cdk.deployment_options import DeploymentConfig as DeploymentConfig
    from once.cdk.deployment_options import ExistingQueue as ExistingQueue
    from once.cdk.deployment_options import ExistingTable as ExistingTable
    from once.cdk.deployment_options import Network as Network
    from once.cdk.deployment_options import Stage as Stage
    from once.cdk.errors import SynthError as SynthError
    from once.cdk.idempotent_consumer import IdempotentConsumer as IdempotentConsumer
    from once.cdk.monitoring import add_shared_alarms as add_shared_alarms
    from once.cdk.monitoring import make_alarm_topic as make_alarm_topic
    from once.cdk.monitoring import notify as notify
    from once.cdk.monitoring import tables_row as tables_row
    from once.cdk.nag import acknowledge_finding as acknowledge_finding
    from once.cdk.operators import OperatorPolicies as OperatorPolicies
    from once.cdk.outbox_relay import OutboxRelay as OutboxRelay
    from once.cdk.props import ConsumerProps as ConsumerProps
    from once.cdk.props import DurableFunctionProps as DurableFunctionProps
    from once.cdk.props import Pollers as Pollers
    from once.cdk.props import Rollout as Rollout
    from once.cdk.props import Source as Source
    from once.cdk.props import StateMachineProps as StateMachineProps
    from once.cdk.props import TableProps as TableProps
    from once.cdk.props import WarmThroughput as WarmThroughput
    from once.cdk.props import WebhookProps as WebhookProps
    from once.cdk.props import output_key as output_key
    from once.cdk.retained_data import CaptureTable as CaptureTable
    from once.cdk.retained_data import ClaimBucket as ClaimBucket
    from once.cdk.retained_data import DedupTable as DedupTable
    from once.cdk.retained_data import OperatorLog as OperatorLog
    from once.cdk.retained_data import RelayFailures as RelayFailures
    from once.cdk.retained_data import RetainedTable as RetainedTable
    from once.cdk.topics import Topics as Topics
    from once.cdk.unrouted_events import UnroutedEvents as UnroutedEvents
    from once.cdk.webhook_ingress import WebhookIngress as WebhookIngress
    from once.names import StackOutput as StackOutput
    from once.settings import Dedup as Dedup
    from once.webhooks.endpoint import GITHUB as GITHUB
    from once.webhooks.endpoint import SHOPIFY as SHOPIFY
    from once.webhooks.endpoint import SLACK as SLACK
    from once.webhooks.endpoint import STANDARD as STANDARD
    from once.webhooks.endpoint import STRIPE as STRIPE
    from once.webhooks.endpoint import Endpoint as Endpoint
    from once.webhooks.endpoint import hmac_profile as hmac_profile

_MODULES = public_names(__spec__)

if not TYPE_CHECKING:
    __all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'once.cdk' has no attribute {name!r}")
    with extra("cdk"):
        return getattr(import_module(_MODULES[name]), name)
