"""The public names of `once.cdk` that a registry of consumers needs, without the AWS CDK."""

from once.cdk.app.registry import Registry as Registry
from once.cdk.app.registry import event_sources as event_sources
from once.cdk.app.registry import published_types as published_types
from once.cdk.props import Auth as Auth
from once.cdk.props import CommandProps as CommandProps
from once.cdk.props import ConsumerProps as ConsumerProps
from once.cdk.props import DurableFunctionProps as DurableFunctionProps
from once.cdk.props import Pollers as Pollers
from once.cdk.props import Rollout as Rollout
from once.cdk.props import Source as Source
from once.cdk.props import StateMachineProps as StateMachineProps
from once.cdk.props import TableProps as TableProps
from once.cdk.props import WarmThroughput as WarmThroughput
from once.cdk.props import WebhookProps as WebhookProps
from once.cdk.props import later_types as later_types
from once.cdk.props import output_key as output_key
from once.cdk.synth_error import SynthError as SynthError
from once.names import StackOutput as StackOutput
from once.settings import Dedup as Dedup
from once.webhooks.endpoint import GITHUB as GITHUB
from once.webhooks.endpoint import SHOPIFY as SHOPIFY
from once.webhooks.endpoint import SLACK as SLACK
from once.webhooks.endpoint import STANDARD as STANDARD
from once.webhooks.endpoint import STRIPE as STRIPE
from once.webhooks.endpoint import Endpoint as Endpoint
from once.webhooks.endpoint import hmac_profile as hmac_profile
