"""AWS CDK constructs: queues, functions, roles, relay and alarms of idempotent consumers.

In: `ConsumerProps` and `DeploymentConfig`. Out: CloudFormation resources. Used by CDK apps:
`run_app` makes a whole service from a `Registry`, and each construct can be used alone. The names
below and in `_constructs` are the whole public interface. Of each construct, `scope` is the stack,
and of each stack the app; `config` is the deployment, by default that of the CDK context.
`SynthError` says why something cannot be built.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from once.cdk.app.registry import Registry as Registry
from once.cdk.app.registry import event_sources as event_sources
from once.cdk.app.registry import published_types as published_types
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
from once.cdk.synth_error import SynthError as SynthError
from once.errors import extra
from once.names import StackOutput as StackOutput
from once.settings import Dedup as Dedup
from once.webhooks.endpoint import GITHUB as GITHUB
from once.webhooks.endpoint import SHOPIFY as SHOPIFY
from once.webhooks.endpoint import SLACK as SLACK
from once.webhooks.endpoint import STANDARD as STANDARD
from once.webhooks.endpoint import STRIPE as STRIPE
from once.webhooks.endpoint import Endpoint as Endpoint
from once.webhooks.endpoint import hmac_profile as hmac_profile

if TYPE_CHECKING:
    from once.cdk._constructs import *  # noqa: F403


def __getattr__(name: str) -> object:
    # On first use: tests read a registry of consumers too, and the CDK takes seconds to load.
    with extra("cdk"):
        constructs = import_module("once.cdk._constructs")
    try:
        return vars(constructs)[name]
    except KeyError:
        raise AttributeError(f"module 'once.cdk' has no attribute {name!r}") from None
