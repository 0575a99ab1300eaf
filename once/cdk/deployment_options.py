"""Options of a deployment: `DeploymentConfig`, its values, and how the CDK context gives them."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Self, cast

from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, Node

from once.cdk.props import DAY_SECONDS, CommandProps, ConsumerProps, Rollout, WarmThroughput
from once.names import CLOCK_MARGIN_SECONDS
from once.settings import TIME_MARGIN_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The place of every function in a VPC.

    The functions need no incoming connections. Lambda polls the queues outside the VPC.
    """

    subnets: tuple[str, ...]
    """Ids of private subnets, in two availability zones or more."""
    security_groups: tuple[str, ...]
    """Ids of security groups that allow outgoing HTTPS."""
    endpoints: tuple[str, ...] | None = None
    """The services that have a VPC endpoint in these subnets, such as `sqs`, by the last part of
    the endpoint's name; None if the subnets reach AWS through a NAT gateway.
    """


@dataclass(frozen=True, slots=True)
class CustomerKey:
    """An existing key. CloudFormation does not know its policy, so you state it."""

    arn: str
    """The key's ARN; that of an alias gives no permission to a role."""
    allows: tuple[str, ...] = ()
    """The services that the key's policy lets use it (`sns`, `events`, `s3`, `cloudwatch`, `logs`),
    and ids of other accounts. Roles of this account need no statement of their own if the policy
    lets IAM policies of the account decide, as the default policy does.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerKeys:
    """The key of each kind of resource; None for the encryption that needs no key of your own."""

    tables: CustomerKey | None = None
    """For DynamoDB tables."""
    queues: CustomerKey | None = None
    """For SQS queues."""
    topics: CustomerKey | None = None
    """For SNS topics. Producers then need `kms:GenerateDataKey` and `kms:Decrypt`."""
    buckets: CustomerKey | None = None
    """For S3 buckets."""
    logs: CustomerKey | None = None
    """For log groups of CloudWatch."""
    secrets: CustomerKey | None = None
    """For secrets of Secrets Manager."""

    @classmethod
    def one(cls, key: CustomerKey) -> "CustomerKeys":
        return cls(**{field.name: key for field in fields(cls)})


def imported_key(scope: Construct, key: CustomerKey | None) -> kms.IKey | None:
    """Return the construct of a key, one for each ARN in a stack; None without a key."""
    if key is None:
        return None
    stack = Stack.of(scope)
    part = f"CustomerKey-{sha256(key.arn.encode()).hexdigest()[:8]}"
    known = stack.node.try_find_child(part)
    return cast(kms.IKey, known) if known else kms.Key.from_key_arn(stack, part, key.arn)


DEDUP = "dedup-records"
"""Construct id of the dedup table, and its name in `existing_tables`. Logical ids are made of it
and of the tables' names: if one is renamed, CloudFormation replaces the table by an empty one."""


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """A table that takes the place of one that the service would make."""

    arn: str
    """The table's ARN."""
    key_arn: str | None = None
    """The ARN of its customer managed key, if it has one."""
    stream_arn: str | None = None
    """The ARN of the stream of new and old images. The dedup table alone needs one."""


EVENTUAL, STRONG = "eventual", "strong"


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalTables:
    """The tables of the service as global tables of DynamoDB, with a replica in each Region.

    The state stack in the first Region makes each table with all of its replicas, as AWS advises.
    The stacks in the other Regions name their replicas in `existing_tables`.
    """

    regions: tuple[str, ...]
    """The Regions that have a replica."""
    consistency: str = EVENTUAL
    """`eventual` (MREC) or `strong` (MRSC); a table keeps it."""
    witness: str | None = None
    """The third Region of two strongly consistent replicas: it stores writes, and is not read."""
    accept_split_commits: bool = False
    """True to accept that a commit of several items may arrive in part before a Region is lost: a
    change of the last replication lag may then be missing, or be made twice (docs/regions.md).
    """


@dataclass(frozen=True, slots=True)
class ExistingQueue:
    """A queue that a consumer reads, in place of one of its own that topics deliver into."""

    arn: str
    """The queue's ARN."""
    key_arn: str | None = None
    """The ARN of its customer managed key, if it has one."""


