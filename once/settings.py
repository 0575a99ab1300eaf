"""Settings that the infrastructure gives a function through environment variables.

The infrastructure writes `to_env()`, the function reads `from_env()`: one class on both sides, so
that a variable cannot be spelt in two ways. Standard library only.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from once.errors import SettingsError
from once.event_sources import Source
from once.names import CLOCK_MARGIN_SECONDS

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


@dataclass(frozen=True, slots=True)
class TableSettings:
    """A business table: its physical name, and the attributes that make its primary key."""

    name: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Environment:
    """Settings that travel as environment variables, one for each field."""

    def to_env(self) -> dict[str, str]:
        """Return the environment variables that `from_env` reads back to an equal object."""
        env = {}
        for each in fields(self):
            _, write = _CODECS[each.type]
            env[_variable(each.name)] = write(getattr(self, each.name))
        return env

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Self:
        """Read the settings of this function.

        Raises:
            SettingsError: one or more variables are missing or malformed; names them all.
        """
        values: dict[str, Any] = {}
        faults: list[str] = []
        for each in fields(cls):
            variable = _variable(each.name)
            if variable not in env:
                faults.append(f"{variable} is missing")
                continue
            read, _ = _CODECS[each.type]
            try:
                values[each.name] = read(env[variable])
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                faults.append(f"{variable} is malformed ({error!r})")
        if faults:
            raise SettingsError(faults)
        return cls(**values)


def _variable(field: str) -> str:
    return f"ONCE_{field.upper()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSettings(Environment):
    """The deployment of a function that commits: of a consumer's, or of a webhook ingress.

    Attributes:
        consumer: the first part of its dedup keys, and of the source of its events.
        dedup_window_seconds: the time for which a key is remembered.
        publishes: the event types that the function may publish.
        max_body_bytes: the largest body that is read, also from the claim-check bucket.
        claim_bucket: the claim-check bucket; None for a function without one.
        time_margin_ms: the part of the function's timeout that is reserved for the answer.
        groups: the field of the data that gives the message group, by the event types that have
            one and that the function publishes.
        ordered_types: the published types whose groups keep their order, on the FIFO topic.
        dedup: where the function keeps its dedup records.
        group_size: the most messages that commit in one request.
    """

    consumer: str
    dedup_table: str
    tables: Mapping[str, TableSettings]
    dedup_window_seconds: int
    publishes: tuple[str, ...] = ()
    max_body_bytes: int = MAX_BODY_BYTES
    claim_bucket: str | None = None
    time_margin_ms: int = TIME_MARGIN_MS
    groups: Mapping[str, str] = field(default_factory=dict)
    ordered_types: tuple[str, ...] = ()
    dedup: Dedup = Dedup.RECORD
    group_size: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(CommitSettings):
    """The deployment of a consumer's function.

    Attributes:
        sources: the CloudEvents sources that each internal event type may come from. All other
            types come from producers.
        backoff_base_seconds: first bound of the delay before a failed message is redelivered.
        backoff_cap_seconds: last bound of that delay.
        breaker_base_seconds: first bound of the delay while a dependency fails.
        breaker_cap_seconds: last bound of that delay.
        effect_timeout_seconds: the longest duration of one call of an effect; 0 without effects.
        effect_concurrency: the most effects that are called at a time.
        lease_margin_seconds: the largest difference of two functions' clocks; 0 if all share one.
        commit_threads: the most requests that commit concurrently.
        isolation_queue_url: the isolation queue; None for a consumer without one.
        blocks_group: whether a failed message of a FIFO group is retried, and not quarantined.
        event_source: the envelope of its messages; None for CloudEvents without one.
    """

    event_types: tuple[str, ...]
    queue_url: str
    dead_letter_url: str
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    max_receive_count: int = 5
    backoff_base_seconds: int = 2
    backoff_cap_seconds: int = 900
    breaker_base_seconds: int = 120
    breaker_cap_seconds: int = 3600
    effect_timeout_seconds: int = 0
    effect_concurrency: int = 10
    lease_margin_seconds: int = CLOCK_MARGIN_SECONDS
    commit_threads: int = 4
    isolation_queue_url: str | None = None
    blocks_group: bool = False
    event_source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings(Environment):
    """The deployment of the outbox relay.

    Attributes:
        service: the name of the deployment in metrics.
        publishes: the event types that each consumer may publish.
        time_margin_ms: the part of the function's timeout that is reserved for the answer.
        groups: the field of the data that gives the message group, by event type.
        ordered_types: the types that are published to the FIFO topic instead of the other one.
        ordered_topic_arn: the FIFO topic; None without ordered types.
    """

    service: str
    topic_arn: str
    dead_letter_url: str
    publishes: Mapping[str, tuple[str, ...]]
    time_margin_ms: int = TIME_MARGIN_MS
    groups: Mapping[str, str] = field(default_factory=dict)
    ordered_types: tuple[str, ...] = ()
    ordered_topic_arn: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings(Environment):
    """The deployment of the function that finds unrouted events.

    Attributes:
        routes: the event types that consumers subscribe to, by the ARN of the topic.
        unrouted_url: the queue for all other events.
    """

    routes: Mapping[str, tuple[str, ...]]
    unrouted_url: str


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("it is empty")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list")
    return tuple(map(_text, values))


def _whole(value: str) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number


def _named(read: Callable[[Any], Any]) -> Callable[[str], dict[str, Any]]:
    """Return the reader of a JSON object whose members have a reader of their own."""
    return lambda value: {_text(name): read(one) for name, one in json.loads(value).items()}


def _tables(value: str) -> dict[str, TableSettings]:
    return {
        logical: TableSettings(name=_text(table["name"]), key=_texts(table["key"]))
        for logical, table in json.loads(value).items()
    }


_CODECS: dict[Any, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    str: (_text, str),
    str | None: (lambda value: value or None, lambda value: value or ""),
    int: (_whole, str),
    bool: (lambda value: {"true": True, "false": False}[value], lambda value: str(value).lower()),
    tuple[str, ...]: (lambda value: _texts(json.loads(value)), json.dumps),
    Mapping[str, str]: (_named(_text), json.dumps),
    Mapping[str, tuple[str, ...]]: (_named(_texts), json.dumps),
    Mapping[str, TableSettings]: (
        _tables,
        lambda tables: json.dumps({logical: asdict(t) for logical, t in tables.items()}),
    ),
    Dedup: (Dedup, str),
    Source | None: (
        lambda value: Source.from_text(value) if value else None,
        lambda value: "" if value is None else value.to_text(),
    ),
}
"""Reader and writer of an environment variable, by the type of its field."""


def register_type(kind: Any, read: Callable[[str], Any], write: Callable[[Any], str]) -> None:
    """Let settings have fields of a further type, as they are annotated with it.

    `read` returns the value of a text, or raises ValueError, TypeError or KeyError.
    """
    _CODECS[kind] = (read, write)
