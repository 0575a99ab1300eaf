"""Ingress: verifies a webhook, commits its capture, dedup record and event, and only then answers.

The three are one transaction. A webhook that cannot be handed on is captured all the same.
Otherwise the provider would send it again until it gives up, and nothing of it would be left.

A duplicate is answered like the first delivery. A request that nothing durable was written for is
never answered with success, so that the provider sends it again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import boto3
from aws_lambda_powertools import Logger

from once.commit.committer import CommitRequest, Committer
from once.commit.result import CommitOutcome, CommitResult, failed
from once.deadline import Context, Deadline
from once.errors import (
    Contention,
    InvalidWrite,
    KeyConflict,
    OnceError,
    OutcomeUnknown,
    PermanentError,
    RequestRefused,
    Unexpected,
)
from once.events.cloud_event import CloudEvent
from once.events.identity import Key, key_hash
from once.events.outgoing import Draft
from once.metric_names import Metric
from once.metrics_log import MetricsLog
from once.sdk import SDK, S3Client, s3_client
from once.transaction import Identity, Table, Transaction
from once.webhooks.capture import INLINE_BYTES, KEPT_HEADERS, Capture, Conflict, Standing, Verified
from once.webhooks.endpoint import Endpoint
from once.webhooks.settings import CAPTURES, OBJECTS, WebhookSettings
from once.webhooks.signature import SecretCache, Secrets, SecretsClient, Verdict, verify
from once.webhooks.webhook import (
    TEXT_CHARACTERS,
    LambdaAnswer,
    Request,
    RequestLine,
    Webhook,
    answer,
    body_bytes,
    challenge_of,
    event_draft,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from once.claim_check import Claim
    from once.events.outgoing import ClaimPlace


_HEADER_BYTES = 32 * 1024
"""The most of all headers together: what Lambda and API Gateway accept is less."""
_PATH_CHARACTERS = 8 * 1024


@dataclass(frozen=True, slots=True)
class Receipt:
    """A verified webhook; `received_at` is in milliseconds since the epoch."""

    webhook: Webhook
    verified: Verified
    received_at: int


def new_capture(
    receipt: Receipt,
    standing: Standing,
    *,
    pk: str,
    conflict: tuple[Conflict, str] | None,
    kept_seconds: int,
) -> Capture:
    """Return the capture of a webhook.

    Args:
        receipt: the webhook.
        standing: what becomes of it.
        pk: its dedup key.
        conflict: of a conflict, its reason and the key of the earlier webhook.
        kept_seconds: the time for which the capture is kept.
    """
    webhook, received_at = receipt.webhook, receipt.received_at
    request, endpoint = webhook.request, webhook.endpoint
    is_large = len(request.body) > INLINE_BYTES
    return Capture(
        pk=pk,
        received_at=received_at,
        endpoint=endpoint.name,
        profile=endpoint.profile.name,
        webhook_id=webhook.id[:TEXT_CHARACTERS],
        webhook_type=webhook.type[:TEXT_CHARACTERS],
        event_type=webhook.event_type if standing is Standing.HANDED_ON else None,
        standing=standing,
        conflict=conflict[0] if conflict else None,
        conflicts_with=conflict[1] if conflict else None,
        verified=receipt.verified,
        method=request.method,
        path=request.path[:_PATH_CHARACTERS],
        headers=_kept_headers(webhook),
        body=None if is_large else request.body,
        body_object=f"{OBJECTS}{endpoint.name}/{webhook.sha256}" if is_large else None,
        body_bytes=len(request.body),
        body_sha256=webhook.sha256,
        expires_at=received_at // 1000 + kept_seconds,
    )


def _kept_headers(webhook: Webhook) -> dict[str, str]:
    """Return the headers to keep; one that no longer fits is left out, never cut off."""
    kept: dict[str, str] = {}
    left = _HEADER_BYTES
    for name in dict.fromkeys(_header_names(webhook.endpoint)):
        value = webhook.request.headers.get(name)
        if value is not None and (size := len(name) + len(value.encode())) <= left:
            kept[name] = value
            left -= size
    return kept


def _header_names(endpoint: Endpoint) -> Iterator[str]:
    profile = endpoint.profile
    yield from filter(None, (profile.signature_header, profile.timestamp_header))
    for place in (profile.id, *profile.type):
        if place.startswith("header:"):
            yield place.removeprefix("header:")
    yield from (*KEPT_HEADERS, *profile.kept_headers)


_TABLE = Table(CAPTURES)


@dataclass(frozen=True, slots=True)
class CaptureTransaction:
    """A transaction, and the objects to store before it commits."""

    transaction: Transaction
    claims: "tuple[Claim, ...]"

    @classmethod
    def of(
        cls,
        receipt: Receipt,
        identity: Identity,
        standing: Standing,
        conflict: tuple[Conflict, str] | None,
        settings: WebhookSettings,
    ) -> "CaptureTransaction":
        """Return the transaction that captures a webhook.

        Args:
            receipt: the webhook.
            identity: its dedup key and its fingerprint.
            standing: what becomes of it.
            conflict: of a conflict, its reason and the key of the earlier webhook.
            settings: the function's settings.

        Raises:
            InvalidWrite, TooLarge: the webhook cannot be handed on.
        """
        transaction = Transaction(
            receipt.webhook.event,
            identity,
            tables=settings.tables,
            publishes=settings.publishes,
            read=lambda table, key: None,  # noqa: ARG005
        )
        kept = settings.capture_seconds
        capture = new_capture(
            receipt, standing, pk=identity.pk, conflict=conflict, kept_seconds=kept
        )
        transaction.put(_TABLE, capture.item())
        if standing is Standing.HANDED_ON:
            transaction.drafts.append(_draft(receipt.webhook, identity.pk, settings))
        return cls(transaction, tuple(_claims(transaction, capture, receipt.webhook, settings)))


def _draft(webhook: Webhook, pk: str, settings: WebhookSettings) -> Draft:
    event_type = webhook.event_type
    if event_type not in settings.publishes:
        raise InvalidWrite(f"{event_type} is not among what the ingress publishes: deploy again")
    return event_draft(
        webhook,
        event_type,
        pk,
        group_field=settings.groups.get(event_type),
        claims=_claim_place(settings),
    )


def _claim_place(settings: WebhookSettings) -> "ClaimPlace | None":
    if settings.claim_bucket is None:
        return None
    # Loaded late: each module costs time at a cold start.
    from once.events.outgoing import ClaimPlace

    return ClaimPlace(settings.claim_bucket, settings.consumer, settings.max_body_bytes)


def _claims(
    transaction: Transaction, capture: Capture, webhook: Webhook, settings: WebhookSettings
) -> "list[Claim]":
    claims = [draft.claim for draft in transaction.drafts if draft.claim is not None]
    if capture.body_object is not None and settings.claim_bucket is not None:
        from once.claim_check import Claim, Reference

        place = Reference(settings.claim_bucket, capture.body_object)
        claims.append(Claim(place, webhook.request.body))
    return claims


_DURABLE = {CommitOutcome.COMMITTED, CommitOutcome.DUPLICATE}
_BY_EVENT = Key.event()
_AGAIN = {CommitOutcome.BUSY, CommitOutcome.CONTENDED, CommitOutcome.UNAFFECTED}


@dataclass(frozen=True, slots=True)
class Captured:
    """A webhook that is durable: its dedup key, and its standing if it was captured now.

    `standing` is None for a duplicate.
    """

    pk: str
    standing: Standing | None


@dataclass(frozen=True, slots=True)
class CaptureCommitter:
    """Commits webhooks.

    Attributes:
        committer: sends transactions to DynamoDB.
        settings: the function's settings.
        s3: a client of S3; None without a claim-check bucket.
    """

    committer: Committer
    settings: WebhookSettings
    s3: S3Client | None

    def commit(self, receipt: Receipt, deadline: Deadline) -> Captured:
        """Capture a webhook, with attempts until the deadline.

        Raises:
            OnceError: it is not known to be captured.
        """
        identity = receipt.webhook.identity(self.settings.consumer)
        standing = _standing(receipt.webhook)
        conflict: tuple[Conflict, str] | None = None
        result = self._attempt(receipt, identity, standing, conflict, deadline)
        while instead := _instead(standing, result.cause):
            standing = instead
            if standing is Standing.CONFLICT:
                conflict = _reason(receipt.webhook, result.cause), identity.pk
                consumer = self.settings.consumer
                identity = _conflict_identity(receipt.webhook, identity, consumer)
            result = self._attempt(receipt, identity, standing, conflict, deadline)
        if result.outcome not in _DURABLE:
            raise result.cause or Contention("others kept writing the record until the time was up")
        is_new = result.outcome is CommitOutcome.COMMITTED
        return Captured(identity.pk, standing if is_new else None)

    def _attempt(
        self,
        receipt: Receipt,
        identity: Identity,
        standing: Standing,
        conflict: tuple[Conflict, str] | None,
        deadline: Deadline,
    ) -> CommitResult:
        try:
            made = CaptureTransaction.of(receipt, identity, standing, conflict, self.settings)
            request = self.committer.request(made.transaction, receipt.received_at / 1000)
        except PermanentError as error:
            return failed(error)
        if made.claims:
            if known := self._known(request):
                return known
            self._store(made)
        return self._send(request, deadline)

    def _known(self, request: CommitRequest) -> CommitResult | None:
        """Return the result of a webhook that was captured before: it needs no object again."""
        try:
            [result] = self.committer.look_up([request.transaction])
        except OutcomeUnknown:  # the commit finds out
            return None
        return result

    def _send(self, request: CommitRequest, deadline: Deadline) -> CommitResult:
        attempt = 0
        while True:
            [result] = self.committer.commit([request])
            if not _is_open(result) or not deadline.pause(attempt):
                return result
            attempt += 1

    def _store(self, made: CaptureTransaction) -> None:
        """Store what is too large for an item, before the commit refers to it."""
        bucket = self.settings.claim_bucket
        if bucket is None or self.s3 is None:
            raise RequestRefused("there is no client of S3 to store an object")
        # Loaded late: each module costs time at a cold start.
        from once.claim_check import ClaimStore

        ClaimStore(self.s3, bucket, self.settings.max_body_bytes).write(made.claims)


def _standing(webhook: Webhook) -> Standing:
    if webhook.event_type is not None:
        return Standing.HANDED_ON
    return Standing.UNREADABLE if webhook.data is None else Standing.CAPTURED


def _instead(standing: Standing, cause: OnceError | None) -> Standing | None:
    """Return the standing to capture a webhook with, after an attempt with another one failed."""
    # A record that cannot be read counts as other content: its webhook may have been another.
    if isinstance(cause, KeyConflict | Unexpected):
        return None if standing is Standing.CONFLICT else Standing.CONFLICT
    is_event = isinstance(cause, PermanentError) and standing is Standing.HANDED_ON
    return Standing.UNPUBLISHABLE if is_event else None


def _reason(webhook: Webhook, cause: OnceError | None) -> Conflict:
    if isinstance(cause, Unexpected):
        return Conflict.RECORD
    return Conflict.CONTENT if webhook.is_keyed_by_id else Conflict.TYPE


def _conflict_identity(webhook: Webhook, own: Identity, consumer: str) -> Identity:
    """Return the identity of a webhook whose own key belongs to a webhook that differs from it.

    It is the same for each delivery of this content and type under this key.
    """
    event_id = f"conflict:{key_hash(own.pk)}:{own.fingerprint}"
    event = CloudEvent(id=event_id, source=webhook.endpoint.source, type="")
    pk = _BY_EVENT.of(event, fingerprint=own.fingerprint, consumer=consumer)
    return Identity(pk, own.fingerprint)


def _is_open(result: CommitResult) -> bool:
    """Return whether the same transaction may still commit, now or by an earlier attempt."""
    return result.outcome in _AGAIN or isinstance(result.cause, OutcomeUnknown)


_OF_AWS = (Contention, OutcomeUnknown, RequestRefused)
"""Errors whose text names a service and AWS's error code, and no part of a request."""

