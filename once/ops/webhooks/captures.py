"""Captures of a deployment: found by time, filter or id, and read whole with their bodies."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Self

from boto3.dynamodb.types import TypeDeserializer
from typer import BadParameter, Option

from once.errors import TooLarge
from once.events.claim_check import ClaimMissing, ClaimUnavailable, InvalidClaim
from once.events.identity import key_hash
from once.names import CLOCK_MARGIN_SECONDS, Limits
from once.ops.aws.clients import client
from once.ops.aws.deployment import DeployedWebhooks, Deployment
from once.ops.errors import NotFoundError, OpsError
from once.ops.terminal import (
    SHA256_HEX,
    error_console,
    format_time,
    parse_time_option,
    since_option,
    until_option,
)
from once.webhooks.captured_webhook import (
    BY_TIME,
    Capture,
    CaptureAttribute,
    CaptureStanding,
    day_parts,
    read_body,
)
from once.webhooks.webhook import dedup_key

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LIST_PERIOD = timedelta(days=1)
SEARCH_PERIOD = timedelta(days=31)
"""Time that a search for an id looks back: a capture is kept for 30 days by default."""

MAX_READ = 100_000
"""Maximum number of entries of the index that one command reads."""

_PAGE = 100
_DAY_MS = 24 * 60 * 60 * 1000
_PERIOD = f"#day = :day AND {CaptureAttribute.RECEIVED_AT} BETWEEN :since AND :until"

_LEAST_OF_HASH = 8
_MAX_KEYS_SHOWN = 5
_CHANGED = (
    "its body was changed: its SHA-256 is not the one that was recorded; find out who may write to "
    "{}"
)
_plain = TypeDeserializer().deserialize


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureFilter:
    """Selects captures that match every condition that is not None.

    They were received from `since` up to, not including, `until`. `type` is the provider's type, or
    the event's.
    """

    since: datetime
    until: datetime
    endpoint: str | None = None
    type: str | None = None
    standing: CaptureStanding | None = None

    def for_log(self) -> dict[str, str | None]:
        times = {"since": self.since.isoformat(), "until": self.until.isoformat()}
        return {**times, "endpoint": self.endpoint, "type": self.type, "standing": self.standing}

    def matches(self, capture: Capture) -> bool:
        types = (None, capture.webhook_type, capture.event_type or "")
        return self.type in types and self.standing in (None, capture.standing)


EndpointOption = Annotated[str | None, Option("--endpoint", help="Only webhooks of this endpoint.")]
TypeOption = Annotated[
    str | None,
    Option("--type", help="Only webhooks of this type: the provider's, or that of the event."),
]
SinceOption = Annotated[str | None, since_option("webhooks")]
UntilOption = Annotated[str | None, until_option("webhooks")]


@dataclass(frozen=True, kw_only=True)
class CaptureOptions:
    """Options of the commands that select captures."""

    endpoint: EndpointOption = None
    webhook_type: TypeOption = None
    since: SinceOption = None
    until: UntilOption = None
    standing: Annotated[
        CaptureStanding | None, Option("--standing", help="Only webhooks with this standing.")
    ] = None

    def conditions(self, period: timedelta) -> CaptureFilter:
        """Parse the options; `period` is the time before `until` that counts without `since`."""
        now = datetime.now(UTC)
        # The clock of a function may be fast: its last captures have a time ahead of now.
        end = now + timedelta(seconds=CLOCK_MARGIN_SECONDS)
        if self.until is not None:
            end = parse_time_option(self.until, now=now, option="--until")
        start = min(now, end) - period
        if self.since is not None:
            start = parse_time_option(self.since, now=now, option="--since")
        if start >= end:
            raise BadParameter(
                f"{start.isoformat()} is not before {'--until' if self.until else 'now'}: nothing "
                "was received in between",
                param_hint="--since",
            )
        facts: dict[str, Any] = {"type": self.webhook_type, "standing": self.standing}
        return CaptureFilter(since=start, until=end, endpoint=self.endpoint, **facts)


def webhooks_of(deployment: Deployment) -> DeployedWebhooks:
    if deployment.webhooks is None:
        raise NotFoundError(
            f"{deployment.service!r} has no webhook ingress: declare one "
            "(`once.cdk.WebhookFunction`) and deploy, or name another deployment with --service"
        )
    return deployment.webhooks


@dataclass(slots=True)
class Captures:
    """The table of captures with its index, and the bucket of bodies that are too large for it."""

    dynamodb: "DynamoDBClient"
    webhooks: DeployedWebhooks
    bucket: str | None
    most: int
    read: int = field(default=0, init=False)

    @classmethod
    def of(cls, deployment: Deployment, most: int | None = None) -> Self:
        webhooks = webhooks_of(deployment)
        return cls(client("dynamodb"), webhooks, deployment.claim_bucket, most or MAX_READ)

    def matching(self, conditions: CaptureFilter) -> Iterator[Capture]:
        """Yield the captures that match, newest first, without their bodies."""
        endpoints = self._endpoints(conditions)
        first = int(conditions.since.timestamp() * 1000)
        last = int(conditions.until.timestamp() * 1000) - 1
        for day in range(last // _DAY_MS, first // _DAY_MS - 1, -1):
            parts = [part for name in endpoints for part in day_parts(name, day * _DAY_MS)]
            pages = (self._part(part, first, last) for part in parts)
            found = heapq.merge(*pages, key=lambda one: one.received_at, reverse=True)
            yield from filter(conditions.matches, found)

    def by_ids(self, ids: Sequence[str], conditions: CaptureFilter) -> list[Capture]:
        """Return the captures of these ids; ids that are in no key are searched for by time."""
        found = {name: self._by_key(name, conditions) for name in dict.fromkeys(ids)}
        missing = [name for name, some in found.items() if not some]
        if missing:
            for capture in self.matching(conditions):
                for name in missing:
                    if _is_named(capture, name):
                        found[name].append(capture)
        for name, some in found.items():
            if len(some) > 1:
                keys = ", ".join(each.pk for each in some[:_MAX_KEYS_SHOWN])
                raise OpsError(
                    f"{len(some)} webhooks match {name!r}: give one of their keys: {keys}"
                )
            if not some:
                raise NotFoundError(
                    f"no webhook {name!r} was captured since {format_time(conditions.since)}, or "
                    "its capture has expired: `once webhooks list` shows those there are, and "
                    "--since looks further back"
                )
        return [*{capture.pk: capture for [capture] in found.values()}.values()]

    def get(self, pk: str) -> Capture:
        """Return a whole capture, which the index names."""
        if capture := self._get(pk):
            return capture
        raise NotFoundError("its capture has expired since: it was listed, and is gone")

    def body(self, capture: Capture) -> bytes:
        """Return the bytes of a whole capture's body, as they were received."""
        try:
            body = read_body(capture, client("s3"), self.bucket)
        except ClaimMissing:
            raise OpsError(
                f"its body is gone: there is no object {capture.body_object!r} in "
                f"{self.bucket or 'a claim-check bucket'}; ask the provider to send the webhook "
                "again"
            ) from None
        except InvalidClaim:
            raise OpsError(_CHANGED.format(self.bucket)) from None
        except ClaimUnavailable as error:
            raise OpsError(f"its body cannot be read from {self.bucket}: {error}") from None
        if sha256(body).hexdigest() != capture.body_sha256:
            raise OpsError(_CHANGED.format(self.webhooks.captures))
        return body

    def _endpoints(self, conditions: CaptureFilter) -> list[str]:
        if conditions.endpoint is None:
            return [*self.webhooks.endpoints]
        return [self.webhooks.endpoint(conditions.endpoint).name]

    def _part(self, part: str, first: int, last: int) -> Iterator[Capture]:
        values = {":day": {"S": part}, ":since": {"N": str(first)}, ":until": {"N": str(last)}}
        pages = self.dynamodb.get_paginator("query").paginate(
            TableName=self.webhooks.captures,
            IndexName=BY_TIME,
            KeyConditionExpression=_PERIOD,
            ExpressionAttributeNames={"#day": CaptureAttribute.DAY},  # a reserved word
            ExpressionAttributeValues=values,
            ScanIndexForward=False,
            PaginationConfig={"PageSize": _PAGE},
        )
        for answer in pages:
            self.read += len(answer["Items"])
            if self.read > self.most:
                raise OpsError(
                    f"more than {self.most} captures would be read: narrow the search with "
                    "--since, --until or --endpoint"
                )
            for item in answer["Items"]:
                if capture := _readable(item):
                    yield capture
                else:
                    name = key_hash(str(_plain(item[CaptureAttribute.PK])))
                    error_console.print(
                        f"left out: the capture with the key hash {name} cannot be read by this "
                        "version of `once`",
                        soft_wrap=True,
                    )

    def _by_key(self, name: str, conditions: CaptureFilter) -> list[Capture]:
        """Return the captures whose key can be told from an id without a search."""
        event_id = f"sha256:{name}" if SHA256_HEX.fullmatch(name) else name
        keys = [name]
        for endpoint in self._endpoints(conditions):
            try:
                rules = self.webhooks.endpoints[endpoint]
                keys.append(dedup_key(rules, event_id, self.webhooks.identity))
            except TooLarge:
                continue
        return [*filter(None, map(self._get, dict.fromkeys(keys)))]

    def _get(self, pk: str) -> Capture | None:
        # An argument of the shell that is not UTF-8 has surrogates, which are ignored here.
        raw = pk.encode(errors="ignore")
        if not 0 < len(raw) <= Limits.PARTITION_KEY_BYTES or raw.decode() != pk:
            return None
        key = {CaptureAttribute.PK: {"S": pk}}
        answer = self.dynamodb.get_item(
            TableName=self.webhooks.captures, Key=key, ConsistentRead=True
        )
        if "Item" not in answer:
            return None
        if capture := _readable(answer["Item"]):
            return capture
        raise OpsError(
            f"the capture with the key hash {key_hash(pk)} cannot be read: use the version of "
            "`once` that is deployed"
        )


def _readable(item: dict[str, Any]) -> Capture | None:
    """Return the capture in an item of DynamoDB's JSON form; None if another version wrote it."""
    try:
        capture = Capture.read({name: _plain(value) for name, value in item.items()})
        for seconds in (capture.received_at / 1000, capture.expires_at):
            datetime.fromtimestamp(seconds, UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        return None
    return capture


def _is_named(capture: Capture, name: str) -> bool:
    hashes = (capture.body_sha256, key_hash(capture.pk))
    is_hash = len(name) >= _LEAST_OF_HASH and any(each.startswith(name) for each in hashes)
    return bool(name) and (name == capture.webhook_id or is_hash or capture.pk.startswith(name))
