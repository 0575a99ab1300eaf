"""Settings: the contract between a function and the tool that deploys it, as one variable.

`ONCE_SETTINGS` holds a JSON object with `version` and the fields of one of the classes below, or
the path of a parameter in Parameter Store that holds it. The constructs write it with `to_env()`,
other tools write it themselves, and the function reads it with `from_env()`.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

import msgspec
from msgspec import NODEFAULT, Meta, Struct, field
from msgspec.structs import FieldInfo, fields

from once.errors import UNREADABLE, SettingsError
from once.event_sources import Source
from once.names import CLOCK_MARGIN_SECONDS, MAX_COMMIT_THREADS, Limits

SETTINGS = "ONCE_SETTINGS"
"""The variable of a function."""

VERSION = 1
"""Shape of the settings. A function refuses those of another version."""

Text = Annotated[str, Meta(pattern=r"\S")]
Whole = Annotated[int, Meta(ge=0)]

MAX_BODY_BYTES = 256 * 1024
"""Largest body that a consumer without a claim check reads: what SNS takes."""

FUNCTION_MB = 64
"""Memory of a loaded function before it reads a body: runtime, SDK and library."""
CLAIM_MEMORY_FACTOR, WEBHOOK_MEMORY_FACTOR = 44, 64
"""Peak of the memory to read a body, as a multiple of its size, in a message and in the ingress.

`make fuzz` measures both with its costliest bodies, and fails above them. ADR 0053 has the figures.
"""
TIME_MARGIN_MS = 5000
"""Part of a function's timeout that is reserved for a call in progress and for the answer."""


ITEM_RECORD_PREFIX = "once#"
"""Prefix of the attributes that hold dedup records, on an item of a consumer with `Dedup.ITEM`."""


class Dedup(StrEnum):
    """The place of a consumer's dedup records."""

    RECORD = "record"
    """Each record is an item of the dedup table, and commits with the writes of its handler."""
    ITEM = "item"
    """Each record is an attribute of the one item that the handler writes."""


class TableSettings(Struct, frozen=True):
    """A business table: its physical name, and the attributes that make its primary key."""

    name: Text
    key: tuple[Text, ...]


