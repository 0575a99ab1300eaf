"""Properties of consumers, of their tables, workflows and scaling, of commands, and of webhooks."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from enum import Enum, auto
from pathlib import Path
from typing import Annotated, Any, Self

from msgspec import Meta, structs

from once.event_sources import Source as Source
from once.names import RETENTION_DAYS, Limits, QueueRule
from once.settings import MAX_BODY_BYTES, TIME_MARGIN_MS, Dedup, Settings
from once.webhooks.endpoint import Endpoint

DAY_SECONDS = 24 * 60 * 60

INVOCATIONS_PER_POLLER = 10
"""Concurrent invocations that one provisioned poller makes at most (AWS: scaling of SQS event
source mappings)."""

DEFAULT_CONCURRENCY = 10
"""Concurrent invocations of a consumer that sets neither `max_concurrency` nor `pollers`."""

DEFAULT_EFFECT_CONCURRENCY = 10

ISOLATION_CONCURRENCY = 2
"""Concurrent invocations by an isolation queue: the least that Lambda accepts.

Messages that end the function must not use up its concurrency."""


# The annotation of a property holds the range of a number with its reason, or the text with which a
# fault says what to give. The checks of synthesis read both there.

EventTypes = Annotated[tuple[str, ...], "a tuple of types, such as ('order.placed',)"]
AwsServices = Annotated[
    tuple[str, ...] | None, "a tuple of names, such as ('ssm',), or None for all services"
]
Folder = Annotated[Path | None, "a pathlib.Path"]
Reservation = Annotated[int | None, Meta(ge=1), "0 would admit no request"]
Memory = Annotated[int, Meta(ge=128, le=10_240)]
_INITIAL = "every table on demand begins with that, which DynamoDB does not lower"
Timeout = Annotated[
    int,
    Meta(ge=TIME_MARGIN_MS // 1000 + 1, le=15 * 60),
    f"{TIME_MARGIN_MS // 1000} s are kept back for the answer, and Lambda ends at the latter",
]

_SETTINGS = {each.name: each for each in structs.fields(Settings)}


def setting(name: str, **otherwise: Any) -> Any:
    """Return a property that is given to the function as its setting `name`.

    Meaning, range and default are those of the setting, unless `default=` is another one.
    """
    found = _SETTINGS[name]
    return field(**({"default": found.default} | otherwise), metadata={"setting": found.type})


@dataclass(frozen=True, slots=True)
class Pollers:
    """Provisioned mode of a mapping: the number of event pollers that Lambda keeps for one queue.

    They start faster than the shared ones under a sudden load, and are charged while they exist.
    """

    minimum: Annotated[int, Meta(ge=2, le=200)]
    """Pollers that are always there."""
    maximum: Annotated[int, Meta(ge=2, le=10_000)]
    """The most pollers. Each makes up to ten invocations at a time."""


@dataclass(frozen=True, slots=True)
class WarmThroughput:
    """Request rates that an on-demand table serves at once, without having had that load before.

    DynamoDB raises these rates with the traffic, and never lowers them. AWS charges each increase
    once.
    """

    reads: Annotated[int, Meta(ge=12_000), _INITIAL]
    """Read units a second."""
    writes: Annotated[int, Meta(ge=4_000), _INITIAL]
    """Write units a second. A write in a transaction counts two."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the value of a text such as `24000,8000`: reads, then writes.

        Raises:
            ValueError: the text is not a pair of whole numbers; says how to write it.
        """
        parts = text.split(",")
        if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
            raise ValueError("give read and write units a second, such as 24000,8000")
        return cls(*map(int, parts))


@dataclass(frozen=True, slots=True)
class StateMachineProps:
    """A standard state machine of Step Functions."""

    name: str
    """The name that the handler's `state_machine(…)` uses."""
    arn: str
    """Its ARN, or that of one of its versions or aliases, such as `machine.state_machine_arn`."""