_BY_STANDING = {
    Standing.UNREADABLE: Metric.WEBHOOKS_UNREADABLE,
    Standing.UNPUBLISHABLE: Metric.WEBHOOKS_UNPUBLISHABLE,
    Standing.CONFLICT: Metric.WEBHOOK_CONFLICTS,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a request.

    Attributes:
        answer: the answer.
        metric: the metric that counts it.
        standing: what became of the webhook; None if it was not captured now.
        key_hash: the hash of its dedup key; empty if it was not captured now or before.
        error: why it was not captured; without any part of the request.
    """

    answer: LambdaAnswer
    metric: str
    standing: Standing | None = None
    key_hash: str = ""
    error: str = ""

    @classmethod
    def failed(cls, error: Exception) -> Self:
        """Return the outcome of a webhook that the provider has to send again."""
        known = error if isinstance(error, OnceError) else Unexpected(error)
        text = f"{known.summary}: {error}" if isinstance(error, _OF_AWS) else known.summary
        return cls(answer(503), Metric.WEBHOOKS_FAILED, error=text)


@dataclass(frozen=True, slots=True)
class Report:
    """Writes one line for each request.

    Attributes:
        metrics: prints the figures, with endpoint, standing and hash of the key beside them.
        logger: logs the requests that failed.
        clock: the time, in seconds since the epoch.
    """

    metrics: MetricsLog
    logger: Logger
    clock: Callable[[], float]

    def write(self, outcome: Outcome, endpoint: Endpoint | None, began: float) -> None:
        """Count a request that began at this time, in seconds since the epoch."""
        properties = {
            "endpoint": "" if endpoint is None else endpoint.name,
            "standing": str(outcome.standing or ""),
            "key_hash": outcome.key_hash,
        }
        given: dict[str, Any] = {name: value for name, value in properties.items() if value}
        # A captured webhook is answered with success, whether it can be counted or not.
        with suppress(Exception):
            self.metrics.report(self._figures(outcome, began), self.clock(), **given)
            self.metrics.flush()
            if outcome.error:
                self.logger.warning("webhook not captured", extra={**given, "error": outcome.error})

    def _figures(self, outcome: Outcome, began: float) -> dict[str, list[float]]:
        figures: dict[str, list[float]] = {outcome.metric: [1]}
        if outcome.standing in _BY_STANDING:
            figures[_BY_STANDING[outcome.standing]] = [1]
        if outcome.key_hash:
            figures[Metric.WEBHOOK_MS] = [round((self.clock() - began) * 1000, 3)]
        return figures


_ANSWER_SECONDS = 0.5
"""Part of the time that the provider waits, which is reserved for the way of the answer."""

_UNKNOWN_PATH = Outcome(answer(404), Metric.WEBHOOKS_MISADDRESSED)
_OTHER_METHOD = Outcome(answer(405, allow="POST"), Metric.WEBHOOKS_MISADDRESSED)
_TOO_LARGE = Outcome(answer(413), Metric.WEBHOOKS_TOO_LARGE)
_REFUSED = {
    Verdict.FORGED: Outcome(answer(401), Metric.WEBHOOKS_FORGED),
    Verdict.STALE: Outcome(answer(401), Metric.WEBHOOKS_STALE),
}


class WebhookIngress:
    """Takes webhooks. Tests can replace each of its parts.

    Args:
        settings: the function's settings.
        dynamodb: a DynamoDB client.
        secrets: the secrets of the endpoints.
        logger: logs the requests that failed.
        s3: a client of S3; None without a claim-check bucket.
        metrics: prints the figures.
        clock: the time, in seconds since the epoch.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        *,
        settings: WebhookSettings,
        dynamodb: "DynamoDBClient",
        secrets: SecretCache,
        logger: Logger,
        s3: S3Client | None = None,
        metrics: MetricsLog | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._endpoints = {each.name: each for each in settings.endpoints}
        self._secrets = secrets
        self._committer = CaptureCommitter(Committer(dynamodb, settings, clock), settings, s3)
        self._report = Report(metrics or MetricsLog(), logger, clock)
        self._clock = clock
        self._sleep = sleep

    @classmethod
    def of(cls, settings: WebhookSettings, *, region: str | None = None) -> "WebhookIngress":
        """Return the ingress of a deployed function."""
        dynamodb = boto3.client("dynamodb", region, config=SDK)
        secrets: SecretsClient = boto3.client("secretsmanager", region, config=SDK)
        return cls(
            settings=settings,
            dynamodb=dynamodb,
            secrets=SecretCache(secrets, settings.secrets, time.time),
            logger=Logger(service=settings.consumer),
            s3=None if settings.claim_bucket is None else s3_client(region),
        )

    def handle(self, event: Mapping[str, Any], context: Context) -> LambdaAnswer:
        """Answer one request of a function URL or an HTTP API. No error leaves this function."""
        began, endpoint = self._clock(), None
        try:
            line = RequestLine.of(event)
            endpoint = self._endpoints.get(line.endpoint)
            if endpoint is None:
                outcome = _UNKNOWN_PATH
            elif line.method != "POST":
                outcome = _OTHER_METHOD
            else:
                outcome = self._received(endpoint, event, self._deadline(endpoint, context, began))
        except Exception as error:  # the provider sends the webhook again
            outcome = Outcome.failed(error)
        self._report.write(outcome, endpoint, began)
        return outcome.answer

    def _received(
        self, endpoint: Endpoint, event: Mapping[str, Any], deadline: Deadline
    ) -> Outcome:
        limit = self._limit(endpoint)
        if body_bytes(event) > limit:  # before the body is decoded, and before its HMAC
            return _TOO_LARGE
        request = Request.of(event)
        if len(request.body) > limit:
            return _TOO_LARGE
        verdict, verified = self._verdict(endpoint, request)
        if verdict in _REFUSED:
            return _REFUSED[verdict]
        return self._taken(Webhook.of(endpoint, request), verified, deadline)

    def _limit(self, endpoint: Endpoint) -> int:
        has_bucket = self._settings.claim_bucket is not None
        return endpoint.limit if has_bucket else min(endpoint.limit, INLINE_BYTES)

    def _verdict(self, endpoint: Endpoint, request: Request) -> tuple[Verdict, Verified]:
        now, name = self._clock(), endpoint.name
        known = self._secrets.of(name)
        found = _verdict_by(known, endpoint, request, now)
        if found[0] is not Verdict.FORGED:
            return found
        fresh = self._secrets.of(name, refreshed=True)  # the secret may have been rotated
        return found if fresh == known else _verdict_by(fresh, endpoint, request, now)

    def _taken(self, webhook: Webhook, verified: Verified, deadline: Deadline) -> Outcome:
        challenge = challenge_of(webhook)
        if challenge is not None:
            return Outcome(answer(200, challenge), Metric.WEBHOOK_HANDSHAKES)
        receipt = Receipt(webhook, verified, int(self._clock() * 1000))
        captured = self._committer.commit(receipt, deadline)
        is_new = captured.standing is not None
        metric = Metric.WEBHOOKS_TAKEN if is_new else Metric.WEBHOOK_DUPLICATES
        return Outcome(answer(200), metric, captured.standing, key_hash(captured.pk))

    def _deadline(self, endpoint: Endpoint, context: Context, began: float) -> Deadline:
        """Return the time that the function and the provider leave, whichever is shorter."""
        ends = began + endpoint.profile.answer_seconds - _ANSWER_SECONDS

        def remaining_ms() -> int:
            of_function = context.get_remaining_time_in_millis() - self._settings.time_margin_ms
            return min(of_function, int((ends - self._clock()) * 1000))

        return Deadline(remaining_ms, 0, self._sleep)


def _verdict_by(
    secrets: Secrets, endpoint: Endpoint, request: Request, now: float
) -> tuple[Verdict, Verified]:
    """Return the verdict, and the version of the secret that gives it."""
    for version, values in zip(Verified, secrets, strict=True):
        verdict = verify(endpoint.profile, values, request, now)
        if verdict is not Verdict.FORGED:
            return verdict, version
    return Verdict.FORGED, Verified.CURRENT
