"""Checks of a deployment's options, alone and against its consumers and stages.

Each fault states its remedy.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from aws_cdk import Token

from once.cdk.checks import faults_where
from once.cdk.checks.global_tables import global_table_faults, replica_faults
from once.cdk.checks.property_types import has_type, property_type_faults, range_faults
from once.cdk.deployment_options import (
    DEDUP,
    CustomerKey,
    DeploymentConfig,
    ExistingQueue,
    ExistingTable,
    Network,
    Stage,
    readers,
)
from once.cdk.props import (
    DAY_SECONDS,
    ConsumerProps,
    DurableFunctionProps,
    Line,
    StateMachineProps,
    WebhookProps,
    later_types,
    named,
)
from once.event_sources import EventBridgeSource, S3Source, SnsSource
from once.names import Limits, explained_by


def deployment_faults(config: DeploymentConfig) -> list[str]:
    faults = [*config.faults, *_option_faults(config), *_dedup_window_faults(config)]
    if (warm := config.dedup_warm_throughput) is not None:
        faults += range_faults(warm, "dedup_warm_throughput has ")
    return faults


SERVICES = ("cloudwatch", "events", "logs", "s3", "sns")
"""The services that `CustomerKey.allows` may name."""

_AT = r"(?P<region>[a-z0-9-]+):\d{12}"
_ARNS = {
    "key": (
        rf"arn:aws[a-z-]*:kms:{_AT}:key/(mrk-[0-9a-f]{{32}}|[0-9a-f-]{{36}})",
        "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab, which is not "
        "that of an alias",
    ),
    "policy": (
        r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+",
        "arn:aws:iam::111122223333:policy/boundary",
    ),
    "layer version": (
        rf"arn:aws[a-z-]*:lambda:{_AT}:layer:[\w-]+:\d+",
        "arn:aws:lambda:eu-west-1:111122223333:layer:agent:7, with the version",
    ),
    "table": (
        rf"arn:aws[a-z-]*:dynamodb:{_AT}:table/[\w.-]+",
        "arn:aws:dynamodb:eu-west-1:111122223333:table/seats",
    ),
    "stream": (
        rf"arn:aws[a-z-]*:dynamodb:{_AT}:table/[\w.-]+/stream/[\w:.-]+",
        "arn:aws:dynamodb:eu-west-1:111122223333:table/dedup/stream/2026-11-22T08:00:00.000",
    ),
    "queue": (
        rf"arn:aws[a-z-]*:sqs:{_AT}:[\w-]+(\.fifo)?",
        "arn:aws:sqs:eu-west-1:111122223333:bookings",
    ),
}
"""Pattern and example of an ARN, by the kind of resource."""


def _option_faults(config: DeploymentConfig) -> list[str]:
    """Return the faults of single options. Those of a wrong type hide the others."""
    faults = []
    for name, read in readers().items():  # the context could also give these values, as text
        value = getattr(config, name)
        if value is not None and name != "dedup_warm_throughput":
            try:
                read(",".join(value) if isinstance(value, tuple) else str(value))
            except ValueError as error:
                faults.append(f"{name}={value!r}: {error}")
    # A wrong type inside a network is a fault that names the field.
    network = None if isinstance(config.network, Network) else config.network
    wrong = list(property_type_faults(replace(config, network=network)))
    return [*faults, *(wrong or _account_faults(config))]


def _account_faults(config: DeploymentConfig) -> Iterator[str]:
    """Yield the faults of the options that name parts of the account, all of the right types."""
    for name, value in config.tags.items():
        is_name = re.fullmatch(r"(?!(?i:aws:))[\w .:/=+@-]{1,128}", name)
        yield from faults_where(
            {
                f"the tag {name!r} is no name for a tag; use up to 128 letters, digits and "
                "_ . : / = + - @, and no aws: before them": not is_name,
                f"the tag {name!r} has the value {value!r}; use up to 256 letters, digits and "
                "_ . : / = + - @": not re.fullmatch(r"[\w .:/=+@-]{0,256}", value),
            }
        )
    if config.network is not None:
        yield from _network_faults(config.network)
    yield from global_table_faults(config)
    url, base_url = config.otlp_endpoint, r"https?://[\w.:\[\]-]+(/(?!v1/)[^?#\s]*)?"
    yield from faults_where(
        {
            f"layers has {len(config.layers)} ARNs; a function takes 5 layers at most": len(
                config.layers
            )
            > 5,
            f"otlp_endpoint={url!r} is no base URL; give one such as http://localhost:4318, "
            "without /v1/traces": url is not None and not re.fullmatch(base_url, url),
        }
    )
    for option, kind, arn in _arns(config):
        pattern, example = _ARNS[kind]
        if not Token.is_unresolved(arn) and not re.fullmatch(pattern, arn):
            yield f"{option}={arn!r} is no ARN of a {kind}; give one such as {example}"
    yield from _key_faults(config)


def _network_faults(network: Network) -> Iterator[str]:
    for name, prefix in (("subnets", "subnet"), ("security_groups", "sg")):
        ids, form = getattr(network, name), rf"{prefix}-[0-9a-f]{{8}}([0-9a-f]{{9}})?"
        right = has_type(ids, tuple[str, ...]) and all(re.fullmatch(form, each) for each in ids)
        if not (ids and right):
            yield f"network: {name}={ids!r}; give a tuple of ids, such as ('{prefix}-0a1b2c3d',)"
    if not has_type(network.endpoints, tuple[str, ...] | None):
        yield f"network: endpoints={network.endpoints!r}; give a tuple such as ('dynamodb', 'sqs')"


def _key_faults(config: DeploymentConfig) -> Iterator[str]:
    yield from (
        f"keys.{kind} allows {each!r}; give ids of accounts, and {', '.join(SERVICES)}"
        for kind, key in _keys(config)
        for each in key.allows
        if each not in SERVICES and not re.fullmatch(r"\d{12}", each)
    )
    if config.keys.logs is not None:
        yield from _missing_permission("logs", config.keys.logs, "logs", "it encrypts log groups")
    if config.keys.topics is not None:
        publishers = config.ingress_publishers
        reason = "ingress_publishers lets it publish to the ingress topic"
        needed = {"cloudwatch": "alarms publish to an encrypted topic"}
        for each, why in [*needed.items(), *((each, reason) for each in publishers)]:
            yield from _missing_permission("topics", config.keys.topics, each, why)


def _missing_permission(kind: str, key: CustomerKey, needed: str, reason: str) -> Iterator[str]:
    """Yield a fault if a key's policy does not allow a service or an account to use it."""
    if needed not in key.allows:
        yield (
            f"keys.{kind}: the policy of the key does not allow {needed!r}, and {reason}; add a "
            f"statement to the key's policy ({explained_by('your-service#keys')}), and {needed!r} "
            "to allows="
        )