@dataclass(frozen=True, slots=True)
class DurableFunctionProps:
    """A durable Lambda function."""

    name: str
    """The name that the handler's `durable_function(…)` uses."""
    arn: str
    """The ARN of one of its versions or aliases, such as `alias.function_arn`."""
    retention_days: Annotated[int, Meta(ge=1, le=90)] = RETENTION_DAYS
    """The `RetentionPeriodInDays` of the function. Lambda keeps the name of an ended execution for
    this time, so a start is not repeated later.
    """


WorkflowProps = StateMachineProps | DurableFunctionProps


_MIB = 1024 * 1024


class Rollout(Enum):
    """Rollout of a deployment: the steps in which traffic moves to the new version.

    The names are those of CodeDeploy's configurations. With a canary, a tenth of the invocations
    use the new version for the given time. With the linear ones, a further tenth each time.
    """

    ALL_AT_ONCE = auto()
    CANARY_10_PERCENT_5_MINUTES = auto()
    CANARY_10_PERCENT_10_MINUTES = auto()
    CANARY_10_PERCENT_15_MINUTES = auto()
    CANARY_10_PERCENT_30_MINUTES = auto()
    LINEAR_10_PERCENT_EVERY_1_MINUTE = auto()
    LINEAR_10_PERCENT_EVERY_2_MINUTES = auto()
    LINEAR_10_PERCENT_EVERY_3_MINUTES = auto()
    LINEAR_10_PERCENT_EVERY_10_MINUTES = auto()


