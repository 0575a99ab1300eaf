"""The subject of a check: a handler, the resources it needs, and samples of its messages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DAY = 24 * 60 * 60
Item = Mapping[str, Any]


class SubjectError(Exception):
    """The subject is incomplete or wrong. The message says how to correct it."""


class NoVerdict(SubjectError):
    """The check shows nothing, since its runs are not independent of each other."""


@dataclass(frozen=True, slots=True)
class Index:
    """A secondary index of a table: its name and its keys, in the form of a table's."""

    name: str
    key: str
    sort_key: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A DynamoDB table.

    Attributes:
        name: its name.
        key: the partition key, a string; `name:N` or `name:B` for another type.
        sort_key: the sort key, in the same form; empty without one.
        items: its content at the start, as Python values.
        ttl: the attribute of its time to live. Its items are then records with an expiry and not
            state: they are not compared, and they are deleted when they have expired. None if the
            table has none. Default: unknown; `after-expiry` takes an attribute for it whose name
            and value look so.
        indexes: its secondary indexes.
        compared: whether its items are state that a fault must not change. Default: if without ttl.
    """

    name: str
    key: str
    sort_key: str = ""
    items: Sequence[Item] = ()
    ttl: str | None = ""
    compared: bool | None = None
    indexes: Sequence[Index] = ()

    @property
    def is_state(self) -> bool:
        """Whether a check compares the table's items."""
        return not self.ttl if self.compared is None else self.compared

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of its key attributes."""
        return tuple(key.partition(":")[0] for key in (self.key, self.sort_key) if key)

    @property
    def request(self) -> dict[str, Any]:
        """The parameters of DynamoDB's `CreateTable`."""
        types: dict[str, str] = {}

        def schema(*keys: str) -> list[dict[str, str]]:
            named = [key.partition(":") for key in keys if key]
            types.update({name: kind or "S" for name, _, kind in named})
            roles = zip(named, ("HASH", "RANGE"), strict=False)
            return [{"AttributeName": name, "KeyType": role} for (name, *_), role in roles]

        own = schema(self.key, self.sort_key)
        indexes: dict[str, list[Any]] = {}
        for index in self.indexes:
            keys = schema(index.key, index.sort_key)
            # With the table's partition key it is a local one, unless the table has no sort key.
            kind = "Local" if keys[:1] == own[:1] and len(own) > 1 else "Global"
            projection = {"ProjectionType": "ALL"}
            request = {"IndexName": index.name, "KeySchema": keys, "Projection": projection}
            indexes.setdefault(f"{kind}SecondaryIndexes", []).append(request)
        return {
            "TableName": self.name,
            "KeySchema": own,
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": kind} for name, kind in types.items()
            ],
            "BillingMode": "PAY_PER_REQUEST",
            **indexes,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to HTTP calls whose method and URL match, or to calls of an operation of AWS.

    Attributes:
        url: the start of the URL; or service and operation, as `bedrock-runtime.Converse`, whose
            body is the answer of the SDK.
        status: the HTTP status.
        body: bytes, text, or what JSON can hold.
        method: the method; empty for all.
    """

    url: str
    status: int = 200
    body: Any = field(default_factory=dict)
    method: str = ""


@dataclass(frozen=True, slots=True)
class Method:
    """A method that leaves the process other than by the AWS SDK or HTTP: a database driver's.

    Attributes:
        path: `module:Class.method`, for example `redis.client:Redis.execute_command`. A module of
            the handler's own folder must be in the subject's `keep`.
        unavailable: returns the exception that the driver raises when its server does not answer.
    """

    path: str
    unavailable: Callable[[], Exception]


@dataclass(frozen=True, slots=True)
class Store:
    """State outside of AWS.

    Attributes:
        name: its name in reports.
        reset: empties it, before each run.
        items: returns its rows, as JSON can hold them; they are compared like a table's items.
        expire: lets a number of seconds pass: removes what has expired since.
        key: the columns that identify a row.
    """

    name: str
    reset: Callable[[], None]
    items: Callable[[], Sequence[Item]]
    expire: Callable[[float], None] = lambda _: None
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """A handler under test.

    `environment` values may name resources: `{queue:name}`, `{source}` and `{dlq}` become queue
    URLs, `{topic:name}` an ARN.

    Attributes:
        handler: as Lambda names it, `module.function`.
        layers: folders of the function's layers, which are importable.
        unread: what a template has and the check does not read, for the report.
        function: the function's logical id or name, where several have the same handler.
        events: samples: a body (text, or JSON as Python values), a path, or an SQS event. Each one
            meets faults; it is processed alone, so that `items` have what it needs.
        root: the folder that the function's package is made of.
        environment: environment variables of the function.
        tables: DynamoDB tables.
        queues, topics, buckets: names of what else exists.
        answers: answers to HTTP calls; others receive status 200 and `{}`.
        key: the field of the body that identifies an event, as `a.b.c`. Default: the field whose
            change makes the sample another event. `other-content` runs only if the key is given.
        other_content: what is right for a message with the key of an earlier one and other content:
            `first` (it changes nothing), `last` (it replaces the first) or `error` (it is refused,
            or leaves a trace). Default: what happens is told, and is no failure.
        set_up: called with no arguments in every new world, for what else must exist.
        batch_failures: whether the mapping has `ReportBatchItemFailures`.
        batch_size: of the mapping.
        fifo: whether the source is a FIFO queue with content-based deduplication.
        timeout_seconds: of the function.
        visibility_seconds: of the queue.
        max_receives: `maxReceiveCount` of the queue.
        horizon_seconds: the longest time after which a message may arrive again. Default: 14 days,
            the longest retention of a queue.
        keep: packages that are imported once for all processes since they hold no state between
            invocations, besides those in site-packages.
        methods: methods that leave the process, of other drivers.
        stores: state outside of AWS.
        ignore: attributes that may differ, as `table.attribute`, besides those that differ between
            two clean runs.
        repeatable: queues, topics, buses or URLs whose receivers tolerate a message twice.
        skip: names of faults that do not apply.
    """

    handler: str
    events: Sequence[Any]
    root: Path = Path()
    environment: Mapping[str, str] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    queues: Sequence[str] = ()
    topics: Sequence[str] = ()
    buckets: Sequence[str] = ()
    answers: Sequence[Answer] = ()
    key: str = ""
    other_content: str = ""
    set_up: Callable[[], None] = lambda: None
    batch_failures: bool = True
    batch_size: int = 10
    fifo: bool = False
    timeout_seconds: int = 30
    visibility_seconds: int = 180
    max_receives: int = 5
    horizon_seconds: int = 14 * DAY
    keep: Sequence[str] = ()
    methods: Sequence[Method] = ()
    stores: Sequence[Store] = ()
    ignore: Sequence[str] = ()
    repeatable: Sequence[str] = ()
    skip: Sequence[str] = ()
    layers: Sequence[Path] = ()
    unread: Sequence[str] = ()
    function: str = ""
