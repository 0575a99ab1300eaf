"""Checks of the types of properties. The other checks require correct types."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from once.cdk.props import (
    ConsumerProps,
    Pollers,
    Rollout,
    TableProps,
    WarmThroughput,
    WebhookProps,
    WorkflowProps,
)
from once.settings import Dedup
from once.source import Source
from once.webhooks.endpoint import Endpoint
from once.webhooks.profile import Encoding, Form, Profile

_A_TYPE = "a tuple of types, such as ('order.placed',)"
_TEXTS = {
    "external": _A_TYPE,
    "events": _A_TYPE,
    "publishes": _A_TYPE,
    "secrets": "a tuple of names, such as ('stripe_key',)",
    "parameters": "a tuple of names, such as ('payment_api',)",
    "aws_services": "a tuple of names, such as ('ssm',), or None for all services",
}
"""The remedy of each property that is a tuple of texts."""


def property_type_faults(props: ConsumerProps | WebhookProps) -> Iterator[str]:
    """Yield a fault for each property of another type than its annotation, with the remedy."""
    for field in fields(props):
        value = getattr(props, field.name)
        is_right, remedy = _RULES[field.type]
        if not is_right(value):
            yield f"{field.name}={value!r}; give {_TEXTS.get(field.name, remedy)}"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, tuple | list) and all(map(_is_text, value))


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_tables(value: object) -> bool:
    return isinstance(value, tuple | list) and all(map(_is_table, value))


def _is_table(value: object) -> bool:
    if not isinstance(value, TableProps):
        return False
    key, warm = value.key, value.warm_throughput
    return _is_text(value.name) and (_is_text(key) or _are_texts(key)) and _is_throughput(warm)


def _is_throughput(value: object) -> bool:
    if not isinstance(value, WarmThroughput):
        return value is None
    return _is_number(value.reads) and _is_number(value.writes)


def _are_pollers(value: object) -> bool:
    if not isinstance(value, Pollers):
        return value is None
    return _is_number(value.minimum) and _is_number(value.maximum)


def _are_workflows(value: object) -> bool:
    return isinstance(value, tuple | list) and all(map(_is_workflow, value))


def _is_workflow(value: object) -> bool:
    if not isinstance(value, WorkflowProps):
        return False
    days = getattr(value, "retention_days", 1)
    return _is_text(value.name) and _is_text(value.arn) and _is_number(days)


def _are_endpoints(value: object) -> bool:
    return isinstance(value, tuple | list) and all(_has_types(each, Endpoint) for each in value)


def _has_types(value: object, kind: type[Endpoint] | type[Profile]) -> bool:
    if not isinstance(value, kind):
        return False
    return all(_RULES[field.type][0](getattr(value, field.name)) for field in fields(value))


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(_is_text, value))


_RULES: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (_is_text, "a text"),
    int: (_is_number, "a whole number"),
    int | None: (lambda value: value is None or _is_number(value), "a whole number, or None"),
    bool: (lambda value: isinstance(value, bool), "True or False"),
    str | None: (lambda value: value is None or _is_text(value), "a text, or None"),
    Rollout: (
        lambda value: isinstance(value, Rollout),
        "a member of Rollout, such as Rollout.CANARY_10_PERCENT_15_MINUTES",
    ),
    Dedup: (lambda value: isinstance(value, Dedup), "a member of Dedup, such as Dedup.ITEM"),
    Source | None: (
        lambda value: isinstance(value, Source | None),
        "a source, such as Source.event_bridge('aws.ec2'), or None",
    ),
    Path | None: (lambda value: isinstance(value, Path | None), "a pathlib.Path"),
    tuple[str, ...]: (_are_texts, "a tuple of texts"),
    tuple[str, ...] | None: (
        lambda value: value is None or _are_texts(value),
        "a tuple of texts, or None",
    ),
    Pollers | None: (_are_pollers, "Pollers(minimum=2, maximum=20), or None"),
    tuple[TableProps, ...]: (
        _are_tables,
        "a tuple of tables, such as (TableProps('stock', 'sku'),)",
    ),
    tuple[Endpoint, ...]: (_are_endpoints, "a tuple such as (Endpoint('stripe', STRIPE),)"),
    Profile: (lambda value: _has_types(value, Profile), "a profile, such as STRIPE"),
    Form: (lambda value: isinstance(value, Form), "a member of Form"),
    Encoding: (lambda value: isinstance(value, Encoding), "a member of Encoding"),
    tuple[str, str] | None: (lambda value: value is None or _is_pair(value), "a pair, or None"),
    tuple[WorkflowProps, ...]: (
        _are_workflows,
        "a tuple of StateMachineProps(name, arn) and DurableFunctionProps(name, arn)",
    ),
}
"""The check of a value and the remedy, by the annotation of its property."""