OLDEST_PYTHON = 11
"""The oldest supported minor version: the library uses syntax and typing of Python 3.11."""

KNOWN_PYTHONS = tuple(
    sorted(
        int(found[1])
        for name in dir(lambda_.Runtime)
        if (found := re.fullmatch(r"PYTHON_3_(\d+)", name)) and int(found[1]) >= OLDEST_PYTHON
    )
)
"""Minor versions that both this library and the installed CDK know as a Lambda runtime."""


def this_python() -> str:
    """Return the minor version of this Python, or the newest one that Lambda has."""
    return f"3.{min(sys.version_info.minor, max(KNOWN_PYTHONS, default=OLDEST_PYTHON))}"


def _matching(pattern: str, remedy: str) -> Callable[[str], str]:
    """Return a reader of texts of one form; its ValueError states the remedy."""

    def read(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(remedy)
        return value

    return read


def _one_of(*known: str) -> Callable[[str], str]:
    return _matching("|".join(map(re.escape, known)), f"use one of {', '.join(known)}")


def _flag(value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        raise ValueError("say true or false")
    return value.lower() == "true"


def _count(value: str) -> int:
    if not value.isdecimal():
        raise ValueError("give a whole number, 0 or more")
    return int(value)


def _positive(value: str) -> int:
    if not (count := _count(value)):
        raise ValueError("give a whole number, 1 or more")
    return count


def _publishers(value: str) -> tuple[str, ...]:
    given = tuple(filter(None, re.split(r"[,\s]+", value)))
    if not all(re.fullmatch(r"s3|events|\d{12}", each) for each in given):
        raise ValueError("give ids of accounts, s3 and events, with commas between them")
    return tuple(dict.fromkeys(given))


FEW, ALL = "few", "all"

# The context can give an option whose annotation has a reader of its text, which raises ValueError
# with the remedy. Of the others, the annotation has the text with which a fault says what to give.

Flag = Annotated[bool, _flag]
Count = Annotated[int, _count]
PythonVersion = Annotated[str, _one_of(*(f"3.{minor}" for minor in KNOWN_PYTHONS))]

RUNTIME_LOCK = Path(__file__).resolve().parent / "packaging" / "requirements.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentConfig:
    """One deployment."""

    service: Annotated[
        str,
        _matching(
            r"[a-z][a-z0-9-]{0,19}",
            "use at most 20 lower-case letters, digits and hyphens, a letter first",
        ),
    ] = "once"
    """Prefix of every physical name."""
    local: Flag = False
    """Whether it goes into the embedded AWS: with wheels of this machine, and with short times, so
    that a retry can be watched.
    """
    dedup_window_days: Count = 45
    """The time for which a committed key is remembered."""
    redrives: Count = 1
    """How often a dead letter may be sent back."""
    provider_retry_days: Count = 3
    """The time for which a webhook provider sends an event again."""
    log_level: Annotated[str, _one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")] = "INFO"
    """Level of the functions' logs."""
    group_commit: Flag = True
    """False to have each message of every consumer commit in a request of its own."""
    gradual_rollout: Flag = True
    """False to move every consumer's traffic at once, whatever its `rollout`: CodeDeploy does not
    start while one of the consumer's alarms is active.
    """
    email_sender: Annotated[
        str,
        _matching(
            r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+", "give an e-mail address, such as orders@example.com"
        ),
    ] = "orders@example.com"
    """The address that e-mail comes from."""
    create_email_identity: Flag = True
    """False if the account has that address as an identity of SES already, such as for another
    deployment. An account and region can have it once only.
    """
    python_runtime: PythonVersion = this_python()
    """Minor version of the Lambda runtime; by default that of the Python which synthesizes, on
    which the tests ran.
    """
    dedup_warm_throughput: Annotated[WarmThroughput | None, WarmThroughput.read] = None
    """The request rates that the dedup table must serve at once; by default those of a new table.
    """
    ingress_publishers: Annotated[tuple[str, ...], _publishers] = ()
    """Who may publish to the ingress topic beside principals of this account: ids of other
    accounts, and `s3` or `events`, the services S3 and EventBridge.
    """
    webhook_concurrency: Annotated[int | None, _count] = None
    """The most requests that run at once in a webhook ingress, in place of its own
    `reserved_concurrency`; 0 to reserve none, as a new account has too little.
    """
    runtime_lock: Path = RUNTIME_LOCK
    """Lock file, with hashes, of the library's own dependencies in the functions' packages; by
    default the one that comes with the library.
    """
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Further values that consumers ask for, by name."""
    tags: Annotated[Mapping[str, str], "a mapping of texts, such as {'team': 'tickets'}"] = field(
        default_factory=dict
    )
    """The tags of the stacks, which CloudFormation gives to their resources."""
    network: Annotated[Network | None, "a Network, or None"] = None
    """The place of the functions in a VPC; None outside one."""
    keys: Annotated[CustomerKeys, "CustomerKeys(queues=CustomerKey('arn:…'), …)"] = field(
        default_factory=CustomerKeys
    )
    """Customer managed keys, by what they encrypt."""
    permissions_boundary: Annotated[str | None, "the ARN of a policy, or None"] = None
    """The ARN of the policy that bounds every role of the stacks."""
    layers: Annotated[tuple[str, ...], "a tuple of ARNs"] = ()
    """The ARNs of layer versions that every function gets, such as those of an agent."""
    otlp_endpoint: Annotated[str | None, "the URL of a collector, or None"] = None
    """Base URL of a collector that takes spans and metrics of every function; None without one. The
    functions' packages need the extra `otel` (docs/telemetry.md).
    """
    existing_tables: Annotated[
        Mapping[str, ExistingTable], "a mapping such as {'seats': ExistingTable('arn:…')}"
    ] = field(default_factory=dict)
    """Tables that exist already, by the name that consumers use; the dedup table by `dedup-
    records`.
    """
    existing_queues: Annotated[
        Mapping[str, ExistingQueue], "a mapping such as {'tickets': ExistingQueue('arn:…')}"
    ] = field(default_factory=dict)
    """Queues that exist already, by the name of the consumer that reads it."""
    global_tables: Annotated[
        GlobalTables | None, "GlobalTables(regions=('eu-west-1', 'eu-central-1')), or None"
    ] = None
    """The Regions that have a replica of every table; None for tables of one Region."""
    standby: Flag = False
    """True in a Region that waits for a failover: mappings, rules and schedules are disabled until
    an operator enables them, and every table is a replica (docs/regions.md).
    """
    fifo_topic_dead_letters: Flag = True
    """False to give subscriptions of standard queues to FIFO topics no dead-letter queue, if AWS
    refuses a standard one there (docs/verify.md).
    """
    keep_data: Flag = True
    """False if the stacks may be deleted as a whole, with their data."""
    consumers_per_stack: Annotated[int, _positive] = 14
    """The most consumers of one stack, in which CloudFormation takes 500 resources. Further ones
    get further stacks; a deployed one stays in its stack.
    """
    alarms: Annotated[str, _one_of(FEW, ALL)] = FEW
    """`few` for those on which a person acts; `all` for those on what the dashboard shows, too
    (docs/adr/0080).
    """
    external_functions: bool = False
    """True if another tool makes the consumers' functions, their roles and their mappings: `once
    template`.
    """
    faults: tuple[str, ...] = ()
    """The malformed values of the context, each with its remedy."""

    @classmethod
    def from_context(
        cls, node: Node, parameters: Iterable[str] = (), base: Self | None = None
    ) -> Self:
        """Read the context. A malformed value is listed in `faults`, and is not used.

        Args:
            node: any node of the app.
            parameters: names of further values to read; those without a value are left out.
            base: the values that the context does not give; by default the defaults.
        """
        base = base or cls()
        context: Mapping[str, Any] = node.get_all_context()
        values: dict[str, Any] = {}
        faults: list[str] = []
        for name, read in readers().items():
            given = context.get(name)
            if given is None:
                continue
            try:
                values[name] = read(str(given))
            except ValueError as error:
                faults.append(f"context {name}={given!r}: {error}")
        told = {name: context[name] for name in parameters if context.get(name) is not None}
        # As `-c` would give it: a context file may also hold numbers.
        texts = {n: each if isinstance(each, str) else json.dumps(each) for n, each in told.items()}
        given = {name: text for name, text in texts.items() if text.strip()}
        values["parameters"] = {**base.parameters, **given}
        config = replace(base, **values, faults=tuple(faults))
        if not config.local:
            return config
        # The embedded AWS has none of these parts of an account, and its stacks make no replicas.
        none: dict[str, Any] = {"network": None, "permissions_boundary": None, "layers": ()}
        return replace(config, keys=CustomerKeys(), global_tables=None, **none)

    @property
    def dedup_window_seconds(self) -> int:
        return self.dedup_window_days * DAY_SECONDS

    @property
    def runtime(self) -> lambda_.Runtime:
        name = f"PYTHON_{self.python_runtime.replace('.', '_')}"
        known: lambda_.Runtime = getattr(lambda_.Runtime, name)
        return known

    @property
    def time_margin_ms(self) -> int:
        """The part of a function's timeout that is kept back for its answer, in milliseconds."""
        return 1000 if self.local else TIME_MARGIN_MS

    @property
    def lease_margin_seconds(self) -> int:
        """The largest difference between two functions' clocks; the embedded AWS has one clock."""
        return 0 if self.local else CLOCK_MARGIN_SECONDS

    @property
    def backoff(self) -> dict[str, int]:
        """The settings of retries that are shorter on the embedded AWS than by default."""
        if self.local:
            names = ("backoff_base_seconds", "breaker_base_seconds")
            caps = ("backoff_cap_seconds", "breaker_cap_seconds")
            return {**dict.fromkeys(names, 1), **dict.fromkeys(caps, 5)}
        return {}

    def adapt(self, consumer: ConsumerProps) -> ConsumerProps:
        """Return the consumer as it is deployed here: on the embedded AWS, with short times."""
        if not self.group_commit:
            consumer = replace(consumer, group_size=1)
        if self.local or not self.gradual_rollout:  # the embedded AWS has no CodeDeploy
            consumer = replace(consumer, rollout=Rollout.ALL_AT_ONCE)
        if not self.local:
            return consumer
        effects = min(consumer.effect_timeout_seconds, 2)
        # A killed function's messages return after six timeouts.
        timeout = max(5, 3 + consumer.call_rounds * effects)
        return replace(
            consumer,
            effect_timeout_seconds=effects,
            timeout_seconds=min(consumer.timeout_seconds, timeout),
            visibility_seconds=None,
            max_concurrency=min(consumer.concurrency, 3),
            pollers=None,
            reserved_concurrency=None,
            snap_start=False,  # the embedded AWS takes no snapshots
        )

    def adapt_commands(self, commands: CommandProps) -> CommandProps:
        """Return commands as they are deployed here."""
        if self.local or not self.gradual_rollout:
            commands = replace(commands, rollout=Rollout.ALL_AT_ONCE)
        if not self.local:
            return commands
        return replace(commands, reserved_concurrency=None, snap_start=False)

    def webhook_reservation(self, declared: int | None) -> int | None:
        """Return an ingress's reserved concurrency here, from the one in its properties."""
        if self.local:
            return None
        given = self.webhook_concurrency
        return declared if given is None else given or None

    def warm(self, throughput: WarmThroughput | None) -> WarmThroughput | None:
        """Return a table's warm throughput here: the embedded AWS has none."""
        return None if self.local else throughput


def readers() -> dict[str, Callable[[str], Any]]:
    """Return the reader of each option that the context can give, by the option's name."""
    return {
        field.name: read
        for field in fields(DeploymentConfig)
        for read in getattr(field.type, "__metadata__", ())
        if callable(read)
    }


@dataclass(frozen=True, slots=True)
class Stage:
    """A deployment of the service, such as `test` or `prod`."""

    name: str
    """Names it in faults."""
    account: str
    """The id of the AWS account."""
    region: str
    """The AWS region."""
    config: DeploymentConfig
    """Its configuration. No two stages have the same `service`, of which the names of its stacks
    and resources, and its record of deployed names, are made.
    """