class Environment(Struct, frozen=True):
    """Settings of a function. Each field is a member of the JSON object.

    Its annotation holds its range, and its meaning as a text that an error and the page show.
    """

    def to_env(self) -> dict[str, str]:
        """Return the variable that `from_env` reads back to an equal object, without defaults."""
        # The variables of a Lambda function have 4 KB together, in which names of tables and ARNs
        # are long. Each default that is left out is room for them.
        given: dict[str, Any] = {"version": VERSION}
        for each in fields(self):
            value, default = getattr(self, each.name), each.default
            if each.default_factory is not NODEFAULT:
                default = each.default_factory()
            if value != default:
                form = _FORMS.get(bare_type(each))
                given[each.name] = form[1](value) if form else value
        return {SETTINGS: msgspec.json.encode(given).decode()}

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Self:
        """Read the settings of this function.

        Raises:
            SettingsError: settings are missing, malformed or unknown; names them all.
        """
        text = env.get(SETTINGS, "")
        if not text:
            raise SettingsError([f"{SETTINGS} is not set; set the JSON object of the settings"])
        return cls.of_json(_parameter(text) if text.startswith("/") else text)

    @classmethod
    def of_json(cls, text: str) -> Self:
        """Read settings from JSON.

        Raises:
            SettingsError: settings are missing, malformed or unknown; names them all.
        """
        try:
            given = msgspec.json.decode(text, type=dict[str, Any])
        except UNREADABLE as error:
            fault = f'{SETTINGS} is no JSON object ({error}); begin with {{"version": {VERSION}}}'
            raise SettingsError([fault]) from None
        # Before the fields: a field of another version may have this name and another meaning.
        if (version := given.pop("version", None)) != VERSION:
            raise SettingsError(
                [
                    f"version is {version}; set it to {VERSION}, which this library reads, or "
                    "package the library that belongs to the settings"
                ]
            )
        values: dict[str, Any] = {}
        faults = dict(cls._faults(given, values))
        # The rest is unknown. It is refused: a misspelt setting would leave the default in force.
        unknown = "there is no such setting; correct its name, or leave it out"
        faults |= dict.fromkeys(given, unknown)
        if faults:
            raise SettingsError([f"{name}: {fault}" for name, fault in faults.items()])
        return cls(**values)

    @classmethod
    def _faults(cls, given: dict[str, Any], values: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Move the values of the fields from `given` to `values`; yield the faults by field."""
        for each in fields(cls):
            if each.name in given:
                value = given.pop(each.name)
                try:
                    form = _FORMS.get(bare_type(each))
                    values[each.name] = (
                        form[0](value) if form else msgspec.convert(value, each.type)
                    )
                # The readers of `_FORMS` raise the last three for JSON of another shape.
                except (*UNREADABLE, TypeError, AttributeError, KeyError) as error:
                    yield each.name, f"{error or repr(error)}; set {meaning(each)}"
            elif each.required:
                yield each.name, f"it is missing; set {meaning(each)}"


def bare_type(setting: FieldInfo) -> Any:
    """Return the type of a setting's value, without its range and meaning."""
    return setting.type.__origin__


def meaning(setting: FieldInfo) -> str:
    """Return the meaning of a setting, such as `the URL of the queue that it reads`."""
    return next(each for each in setting.type.__metadata__ if isinstance(each, str))


def _parameter(path: str) -> str:
    """Return the value of a parameter in Parameter Store.

    Raises:
        SettingsError: it cannot be read.
    """
    # Loaded late: synthesis imports this module, and most functions have the settings themselves.
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return str(boto3.client("ssm").get_parameter(Name=path)["Parameter"]["Value"])
    except (BotoCoreError, ClientError) as error:
        fault = (
            f"{SETTINGS} is the path {path} in Parameter Store, which cannot be read ({error}); "
            "create the parameter, and allow the function's role ssm:GetParameter on it"
        )
        raise SettingsError([fault]) from None


class CommitSettings(Environment, frozen=True, kw_only=True):
    """The deployment of a function that commits: of a consumer's, or of a webhook ingress."""

    consumer: Annotated[Text, "the first part of its dedup keys, and of the source of its events"]
    dedup_table: Annotated[Text, "the name of the table of dedup records"]
    tables: Annotated[
        Mapping[Text, TableSettings],
        "the business tables it writes, by the names that its handlers use: `name` is the "
        "physical name, `key` lists the attributes of the primary key",
    ]
    dedup_window_seconds: Annotated[Whole, "the time for which a key is remembered"]
    publishes: Annotated[tuple[Text, ...], "the event types that the function may publish"] = ()
    publishes_later: Annotated[
        tuple[Text, ...], "those of the published types that may be published at a later time"
    ] = ()
    max_body_bytes: Annotated[
        Whole, "the largest body that is read, also from the claim-check bucket"
    ] = MAX_BODY_BYTES
    claim_bucket: Annotated[
        Text | None, "the name of the claim-check bucket; null for a function without one"
    ] = None
    time_margin_ms: Annotated[
        Whole, "the part of the function's timeout that is reserved for the answer"
    ] = TIME_MARGIN_MS
    groups: Annotated[
        Mapping[Text, Text],
        "the field of the data that gives the message group, by the event types that have one "
        "and that the function publishes",
    ] = field(default_factory=dict)
    ordered_types: Annotated[
        tuple[Text, ...], "the published types whose groups keep their order, on the FIFO topic"
    ] = ()
    dedup: Annotated[
        Dedup, "`record` to keep dedup records in the dedup table, `item` to keep them on the item"
    ] = Dedup.RECORD
    group_size: Annotated[
        int,
        Meta(ge=1, le=Limits.TRANSACTION_ACTIONS),
        "the most messages that commit in one request; 1 to have each commit alone",
    ] = 10

    @classmethod
    def _faults(cls, given: dict[str, Any], values: dict[str, Any]) -> Iterator[tuple[str, str]]:
        yield from super()._faults(given, values)
        ordered = {*values.get("ordered_types", ())}
        if found := [each for each in values.get("publishes_later", ()) if each in ordered]:
            yield (
                "publishes_later",
                f"{', '.join(found)} is ordered, and EventBridge Scheduler keeps no order; take it "
                "out, or let no FIFO consumer take the type",
            )


class Settings(CommitSettings, frozen=True, kw_only=True):
    """The deployment of a consumer's function."""

    event_types: Annotated[tuple[Text, ...], "the event types that it handles"]
    queue_url: Annotated[Text, "the URL of the queue that it reads"]
    dead_letter_url: Annotated[Text, "the URL of its dead-letter queue"]
    sources: Annotated[
        Mapping[Text, tuple[Text, ...]],
        "the CloudEvents sources that each internal event type may come from. All other types "
        "come from producers",
    ] = field(default_factory=dict)
    max_receive_count: Annotated[Whole, "the receives after which it dead-letters a message"] = 5
    backoff_base_seconds: Annotated[
        Whole, "the first bound of the delay before a failed message is redelivered"
    ] = 2
    backoff_cap_seconds: Annotated[Whole, "the last bound of that delay"] = 900
    breaker_base_seconds: Annotated[
        Whole, "the first bound of the delay while a dependency fails"
    ] = 120
    breaker_cap_seconds: Annotated[Whole, "the last bound of that delay"] = 3600
    effect_timeout_seconds: Annotated[
        Whole, "the longest duration of one call of an effect; 0 without effects"
    ] = 0
    effect_concurrency: Annotated[
        int, Meta(ge=1, le=100), "the most effects that one invocation calls at a time"
    ] = 10
    lease_margin_seconds: Annotated[
        Whole, "the largest difference of two functions' clocks; 0 if all share one"
    ] = CLOCK_MARGIN_SECONDS
    commit_threads: Annotated[
        int, Meta(ge=1, le=MAX_COMMIT_THREADS), "the most requests that commit concurrently"
    ] = 4
    commit_attempts: Annotated[
        int,
        Meta(ge=1, le=100),
        "the most attempts of one invocation at the commit of a message that meets contention or "
        "gets no answer; after them the message waits in the queue",
    ] = 11
    isolation_queue_url: Annotated[
        Text | None, "the URL of its isolation queue; null for a consumer without one"
    ] = None
    blocks_group: Annotated[
        bool, "true to retry a failed message of a FIFO group, in place of quarantine"
    ] = False
    event_source: Annotated[
        Source | None, "the envelope of its messages; null for CloudEvents without one"
    ] = None


class CommandSettings(CommitSettings, frozen=True, kw_only=True):
    """The deployment of a function with commands."""

    commands: Annotated[tuple[Text, ...], "the commands that it handles"]
    answer_seconds: Annotated[
        Whole,
        "the time for one command, after which the caller gets an error; shorter than that of the "
        "API in front of the function",
    ] = 25


class ScheduleSettings(Struct, frozen=True):
    """The schedules of events that are published later: group, role, and queue of dead letters."""

    group: Text
    role_arn: Text
    dead_letter_arn: Text


class RelaySettings(Environment, frozen=True, kw_only=True):
    """The deployment of the outbox relay."""

    service: Annotated[Text, "the name of the deployment in metrics"]
    topic_arn: Annotated[Text, "the ARN of the topic of the events that consumers publish"]
    dead_letter_url: Annotated[Text, "the URL of the queue for events that cannot be published"]
    publishes: Annotated[
        Mapping[Text, tuple[Text, ...]], "the event types that each consumer may publish"
    ]
    time_margin_ms: Annotated[
        Whole, "the part of the function's timeout that is reserved for the answer"
    ] = TIME_MARGIN_MS
    groups: Annotated[
        Mapping[Text, Text], "the field of the data that gives the message group, by event type"
    ] = field(default_factory=dict)
    ordered_types: Annotated[
        tuple[Text, ...], "the types that are published to the FIFO topic instead of the other one"
    ] = ()
    ordered_topic_arn: Annotated[
        Text | None, "the ARN of the FIFO topic; null without ordered types"
    ] = None
    schedules: Annotated[
        ScheduleSettings | None,
        "the schedules of events that are published later: `group` is the name of their group, "
        "`role_arn` the role with which Scheduler publishes them, `dead_letter_arn` the queue for "
        "those that it fails to publish; null without such events",
    ] = None


class SweepSettings(Environment, frozen=True, kw_only=True):
    """The deployment of the function that finds unrouted events."""

    routes: Annotated[
        Mapping[Text, tuple[Text, ...]],
        "the event types that consumers subscribe to, by the ARN of the topic",
    ]
    unrouted_url: Annotated[Text, "the URL of the queue for all other events"]
    further_routes: Annotated[
        tuple[Text, ...],
        "names of parameters in Parameter Store, each a JSON object as `routes`: the types that"
        " consumers in further stacks subscribe to",
    ] = ()


_FORMS: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}
"""Reader and writer of the JSON form of a field, by its type, where msgspec knows none."""


def register_type(kind: Any, read: Callable[[Any], Any], write: Callable[[Any], Any]) -> None:
    """Let settings have fields of a further type, as they are annotated with it.

    `read` returns the value of a JSON form, or raises ValueError, TypeError or KeyError.
    """
    _FORMS[kind] = (read, write)


register_type(Source | None, Source.of_builtins, Source.to_builtins)