def _arns(config: DeploymentConfig) -> Iterator[tuple[str, str, str]]:
    """Yield the option, the kind and the text of each ARN."""
    for kind, key in _keys(config):
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


def _keys(config: DeploymentConfig) -> Iterator[tuple[str, CustomerKey]]:
    for field in fields(config.keys):
        key = getattr(config.keys, field.name)
        if key is not None:
            yield field.name, key


def unfit_option_faults(
    config: DeploymentConfig, lines: Sequence[Line], region: str | None = None
) -> list[str]:
    """Return the options that do not fit the lines, while both have no faults of their own.

    `region` is that of the stage, None without stages.
    """
    if _option_faults(config):
        return []
    typed = [each for each in lines if has_type(each, type(each))]
    consumers = [each for each in typed if isinstance(each, ConsumerProps)]
    faults = [*_queue_key_faults(config, consumers)]
    faults += endpoint_faults(config, _needed_endpoints(typed))
    return [*faults, *_existing_faults(config, typed), *replica_faults(config, typed, region)]


def _queue_key_faults(
    config: DeploymentConfig, consumers: Sequence[ConsumerProps]
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
            yield from _missing_permission("queues", key, service, reason)


def endpoint_faults(config: DeploymentConfig, needed: Mapping[str, str]) -> list[str]:
    """Return a fault for each service that the network does not reach.

    `needed` has a function that calls the service, by service.
    """
    endpoints = None if config.network is None else config.network.endpoints
    if endpoints is None:
        return []
    return [
        f"network: its endpoints lack {service!r}, which {user} needs; add the endpoint "
        f"com.amazonaws.<region>.{service} to the VPC and name it in endpoints=, or give "
        "endpoints=None if the subnets reach AWS through a NAT gateway"
        for service, user in needed.items()
        if service not in endpoints
    ]


def _needed_endpoints(lines: Sequence[Line]) -> dict[str, str]:
    """Return a function that calls the service, by service."""
    needed = {"dynamodb": "every function"}
    if any(each.publishes for each in lines):
        needed["sns"] = "the outbox relay"
    if later_types(lines):
        needed["scheduler"] = "the outbox relay"
    for each in lines:
        calls: dict[str, object] = {}
        if isinstance(each, ConsumerProps):
            kinds = {type(workflow) for workflow in each.starts}
            calls = {
                "sqs": True,
                "secretsmanager": each.secrets,
                "s3": each.claim_check_mb,
                "email": each.sends_email,
                "states": StateMachineProps in kinds,
                "lambda": DurableFunctionProps in kinds,
            }
        elif isinstance(each, WebhookProps):
            calls = {"secretsmanager": True, "s3": each.needs_claims}
        for service, used in calls.items():
            if used:
                needed.setdefault(service, named(each))
    return needed


def _existing_faults(config: DeploymentConfig, lines: Sequence[Line]) -> Iterator[str]:
    writers = [each for each in lines if not isinstance(each, WebhookProps)]
    tables = {table.name for each in writers for table in each.tables} | {DEDUP}
    for name in config.existing_tables.keys() - tables:
        yield f"existing_tables has {name!r}, and no line has this table; take it out"
    dedup = config.existing_tables.get(DEDUP)
    publishes = any(each.publishes for each in lines)
    if dedup is not None and dedup.stream_arn is None and publishes:
        yield (
            f"existing_tables[{DEDUP!r}] has no stream, which the outbox relay reads; enable one "
            "of new and old images on the table, and give ExistingTable(arn, stream_arn='arn:…')"
        )
    events = {each.name: each.events for each in lines if isinstance(each, ConsumerProps)}
    for name in config.existing_queues:
        yield from faults_where(
            {
                f"existing_queues has {name!r}, and no consumer has this name; take it out": name
                not in events,
                f"existing_queues has {name!r}, and it takes events of other consumers, which no "
                "topic delivers into an existing queue; leave one of the two "
                "out": events.get(name),
            }
        )


def _dedup_window_faults(config: DeploymentConfig) -> Iterator[str]:
    """Yield a fault for each way in which a message can outlive its dedup record."""
    days, retry = config.dedup_window_days, config.provider_retry_days
    life = message_life_days(config.redrives)
    return faults_where(
        {
            f"dedup_window_days={days}: with redrives={config.redrives} a message can come back "
            f"for {life} days and would change state again; raise it to {life}, or lower "
            "redrives": days < life,
            f"dedup_window_days={days}: a provider sends an event again for provider_retry_days="
            f"{retry}, and its key is forgotten before; raise it to {retry}": days < retry,
        }
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
    faults = [fault for each in stages for fault in _stage_faults(each)]
    names = Counter(("name", each.name) for each in stages)
    services = Counter(("service", each.config.service) for each in stages)
    return faults + [
        f"{count} stages have the {what} {value!r}; give each its own: stacks and deployed "
        "names are told apart by it, and a value of the CDK context counts for every stage"
        for (what, value), count in [*names.items(), *services.items()]
        if count > 1
    ]


def _stage_faults(stage: Stage) -> Iterator[str]:
    if not re.fullmatch(r"\d{12}", str(stage.account)):
        yield f"stage {stage.name!r}: account={stage.account!r}; give a text of 12 digits"
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", str(stage.region)):
        yield f"stage {stage.name!r}: region={stage.region!r}; give a region, such as 'eu-west-1'"
    if _option_faults(stage.config):
        return
    for option, kind, arn in _arns(stage.config):
        match = re.fullmatch(_ARNS[kind][0], arn)
        region = match and match.groupdict().get("region", stage.region)
        if region and region != stage.region:
            yield (
                f"stage {stage.name!r}: {option} is in {region}, and the stage in {stage.region}; "
                "give the one of the stage's region"
            )
