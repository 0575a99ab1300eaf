"""Checks of a deployment's configuration in its account. Each fault states its remedy."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from aws_cdk import Token

from once.cdk._context_values import READ
from once.cdk.customer_keys import CustomerKey, CustomerKeys
from once.cdk.deployment_config import DeploymentConfig
from once.cdk.existing import ExistingQueue, ExistingTable
from once.cdk.network import Network

SERVICES = ("cloudwatch", "events", "logs", "s3", "sns")
"""The services that `CustomerKey.allows` may name."""

_ARNS = {
    "key": r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):\d{12}:key/(mrk-[0-9a-f]{32}|[0-9a-f-]{36})",
    "policy": r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+",
    "layer version": r"arn:aws[a-z-]*:lambda:(?P<region>[a-z0-9-]+):\d{12}:layer:[\w-]+:\d+",
    "table": r"arn:aws[a-z-]*:dynamodb:(?P<region>[a-z0-9-]+):\d{12}:table/[\w.-]+",
    "stream": (
        r"arn:aws[a-z-]*:dynamodb:(?P<region>[a-z0-9-]+):\d{12}:table/[\w.-]+/stream/[\w:.-]+"
    ),
    "queue": r"arn:aws[a-z-]*:sqs:(?P<region>[a-z0-9-]+):\d{12}:[\w-]+(\.fifo)?",
}
_EXAMPLES = {
    "key": (
        "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab, which is not "
        "that of an alias"
    ),
    "policy": "arn:aws:iam::111122223333:policy/boundary",
    "layer version": "arn:aws:lambda:eu-west-1:111122223333:layer:agent:7, with the version",
    "table": "arn:aws:dynamodb:eu-west-1:111122223333:table/seats",
    "stream": "arn:aws:dynamodb:eu-west-1:111122223333:table/dedup/stream/2026-11-22T08:00:00.000",
    "queue": "arn:aws:sqs:eu-west-1:111122223333:bookings",
}
_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "tags": (lambda v: _maps(v, str), "a mapping of texts, such as {'team': 'tickets'}"),
    "network": (lambda v: isinstance(v, Network | None), "a Network, or None"),
    "keys": (lambda v: _are_keys(v), "CustomerKeys(queues=CustomerKey('arn:…'), …)"),
    "permissions_boundary": (lambda v: isinstance(v, str | None), "the ARN of a policy, or None"),
    "layers": (lambda v: _are_texts(v), "a tuple of ARNs"),
    "otlp_endpoint": (lambda v: isinstance(v, str | None), "the URL of a collector, or None"),
    "existing_tables": (
        lambda v: _maps(v, ExistingTable),
        "a mapping such as {'seats': ExistingTable('arn:…')}",
    ),
    "existing_queues": (
        lambda v: _maps(v, ExistingQueue),
        "a mapping such as {'tickets': ExistingQueue('arn:…')}",
    ),
}
"""The check of an option's type and the remedy, by its name."""


def account_option_faults(config: DeploymentConfig) -> list[str]:
    """Return every fault of the options; those of wrong types alone, if there are any."""
    wrong = [
        f"{name}={getattr(config, name)!r}; give {remedy}"
        for name, (is_right, remedy) in _TYPES.items()
        if not is_right(getattr(config, name))
    ]
    return [*_value_faults(config), *(wrong or _option_faults(config))]


def regions_of(config: DeploymentConfig) -> dict[str, str]:
    """Return the region of each ARN in a configuration without faults, by its option."""
    found = {}
    for option, kind, arn in _arns(config):
        match = re.fullmatch(_ARNS[kind], arn)
        if match and "region" in match.groupdict():
            found[option] = match["region"]
    return found


def _value_faults(config: DeploymentConfig) -> Iterator[str]:
    """Yield the malformed values, which the context could also give, as text."""
    for name, read in READ.items():
        value = getattr(config, name)
        if value is None or name == "dedup_warm_throughput":
            continue
        try:
            read(",".join(value) if isinstance(value, tuple) else str(value))
        except ValueError as error:
            yield f"{name}={value!r}: {error}"


def _option_faults(config: DeploymentConfig) -> Iterator[str]:
    yield from _tag_faults(config.tags)
    yield from _network_faults(config.network)
    if len(config.layers) > 5:
        yield f"layers has {len(config.layers)} ARNs; a function takes 5 layers at most"
    if config.otlp_endpoint is not None and not _is_base_url(config.otlp_endpoint):
        yield (
            f"otlp_endpoint={config.otlp_endpoint!r} is no base URL; give one such as "
            "http://localhost:4318, without /v1/traces"
        )
    for option, kind, arn in _arns(config):
        if not Token.is_unresolved(arn) and not re.fullmatch(_ARNS[kind], arn):
            yield f"{option}={arn!r} is no ARN of a {kind}; give one such as {_EXAMPLES[kind]}"
    yield from _key_faults(config)


