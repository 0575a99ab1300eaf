"""Settings: the contract between a function and the tool that deploys it, as one variable.

`ONCE_SETTINGS` holds a JSON object with `version` and the fields of one of the classes below, or
the path of a parameter in Parameter Store that holds it. The constructs write it with `to_env()`,
other tools write it themselves, and the function reads it with `from_env()`.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from inspect import cleandoc
from typing import Annotated, Any, Self

import msgspec
from msgspec import NODEFAULT, Meta, Struct, field
from msgspec.structs import fields

from once.errors import UNREADABLE, SettingsError
from once.event_sources import Source
from once.names import CLOCK_MARGIN_SECONDS

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
    """Settings of a function. Each field is a member of the JSON object."""

    def to_env(self) -> dict[str, str]:
        """Return the variable that `from_env` reads back to an equal object, without defaults."""
        given: dict[str, Any] = {"version": VERSION}
        for each in fields(self):
            value, default = getattr(self, each.name), each.default
            if each.default_factory is not NODEFAULT:
                default = each.default_factory()
            if value != default:
                write = _FORMS[each.type][1] if each.type in _FORMS else None
                given[each.name] = write(value) if write else value
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
        if (version := given.pop("version", None)) != VERSION:
            raise SettingsError(
                [
                    f"version is {version}; set it to {VERSION}, which this library reads, or "
                    "package the library that belongs to the settings"
                ]
            )
        values: dict[str, Any] = {}
        faults = dict(cls._faults(given, values))
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
                    if each.type in _FORMS:
                        values[each.name] = _FORMS[each.type][0](value)
                    else:
                        values[each.name] = msgspec.convert(value, each.type)
                except (*UNREADABLE, TypeError, AttributeError, KeyError) as error:
                    yield each.name, f"{error or repr(error)}; set {cls.meanings()[each.name]}"
            elif each.required:
                yield each.name, f"it is missing; set {cls.meanings()[each.name]}"

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """Return the meaning of each setting, from the docstrings."""
        found: dict[str, str] = {}
        for kind in reversed(cls.__mro__):
            _, _, section = cleandoc(kind.__doc__ or "").partition("Attributes:\n")
            for name, text in re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", section, re.MULTILINE):
                found[name] = " ".join(text.removesuffix(".").split())
        return {each.name: found.get(each.name, "a value") for each in fields(cls)}


def _parameter(path: str) -> str:
    """Return the value of a parameter in Parameter Store.

    Raises:
        SettingsError: it cannot be read.
    """
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
    """The deployment of a function that commits: of a consumer's, or of a webhook ingress.

    Attributes:
        consumer: the first part of its dedup keys, and of the source of its events.
        dedup_table: the name of the table of dedup records.
        tables: the business tables it writes, by the names that its handlers use: `name` is the
            physical name, `key` lists the attributes of the primary key.
        dedup_window_seconds: the time for which a key is remembered.
        publishes: the event types that the function may publish.
        max_body_bytes: the largest body that is read, also from the claim-check bucket.
        claim_bucket: the name of the claim-check bucket; null for a function without one.
        time_margin_ms: the part of the function's timeout that is reserved for the answer.
        groups: the field of the data that gives the message group, by the event types that have
            one and that the function publishes.
        ordered_types: the published types whose groups keep their order, on the FIFO topic.
        dedup: `record` to keep dedup records in the dedup table, `item` to keep them on the item.
        group_size: the most messages that commit in one request.
    """

    consumer: Text
    dedup_table: Text
    tables: Mapping[Text, TableSettings]
    dedup_window_seconds: Whole
    publishes: tuple[Text, ...] = ()
    max_body_bytes: Whole = MAX_BODY_BYTES
    claim_bucket: Text | None = None
    time_margin_ms: Whole = TIME_MARGIN_MS
    groups: Mapping[Text, Text] = field(default_factory=dict)
    ordered_types: tuple[Text, ...] = ()
    dedup: Dedup = Dedup.RECORD
    group_size: Whole = 10


class Settings(CommitSettings, frozen=True, kw_only=True):
    """The deployment of a consumer's function.

    Attributes:
        event_types: the event types that it handles.
        queue_url: the URL of the queue that it reads.
        dead_letter_url: the URL of its dead-letter queue.
        sources: the CloudEvents sources that each internal event type may come from. All other
            types come from producers.
        max_receive_count: the receives after which it dead-letters a message.
        backoff_base_seconds: the first bound of the delay before a failed message is redelivered.
        backoff_cap_seconds: the last bound of that delay.
        breaker_base_seconds: the first bound of the delay while a dependency fails.
        breaker_cap_seconds: the last bound of that delay.
        effect_timeout_seconds: the longest duration of one call of an effect; 0 without effects.
        effect_concurrency: the most effects that are called at a time.
        lease_margin_seconds: the largest difference of two functions' clocks; 0 if all share one.
        commit_threads: the most requests that commit concurrently.
        isolation_queue_url: the URL of its isolation queue; null for a consumer without one.
        blocks_group: true to retry a failed message of a FIFO group, in place of quarantine.
        event_source: the envelope of its messages; null for CloudEvents without one.
    """

    event_types: tuple[Text, ...]
    queue_url: Text
    dead_letter_url: Text
    sources: Mapping[Text, tuple[Text, ...]] = field(default_factory=dict)
    max_receive_count: Whole = 5
    backoff_base_seconds: Whole = 2
    backoff_cap_seconds: Whole = 900
    breaker_base_seconds: Whole = 120
    breaker_cap_seconds: Whole = 3600
    effect_timeout_seconds: Whole = 0
    effect_concurrency: Whole = 10
    lease_margin_seconds: Whole = CLOCK_MARGIN_SECONDS
    commit_threads: Whole = 4
    isolation_queue_url: Text | None = None
    blocks_group: bool = False
    event_source: Source | None = None


class RelaySettings(Environment, frozen=True, kw_only=True):
    """The deployment of the outbox relay.

    Attributes:
        service: the name of the deployment in metrics.
        topic_arn: the ARN of the topic of the events that consumers publish.
        dead_letter_url: the URL of the queue for events that cannot be published.
        publishes: the event types that each consumer may publish.
        time_margin_ms: the part of the function's timeout that is reserved for the answer.
        groups: the field of the data that gives the message group, by event type.
        ordered_types: the types that are published to the FIFO topic instead of the other one.
        ordered_topic_arn: the ARN of the FIFO topic; null without ordered types.
    """

    service: Text
    topic_arn: Text
    dead_letter_url: Text
    publishes: Mapping[Text, tuple[Text, ...]]
    time_margin_ms: Whole = TIME_MARGIN_MS
    groups: Mapping[Text, Text] = field(default_factory=dict)
    ordered_types: tuple[Text, ...] = ()
    ordered_topic_arn: Text | None = None


class SweepSettings(Environment, frozen=True, kw_only=True):
    """The deployment of the function that finds unrouted events.

    Attributes:
        routes: the event types that consumers subscribe to, by the ARN of the topic.
        unrouted_url: the URL of the queue for all other events.
        further_routes: names of parameters in Parameter Store, each a JSON object as `routes`: the
            types that consumers in further stacks subscribe to.
    """

    routes: Mapping[Text, tuple[Text, ...]]
    unrouted_url: Text
    further_routes: tuple[Text, ...] = ()


_FORMS: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}
"""Reader and writer of the JSON form of a field, by its type, where msgspec knows none."""


def register_type(kind: Any, read: Callable[[Any], Any], write: Callable[[Any], Any]) -> None:
    """Let settings have fields of a further type, as they are annotated with it.

    `read` returns the value of a JSON form, or raises ValueError, TypeError or KeyError.
    """
    _FORMS[kind] = (read, write)


register_type(Source | None, Source.of_builtins, Source.to_builtins)