@dataclass(frozen=True, slots=True)
class TableProps:
    """A business table."""

    name: str
    """The name that handlers use; the physical name may be another one."""
    key: str | tuple[str, ...]
    """The attribute of the partition key, or those of partition and sort key. Keys are strings."""
    _: KW_ONLY
    warm_throughput: WarmThroughput | None = None
    """The request rates that it must serve at once; by default those of a new table."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes of the primary key, partition key first."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)


Tables = Annotated[
    tuple[TableProps, ...], "a tuple of tables, such as (TableProps('stock', 'sku'),)"
]
Rollouts = Annotated[Rollout, "a member of Rollout, such as Rollout.CANARY_10_PERCENT_15_MINUTES"]


@dataclass(frozen=True, slots=True)
class ConsumerProps:
    """One consumer. Queue, dead letters, function, role and alarms follow from it.

    Times are seconds, memory is megabytes.
    """

    name: str
    """Names its queues and its function, and is its identity unless it was renamed."""
    events: EventTypes = ()
    """The CloudEvents types that it takes from other consumers."""
    tables: Tables = ()
    """The business tables that it may write."""
    _: KW_ONLY
    external: EventTypes = ()
    """The CloudEvents types that it takes from producers."""
    publishes: EventTypes = setting("publishes")
    """The CloudEvents types that it may publish, through an outbox relay."""
    publishes_later: EventTypes = setting("publishes_later")
    """The CloudEvents types that it may publish at a later time, with `after=` or `at=`. They are
    among `publishes` too, without being named there.
    """
    timeout_seconds: Timeout = 30
    """Timeout of its function."""
    visibility_seconds: int | None = None
    """Visibility timeout of its queue; by default the least that AWS recommends."""
    batch_size: Annotated[int, Meta(ge=1, le=10_000)] = 10
    """The most messages of one invocation."""
    batch_window_seconds: Annotated[int, Meta(ge=0, le=300)] = 0
    """The longest time in which a batch is gathered."""
    max_concurrency: Annotated[int | None, Meta(ge=2, le=1000)] = None
    """The most invocations at a time; 10 by default. Not with `pollers`."""
    pollers: Annotated[Pollers | None, "Pollers(minimum=2, maximum=20), or None"] = None
    """Provisioned mode of its queue, for sudden loads; by default Lambda's own pollers."""
    reserved_concurrency: int | None = None
    """Invocations that the account keeps for its function, and the most that it may have."""
    claim_check_mb: Annotated[int, Meta(ge=0, le=64), "0 for none"] = 0
    """The largest event that it takes or publishes through the claim-check bucket, in MiB; 0 for a
    consumer without one.
    """
    max_receive_count: int = setting("max_receive_count")
    """The receives of a message. In the last one the function dead-letters a message that fails;
    after it SQS does so, except on a FIFO queue.
    """
    effect_timeout_seconds: int = setting("effect_timeout_seconds")
    effect_concurrency: int | None = setting("effect_concurrency", default=None)
    """By default the batch size, and 10 at most."""
    starts: Annotated[
        tuple[WorkflowProps, ...],
        "a tuple of StateMachineProps(name, arn) and DurableFunctionProps(name, arn)",
    ] = ()
    """The workflows that it may start, each once for an event. The function finds the ARN of
    `fulfilment` in `WORKFLOW_FULFILMENT`.
    """
    secrets: Annotated[tuple[str, ...], "a tuple of names, such as ('stripe_key',)"] = ()
    """Names of the secrets that its function may read. The function finds the ARN of `stripe_key`
    in `SECRET_STRIPE_KEY`.
    """
    parameters: Annotated[tuple[str, ...], "a tuple of names, such as ('payment_api',)"] = ()
    """Names of values of the CDK context. The function finds `payment_api` in `PAYMENT_API`."""
    sends_email: bool = False
    """Whether it may send e-mail from the deployment's one address, `EMAIL_SENDER`."""
    group_size: int = setting("group_size")
    commit_threads: int = setting("commit_threads")
    commit_attempts: int = setting("commit_attempts")
    memory_mb: Memory = 512
    """Memory of its function."""
    snap_start: bool = False
    """True to start its function from a snapshot, taken when the function is deployed. It needs
    Python 3.12 or newer.
    """
    rollout: Rollouts = Rollout.ALL_AT_ONCE
    """How a deployment moves its traffic to a new version. Unless that is all at once, CodeDeploy
    moves the traffic back if an alarm on the consumer's errors, new dead letters or circuit breaker
    fires meanwhile, and the deployment fails.
    """
    renamed_from: str | None = None
    """The first name of a renamed consumer, for good. It stays the consumer's identity: the one
    that `Consumer(…)` names, that dedup keys begin with, and that is the source of its events. The
    line of the old name may stand beside the new one: both have one identity, so that an event
    which reaches both commits once.
    """
    fifo: bool = False
    """True for a FIFO queue: the events of one message group are processed in their order. Every
    type that it takes is then published to a FIFO topic.
    """
    ordered_by: str | None = None
    """The field of the data that gives an event's message group, with dots for nesting; required
    with `fifo`.
    """
    blocks_group: bool = setting("blocks_group")
    """With `fifo`, the handling of a failed event that others of its group follow. True to let them
    wait until shortly before the queue deletes it; False to quarantine it and go on.
    """
    fair_by: str | None = None
    """The field of the data whose values share a standard queue fairly, such as a tenant's id, with
    dots for nesting.
    """
    dedup: Annotated[Dedup, "a member of Dedup, such as Dedup.ITEM"] = setting("dedup")
    """Where it keeps its dedup records: as items of the dedup table, or, if each event writes one
    item under the event's key and has no other effect, on that item, at half the write units or,
    with `group_size=1`, a quarter.
    """
    retiring: bool = False
    """True to deliver no more events into its queue. Function and queues stay, so that it can
    finish the messages that it has, before its line is deleted.
    """
    folder: Folder = None
    """The folder that holds its `handler.py`. It is packaged as `functions.<name>`, so that its
    modules must import each other relatively. A `requirements.txt` in it is the lock file of the
    wheels that it needs besides those of the library.
    """
    aws_services: AwsServices = None
    """The AWS services that its code calls besides those of the library, by their names in
    `boto3.client`: the SDK's models of all others are left out of the package. By default it has
    all of them, which costs 15 MB and some 30 ms of a cold start.
    """
    source: Annotated[
        Source | None, "a source, such as Source.event_bridge('aws.ec2'), or None"
    ] = None
    """The service that sends its external events; None for the ingress topic."""

    def __post_init__(self) -> None:
        _publish_later_types_too(self)

    @property
    def identity(self) -> str:
        """The consumer's name in dedup keys and in the source of its events: its first name."""
        return self.renamed_from or self.name

    @property
    def has_effects(self) -> bool:
        """True if it makes calls outside DynamoDB, and so has an effect ledger."""
        return self.effect_timeout_seconds > 0

    @property
    def calls_at_a_time(self) -> int:
        """The most effects that one invocation calls at a time."""
        by_default = min(self.batch_size, DEFAULT_EFFECT_CONCURRENCY)
        return max(1, self.effect_concurrency or by_default)

    @property
    def call_rounds(self) -> int:
        """How often an invocation calls effects one after the other, for a whole batch."""
        return -(-self.batch_size // self.calls_at_a_time)

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of `once.settings.Settings` that follow from the line alone."""
        given = [each.name for each in fields(self) if "setting" in each.metadata]
        return {name: getattr(self, name) for name in given} | {
            "consumer": self.identity,
            "event_types": self.event_types,
            "max_receive_count": self.receive_limit,
            "effect_concurrency": self.calls_at_a_time,
            "event_source": self.source,
            "max_body_bytes": self.claim_check_mb * _MIB or MAX_BODY_BYTES,
        }

    @property
    def concurrency(self) -> int:
        """The most invocations that its queue makes at a time."""
        if self.pollers is not None:
            return INVOCATIONS_PER_POLLER * self.pollers.maximum
        return DEFAULT_CONCURRENCY if self.max_concurrency is None else self.max_concurrency

    @property
    def event_types(self) -> tuple[str, ...]:
        return (*self.external, *self.events)

    @property
    def ingress_types(self) -> tuple[str, ...]:
        """The types that it takes from the ingress topic."""
        return self.external if self.source is None else ()

    @property
    def grouped_by(self) -> str | None:
        """The field of the data that gives an event's message group, if it has one."""
        return self.ordered_by if self.fifo else self.fair_by

    @property
    def receive_limit(self) -> int:
        """The receives after which the function dead-letters a message that keeps failing.

        With `blocks_group` that is the most SQS allows, less one in which a message that ended the
        function each time is dead-lettered with its reason.
        """
        return Limits.MAX_RECEIVE_COUNT - 1 if self.blocks_group else self.max_receive_count

    @property
    def queue_rules(self) -> dict[str, int]:
        """The attributes that an existing queue must have; see `QueueRule`."""
        receives = Limits.MAX_RECEIVE_COUNT if self.fifo else self.max_receive_count
        return {
            QueueRule.VISIBILITY: self.visibility,
            QueueRule.RETENTION: Limits.QUEUE_RETENTION_SECONDS,
            QueueRule.RECEIVES: receives,
        }

    @property
    def least_visibility_seconds(self) -> int:
        """The least that AWS recommends: six function timeouts, and the batch window."""
        return Limits.VISIBILITY_FACTOR * self.timeout_seconds + self.batch_window_seconds

    @property
    def visibility(self) -> int:
        """The visibility timeout in force, in seconds."""
        if self.visibility_seconds is None:
            return self.least_visibility_seconds
        return self.visibility_seconds


def output_key(name: str) -> str:
    """Return `name` as part of the key of a stack output: `outbox_relay` → `OutboxRelay`."""
    return "".join(part.capitalize() for part in name.split("_"))


@dataclass(frozen=True, slots=True)
class MessageGroups:
    """The message groups of a deployment's event types.

    Attributes:
        fields: the field of the data that gives the message group, by event type.
        ordered: the types that some FIFO consumer takes. They are published to a FIFO topic only,
            which delivers to the standard queues of their other consumers as well.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    ordered: frozenset[str] = frozenset()

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of the functions' settings that tell of message groups."""
        return {"groups": self.fields, "ordered_types": tuple(sorted(self.ordered))}

    @classmethod
    def of(cls, consumers: Iterable[ConsumerProps]) -> Self:
        """Return the groups that the lines of a registry declare.

        A retiring line counts: producers keep their topic until it is deleted.
        """
        lines = list(consumers)
        return cls(
            fields={
                event: line.grouped_by
                for line in lines
                if line.grouped_by is not None
                for event in line.event_types
            },
            ordered=frozenset(event for line in lines if line.fifo for event in line.event_types),
        )

    def among(self, types: Collection[str]) -> "MessageGroups":
        return MessageGroups(
            fields={event: path for event, path in self.fields.items() if event in types},
            ordered=self.ordered.intersection(types),
        )


MESSAGE_BODY_BYTES = Limits.TOPIC_MESSAGE_BYTES - 16 * 1024
"""The largest body that fits into a message, beside the envelope of its event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookProps:
    """A webhook ingress: one function and one address, with a path for each endpoint."""

    endpoints: Annotated[tuple[Endpoint, ...], "a tuple such as (Endpoint('stripe', STRIPE),)"]
    """The endpoints."""
    name: str = "webhooks"
    """The first part of its dedup keys, and of the source of its events; it never changes."""
    folder: Folder = None
    """The folder of its `handler.py`."""
    aws_services: AwsServices = None
    """As in `ConsumerProps`."""
    capture_days: int = 30
    """The time for which a capture is kept."""
    http_api: bool = False
    """Whether an HTTP API takes the requests, in place of the function URL."""
    reserved_concurrency: Reservation = None
    """The most requests that run at once, taken from the account's concurrency; None for no limit.
    A new account has 10 in all and can reserve none.
    """
    memory_mb: Memory = 512
    """The memory of the function."""
    timeout_seconds: Timeout = 10
    """The timeout of the function."""

    @property
    def identity(self) -> str:
        return self.name

    @property
    def publishes(self) -> tuple[str, ...]:
        """The types of the events that it hands on."""
        return tuple(dict.fromkeys(t for each in self.endpoints for t in each.event_types))

    @property
    def largest_body(self) -> int:
        return max((each.limit for each in self.endpoints), default=0)

    @property
    def needs_claims(self) -> bool:
        return self.largest_body > MESSAGE_BODY_BYTES

    def time_margin_ms(self, least: int) -> int:
        """Return the part of the timeout in which the function tries nothing more; `least` or more.

        A provider stops waiting after `answer_seconds`, which may be before the function's timeout.
        The function answers within the shortest of these times, less a second, since an attempt to
        commit may be in progress then.
        """
        waits = min(each.profile.answer_seconds for each in self.endpoints)
        return max(least, 1000 * (self.timeout_seconds - waits + 1))

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of `WebhookSettings` that follow from the properties alone."""
        return {
            "consumer": self.name,
            "publishes": self.publishes,
            "max_body_bytes": max(MAX_BODY_BYTES, self.largest_body),
            "endpoints": self.endpoints,
            "capture_seconds": self.capture_days * DAY_SECONDS,
        }


@dataclass(frozen=True, slots=True)
class Auth:
    """Authentication of callers by an HTTP API, as `Auth.jwt("https://issuer", "client")`.

    Attributes:
        kind: the name of one of the constructors below.
        issuer: of `jwt`, the issuer of the tokens.
        audience: of `jwt`, the audiences or client ids of which a token has one.
    """

    kind: str
    issuer: str = ""
    audience: tuple[str, ...] = ()

    @classmethod
    def jwt(cls, issuer: str, *audience: str) -> Self:
        """A JWT in `Authorization`, verified by the keys of its issuer, such as a user pool."""
        return cls("jwt", issuer, audience)

    @classmethod
    def iam(cls) -> Self:
        """A signature of an IAM principal that may `execute-api:Invoke`."""
        return cls("iam")

    @classmethod
    def public(cls) -> Self:
        """None: anybody may send commands."""
        return cls("public")

    @property
    def scopes(self) -> tuple[str, ...]:
        """The rules of `once.Scope` that find a caller of this authentication."""
        rules = {"jwt": ("claim", "by"), "iam": ("iam", "role", "by"), "public": ("public", "by")}
        return rules.get(self.kind, ())


@dataclass(frozen=True, slots=True)
class CommandProps:
    """The commands of one function, with an HTTP API in front of it if there are `routes`."""

    name: str
    """Names its function; the first part of its dedup keys, and of the source of its events. It is
    no consumer's name, and never changes.
    """
    tables: Tables = ()
    """The business tables that it may write."""
    _: KW_ONLY
    routes: Annotated[Mapping[str, str], "a mapping such as {'POST /orders': 'place-order'}"] = (
        field(default_factory=dict)
    )
    """The command of each method and path, as its `api.http(…)` has them."""
    auth: Annotated[
        Auth | None, "Auth.jwt('https://issuer', 'client'), Auth.iam() or Auth.public()"
    ] = None
    """The authentication of the API's callers; required with `routes`."""
    commands: Annotated[tuple[str, ...], "a tuple of names, such as ('place-order',)"] = ()
    """Further commands, which other code runs, or an API of your own sends."""
    publishes: EventTypes = ()
    """The CloudEvents types that it may publish, through the outbox relay."""
    publishes_later: EventTypes = ()
    """As in `ConsumerProps`."""
    requests_a_second: Annotated[int, Meta(ge=1, le=10_000)] = 500
    """Throttle of the API, which answers 429 above it."""
    timeout_seconds: Timeout = 30
    """Timeout of its function. An HTTP API waits for 30 s at most."""
    memory_mb: Memory = 512
    """Memory of its function."""
    reserved_concurrency: Reservation = None
    """The most commands that run at once, as in `WebhookProps`."""
    snap_start: bool = False
    """As in `ConsumerProps`."""
    rollout: Rollouts = Rollout.ALL_AT_ONCE
    """As in `ConsumerProps`; its alarms are those on errors and on failed commands."""
    folder: Folder = None
    """As in `ConsumerProps`."""
    aws_services: AwsServices = None
    """As in `ConsumerProps`."""

    def __post_init__(self) -> None:
        _publish_later_types_too(self)

    @property
    def identity(self) -> str:
        return self.name

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of `CommandSettings` that follow from the properties alone."""
        return {
            "consumer": self.name,
            "commands": tuple(sorted({*self.routes.values(), *self.commands})),
            "publishes": self.publishes,
            "publishes_later": self.publishes_later,
        }


def _publish_later_types_too(props: ConsumerProps | CommandProps) -> None:
    """Add the types that are published later to those that are published.

    Topics, relay, checks and permissions then follow from `publishes` alone.
    """
    now, later = props.publishes, props.publishes_later
    if isinstance(now, tuple | list) and isinstance(later, tuple | list):  # else a fault of its own
        every = (*now, *(event for event in later if event not in now))
        object.__setattr__(props, "publishes", every)


def later_types(lines: Iterable["Line"]) -> set[str]:
    """Return the event types that some line publishes later."""
    writers = (each for each in lines if not isinstance(each, WebhookProps))
    return {event for each in writers for event in each.publishes_later}


Line = ConsumerProps | CommandProps | WebhookProps
"""A part of a service with a function of its own, in a folder of its own."""


def named(line: Line) -> str:
    """Return a line as faults name it."""
    kind = "webhook ingress" if isinstance(line, WebhookProps) else "commands"
    return f"{'consumer' if isinstance(line, ConsumerProps) else kind} {line.name!r}"