def _is_base_url(text: str) -> bool:
    return bool(re.fullmatch(r"https?://[\w.:\[\]-]+(/(?!v1/)[^?#\s]*)?", text))


def _tag_faults(tags: Mapping[str, str]) -> Iterator[str]:
    for name, value in tags.items():
        if name.lower().startswith("aws:") or not re.fullmatch(r"[\w .:/=+@-]{1,128}", name):
            yield (
                f"the tag {name!r} is no name for a tag; use up to 128 letters, digits and "
                "_ . : / = + - @, and no aws: before them"
            )
        if not re.fullmatch(r"[\w .:/=+@-]{0,256}", value):
            yield (
                f"the tag {name!r} has the value {value!r}; use up to 256 letters, digits and "
                "_ . : / = + - @"
            )


def _network_faults(network: Network | None) -> Iterator[str]:
    if network is None:
        return
    for name, prefix in (("subnets", "subnet"), ("security_groups", "sg")):
        ids = getattr(network, name)
        right = _are_texts(ids) and all(
            re.fullmatch(rf"{prefix}-[0-9a-f]{{8}}([0-9a-f]{{9}})?", i) for i in ids
        )
        if not (ids and right):
            yield f"network: {name}={ids!r}; give a tuple of ids, such as ('{prefix}-0a1b2c3d',)"
    if network.endpoints is not None and not _are_texts(network.endpoints):
        yield f"network: endpoints={network.endpoints!r}; give a tuple such as ('dynamodb', 'sqs')"


def _key_faults(config: DeploymentConfig) -> Iterator[str]:
    for kind, key in _keys(config.keys):
        for each in key.allows:
            if each not in SERVICES and not re.fullmatch(r"\d{12}", each):
                yield (
                    f"keys.{kind} allows {each!r}; give ids of accounts, and {', '.join(SERVICES)}"
                )
    if config.keys.logs is not None:
        yield from missing_permission("logs", config.keys.logs, "logs", "it encrypts log groups")
    if config.keys.topics is not None:
        alarms = "alarms publish to an encrypted topic"
        yield from missing_permission("topics", config.keys.topics, "cloudwatch", alarms)
        for each in config.ingress_publishers:
            reason = "ingress_publishers lets it publish to the ingress topic"
            yield from missing_permission("topics", config.keys.topics, each, reason)


def missing_permission(kind: str, key: CustomerKey, needed: str, reason: str) -> Iterator[str]:
    """Yield a fault if a key's policy does not allow a service or an account to use it."""
    if needed not in key.allows:
        yield (
            f"keys.{kind}: the policy of the key does not allow {needed!r}, and {reason}; add a "
            f"statement to the key's policy (docs/your-service.md#keys), and {needed!r} to allows="
        )


def _arns(config: DeploymentConfig) -> Iterator[tuple[str, str, str]]:
    """Yield the option, the kind and the text of each ARN."""
    for kind, key in _keys(config.keys):
        yield f"keys.{kind}", "key", key.arn
    if config.permissions_boundary is not None:
        yield "permissions_boundary", "policy", config.permissions_boundary
    for number, arn in enumerate(config.layers):
        yield f"layers[{number}]", "layer version", arn
    existing: tuple[tuple[str, Mapping[str, ExistingTable | ExistingQueue]], ...] = (
        ("table", config.existing_tables),
        ("queue", config.existing_queues),
    )
    for kind, parts in existing:
        for name, part in parts.items():
            yield f"existing_{kind}s[{name!r}]", kind, part.arn
            if part.key_arn is not None:
                yield f"the key of existing_{kind}s[{name!r}]", "key", part.key_arn
            if isinstance(part, ExistingTable) and part.stream_arn is not None:
                yield f"the stream of existing_tables[{name!r}]", "stream", part.stream_arn


def _keys(keys: CustomerKeys) -> Iterator[tuple[str, CustomerKey]]:
    for field in fields(keys):
        key = getattr(keys, field.name)
        if key is not None:
            yield field.name, key


def _are_keys(value: object) -> bool:
    if not isinstance(value, CustomerKeys):
        return False
    keys = [getattr(value, field.name) for field in fields(value)]
    return all(
        key is None
        or (isinstance(key, CustomerKey) and isinstance(key.arn, str) and _are_texts(key.allows))
        for key in keys
    )


def _are_texts(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(each, str) for each in value)


def _maps(value: object, kind: type) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(each, kind) for name, each in value.items()
    )
