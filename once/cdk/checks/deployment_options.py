"""Checks of a deployment's options, alone and against its consumers and stages.

Each fault states its remedy.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from aws_cdk import Token

from once.cdk.checks.consumer_props import warm_throughput_faults
from once.cdk.checks.property_types import property_type_faults
from once.cdk.deployment_options import (
    DEDUP,
    READ,
    CustomerKey,
    CustomerKeys,
    DeploymentConfig,
    ExistingQueue,
    ExistingTable,
    Network,
    Stage,
)
from once.cdk.props import (
    DAY_SECONDS,
    ConsumerProps,
    DurableFunctionProps,
    StateMachineProps,
    WebhookProps,
)
from once.schema import Limits
from once.source import EventBridgeSource, S3Source, SnsSource


def deployment_faults(config: DeploymentConfig) -> list[str]:
    """Return every fault of a configuration; an empty list if it can be deployed."""
    return [
        *config.faults,
        *account_option_faults(config),
        *dedup_window_faults(config),
        *warm_throughput_faults("dedup_", config.dedup_warm_throughput),
    ]


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


def dedup_window_faults(config: DeploymentConfig) -> Iterator[str]:
    """Yield a fault for each way in which a message can outlive its dedup record."""
    days = config.dedup_window_days
    life = message_life_days(config.redrives)
    if days < life:
        yield (
            f"dedup_window_days={days}: with redrives={config.redrives} a message can come back "
            f"for {life} days and would change state again; raise it to {life}, or lower redrives"
        )
    if days < config.provider_retry_days:
        yield (
            f"dedup_window_days={days}: a provider sends an event again for provider_retry_days="
            f"{config.provider_retry_days}, and its key is forgotten before; raise it to "
            f"{config.provider_retry_days}"
        )


def message_life_days(redrives: int) -> int:
    """Return the days for which a message can come back, if it is redriven so many times.

    SQS keeps a message for 14 days at most, which gives 14 days for each life. A message that the
    consumer moves or dead-letters is a new one to SQS: that gives four days in the queue and four
    in the isolation queue for each life, and 14 days as a dead letter between two lives. The longer
    of both sums counts. A FIFO queue has no isolation queue, and on a FIFO dead-letter queue the 14
    days begin anew: the second sum holds there too, with four days to spare in each life.
    """
    lives = (1 + redrives) * Limits.DEAD_LETTER_RETENTION_SECONDS
    waits = (1 + redrives) * Limits.QUEUE_STAY_SECONDS
    stays = waits + redrives * Limits.DEAD_LETTER_RETENTION_SECONDS
    return max(lives, stays) // DAY_SECONDS


RESERVED_SENDER = "once:reserved-sender"
"""Id of the warning."""

_RESERVED = re.compile(r"(.*[@.])?(example\.(com|net|org)|example|invalid|localhost|test)")
"""Domains reserved for documentation and tests (RFC 2606)."""


def reserved_sender(props: ConsumerProps, config: DeploymentConfig) -> str | None:
    """Return a warning, with its remedy, if SES would refuse each e-mail of a consumer.

    None on the embedded AWS, which accepts every address.
    """
    sender = config.email_sender
    if config.local or not props.sends_email or not _RESERVED.fullmatch(sender.lower()):
        return None
    return (
        f"email_sender={sender!r} is an address for documentation (RFC 2606), which SES cannot "
        "verify: it refuses each e-mail of this consumer. Give an address of yours, "
        "-c email_sender=…, and confirm it with the link that SES sends there. In SES's "
        "sandbox each recipient must be verified as well"
    )


def stage_faults(stages: Sequence[Stage]) -> list[str]:
    """Return every fault of the stages; an empty list without stages."""
    return [
        *(fault for each in stages for fault in _own_faults(each)),
        *_shared(Counter(each.name for each in stages), "name"),
        *_shared(Counter(each.config.service for each in stages), "service"),
    ]


def _own_faults(stage: Stage) -> Iterator[str]:
    if not re.fullmatch(r"\d{12}", str(stage.account)):
        yield f"stage {stage.name!r}: account={stage.account!r}; give a text of 12 digits"
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", str(stage.region)):
        yield f"stage {stage.name!r}: region={stage.region!r}; give a region, such as 'eu-west-1'"
    if account_option_faults(stage.config):
        return
    for option, region in regions_of(stage.config).items():
        if region != stage.region:
            yield (
                f"stage {stage.name!r}: {option} is in {region}, and the stage in {stage.region}; "
                "give the one of the stage's region"
            )


def _shared(counts: Counter[str], what: str) -> Iterator[str]:
    for value, count in counts.items():
        if count > 1:
            yield (
                f"{count} stages have the {what} {value!r}; give each its own: stacks and deployed "
                "names are told apart by it, and a value of the CDK context counts for every stage"
            )
