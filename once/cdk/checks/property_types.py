"""Checks of the types of properties and options. The other checks require correct types."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import ConsumerProps, Pollers, Rollout, TableProps, WebhookProps, WorkflowProps
from once.event_sources import Source
from once.settings import Dedup
from once.webhooks.endpoint import Endpoint

_TYPES = "a tuple of types, such as ('order.placed',)"
_REMEDIES: dict[Any, str] = {
    "external": _TYPES,
    "events": _TYPES,
    "publishes": _TYPES,
    "secrets": "a tuple of names, such as ('stripe_key',)",
    "parameters": "a tuple of names, such as ('payment_api',)",
    "aws_services": "a tuple of names, such as ('ssm',), or None for all services",
    str: "a text",
    int: "a whole number",
    int | None: "a whole number, or None",
    bool: "True or False",
    str | None: "a text, or None",
    Rollout: "a member of Rollout, such as Rollout.CANARY_10_PERCENT_15_MINUTES",
    Dedup: "a member of Dedup, such as Dedup.ITEM",
    Source | None: "a source, such as Source.event_bridge('aws.ec2'), or None",
    Path | None: "a pathlib.Path",
    Pollers | None: "Pollers(minimum=2, maximum=20), or None",
    tuple[TableProps, ...]: "a tuple of tables, such as (TableProps('stock', 'sku'),)",
    tuple[Endpoint, ...]: "a tuple such as (Endpoint('stripe', STRIPE),)",
    tuple[WorkflowProps, ...]: (
        "a tuple of StateMachineProps(name, arn) and DurableFunctionProps(name, arn)"
    ),
}
"""The remedy of a property, by its name or its annotation."""
_OPTIONS = {
    "tags": "a mapping of texts, such as {'team': 'tickets'}",
    "network": "a Network, or None",
    "keys": "CustomerKeys(queues=CustomerKey('arn:…'), …)",
    "permissions_boundary": "the ARN of a policy, or None",
    "layers": "a tuple of ARNs",
    "otlp_endpoint": "the URL of a collector, or None",
    "existing_tables": "a mapping such as {'seats': ExistingTable('arn:…')}",
    "existing_queues": "a mapping such as {'tickets': ExistingQueue('arn:…')}",
}
"""The remedy of a deployment's option that the CDK's context cannot give, by its name."""


def property_type_faults(
    props: ConsumerProps | WebhookProps | DeploymentConfig,
) -> Iterator[str]:
    """Yield a fault for each property of another type than its annotation, with the remedy.

    Of a deployment's options, those that the CDK's context cannot give are compared.
    """
    compared = fields(props)
    if isinstance(props, DeploymentConfig):
        compared = tuple(field for field in compared if field.name in _OPTIONS)
    for field in compared:
        value = getattr(props, field.name)
        if not has_type(value, field.type):
            remedy = (_OPTIONS | _REMEDIES).get(field.name) or _REMEDIES[field.type]
            yield f"{field.name}={value!r}; give {remedy}"


def has_type(value: Any, kind: Any) -> bool:
    """Return whether a value, with every field and element in it, has the type of an annotation.

    A list is accepted in place of a tuple of any length; True and False are no numbers.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return any(has_type(value, each) for each in inner)
    if origin is tuple and inner[-1] is ...:
        right = isinstance(value, tuple | list)
        return right and all(has_type(each, inner[0]) for each in value)
    if origin is tuple:
        right = isinstance(value, tuple) and len(value) == len(inner)
        return right and all(map(has_type, value, inner))
    if origin is Mapping:
        right = isinstance(value, Mapping)
        return right and all(all(map(has_type, pair, inner)) for pair in value.items())
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return False
    return not is_dataclass(kind) or all(
        has_type(getattr(value, field.name), field.type) for field in fields(kind)
    )
